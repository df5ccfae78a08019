"""Exclusion, by hand: a pool small enough to check by eye."""

from __future__ import annotations

import numpy as np

from foolsgold.mining.retrieve import merge
from foolsgold.records import REASONS, Hits, Pool
from foolsgold.rules import exclude


def _hits(*lists: list[tuple[int, float]]) -> Hits:
    flat = [hit for hits in lists for hit in hits]
    return Hits(
        offsets=np.cumsum([0, *map(len, lists)]).astype(np.int64),
        rows=np.array([row for row, _ in flat], dtype=np.int32),
        scores=np.array([score for _, score in flat], dtype=np.float32),
    )


def _ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int32)


def _two_source_pool() -> Pool:
    return merge(
        _ints(3, 4),
        {
            "bm25": _hits([(7, 9.0), (2, 8.0), (5, 1.0)], [(2, 4.0)]),
            "dense": _hits([(2, 0.9), (6, 0.8)], [(9, 0.5), (2, 0.4)]),
        },
    )


def test_a_candidate_of_two_sources_stands_once_with_both_ranks_and_scores() -> None:
    found = _two_source_pool()
    assert found.query.tolist() == [3, 3, 3, 3, 4, 4]
    assert found.doc.tolist() == [2, 5, 6, 7, 2, 9]
    assert found.ranks["bm25"].to_arrow().to_pylist() == [1, 2, None, 0, 0, None]
    assert found.ranks["dense"].to_arrow().to_pylist() == [0, None, 1, None, 1, 0]
    np.testing.assert_allclose(found.scores["bm25"].values[found.scores["bm25"].valid], [8, 1, 9, 4])
    np.testing.assert_allclose(found.scores["dense"].values[found.scores["dense"].valid], [0.9, 0.8, 0.4, 0.5])


def test_a_query_that_no_source_found_anything_for_has_no_candidates() -> None:
    found = merge(_ints(0, 1), {"bm25": _hits([], [(3, 1.0)]), "dense": _hits([], [])})
    assert found.query.tolist() == [1]
    assert found.doc.tolist() == [3]


def test_only_the_pairs_that_are_positives_of_that_very_query_are_excluded() -> None:
    found = _two_source_pool()
    positive = exclude.is_pair(found.query, found.doc, _ints(3, 4, 0), _ints(2, 7, 5))
    assert positive.tolist() == [True, False, False, False, False, False]


def test_a_document_of_the_same_passage_as_a_positive_is_found_by_its_passage() -> None:
    found = _two_source_pool()
    passage = _ints(0, 1, 2, 3, 4, 5, 5, 7, 8, 2)  # 6 repeats 5, 9 repeats 2
    duplicate = exclude.is_pair(found.query, passage[found.doc], _ints(4), passage[_ints(2)])
    assert duplicate.tolist() == [False, False, False, False, True, True]


def test_of_two_candidates_with_one_text_the_lower_row_stays() -> None:
    found = _two_source_pool()
    passage = _ints(0, 1, 2, 3, 4, 5, 5, 7, 8, 9)
    everyone = np.ones(len(found), dtype=bool)
    assert exclude.repeats(found, passage, everyone).tolist() == [False, False, True, False, False, False]


def test_an_excluded_candidate_does_not_make_another_one_a_repeat() -> None:
    found = _two_source_pool()
    passage = _ints(0, 1, 2, 3, 4, 5, 5, 7, 8, 9)
    without_5 = found.doc != 5
    assert not exclude.repeats(found, passage, without_5).any()


def test_window_ranks_are_counted_after_the_excluded_are_gone() -> None:
    found = _two_source_pool()
    among = found.doc != 7  # bm25's best of query 3: what is left of it is 2, 5
    assert found.doc[exclude.in_window(found, "bm25", (0, 1), among)].tolist() == [2, 2]
    assert found.doc[exclude.in_window(found, "bm25", (1, 9), among)].tolist() == [5]
    assert found.doc[exclude.in_window(found, "bm25", None, among)].tolist() == [2, 5, 2]


def test_a_window_holds_only_what_its_own_source_found() -> None:
    found = _two_source_pool()
    everyone = np.ones(len(found), dtype=bool)
    assert found.doc[exclude.in_window(found, "dense", (0, 100), everyone)].tolist() == [2, 6, 2, 9]


def test_a_window_over_an_empty_pool_is_empty() -> None:
    empty = merge(_ints(0), {"bm25": _hits([])})
    assert exclude.in_window(empty, "bm25", (0, 5), np.ones(0, dtype=bool)).tolist() == []


def test_the_first_reason_in_the_order_of_the_ledger_wins() -> None:
    masks = {
        "outside_window": np.array([True, True, False]),
        "known_positive": np.array([True, False, False]),
    }
    reason = exclude.first_reason(masks)
    assert [REASONS[code] if known else None for code, known in zip(reason.values, reason.valid, strict=True)] == [
        "known_positive",
        "outside_window",
        None,
    ]
