from __future__ import annotations

import tracemalloc

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from foolsgold.records import Hits
from foolsgold.sources.random import RandomSource


def retrieve(n_documents: int, queries: list[int], depth: int, seed: int = 13) -> Hits:
    return RandomSource("random", n_documents, seed).retrieve(np.array(queries, dtype=np.int32), depth)


@given(st.integers(1, 60), st.lists(st.integers(0, 9), max_size=5), st.integers(1, 80))
def test_hits_are_distinct_known_rows_in_descending_order(n_documents: int, queries: list[int], depth: int) -> None:
    hits = retrieve(n_documents, queries, depth)
    k = min(n_documents, depth)
    assert hits.offsets.tolist() == [place * k for place in range(len(queries) + 1)]
    assert (hits.rows.dtype, hits.scores.dtype) == (np.int32, np.float32)
    for place in range(len(queries)):
        rows, scores = hits.rows[place * k : place * k + k], hits.scores[place * k : place * k + k]
        assert len(set(rows.tolist())) == k
        assert rows.min() >= 0
        assert rows.max() < n_documents
        assert (np.diff(scores) <= 0).all()


@given(st.lists(st.integers(0, 50), min_size=1, unique=True))
def test_a_draw_does_not_depend_on_the_other_queries(queries: list[int]) -> None:
    together = retrieve(1000, queries, 5).rows.reshape(-1, 5)
    for place, query in enumerate(queries):
        assert retrieve(1000, [query], 5).rows.tolist() == together[place].tolist()


def test_seeds_and_queries_differ() -> None:
    draws = {tuple(retrieve(10_000, [query], 10, seed).rows) for query in range(5) for seed in range(5)}
    assert len(draws) == 25


def test_a_depth_beyond_the_corpus_gives_all_of_it() -> None:
    assert sorted(retrieve(7, [3], 100).rows.tolist()) == list(range(7))


def test_every_document_is_drawn_equally_often() -> None:
    counts = np.bincount(retrieve(20, list(range(4000)), 5).rows, minlength=20)
    # binomial(4000, 1/4): mean 1000, standard deviation 27
    assert np.abs(counts - 1000).max() < 5 * 27


def test_the_memory_is_that_of_the_draw_not_of_the_corpus() -> None:
    tracemalloc.start()
    retrieve(100_000_000, list(range(20)), 10)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2_000_000  # a permutation of 100 million rows takes 400 MB


@given(st.one_of(st.integers(2, 3000), st.integers(5000, 9000)), st.integers(1, 300), st.integers(1, 300))
def test_a_greater_depth_only_adds_to_the_draw(n_documents: int, one: int, other: int) -> None:
    shallow, deep = sorted((one, other))
    if 4 * deep <= n_documents or 4 * shallow > n_documents:
        assert (
            retrieve(n_documents, [3], deep).rows[:shallow].tolist()
            == retrieve(n_documents, [3], shallow).rows.tolist()
        )


def test_appended_documents_move_few_of_the_others() -> None:
    before, after = (
        set(zip(np.repeat(range(200), 20), retrieve(n, list(range(200)), 20).rows, strict=True)) for n in (5000, 5010)
    )
    assert len(before & after) > 0.98 * len(before)


def test_two_random_sources_draw_apart() -> None:
    one, other = (RandomSource(name, 10_000, 13).retrieve(np.arange(5, dtype=np.int32), 20) for name in ("a", "b"))
    assert len(set(one.rows) & set(other.rows)) < 10


def test_it_cannot_score_and_says_what_it_is() -> None:
    source = RandomSource("random", 5, 13)
    assert source.score(np.zeros(1, np.int32), np.zeros(1, np.int32)) is None
    assert source.describe() == {"kind": "random", "seed": 13}
