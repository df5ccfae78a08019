"""The bm25 source: rows of its collection, only real matches, one score for a pair however it is asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version

import numpy as np
import pytest
import toy

from foolsgold.collection import Collection
from foolsgold.progress import Advance
from foolsgold.recipe import BM25Spec
from foolsgold.records import Hits
from foolsgold.sources.bm25 import BM25Source

METHODS = ("lucene", "robertson", "atire", "bm25l", "bm25+")


def animals() -> Collection:
    return toy.collection(
        {"d0": "a cat", "d1": "a dog and a cat", "d2": "a bird", "d3": "a cat", "d4": "fish"},
        {"q0": "cat", "q1": "zebra", "q2": "dog bird"},
        {"q0": {"d0": 1}, "q1": {"d4": 1}, "q2": {"d2": 1}},
    )


def of(hits: Hits, query: int) -> list[int]:
    return hits.rows[hits.offsets[query] : hits.offsets[query + 1]].tolist()


def test_matches_come_best_first_and_equal_scores_by_row() -> None:
    hits = BM25Source("bm25", BM25Spec(), animals()).retrieve(np.array([0, 2], np.int32), 10)
    assert of(hits, 0) == [0, 3, 1]
    assert of(hits, 1) == [2, 1]
    assert hits.rows.dtype == np.int32
    assert hits.scores.dtype == np.float32


@pytest.mark.parametrize("method", METHODS)
def test_documents_that_share_no_word_with_the_query_are_not_hits(method: str) -> None:
    hits = BM25Source("bm25", BM25Spec(method=method), animals()).retrieve(np.array([1, 0], np.int32), 10)
    assert of(hits, 0) == []
    assert set(of(hits, 1)) <= {0, 1, 3}


def test_depth_is_the_most_a_query_gets() -> None:
    hits = BM25Source("bm25", BM25Spec(), animals()).retrieve(np.array([0], np.int32), 2)
    assert of(hits, 0) == [0, 3]


@pytest.mark.parametrize("method", METHODS)
def test_a_pair_has_the_score_it_was_found_with(method: str) -> None:
    source = BM25Source("bm25", BM25Spec(method=method), animals())
    queries = np.array([2, 0], np.int32)
    hits = source.retrieve(queries, 10)
    found_for = np.repeat(queries, np.diff(hits.offsets))
    assert np.array_equal(source.score(found_for, hits.rows), hits.scores)


def test_a_pair_that_was_not_found_has_a_score_too() -> None:
    source = BM25Source("bm25", BM25Spec(), animals())
    assert source.score(np.array([0], np.int32), np.array([4], np.int32)).tolist() == [0]


def test_the_index_is_built_once_and_says_so() -> None:
    stages: list[str] = []

    class Told:
        @contextmanager
        def stage(self, name: str, total: int) -> Iterator[Advance]:
            stages.append(name)
            yield lambda steps: None

    source = BM25Source("bm25", BM25Spec(), animals())
    for _ in range(2):
        source.retrieve(np.array([0], np.int32), 3, Told())
    assert stages == ["index bm25", "search bm25", "search bm25"]


def test_it_describes_its_settings_and_its_libraries() -> None:
    described = BM25Source("words", BM25Spec(kind="bm25", language="german", k1=0.9), animals()).describe()
    assert described == {
        "kind": "bm25",
        "language": "german",
        "tokenizer": "word",
        "method": "lucene",
        "k1": 0.9,
        "b": 0.75,
        "bm25s": version("bm25s"),
        "PyStemmer": version("PyStemmer"),
    }
