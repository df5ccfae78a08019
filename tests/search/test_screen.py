"""The int8 screen: it may never drop what could be above a bar, and `top_k` is the same with it and without."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foolsgold.search import dense, screen, top_k
from foolsgold.search.threads import Threads

needs_vnni = pytest.mark.skipif(
    not screen.available(384), reason="this CPU has no AVX-512 VNNI, so nothing is screened"
)


def lengths_of(vectors: np.ndarray) -> np.ndarray:
    return np.sqrt((vectors.astype(np.float64) ** 2).sum(axis=1))


def passed(queries: np.ndarray, corpus: np.ndarray, bars: np.ndarray, part: slice) -> np.ndarray:
    """bool (queries of the slice, documents): what the screen lets pass."""
    with Threads() as threads:
        looking = screen.Screen(queries, lengths_of(queries), corpus)
        words = looking.passed(looking.pack(corpus, threads), part, bars[part])
    bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little").astype(bool)
    assert not bits[: len(bars[part]), len(corpus) :].any(), "a document that is not there has passed"
    return bits[: len(bars[part]), : len(corpus)]


@needs_vnni
@settings(max_examples=150, deadline=None)
@given(
    n=st.integers(1, 200),
    q=st.integers(1, 20),
    dim=st.integers(1, 70),
    seed=st.integers(0, 2**32 - 1),
    magnitude=st.sampled_from([1e-30, 1e-3, 1.0, 1e4, 1e15]),
    shift=st.sampled_from([0.0, 3.0]),
    spread=st.sampled_from([0.0, 0.5, 8.0]),
    quantile=st.floats(0, 1),
)
def test_a_document_above_the_bar_always_passes(
    n: int, q: int, dim: int, seed: int, magnitude: float, shift: float, spread: float, quantile: float
) -> None:
    rng = np.random.default_rng(seed)
    queries = (magnitude * rng.standard_normal((q, dim))).astype(np.float32)
    # a few numbers much larger than the rest, as some models' embeddings have them, and rows of all lengths
    corpus = (rng.standard_normal((n, dim)) + shift) * np.exp(spread * rng.standard_normal(dim))
    corpus = (corpus * np.exp(spread * rng.standard_normal((n, 1))) / magnitude**0.5).astype(np.float32)
    corpus[rng.random(n) < 0.1] = 0
    queries[rng.random(q) < 0.1] = 0
    scores = queries.astype(np.float64) @ corpus.astype(np.float64).T
    bars = np.quantile(scores, quantile, axis=1, method="nearest").astype(np.float32)
    through = passed(queries, corpus, bars, slice(0, q))
    assert through[scores.astype(np.float32) > bars[:, None]].all()


@needs_vnni
def test_few_documents_that_are_not_above_the_bar_pass() -> None:
    rng = np.random.default_rng(1)
    queries, corpus = (rng.standard_normal((n, 384), dtype=np.float32) for n in (100, 4000))
    scores = queries @ corpus.T
    bars = np.quantile(scores, 0.99, axis=1).astype(np.float32)
    share = passed(queries, corpus, bars, slice(0, 100)).mean()
    assert 0.01 <= share < 0.03


@needs_vnni
def test_what_all_documents_share_does_not_loosen_the_screen() -> None:
    rng = np.random.default_rng(2)
    queries, corpus = (rng.standard_normal((n, 64), dtype=np.float32) for n in (12, 2000))
    shared = 10 * rng.standard_normal(64, dtype=np.float32)
    bars = np.quantile(queries @ corpus.T, 0.98, axis=1).astype(np.float32)
    moved = bars + queries @ shared
    plain = passed(queries, corpus, bars, slice(0, 12)).mean()
    assert passed(queries, corpus + shared, moved, slice(0, 12)).mean() < 1.2 * plain


@needs_vnni
@pytest.mark.parametrize("part", [slice(0, 7), slice(3, 13), slice(12, 13)])
def test_a_slice_of_the_queries_is_held_against_its_own_bars(part: slice) -> None:
    rng = np.random.default_rng(3)
    queries, corpus = (rng.standard_normal((n, 30), dtype=np.float32) for n in (13, 100))
    bars = np.quantile(queries @ corpus.T, 0.9, axis=1).astype(np.float32)
    assert np.array_equal(passed(queries, corpus, bars, part), passed(queries, corpus, bars, slice(0, 13))[part])


@needs_vnni
@pytest.mark.parametrize("outlier", [3e38, -3e38, 1e-44])
def test_numbers_at_the_ends_of_float32_are_not_lost(outlier: float) -> None:
    queries = np.full((8, 5), 1e-3, dtype=np.float32)
    corpus = np.zeros((70, 5), dtype=np.float32)
    corpus[3, 2] = outlier
    corpus[5, 1] = -outlier
    scores = (queries.astype(np.float64) @ corpus.astype(np.float64).T).astype(np.float32)
    bars = np.full(8, -1e-45, dtype=np.float32)
    assert passed(queries, corpus, bars, slice(0, 8))[scores > bars[:, None]].all()


@needs_vnni
@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(300, 3000),
    q=st.integers(64, 150),
    dim=st.integers(1, 40),
    k=st.integers(1, 20),
    seed=st.integers(0, 2**32 - 1),
    query_block=st.integers(1, 160),
    document_block=st.integers(30, 700),
    kind=st.sampled_from(["ties", "normal", "one direction"]),
)
def test_top_k_is_a_brute_force_in_float64_also_where_it_screens(
    n: int, q: int, dim: int, k: int, seed: int, query_block: int, document_block: int, kind: str
) -> None:
    rng = np.random.default_rng(seed)
    make = (lambda shape: rng.integers(-1, 2, shape)) if kind == "ties" else rng.standard_normal
    queries, corpus = make((q, dim)).astype(np.float32), make((n, dim)).astype(np.float32)
    if kind == "one direction":
        corpus = corpus * np.float32(1e-3) + np.float32(1)
    scores, rows = top_k(queries, corpus, k, query_block=query_block, document_block=document_block)
    expected = (queries.astype(np.float64) @ corpus.astype(np.float64).T).astype(np.float32)
    order = np.argsort(-expected, axis=1, kind="stable")[:, :k]
    assert np.array_equal(rows, order)
    assert np.array_equal(scores, np.take_along_axis(expected, order, axis=1))


@needs_vnni
def test_a_screen_that_drops_little_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = []
    pack = screen.Screen.pack

    def counted(self: screen.Screen, block: np.ndarray, threads: Threads) -> screen.Packed:
        packed.append(len(block))
        return pack(self, block, threads)

    monkeypatch.setattr(screen.Screen, "pack", counted)
    rng = np.random.default_rng(4)
    queries = rng.standard_normal((64, 8), dtype=np.float32)
    rising = np.linspace(0, 1, 6400, dtype=np.float32)[:, None] * np.ones(8, np.float32)  # each better than all before
    top_k(abs(queries), rising, 3, document_block=128)
    assert len(packed) == 1
    packed.clear()
    top_k(queries, rng.standard_normal((6400, 8), dtype=np.float32), 3, document_block=128)
    assert len(packed) == 6400 // 128 - 1


def test_a_cpu_without_the_instruction_gives_the_same_bytes() -> None:
    rng = np.random.default_rng(5)
    queries, corpus = (rng.standard_normal((n, 48), dtype=np.float32) for n in (80, 3000))
    here = top_k(queries, corpus, 5, document_block=500)
    program = (
        "import sys, numpy as np; from foolsgold.search import screen, top_k; assert not screen.available(48)\n"
        "rng = np.random.default_rng(5)\n"
        "queries, corpus = (rng.standard_normal((n, 48), dtype=np.float32) for n in (80, 3000))\n"
        "scores, rows = top_k(queries, corpus, 5, document_block=500)\n"
        "sys.stdout.buffer.write(scores.tobytes() + rows.tobytes())"
    )
    plain = os.environ | {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    there = subprocess.run([sys.executable, "-c", program], env=plain, stdout=subprocess.PIPE, check=True).stdout
    assert there == here[0].tobytes() + here[1].tobytes()


def test_dimensions_whose_sums_do_not_fit_are_not_screened() -> None:
    assert not screen.available(screen._MAX_DIMENSION + 1)
    assert dense.screen is screen
