"""What stays, what is hidden, and what is known of a candidate afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from toy import collection

from foolsgold.collection import Collection
from foolsgold.risk import Truth, by_estimate, by_hiding, by_judgements

DOCS = {
    "a": "apples grow on trees",
    "b": "pears are picked in autumn",
    "b copy": "Pears are  picked in autumn",
    "c": "plums are purple and sweet",
    "d": "a bridge over a river",
    "e": "the price of steel",
}
QUERIES = {"one": "which fruit is red?", "many": "where does fruit come from?", "text": "when are pears picked?"}
JUDGED = {"one": {"a": 1}, "many": {"a": 1, "b": 1, "c": 1}, "text": {"b": 1, "b copy": 1}}


def _positives(found: Collection) -> dict[str, list[str]]:
    return {
        query: found.documents.take_ids(found.positives(row))
        for row, query in enumerate(found.queries.take_ids(range(len(found.queries))))
    }


def _relevance(truth: Truth, query: str, *docs: str) -> list[float | None]:
    """What is known of some pairs; None where nothing is."""
    found = truth.relevance(pa.table({"query_id": [query] * len(docs), "doc_id": list(docs)}))
    return [value if known else None for value, known in zip(found.values.tolist(), found.valid.tolist(), strict=True)]


def _hidden(seed: int, judged: Mapping[str, Mapping[str, int]] = JUDGED) -> Truth:
    truth = by_hiding(collection(DOCS, QUERIES, judged), seed=seed)
    assert truth is not None
    return truth


def test_a_query_keeps_one_of_several_positives_and_queries_with_one_are_left_out() -> None:
    # `text` has two entries, but they are one passage
    (left,) = _positives(_hidden(13).collection).items()
    assert left[0] == "many"
    assert len(left[1]) == 1


def test_exactly_the_positives_that_do_not_stay_are_relevant() -> None:
    for seed in range(8):
        truth = _hidden(seed)
        (stays,) = _positives(truth.collection)["many"]
        others = [doc for doc in ("a", "b", "c") if doc != stays]
        assert _relevance(truth, "many", *others, "d", "e") == [1.0, 1.0, 0.0, 0.0]


def test_a_copy_of_a_hidden_positive_is_one_too() -> None:
    hides_b = next(truth for seed in range(20) if _positives((truth := _hidden(seed)).collection) != {"many": ["b"]})
    assert _relevance(hides_b, "many", "b copy") == [1.0]


def test_what_stays_is_fixed_by_the_seed_and_any_may_stay() -> None:
    stays = [_positives(_hidden(seed).collection)["many"][0] for seed in range(30)]
    assert stays == [_positives(_hidden(seed).collection)["many"][0] for seed in range(30)]
    assert set(stays) == {"a", "b", "c"}


def test_nothing_is_hidden_where_every_query_has_one_positive() -> None:
    assert by_hiding(collection(DOCS, QUERIES, {"one": {"a": 1}, "many": {"c": 1}}), seed=13) is None


def test_the_first_queries_that_tell_anything_are_taken() -> None:
    judged = {"one": {"a": 1}, "many": {"a": 1, "b": 1}, "text": {"b": 1, "c": 1}}
    for seed in range(5):
        truth = by_hiding(collection(DOCS, QUERIES, judged), seed=seed, queries=1)
        assert truth is not None
        assert list(_positives(truth.collection)) == ["many"]
        (stays,) = _positives(truth.collection)["many"]
        assert _relevance(truth, "many", "a" if stays == "b" else "b", "c") == [1.0, 0.0]


def _graded(judged: Mapping[str, Mapping[str, int]], relevant_from: int = 2) -> Collection:
    return replace(collection(DOCS, QUERIES, judged), relevant_from=relevant_from)


def test_the_best_graded_passage_stays_and_of_equals_the_first_in_the_corpus() -> None:
    truth = by_judgements(_graded({"one": {"a": 2, "c": 3, "d": 0}, "many": {"e": 3, "c": 3, "b": 1}}))
    assert truth is not None
    assert _positives(truth.collection) == {"one": ["c"], "many": ["c"]}


def test_grades_from_relevant_from_on_are_relevant_and_the_unjudged_unknown() -> None:
    truth = by_judgements(_graded({"many": {"a": 3, "b": 2, "c": 1, "d": 0}}))
    assert truth is not None
    assert _relevance(truth, "many", "b", "c", "d", "e") == [1.0, 0.0, 0.0, None]


def test_copies_graded_apart_count_by_the_higher_grade() -> None:
    truth = by_judgements(_graded({"many": {"a": 3, "b": 0, "b copy": 2}}))
    assert truth is not None
    assert _relevance(truth, "many", "b", "b copy") == [1.0, 1.0]


def test_judgements_that_are_all_positive_judge_nothing() -> None:
    assert by_judgements(_graded({"many": {"a": 3, "b": 2}})) is None


class _ByDocument:
    """A judge whose probabilities are written down; keeps what it was asked."""

    def __init__(self, probabilities: Mapping[str, float]) -> None:
        self.probabilities = probabilities
        self.asked: list[str] = []

    def probability(self, table: pa.Table, scale: str) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
        self.asked += table["doc_id"].to_pylist()
        return np.array([self.probabilities[doc] for doc in table["doc_id"].to_pylist()], dtype=np.float32)


def test_a_judge_is_asked_for_scored_candidates_alone() -> None:
    judge = _ByDocument({"d": 0.25, "e": 0.5})
    truth = by_estimate(collection(DOCS, QUERIES, JUDGED), judge)
    rows = pa.table(
        {
            "query_id": ["one"] * 3,
            "doc_id": ["d", "c", "e"],
            "teacher_score": pa.array([0.1, None, 0.2], pa.float32()),
        }
    )
    found = truth.relevance(rows)
    assert judge.asked == ["d", "e"]
    assert found.valid.tolist() == [True, False, True]
    assert found.values[found.valid].tolist() == [0.25, 0.5]


@pytest.mark.parametrize("queries", [1, 2, 3, 9])
def test_an_estimate_keeps_every_positive_of_the_first_queries(queries: int) -> None:
    whole = collection(DOCS, QUERIES, JUDGED)
    found = by_estimate(whole, _ByDocument({}), queries=queries).collection
    assert list(_positives(found).items()) == list(_positives(whole).items())[:queries]
