"""From hits to negatives, on arrays small enough to work out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from foolsgold.compat.arguments import Range, Sampling, Thresholds
from foolsgold.compat.choose import Candidates, candidates_of, choose, dropped
from foolsgold.compat.pairs import pair_up
from foolsgold.records import FloatArray, LongArray

NONE = Thresholds(None, None, None, None)


def test_pairs_are_distinct_texts_in_order_of_first_sight() -> None:
    pairs = pair_up(["q", "r", "q", "q"], ["p", "o", "n", "p"], ["m", "o", "m"])
    assert pairs.queries.texts.to_pylist() == ["q", "r"]
    assert pairs.documents.texts.to_pylist() == ["m", "o", "p", "n"]
    assert pairs.offsets.tolist() == [0, 2, 3]
    assert pairs.positives.tolist() == [2, 3, 1]


def test_what_a_positive_or_the_query_says_is_known_in_any_spelling() -> None:
    pairs = pair_up(["q", "Q", "r"], ["p", "o", "n"], ["P ", " q", "O", "m", "R"])
    assert pairs.documents.texts.to_pylist() == ["P ", " q", "O", "m", "R", "p", "o", "n"]
    rows = np.arange(8, dtype=np.int32)
    for query, known in ((0, "11100110"), (1, "11100110"), (2, "00001001")):
        same = pairs.same_text(np.full(8, query, dtype=np.int32), rows)
        assert "".join(map(str, same.astype(int))) == known, query
    assert pairs.most_copies == 4  # of q: the copy of p, the query, and both spellings of what answers Q


def test_ranks_count_over_what_is_no_known_positive() -> None:
    pairs = pair_up(["q"], ["p"], [" P", "a", "b", "c", "d"])  # rows 0 to 4, and p is row 5
    hits = np.array([[5, 1, 0, 2, 3, 4]], dtype=np.int32)
    scores = np.array([[0.9, 0.8, 0.8, 0.7, 0.6, 0.5]], dtype=np.float32)
    found = candidates_of(pairs, 0, scores, hits, Range(1, 3, 4), include_positives=False)
    # p, a, b, c are retrieved: the copy of p is as if it were not there, and d is beyond
    assert found.document.tolist() == [2, 3]
    assert found.rank.tolist() == [1, 2]
    ranking = candidates_of(pairs, 0, scores, hits, Range(0, 3, 4), include_positives=True)
    assert ranking.document.tolist() == [5, 1, 2, 3]


def test_a_candidate_is_dropped_by_the_first_threshold_that_it_fails() -> None:
    score = np.array([0.95, 0.75, 0.6, 0.55, 0.1], dtype=np.float32)
    positive = np.full(5, 0.8, dtype=np.float32)
    found = dropped(score, positive, Thresholds(0.1, 0.25, 0.58, 0.2))
    assert {name: np.flatnonzero(where).tolist() for name, where in found.items()} == {
        "absolute_margin": [0, 1],
        "relative_margin": [],
        "max_score": [2],
        "min_score": [4],
    }


@pytest.mark.parametrize(("positive", "limit"), [(0.8, 0.72), (-0.8, -0.88)])
def test_a_relative_margin_lowers_the_bar_for_either_sign(positive: float, limit: float) -> None:
    score = np.array([limit - 0.001, limit + 0.001], dtype=np.float32)
    found = dropped(score, np.full(2, positive, dtype=np.float32), Thresholds(None, 0.1, None, None))
    assert found["relative_margin"].tolist() == [False, True]


def test_what_lies_beyond_the_range_is_taken_only_where_it_is_short() -> None:
    found = _candidates([[0.9, 0.8, 0.7, 0.6, 0.5]])
    ranks = Range(0, 3, 5)
    for sampling in ("top", "random"):
        short = _taken(found, ranks, Thresholds(None, None, 0.75, None), n=3, sampling=sampling)
        assert short == [[2, 3, 4]]
        enough = _taken(found, ranks, NONE, n=3, sampling=sampling)
        assert enough == [[0, 1, 2]]


@pytest.mark.parametrize("case", range(12))
def test_asking_in_waves_takes_what_asking_for_everything_takes(case: int) -> None:
    rng = np.random.default_rng(case)
    found = _candidates([rng.uniform(0, 1, rng.integers(1, 25)) for _ in range(20)])
    score = rng.uniform(-1, 1, len(found)).astype(np.float32)
    lowest = rng.uniform(-1, 1, 20).astype(np.float32)
    ranks = Range(0, int(rng.integers(3, 20)), 30)
    thresholds = Thresholds(None, 0.05, float(rng.uniform(-0.8, 0.8)), None)
    asked: list[int] = []

    def ask(rows: LongArray) -> FloatArray:
        asked.extend(rows.tolist())
        return score[rows]

    lazily = choose(found, ranks, thresholds, n=3, sampling="random", seed=case, lowest_positive=lowest, score=ask)
    known = Candidates(found.n_units, found.unit, found.query, found.document, found.rank, score)
    wholly = choose(known, ranks, thresholds, n=3, sampling="random", seed=case, lowest_positive=lowest, score=None)
    assert lazily.candidate.tolist() == wholly.candidate.tolist()
    assert lazily.counts.tolist() == wholly.counts.tolist()
    assert len(set(asked)) == len(asked)
    assert all(lazily.skipped[name] <= count for name, count in wholly.skipped.items())


def test_the_highest_by_a_cross_encoder_come_first() -> None:
    found = _candidates([[0.9, 0.8, 0.7], [0.6, 0.5]])
    score = np.array([1, 3, 2, 5, 4], dtype=np.float32)
    taken = choose(
        found,
        Range(0, 2, 3),
        Thresholds(None, None, 4.5, None),
        n=2,
        sampling="top",
        seed=0,
        lowest_positive=None,
        score=lambda rows: score[rows],
    )
    assert taken.candidate.tolist() == [1, 2, 4]
    assert taken.counts.tolist() == [2, 1]
    assert taken.skipped == {"max_score": 1}


def _candidates(scores: list[list[float]]) -> Candidates:
    """Candidates of one query after the other, the documents numbered through."""
    sizes = [len(some) for some in scores]
    unit = np.repeat(np.arange(len(scores), dtype=np.int32), sizes)
    return Candidates(
        n_units=len(scores),
        unit=unit,
        query=unit,
        document=np.arange(len(unit), dtype=np.int32),
        rank=np.concatenate([np.arange(size, dtype=np.int32) for size in sizes]),
        score=np.concatenate([np.sort(some)[::-1] for some in scores]).astype(np.float32),
    )


def _taken(found: Candidates, ranks: Range, thresholds: Thresholds, *, n: int, sampling: Sampling) -> list[list[int]]:
    taken = choose(found, ranks, thresholds, n=n, sampling=sampling, seed=4, lowest_positive=None, score=None)
    return [part.tolist() for part in np.split(taken.candidate, np.cumsum(taken.counts)[:-1])]
