"""The thresholds of a run, by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toy import TableTeacher, collection, run_file

import foolsgold as fg
from foolsgold.mined.mined_set import MinedSet
from foolsgold.recipe import DecideSpec
from foolsgold.rules.limits import Limits, below_positive

POSITIVES = np.array([0.2, 0.4, 0.6, 0.8], dtype=np.float32)


def _of(has_teacher: bool = True, calibrated: float | None = None, **decide: Any) -> Limits:
    values = DecideSpec.model_validate(decide).model_dump()
    return Limits.of(values, POSITIVES, has_teacher=has_teacher, calibrated=calibrated)


def test_without_a_teacher_only_what_compares_with_positives_applies() -> None:
    limits = _of(has_teacher=False, negative_below=0.3, relative_margin=0.9)
    assert list(limits.flips(np.array([1.0]))) == ["relative_margin"]


def test_a_calibration_sets_the_lower_threshold_and_the_upper_one_is_not_below_it() -> None:
    limits = _of(calibrated=0.1, calibration="made.json", positive_above=0.05, relative_margin=0.9)
    assert (limits.negative_below, limits.positive_above) == (0.1, 0.1)
    assert {rule: limits.column_of(rule) for rule in limits.flips(np.array([1.0]))} == {
        "negative_below": "judge_probability",
        "positive_above": "judge_probability",
        "relative_margin": "teacher_score",
    }
    assert limits.on_teacher == {}


def test_each_rule_flips_at_its_own_score() -> None:
    limits = _of(negative_below=0.3, relative_margin=0.75, absolute_margin=0.5, positive_percentile=50)
    flips = limits.flips(np.array([0.8, -0.8]))
    expected = {
        "negative_below": [0.3, 0.3],
        "positive_above": [0.7, 0.7],
        "positive_percentile": [0.5, 0.5],
        "absolute_margin": [0.3, -1.3],
        "relative_margin": [0.6, -1.0],
    }
    assert list(flips) == list(expected)
    for rule, scores in expected.items():
        np.testing.assert_allclose(flips[rule], scores, rtol=1e-6)


def test_a_relative_margin_is_below_the_positive_whatever_its_sign() -> None:
    np.testing.assert_allclose(below_positive(np.array([0.8, -0.8, 0.0]), 0.05), [0.76, -0.84, 0.0])


@pytest.mark.parametrize("teacher", [True, False])
def test_a_set_has_its_limits_written_down_and_an_older_one_works_them_out(tmp_path: Path, teacher: bool) -> None:
    mined = fg.mine(
        collection({"p": "one", "a": "two", "b": "three"}, {"q": "count"}, {"q": {"p": 1}}),
        retriever=None,
        teacher=TableTeacher({"one": 0.9, "two": 0.5, "three": 0.1}) if teacher else None,
        sources={"run": {"path": str(run_file(tmp_path / "run", {"q": ["a", "b"]}))}} if teacher else {"bm25": {}},
        decide={"positive_percentile": 5 if teacher else None, "relative_margin": 0.9},
        out=tmp_path / "mined",
    )
    assert mined.limits.relative_margin == 0.9
    assert mined.limits.ceiling == (pytest.approx(0.9) if teacher else None)
    manifest = json.loads((mined.path / "manifest.json").read_text(encoding="utf-8"))
    del manifest["limits"]
    (mined.path / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert MinedSet(mined.path).limits == mined.limits
