"""Exact dense top-k: against a brute force in float64, and whatever must not change the answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foolsgold.errors import SourceError
from foolsgold.progress import Advance
from foolsgold.search import top_k
from foolsgold.search.kernels import norms


def brute_force(queries: np.ndarray, corpus: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    scores = (queries.astype(np.float64) @ corpus.astype(np.float64).T).astype(np.float32)
    rows = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(scores, rows, axis=1), rows.astype(np.int32)


def random_vectors(seed: int, n: int, dim: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, dim), dtype=np.float32)


def test_the_best_rows_come_first_and_equal_scores_by_row() -> None:
    corpus = np.array([[1, 0], [0, 1], [2, 0], [1, 5], [2, -1]], dtype=np.float32)
    scores, rows = top_k(np.array([[1, 0]], dtype=np.float32), corpus, 4)
    assert rows.tolist() == [[2, 4, 0, 3]]
    assert scores.tolist() == [[2, 2, 1, 1]]
    assert (scores.dtype, rows.dtype) == (np.float32, np.int32)


def test_k_above_the_corpus_gives_every_row_once() -> None:
    scores, rows = top_k(random_vectors(0, 3, 4), random_vectors(1, 5, 4), 100)
    assert scores.shape == rows.shape == (3, 5)
    assert np.array_equal(np.sort(rows, axis=1), np.tile(np.arange(5), (3, 1)))


def test_no_queries_give_no_rows() -> None:
    scores, rows = top_k(np.empty((0, 4), np.float32), random_vectors(1, 5, 4), 3)
    assert scores.shape == rows.shape == (0, 3)


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 400),
    q=st.integers(1, 20),
    dim=st.integers(1, 20),
    k=st.integers(1, 120),
    seed=st.integers(0, 2**32 - 1),
    query_block=st.integers(1, 25),
    document_block=st.integers(1, 450),
    many_ties=st.booleans(),
)
def test_the_answer_is_that_of_a_float64_brute_force_whatever_the_blocks(
    n: int, q: int, dim: int, k: int, seed: int, query_block: int, document_block: int, many_ties: bool
) -> None:
    rng = np.random.default_rng(seed)
    make = (lambda shape: rng.integers(-1, 2, shape)) if many_ties else rng.standard_normal
    queries, corpus = make((q, dim)).astype(np.float32), make((n, dim)).astype(np.float32)
    scores, rows = top_k(queries, corpus, k, query_block=query_block, document_block=document_block)
    expected_scores, expected_rows = brute_force(queries, corpus, k)
    assert np.array_equal(rows, expected_rows)
    assert np.array_equal(scores, expected_scores)


def test_copies_of_a_vector_tie_exactly_wherever_they_are() -> None:
    rng = np.random.default_rng(7)
    corpus = rng.standard_normal((6000, 129), dtype=np.float32)
    copies = np.sort(rng.choice(6000, size=300, replace=False))
    corpus[copies] = corpus[copies[0]]
    query = corpus[copies[:1]] * 3
    for document_block in (37, 1000, 4096):
        scores, rows = top_k(query, corpus, 200, document_block=document_block)
        assert rows[0].tolist() == copies[:200].tolist()
        assert len(set(scores[0].tolist())) == 1


def test_a_corpus_of_one_vector_over_and_over_is_answered_by_row() -> None:
    corpus = np.tile(random_vectors(3, 1, 50), (3000, 1))
    _, rows = top_k(random_vectors(4, 5, 50), corpus, 30, document_block=256)
    assert np.array_equal(rows, np.tile(np.arange(30), (5, 1)))


def test_a_zero_query_gets_the_first_rows() -> None:
    scores, rows = top_k(np.zeros((1, 8), np.float32), random_vectors(5, 500, 8), 10, document_block=64)
    assert rows[0].tolist() == list(range(10))
    assert not scores.any()


def test_negative_scores_only_are_ranked_too() -> None:
    corpus = -np.abs(random_vectors(6, 300, 6))
    query = np.ones((1, 6), dtype=np.float32)
    assert np.array_equal(top_k(query, corpus, 20)[1], brute_force(query, corpus, 20)[1])


def test_vectors_of_very_different_lengths_do_not_hide_each_other() -> None:
    corpus = random_vectors(8, 800, 24) * np.logspace(-18, 12, 800, dtype=np.float32)[:, np.newaxis]
    queries = random_vectors(9, 6, 24)
    scores, rows = top_k(queries, corpus, 700, document_block=100)
    expected_scores, expected_rows = brute_force(queries, corpus, 700)
    assert np.array_equal(rows, expected_rows)
    assert np.array_equal(scores, expected_scores)


def test_the_thread_count_changes_nothing() -> None:
    queries, corpus = random_vectors(10, 300, 48), random_vectors(11, 5000, 48)
    answers = []
    usual = numba.get_num_threads()
    try:
        for threads in {1, 2, usual} & set(range(1, numba.config.NUMBA_NUM_THREADS + 1)):
            numba.set_num_threads(threads)
            answers.append(top_k(queries, corpus, 50, query_block=64))
    finally:
        numba.set_num_threads(usual)
    for scores, rows in answers[1:]:
        assert np.array_equal(scores, answers[0][0])
        assert np.array_equal(rows, answers[0][1])


def test_two_searches_at_once_give_both_answers() -> None:
    queries, corpus = random_vectors(12, 50, 16), random_vectors(13, 2000, 16)
    answers: list[np.ndarray] = []
    threads = [threading.Thread(target=lambda: answers.append(top_k(queries, corpus, 10)[1])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = brute_force(queries, corpus, 10)[1]
    assert len(answers) == 4
    assert all(np.array_equal(rows, expected) for rows in answers)


def test_float16_in_a_memory_map_is_searched_as_float32(tmp_path: Path) -> None:
    corpus = random_vectors(14, 700, 32).astype(np.float16)
    np.save(tmp_path / "corpus.npy", corpus)
    mapped = np.load(tmp_path / "corpus.npy", mmap_mode="r")
    queries = random_vectors(15, 9, 32).astype(np.float16)
    scores, rows = top_k(queries, mapped, 25, document_block=128)
    expected_scores, expected_rows = brute_force(queries, corpus, 25)
    assert np.array_equal(rows, expected_rows)
    assert np.array_equal(scores, expected_scores)


def test_more_queries_than_the_state_may_hold_read_the_corpus_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foolsgold.search.dense._STATE_BYTES", 8 * (2 * 10 + 64) * 16)
    queries, corpus = random_vectors(16, 100, 12), random_vectors(17, 400, 12)
    _, rows = top_k(queries, corpus, 10, query_block=8)
    assert np.array_equal(rows, brute_force(queries, corpus, 10)[1])


def test_arrays_that_are_not_contiguous_are_searched() -> None:
    corpus, queries = random_vectors(18, 600, 20)[::2, ::2], np.asfortranarray(random_vectors(19, 7, 10))
    assert np.array_equal(top_k(queries, corpus, 15)[1], brute_force(queries, corpus, 15)[1])


@pytest.mark.parametrize(
    ("queries", "corpus", "k", "said"),
    [
        (np.ones((2, 3)), np.ones((4, 5)), 1, "queries have 3 dimensions but the corpus has 5"),
        (np.ones(3), np.ones((4, 3)), 1, r"queries has shape \(3,\)"),
        (np.ones((2, 3)), np.ones((4, 3, 1)), 1, r"corpus has shape \(4, 3, 1\)"),
        (np.ones((2, 3)), np.ones((4, 3)), 0, "k is 0"),
        (np.ones((2, 3)), np.empty((0, 3)), 1, "the corpus is empty"),
        (np.full((2, 3), "a"), np.ones((4, 3)), 1, "queries holds <U1"),
        (np.full((2, 3), 1e30), np.full((4, 3), 1e30), 1, "do not fit float32"),
        (
            [[1.0, 2.0], [3.0]],
            np.ones((4, 2)),
            1,
            "queries has rows of several lengths; encode all with the same model",
        ),
        (np.ones((2, 3)), [[1.0, None, 2.0]], 1, "corpus holds object"),
        (np.zeros((2, 3), dtype="f4,f4"), np.ones((4, 3)), 1, "queries holds .*'f0'"),
    ],
)
def test_inputs_that_cannot_be_searched_are_refused(queries: np.ndarray, corpus: np.ndarray, k: int, said: str) -> None:
    with pytest.raises(SourceError, match=said):
        top_k(queries, corpus, k)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_the_first_row_that_is_not_finite_is_named(bad: float) -> None:
    queries, corpus = random_vectors(20, 10, 8), random_vectors(21, 5000, 8)
    corpus[[4321, 4999], 3] = bad
    with pytest.raises(SourceError, match="corpus row 4321 holds NaN or infinity"):
        top_k(queries, corpus, 3)
    queries[7, 0] = bad
    with pytest.raises(SourceError, match="queries row 7 holds NaN or infinity"):
        top_k(queries, corpus, 3)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("device", [None, "cpu"])
def test_a_value_that_float32_cannot_hold_is_not_called_infinity(device: str | None) -> None:
    if device is not None:
        pytest.importorskip("torch", reason="searching on a device needs the extra torch")
    queries, corpus = np.ones((2, 3)), np.ones((5000, 3))
    corpus[4321, 1] = -1e300
    said = r"row 4321 holds 1e\+300, too large for float32; scale the vectors down"
    with pytest.raises(SourceError, match=f"corpus {said}"):
        top_k(queries, corpus, 3, device=device)
    with pytest.raises(SourceError, match=f"queries {said}"):
        top_k(corpus, queries, 1, device=device)
    corpus[4321, 2] = np.inf
    with pytest.raises(SourceError, match="corpus row 4321 holds NaN or infinity"):
        top_k(queries, corpus, 3, device=device)


@pytest.mark.parametrize("block", [0, -1, 1.5, None, True])
@pytest.mark.parametrize("name", ["query_block", "document_block"])
def test_a_block_that_is_no_number_of_rows_is_refused(name: str, block: object) -> None:
    with pytest.raises(SourceError, match=f"{name} is {block}; a whole number is needed, at least 1"):
        top_k(np.ones((2, 3)), np.ones((4, 3)), 1, **{name: block})  # type: ignore[arg-type]


def test_large_finite_values_are_not_taken_for_infinity() -> None:
    lengths = np.empty(1)
    norms(np.full((1, 4), 3e38, dtype=np.float32), lengths)
    assert np.isfinite(lengths).all()


def test_progress_reaches_its_total() -> None:
    stages: list[tuple[str, int]] = []
    steps: list[int] = []

    class Told:
        @contextmanager
        def stage(self, name: str, total: int) -> Iterator[Advance]:
            stages.append((name, total))
            yield steps.append

    top_k(random_vectors(22, 30, 4), random_vectors(23, 100, 4), 5, progress=Told(), document_block=40)
    assert stages == [("search dense", 90)]
    assert sum(steps) == 90
