"""The record of a run: what was best, and what the best model was made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from foolsgold.errors import TrainingError
from foolsgold.training.run import Outcome, Round, RunState


def _round(stop: int, outcome: Outcome, version: str | None = None) -> Round:
    return Round(
        regime="r", mining=0, start=0, stop=stop, set_version=version, negatives=0, mean_margin=None, inverted=None,
        failed_gates=[], measures={"nDCG@10": 0.5}, delta=0.1, interval=(0.0, 0.2), p_value=0.3, outcome=outcome,
        seconds=1.0,
    )  # fmt: skip


def _state(*rounds: Round) -> RunState:
    facts = {"recipe": {}, "collection": {}, "student": {"model": "m", "fingerprint": "f"}, "created": ""}
    return RunState("id", facts, list(rounds))


def test_the_best_is_the_last_that_was_better() -> None:
    state = _state(_round(0, "start"), _round(1, "best", "a"), _round(2, "kept", "b"))
    assert state.best.stop == 1
    assert _state(_round(0, "start"), _round(1, "kept", "a")).best.stop == 0


def test_the_best_model_is_made_of_the_sets_up_to_it() -> None:
    state = _state(_round(0, "start"), _round(1, "best", "a"), _round(2, "kept", "b"), _round(3, "best", "c"),
                   _round(4, "kept", "d"))  # fmt: skip
    assert state.set_versions == ["a", "b", "c"]


def test_what_was_rolled_back_is_not_in_the_model() -> None:
    state = _state(_round(0, "start"), _round(1, "best", "a"), _round(2, "kept", "b"), _round(3, "rolled back", "c"),
                   _round(4, "best", "a"))  # fmt: skip
    assert state.set_versions == ["a"]


def test_a_model_that_was_never_better_is_made_of_nothing() -> None:
    assert _state(_round(0, "start"), _round(1, "stopped", "a")).set_versions == []


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    state = _state(_round(0, "start"), _round(1, "best", "a"))
    state.curve = [(1, 0.5), (2, 0.25)]
    state.save(tmp_path)
    assert RunState.load(tmp_path) == state


def test_a_folder_without_a_run_and_a_broken_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="no run of training is here"):
        RunState.load(tmp_path)
    (tmp_path / "run.json").write_text('{"version": ')
    with pytest.raises(TrainingError, match=r"run\.json cannot be read"):
        RunState.load(tmp_path)
