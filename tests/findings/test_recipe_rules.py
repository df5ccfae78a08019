"""Each rule that reads a recipe: one with the fault, and one that differs by the remedy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import foolsgold as fg
from foolsgold import calibration
from foolsgold.errors import RecipeError

if TYPE_CHECKING:
    from conftest import Codes

DENSE = {"dense": {"window": [0, 50]}}
LATE = {"dense": {"window": [10, 50]}}
OTHER = {"model": "org/other"}
UNMASKED: dict[str, Any] = {"student": {"masks": False, "batches": "random"}}
FEW_ROWS = {"student": {"batch_size": 16}}
WARM = {"name": "warm", "from": 0, "to": 1, "mode": "bm25"}


def _regimes(*modes: Any, epochs: float = 1.0, **more: Any) -> dict[str, Any]:
    return {
        "schedule": [
            {"name": f"r{place}", "from": place * epochs, "to": (place + 1) * epochs, "mode": mode, **more}
            for place, mode in enumerate(modes)
        ]
    }


def _logits(low: float | None, high: float | None, scale: str = "logit") -> dict[str, Any]:
    return {"teacher": {"scale": scale}, "decide": {"negative_below": low, "positive_above": high}}


@pytest.mark.parametrize(
    ("code", "at", "faulty", "clean"),
    [
        ("FG001", "teacher", {"teacher": None}, {"teacher": None, "decide": {"relative_margin": 0.95}}),
        ("FG001", "teacher", {"teacher": None}, {"teacher": None, "sources": {"bm25": {}}}),
        ("FG001", "decide", {"decide": {"negative_below": None, "positive_above": None}}, {}),
        ("FG001", "schedule.r1.mode", _regimes("bm25", "dense"), _regimes("bm25", "dense_ce_0.5")),
        ("FG001", "schedule.r0.mode", _regimes("self"), _regimes("self_ce_0.3")),
        (
            "FG002",
            "sources.dense.window",
            {"teacher": None, "sources": DENSE, "select": {"per_query": 1}},
            {"teacher": None, "sources": LATE, "select": {"per_query": 1}},
        ),
        (
            "FG002",
            "sources.dense.window",
            {"teacher": None, "sources": DENSE, "select": {"per_query": 1}, "decide": {"relative_margin": 0.95}},
            {"teacher": None, "sources": DENSE, "select": {"per_query": 2}},
        ),
        ("FG002", "sources.dense.window", {"teacher": None, "select": {"per_query": 1}}, {"select": {"per_query": 1}}),
        ("FG003", "student.epochs", {"student": {"epochs": 3}}, {"student": {"epochs": 2}}),
        ("FG003", "schedule", _regimes("dense_ce_0.3", "dense_ce_0.3"), _regimes("dense_ce_0.5", "dense_ce_0.3")),
        ("FG003", "schedule.r0", _regimes("dense_ce_0.3", epochs=3.0), _regimes("in_batch", epochs=3.0)),
        (
            "FG003",
            "schedule.r0",
            _regimes("dense_ce_0.3", epochs=3.0),
            {**_regimes("self_ce_0.3", epochs=3.0), "remine": {"every": "1 epoch"}},
        ),
        (
            "FG004",
            "student.batches",
            UNMASKED,
            {"student": {"masks": False}},
        ),
        ("FG004", "student.batches", UNMASKED, {"student": {"batches": "random"}}),
        ("FG004", "student.batches", UNMASKED, {"student": {**UNMASKED["student"], "guide": "org/guide"}}),
        (
            "FG004",
            "student.masks",
            {"student": {"loss": "memory_bank", "masks": False}},
            {"student": {"loss": "memory_bank"}},
        ),
        (
            "FG004",
            "student.batches",
            {"student": {"loss": "kl", "masks": False, "batches": "random"}},
            {"student": {"loss": "kl", "masks": False, "batches": "random", "contrastive_weight": 0}},
        ),
        ("FG006", "select.per_query", {"select": {"per_query": 9, "cap": 9}}, {"select": {"per_query": 8}}),
        ("FG006", "select.cap", {"select": {"cap": 100}}, {}),
        ("FG006", "schedule.r0.n", _regimes("dense_ce_0.3", n=12), _regimes("dense_ce_0.3", n=7)),
        ("FG007", "schedule.r0", _regimes("self_ce_0.3"), {**_regimes("self_ce_0.3"), "remine": {"every": "9 steps"}}),
        (
            "FG007",
            "schedule.hard",
            {"schedule": [WARM, {"name": "hard", "from": 1, "to": 3, "mode": "self_ce_0.3"}]},
            {"schedule": [WARM, {"name": "hard", "from": 1, "to": 2, "mode": "self_ce_0.3"}]},
        ),
        (
            "FG007",
            "remine.every",
            {**_regimes("self_ce_0.3", epochs=2.0), "remine": {"every": "2 epochs"}},
            {**_regimes("self_ce_0.3", epochs=2.0), "remine": {"every": "1 epoch"}},
        ),
        ("FG008", "decide.negative_below", {}, {"teacher": None}),
        ("FG008", "decide.calibration", {"decide": {"calibration": "default"}}, {"teacher": None}),
        ("FG009", "decide.negative_below", _logits(0.3, 0.7), _logits(-1.0, 1.0)),
        ("FG009", "decide.negative_below", _logits(0.2, 0.9), _logits(0.0, 0.9)),
        ("FG009", "decide.negative_below", _logits(-2.0, 4.0, "cosine"), _logits(0.2, 0.6, "cosine")),
        ("FG009", "decide.negative_below", _logits(0.3, 0.7, "cosine"), _logits(0.3, 0.7, "probability")),
        ("FG009", "decide.negative_below", _logits(1.0, 1.0, "probability"), _logits(0.9, 1.0, "probability")),
        ("FG009", "decide.negative_below", _logits(0.0, 0.7, "probability"), _logits(0.1, 0.7, "probability")),
        ("FG010", "teacher.model", {"retriever": OTHER, "teacher": OTHER}, {"retriever": OTHER}),
        (
            "FG010",
            "teacher.model",
            {"sources": {"dense": {"model": "org/other"}}, "teacher": OTHER},
            {"sources": {"bm25": {}}, "retriever": OTHER, "teacher": OTHER},
        ),
        ("FG013", "sources.random", {"sources": {"bm25": {}, "random": {"quota": 1}}}, {"sources": {"random": {}}}),
        (
            "FG013",
            "sources.random",
            {"sources": {"bm25": {}, "random": {}}},
            {"sources": {"bm25": {}, "random": {"quota": 0}}},
        ),
        ("FG013", "schedule.r0.mode", _regimes("bm25+random"), _regimes("random")),
        ("FG015", "student.batch_size", FEW_ROWS, {"student": {"batch_size": 32}}),
        ("FG015", "student.batch_size", FEW_ROWS, {"student": {"batch_size": 16, "loss": "cached_mnr"}}),
        ("FG016", "evaluation.held_out", {"evaluation": {"held_out": 0}}, {"evaluation": {"held_out": 0.01}}),
        (
            "FG016",
            "evaluation.split",
            {"collection": {"beir": "none", "split": "dev"}, "evaluation": {"split": "dev"}},
            {"collection": {"beir": "none", "split": "train"}, "evaluation": {"split": "dev"}},
        ),
        ("FG019", "teacher", {"teacher": None}, {}),
        (
            "FG019",
            "audit",
            {"audit": {"min_mean_margin": None, "max_inverted": None}},
            {"audit": {"max_inverted": None}},
        ),
    ],
)  # fmt: skip
def test_a_recipe_with_the_fault_and_one_without(
    code: str, at: str, faulty: dict[str, Any], clean: dict[str, Any], codes: Codes
) -> None:
    found = [finding for finding in fg.check(faulty) if finding.code == code]
    assert [finding.place for finding in found] == [f"recipe: {at}"]
    assert code not in codes(clean)


def test_the_default_recipe_has_no_error_and_one_warning() -> None:
    found = fg.check(fg.Recipe())
    assert [finding.code for finding in found] == ["FG008"]
    assert found.errors == []


def test_a_fault_that_regimes_inherit_is_told_once_where_it_is_written(codes: Codes) -> None:
    recipe = {**_regimes("dense_ce_0.5", "bm25+dense_ce_0.3"), "select": {"cap": 20}}
    assert [f.place for f in fg.check(recipe) if f.code == "FG006"] == ["recipe: select.cap"]


def test_a_calibration_counts_from_a_hundred_labelled_pairs_on(tmp_path: Path, codes: Codes) -> None:
    own = calibration.load("default")
    file = tmp_path / "calibration.json"
    recipe = {"decide": {"calibration": str(file)}}
    own.model_copy(update={"labels": {**own.labels, "pairs": 99}}).save(file)
    few = next(finding for finding in fg.check(recipe) if finding.code == "FG008")
    assert few.said.startswith("99 labelled pairs in calibration.json")
    own.model_copy(update={"labels": {**own.labels, "pairs": 100}}).save(file)
    assert "FG008" not in codes(recipe)


def test_a_calibration_that_is_not_there_is_not_guessed_about() -> None:
    found = fg.check({"decide": {"calibration": "gone.json"}}, select=["FG008"])
    assert found == []
    assert "gone.json: no such calibration" in found.unchecked[0].why


def test_two_names_of_one_folder_are_one_model(tmp_path: Path, codes: Codes) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "model")
    names = {"retriever": {"model": str(tmp_path / "model")}, "teacher": {"model": str(tmp_path / "link")}}
    assert "FG010" in codes(names)
    (tmp_path / "twin").mkdir()
    assert "FG010" not in codes(names | {"teacher": {"model": str(tmp_path / "twin")}})


def test_a_schedule_that_cannot_be_mined_is_bad_input_and_no_finding() -> None:
    with pytest.raises(RecipeError, match=r"regime r0: mode dense_ce_0\.3 needs a teacher"):
        fg.check({"teacher": None, **_regimes("dense_ce_0.3")})
