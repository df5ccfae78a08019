"""Signals worked out by hand from the columns of a ledger."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from foolsgold.errors import MinedSetError
from foolsgold.records import Scale
from foolsgold.teachers.signals import (
    LADDER,
    NEEDS_BM25,
    NEEDS_RETRIEVER,
    SIGNALS,
    CandidateScores,
    from_ledger,
    matrix,
)

ROWS = {
    "query_id": ["q", "q"],
    "near_rank": pa.array([4, None], pa.int32()),
    "near_score": pa.array([0.5, 0.25], pa.float32()),
    "near_gap": pa.array([-0.25, -0.5], pa.float32()),
    "words_score": pa.array([3.0, 0.0], pa.float32()),
    "words_gap": pa.array([2.0, 0.0], pa.float32()),
    "positive_similarity": pa.array([0.75, None], pa.float32()),
    "teacher_score": pa.array([0.2, 0.5], pa.float32()),
    "positive_score": pa.array([0.8, 0.5], pa.float32()),
}


def _scores(scale: Scale = "probability") -> CandidateScores:
    return CandidateScores(from_ledger(pa.table(ROWS)), "near", "words", scale)


@pytest.mark.parametrize(
    ("signal", "values"),
    [
        ("teacher_logit", [np.log(0.2 / 0.8), 0.0]),
        ("teacher_gap", [-2 * np.log(4), 0.0]),  # logits -1.386 and 1.386
        ("bm25_contrast", [0.5, 0.0]),  # 3 against the positive's 1: 2 / 4; 0 against 0
        ("bm25_score", [np.log(4), 0.0]),
        ("retriever_score", [0.5, 0.25]),
        ("retriever_gap", [-0.25, -0.5]),
        ("retriever_rank", [1 / 65, 0.0]),  # the fifth; not found
    ],
)
def test_signals_by_hand(signal: str, values: list[float]) -> None:
    found, known = matrix(_scores(), [signal])
    np.testing.assert_allclose(found[:, 0], values, atol=1e-6)
    assert known.all()


def test_what_is_not_in_the_ledger_is_not_known() -> None:
    values, known = matrix(_scores(), ["positive_similarity", "teacher_gap"])
    assert values[0, 0] == 0.75
    assert known.tolist() == [True, False]


def test_logits_and_cosines_are_taken_as_they_are() -> None:
    for scale in ("logit", "cosine"):
        values, _ = matrix(_scores(scale), ["teacher_logit", "teacher_gap"])
        np.testing.assert_allclose(values, [[0.2, -0.6], [0.5, 0.0]], atol=1e-6)


def test_a_source_that_is_not_there_is_not_known() -> None:
    scores = CandidateScores(from_ledger(pa.table(ROWS)), None, None, "probability")
    for signal in NEEDS_RETRIEVER - {"positive_similarity", "retriever_rank"} | NEEDS_BM25:
        assert not SIGNALS[signal](scores).valid.any()


def test_every_signal_is_on_the_ladder_once() -> None:
    rungs = [signal for rung in LADDER for signal in rung]
    assert sorted(rungs) == sorted(SIGNALS)


def test_rows_that_are_no_ledgers_are_refused() -> None:
    with pytest.raises(MinedSetError, match="no column positive_score"):
        from_ledger(pa.table({"teacher_score": [0.5]}))
