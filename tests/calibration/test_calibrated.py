"""A calibration as a file, and what becomes of it in a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from calibration.made import calibration, model

from foolsgold.calibration import Calibration, load
from foolsgold.errors import MinedSetError, RecipeError

FULL = model(("teacher_gap", "positive_similarity"), [1.0, 2.0])
PLAIN = model(("teacher_gap",), [1.0])
TEACHER = {"model": "teacher", "fingerprint": "t"}


def _ledger(**changes: Any) -> pa.Table:
    columns = {
        "teacher_score": pa.array([0.2, 0.5], pa.float32()),
        "positive_score": pa.array([0.8, 0.5], pa.float32()),
        "positive_similarity": pa.array([0.5, None], pa.float32()),
    }
    return pa.table({name: column for name, column in (columns | changes).items() if column is not None})


def _judge(found: Calibration, **changes: Any) -> Any:
    asked: dict[str, Any] = {
        "teacher": TEACHER, "scale": "probability", "retriever": "dense", "bm25": "bm25", "target": 0.02,
    }  # fmt: skip
    return found.apply(**(asked | changes))


def test_a_row_is_judged_by_the_fullest_model_that_it_has_the_signals_for() -> None:
    gap = -2 * np.log(4)  # the logit of 0.2 less that of 0.8
    expected = [1 / (1 + np.exp(-(gap + 2 * 0.5))), 0.5]  # the second row: no similarity, no gap
    found = calibration(FULL, PLAIN).probability(_ledger())
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert found.dtype == np.float32
    without = calibration(FULL, PLAIN).probability(_ledger(positive_similarity=None))
    np.testing.assert_allclose(without, [1 / (1 + np.exp(-gap)), 0.5], rtol=1e-5)


def test_logits_are_judged_when_said_to_be_logits() -> None:
    rows = _ledger(teacher_score=pa.array([-3.0, 1.0], pa.float32()), positive_score=pa.array([2.0, 1.0], pa.float32()))
    found = calibration(PLAIN).probability(rows, scale="logit")
    np.testing.assert_allclose(found, [1 / (1 + np.exp(5)), 0.5], rtol=1e-5)
    with pytest.raises(MinedSetError, match="teacher_score is not a probability"):
        calibration(PLAIN).probability(rows)


def test_rows_without_a_teachers_score_are_refused() -> None:
    with pytest.raises(MinedSetError, match="1 of 2 rows have no teacher_score"):
        calibration(PLAIN).probability(_ledger(teacher_score=pa.array([0.2, None], pa.float32())))
    with pytest.raises(MinedSetError, match="1 of 2 rows have no positive_score"):
        calibration(PLAIN).probability(_ledger(positive_score=pa.array([0.2, None], pa.float32())))


def test_no_rows_are_no_probabilities() -> None:
    assert calibration(FULL, PLAIN).probability(_ledger().slice(0, 0)).tolist() == []


def test_it_comes_back_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "made" / "calibration.json"
    calibration(FULL, PLAIN, notes=("a note",)).save(path)
    again = load(path)
    assert again.name == str(path)
    assert again.to_json() == calibration(FULL, PLAIN, notes=("a note",)).to_json()
    np.testing.assert_array_equal(again.probability(_ledger()), calibration(FULL, PLAIN).probability(_ledger()))


def test_the_threshold_is_the_recipes_own_target(tmp_path: Path) -> None:
    judge = _judge(calibration(FULL, PLAIN))
    assert (judge.threshold, judge.choice.labels, judge.choice.relevant) == (0.995, 1000, 0)
    assert judge.describe()["signals"] == ["teacher_gap", "positive_similarity"]
    assert _judge(calibration(FULL, PLAIN), retriever=None).model.signals == ("teacher_gap",)


def test_another_teacher_is_refused_by_name() -> None:
    with pytest.raises(RecipeError) as error:
        _judge(calibration(PLAIN), teacher={"model": "other", "fingerprint": "o"})
    assert str(error.value) == (
        "calibration calibration.json was made for the teacher teacher, not for other; calibrate this teacher: "
        "foolsgold calibrate LABELS --recipe RECIPE makes one"
    )
    with pytest.raises(RecipeError, match="was made for teacher with other weights, length or prompt"):
        _judge(calibration(PLAIN), teacher={"model": "teacher", "fingerprint": "o"})


def test_another_scale_is_refused() -> None:
    with pytest.raises(RecipeError, match="reads teacher scores as"):
        _judge(calibration(PLAIN), scale="cosine")
    assert _judge(calibration(PLAIN), scale="logit").scale == "logit"  # one and the same teacher


def test_another_retriever_is_refused() -> None:
    calibration(PLAIN).check_retriever("retriever", "r")
    with pytest.raises(RecipeError, match=r"was made with the retriever retriever, not with other"):
        calibration(PLAIN).check_retriever("other", "o")
    with pytest.raises(
        RecipeError, match=r"was made with another version, length or prompt of the retriever retriever"
    ):
        calibration(PLAIN).check_retriever("retriever", "o")


def test_a_target_that_no_threshold_keeps_says_how_many_labels_are_missing() -> None:
    few = model(("teacher_gap",), [1.0])
    with pytest.raises(RecipeError, match=r"0 relevant of 1000, upper bound 0.0027\); label at least 351 more pairs"):
        # 0 of n is within 0.002 from n = z^2 (1 / 0.002 - 1) = 1350.1 on
        _judge(calibration(few), target=0.002)


def test_the_default_takes_any_teacher_on_its_scale_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    default = load("default")
    judge = _judge(default, teacher={"model": "other", "fingerprint": "o"})
    assert judge.model.signals == ("teacher_logit", "teacher_gap", "positive_similarity")
    assert 0 < judge.threshold < 0.5
    assert judge.choice.upper <= 0.02
    assert "default was made for the teacher" in caplog.text
    default.check_retriever("any", "other")
    with pytest.raises(RecipeError, match=r"teacher.scale is cosine"):
        _judge(default, scale="cosine")


def test_the_default_holds_a_candidate_like_the_positive_for_relevant_and_another_for_a_negative() -> None:
    same = _ledger(
        teacher_score=pa.array([0.99, 0.001], pa.float32()),
        positive_score=pa.array([0.99, 0.99], pa.float32()),
        positive_similarity=pa.array([0.9, 0.1], pa.float32()),
    )
    relevant, negative = load("default").probability(same)
    assert relevant > 0.6
    assert negative < 0.02


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "not a calibration \\(teacher: Field required\\)"),
        ("[1]", "not a calibration"),
        ("{", "not a calibration"),
        (json.dumps({"format": 2}), "format 2, and this version reads 1"),
    ],
)
def test_a_file_that_is_none_is_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "calibration.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(RecipeError, match=said):
        load(path)


def test_a_damaged_model_is_refused(tmp_path: Path) -> None:
    values = calibration(PLAIN).to_json()
    for change, said in (
        ({"coefficients": [1.0, 2.0]}, "one finite mean, scale and coefficient per signal"),
        ({"coefficients": [float("nan")]}, "one finite mean"),
        ({"signals": ["teacher_mood"]}, "unknown signals teacher_mood"),
    ):
        path = tmp_path / "calibration.json"
        path.write_text(json.dumps(values | {"models": [values["models"][0] | change]}), encoding="utf-8")
        with pytest.raises(RecipeError, match=said):
            load(path)


def test_a_missing_file_names_the_default() -> None:
    with pytest.raises(RecipeError, match=r"nowhere.json: no such calibration; .*`default` ships with foolsgold"):
        load("nowhere.json")
