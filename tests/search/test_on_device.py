"""Top-k on a torch device gives the arrays that the CPU's own search gives, whatever float16 cannot tell apart."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foolsgold.errors import SourceError
from foolsgold.progress import Advance
from foolsgold.search import top_k

torch = pytest.importorskip("torch", reason="searching on a device needs the extra torch")

from foolsgold.search import on_device  # noqa: E402
from foolsgold.search.on_device import top_k_on_device  # noqa: E402


def random_vectors(seed: int, n: int, dim: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, dim), dtype=np.float32)


def assert_as_without_a_device(queries: np.ndarray, corpus: np.ndarray, k: int, device: str = "cpu", **blocks: Any):
    scores, rows = top_k_on_device(queries, corpus, k, device=device, **blocks)
    expected_scores, expected_rows = top_k(queries, corpus, k)
    assert np.array_equal(rows, expected_rows)
    assert np.array_equal(scores, expected_scores)
    assert (scores.dtype, rows.dtype) == (np.float32, np.int32)


def test_the_best_rows_come_first_and_equal_scores_by_row() -> None:
    corpus = np.array([[1, 0], [0, 1], [2, 0], [1, 5], [2, -1]], dtype=np.float32)
    scores, rows = top_k_on_device(np.array([[1, 0]], dtype=np.float32), corpus, 4, device="cpu")
    assert rows.tolist() == [[2, 4, 0, 3]]
    assert scores.tolist() == [[2, 2, 1, 1]]


@settings(max_examples=50, deadline=None)
@given(
    n=st.integers(1, 300),
    q=st.integers(0, 15),
    dim=st.integers(1, 20),
    k=st.integers(1, 100),
    seed=st.integers(0, 2**32 - 1),
    query_block=st.integers(1, 20),
    document_block=st.none() | st.integers(1, 350),
    scratch=st.sampled_from([1, 2000, 1 << 20]),
    kind=st.sampled_from(["normal", "many ties", "close", "lengths"]),
)
def test_the_answer_is_that_of_a_float64_brute_force_whatever_the_blocks(
    n: int, q: int, dim: int, k: int, seed: int, query_block: int, document_block: int | None, scratch: int, kind: str
) -> None:
    rng = np.random.default_rng(seed)
    queries, corpus = rng.standard_normal((q, dim)), rng.standard_normal((n, dim))
    if kind == "many ties":
        queries, corpus = rng.integers(-1, 2, (q, dim)), rng.integers(-1, 2, (n, dim))
    elif kind == "close":
        corpus = corpus[:1] + 1e-6 * corpus
    elif kind == "lengths":
        corpus *= 10.0 ** rng.uniform(-15, 15, (n, 1))
    queries, corpus = queries.astype(np.float32), corpus.astype(np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(on_device, "_SCRATCH", scratch)
        scores, rows = top_k_on_device(
            queries, corpus, k, device="cpu", query_block=query_block, document_block=document_block
        )
    every = (queries.astype(np.float64) @ corpus.astype(np.float64).T).astype(np.float32)
    expected = np.argsort(-every, axis=1, kind="stable")[:, :k]
    assert np.array_equal(rows, expected)
    assert np.array_equal(scores, np.take_along_axis(every, expected, axis=1))


def test_what_float16_cannot_tell_apart_is_ranked_all_the_same() -> None:
    """All products round to one or two float16 numbers; the best stand in the last block and at its end."""
    near = random_vectors(1, 1, 64) + 1e-5 * random_vectors(2, 2000, 64)
    query = random_vectors(3, 4, 64)
    best = np.argsort(near @ query[0])
    corpus = near[best]
    halves = corpus.astype(np.float16) @ query[0].astype(np.float16)
    assert len(np.unique(halves)) < 20
    assert_as_without_a_device(query, corpus, 15, document_block=300)


def test_a_sum_that_depends_on_its_order_is_the_one_of_the_cpu() -> None:
    """Large terms that cancel leave sums whose every digit depends on the order in which they were added."""
    corpus = random_vectors(4, 200, 48) * 10.0 ** np.random.default_rng(5).uniform(-8, 8, (200, 48))
    corpus[:, 24:] = -corpus[:, :24]
    corpus[:, ::7] += random_vectors(6, 200, 7)
    queries = np.tile(random_vectors(7, 3, 24), 2)
    assert_as_without_a_device(queries.astype(np.float32), corpus.astype(np.float32), 150, document_block=64)


def test_copies_of_a_vector_tie_exactly_wherever_they_are() -> None:
    corpus = random_vectors(8, 3000, 33)
    copies = np.sort(np.random.default_rng(9).choice(3000, size=200, replace=False))
    corpus[copies] = corpus[copies[0]]
    _, rows = top_k_on_device(corpus[copies[:1]] * 3, corpus, 150, device="cpu", document_block=257)
    assert rows[0].tolist() == copies[:150].tolist()


def test_a_corpus_of_one_vector_over_and_over_is_answered_by_row() -> None:
    corpus = np.tile(random_vectors(10, 1, 20), (700, 1))
    _, rows = top_k_on_device(random_vectors(11, 5, 20), corpus, 30, device="cpu", document_block=64)
    assert np.array_equal(rows, np.tile(np.arange(30), (5, 1)))


@pytest.mark.parametrize("document_block", [1, 7, 500])
def test_zero_vectors_are_ranked(document_block: int) -> None:
    queries, corpus = random_vectors(12, 4, 8), random_vectors(13, 90, 8)
    queries[1] = 0
    corpus[::2] = 0
    assert_as_without_a_device(queries, corpus, 60, document_block=document_block)
    assert_as_without_a_device(queries, np.zeros_like(corpus), 60, document_block=document_block)


@pytest.mark.parametrize(("k", "n"), [(5, 1), (1, 1), (100, 40)])
def test_k_above_the_corpus_gives_every_row_once(k: int, n: int) -> None:
    assert_as_without_a_device(random_vectors(14, 3, 4), random_vectors(15, n, 4), k, document_block=16)


@pytest.mark.parametrize("size", [1e-44, 1e-38, 1e-20, 1e-5, 7e4, 1e15, 1e18])
def test_lengths_far_from_one_lose_nothing(size: float) -> None:
    queries, corpus = random_vectors(16, 6, 24), random_vectors(17, 400, 24)
    assert_as_without_a_device(queries, (corpus * size).astype(np.float32), 50, document_block=150)
    assert_as_without_a_device((queries * size).astype(np.float32), (corpus * size).astype(np.float32), 50)


def test_vectors_of_very_different_lengths_do_not_hide_each_other() -> None:
    corpus = random_vectors(18, 500, 24) * np.logspace(-18, 12, 500, dtype=np.float32)[:, np.newaxis]
    queries = random_vectors(19, 6, 24) * np.logspace(-9, 9, 6, dtype=np.float32)[:, np.newaxis]
    assert_as_without_a_device(queries, corpus, 300, document_block=64)
    assert_as_without_a_device(queries, corpus[::-1], 300, document_block=64)


def test_float16_in_a_memory_map_is_searched_as_float32(tmp_path: Path) -> None:
    np.save(tmp_path / "corpus.npy", random_vectors(20, 700, 32).astype(np.float16))
    mapped = np.load(tmp_path / "corpus.npy", mmap_mode="r")
    assert_as_without_a_device(random_vectors(21, 9, 32).astype(np.float16), mapped, 25, document_block=128)


@pytest.mark.parametrize("dtype", [">f2", ">f4", "f8", "i4", "bfloat16"])
def test_other_numbers_are_searched_as_float32(dtype: str) -> None:
    if dtype == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes", reason="numpy's bfloat16 is in ml_dtypes").bfloat16
    queries, corpus = (30 * random_vectors(22, 5, 16)).astype(dtype), (30 * random_vectors(23, 300, 16)).astype(dtype)
    assert_as_without_a_device(queries, corpus, 20, document_block=77)


def test_arrays_that_are_not_contiguous_are_searched() -> None:
    corpus, queries = random_vectors(24, 600, 20)[::2, ::2], np.asfortranarray(random_vectors(25, 7, 10))
    assert_as_without_a_device(queries, corpus, 15)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), dim=st.integers(1, 300), signs=st.booleans(), spread=st.sampled_from([0, 2, 6]))
def test_no_product_is_further_off_than_is_allowed_for(seed: int, dim: int, signs: bool, spread: int) -> None:
    rng = np.random.default_rng(seed)
    queries, corpus = rng.standard_normal((4, dim)), rng.standard_normal((50, dim))
    if not signs:  # what rounding loses has one sign too
        queries, corpus = np.abs(queries) + 2.0**-11, np.abs(corpus) + 2.0**-11
    corpus *= 10.0 ** rng.uniform(-spread, 0, corpus.shape)
    queries, corpus = queries.astype(np.float32), corpus.astype(np.float32)
    search = on_device._Search(queries, 0, 1, 4, torch.device("cpu"))
    longest = np.linalg.norm(corpus.astype(np.float64), axis=1).max()
    scale = 2.0 ** -np.frexp(longest)[1]
    halves, lost = on_device._halved(torch.from_numpy(corpus), torch.full((50,), scale, dtype=torch.float64))
    products = on_device._product(search.halves, halves).double()
    error = search._error(slice(0, 4), scale, longest * scale, float(lost.max()))[:, None]
    exact = torch.from_numpy(queries).double() * search.scales[:, None] @ (torch.from_numpy(corpus).double() * scale).T
    assert (on_device._less_rounding(products) - error <= exact).all()
    assert (exact <= products + products.abs() * 2.0**-10 + error).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_the_first_row_that_is_not_finite_is_named(bad: float) -> None:
    queries, corpus = random_vectors(26, 10, 8), random_vectors(27, 900, 8)
    corpus[[432, 899], 3] = bad
    with pytest.raises(SourceError, match="corpus row 432 holds NaN or infinity"):
        top_k_on_device(queries, corpus, 3, device="cpu", document_block=100)
    queries[7, 0] = bad
    with pytest.raises(SourceError, match="queries row 7 holds NaN or infinity"):
        top_k_on_device(queries, corpus, 3, device="cpu")


def test_products_that_no_float32_holds_are_refused() -> None:
    huge = np.full((2, 3), 1e30, dtype=np.float32)
    with pytest.raises(SourceError, match="do not fit float32; scale the vectors down"):
        top_k_on_device(huge, huge, 1, device="cpu")


@pytest.mark.parametrize("device", ["cuda:99", "nonsense", "", "meta", "mps", "cpu:1"])
def test_a_device_that_is_not_there_is_refused_in_one_sentence(device: str) -> None:
    with pytest.raises(SourceError, match=f"there is no device '{device}' to search on; torch finds cpu"):
        top_k_on_device(random_vectors(28, 2, 4), random_vectors(29, 5, 4), 1, device=device)


class Told:
    """A progress that remembers."""

    def __init__(self) -> None:
        self.total = 0
        self.steps: list[int] = []

    @contextmanager
    def stage(self, name: str, total: int) -> Iterator[Advance]:
        assert name == "search dense"
        self.total += total
        yield self.steps.append


def test_progress_reaches_its_total(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_device, "_CPU_ROOM", 4 * 10 * (6 * 4 + 16 * 5 + 32))  # for ten queries at once
    told = Told()
    queries, corpus = random_vectors(30, 25, 4), random_vectors(31, 90, 4)
    assert_as_without_a_device(queries, corpus, 5, query_block=3, document_block=40, progress=told)
    assert (told.total, told.steps) == (3 * 90, 3 * [40, 40, 10])


def run_out_of_memory(size: int, after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the call number `after` on, products with more than `size` documents fail."""
    product, calls = on_device._product, iter(range(10_000))

    def failing(queries: Any, documents: Any) -> Any:
        if next(calls) >= after and len(documents) > size:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return product(queries, documents)

    monkeypatch.setattr(on_device, "_product", failing)


def test_when_memory_runs_out_the_search_goes_on_with_smaller_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    run_out_of_memory(100, 3, monkeypatch)  # in the second tile of the second block
    told = Told()
    queries, corpus = random_vectors(32, 8, 12), random_vectors(33, 1000, 12)
    assert_as_without_a_device(queries, corpus, 40, query_block=4, document_block=300, progress=told)
    assert told.steps == [300, *9 * [75], 25]


def test_no_memory_for_a_single_document_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    run_out_of_memory(0, 0, monkeypatch)
    with pytest.raises(SourceError, match="cpu has too little free memory for this search"):
        top_k_on_device(random_vectors(34, 8, 12), random_vectors(35, 100, 12), 4, device="cpu")


def test_settings_of_torch_are_as_before_even_after_an_error() -> None:
    matmul = torch.backends.cuda.matmul
    before = matmul.allow_fp16_reduced_precision_reduction
    assert_as_without_a_device(random_vectors(36, 2, 4), random_vectors(37, 5, 4), 1)
    with pytest.raises(SourceError):
        top_k_on_device(np.full((1, 2), np.nan, np.float32), random_vectors(38, 2, 2), 1, device="cpu")
    assert matmul.allow_fp16_reduced_precision_reduction == before


def test_without_torch_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from foolsgold.errors import MissingExtra\n"
        "try:\n    import foolsgold.search.on_device\n"
        "except MissingExtra as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "searching on a device needs the optional extra: pip install 'foolsgold[torch]'\n"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("document_block", [None, 1000])
def test_cuda_gives_the_arrays_of_the_cpu(dtype: str, document_block: int | None) -> None:
    corpus, queries = random_vectors(39, 30_000, 128), random_vectors(40, 700, 128)
    corpus[5000:5500] = corpus[0] + 1e-5 * corpus[5000:5500]
    corpus[10_000:10_100] = corpus[0]
    queries[::50] = corpus[0]
    assert_as_without_a_device(
        queries.astype(dtype), corpus.astype(dtype), 100, "cuda", query_block=256, document_block=document_block
    )
