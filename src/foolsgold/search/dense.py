"""Exact top-k by inner product, faster than the matrix product itself.

Blocks of queries x documents are multiplied by BLAS in float32, and a compiled loop compares each product with its
query's k-th best score so far: after the first blocks almost nothing passes. From then on, CPUs that can screen the
blocks in int8 (screen.py), at a quarter of the cost. What passes is summed again in float64, in one fixed order, so the
answer does not depend on blocks, threads or the kind of CPU, and equal vectors tie exactly.
"""

from __future__ import annotations

import threading

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController

from foolsgold.errors import SourceError
from foolsgold.progress import SILENT, Advance, Progress
from foolsgold.records import FloatArray, IntArray
from foolsgold.search import kernels, screen
from foolsgold.search.inputs import Matrix, check, is_count, matrix, not_finite, too_large
from foolsgold.search.threads import Threads

_Lengths = npt.NDArray[np.float64]

# A tile of 512 x 4096 products: BLAS runs at its full rate, and the selection still finds most of the tile in cache.
_QUERIES = 516
_DOCUMENTS = 4096
_SCREEN_FROM = 32  # screen when so many times k documents have been seen: before, too many would pass
_SCREEN_QUERIES = 64  # for fewer queries, rounding the documents costs more than it saves
_MOSTLY_DROPPED = 1 / 8  # a screen that lets more pairs pass costs more than it saves
_STATE_BYTES = 256 << 20  # for the best so far; with more queries than fit, the corpus is read again for the rest

# The thread count of BLAS belongs to the process: two searches at once would each restore the other's setting.
_one_search = threading.Lock()
_blas = ThreadpoolController()


def top_k(
    queries: Matrix,
    corpus: Matrix,
    k: int,
    *,
    progress: Progress = SILENT,
    query_block: int = _QUERIES,
    document_block: int = _DOCUMENTS,
    device: str | None = None,
) -> tuple[FloatArray, IntArray]:
    """The k documents with the largest inner product for each query, exactly.

    queries: (q, d) and corpus: (n, d), float32, float16 or ml_dtypes.bfloat16, arrays or memory maps; only a block of
    either is ever copied to float32. The block sizes change the speed, never the answer. device: a torch device, such
    as "cuda", to stream the corpus through, for the same answer; it chooses its own blocks, and needs `[torch]`.

    Returns:
        scores: float32 (q, min(k, n)), descending: inner products summed in float64 and rounded once.
        rows: int32 (q, min(k, n)), rows of the corpus; equal scores are in ascending row order.

    Raises:
        SourceError: shapes that do not fit, k or a block below 1, an empty corpus, NaN, infinity or a value beyond
            float32 (with its row), no such device.
        MissingExtra: a device without torch.
    """
    queries, corpus = matrix(queries, "queries"), matrix(corpus, "corpus")
    check(queries, corpus, k)
    for name, block in (("query_block", query_block), ("document_block", document_block)):
        if not is_count(block):
            raise SourceError(f"{name} is {block!r}; a whole number is needed, at least 1")
    if device is not None:
        from foolsgold.search.on_device import top_k_on_device  # torch is an extra

        return top_k_on_device(queries, corpus, k, device=device, progress=progress)
    k = min(k, len(corpus))
    scores = np.empty((len(queries), k), dtype=np.float32)
    rows = np.empty((len(queries), k), dtype=np.int32)
    room = 2 * k + 64
    group = max(query_block, _STATE_BYTES // (8 * room))
    steps = len(queries) * -(-len(corpus) // document_block)
    with (
        progress.stage("search dense", steps) as advance,
        _one_search,
        _blas.limit(limits=1, user_api="blas"),
        Threads() as threads,
    ):
        for start in range(0, len(queries), group):
            part = slice(start, min(start + group, len(queries)))
            search = _Search(queries[part], start, k, room, threads)
            for first_row in range(0, len(corpus), document_block):
                search.add(first_row, corpus[first_row : first_row + document_block], query_block, advance)
            kernels.write_hits(search.keys, search.counts, scores[part], rows[part])
    return scores, rows


class _Search:
    """The best documents so far of some queries: `keys[q, :counts[q]]`, never more than `room` a query."""

    def __init__(self, queries: Matrix, first_query: int, k: int, room: int, threads: Threads) -> None:
        self.queries = queries
        self.lengths = np.empty(len(queries), dtype=np.float64)
        for start in range(0, len(queries), _DOCUMENTS):
            part = slice(start, start + _DOCUMENTS)
            self.lengths[part] = _lengths(_float32(queries[part]), queries[part], "queries", first_query + start)
        self.k = k
        self.keys = np.empty((len(queries), room), dtype=np.uint64)
        self.counts = np.zeros(len(queries), dtype=np.int64)
        self.bars = np.full(len(queries), -np.inf, dtype=np.float32)
        self._may_screen = len(queries) >= _SCREEN_QUERIES and screen.available(queries.shape[1])
        self._screen: screen.Screen | None = None
        self._threads = threads
        self._scratch = threading.local()

    def add(self, first_row: int, documents: Matrix, query_block: int, advance: Advance) -> None:
        """Look at the next block of documents, the first of which is row `first_row`."""
        block = _float32(documents)
        longest = float(_lengths(block, documents, "corpus", first_row).max())
        slack = _slack(self.lengths, longest, block.shape[1])
        packed = None
        if self._may_screen and first_row >= _SCREEN_FROM * self.k:
            if self._screen is None:
                self._screen = screen.Screen(self.queries, self.lengths, block)
            packed = self._screen.pack(block, self._threads)
        passed: list[int] = []

        def look(part: slice) -> None:
            queries = _float32(self.queries[part])
            best = self.keys[part], self.counts[part], self.bars[part]
            if self._screen is None or packed is None:
                products = np.matmul(queries, block.T, out=self._tile(len(queries), len(block)))
                kernels.select_dense(products, queries, block, first_row, slack[part], *best, self.k)
            else:
                words = self._screen.passed(packed, part, self.bars[part])
                passed.append(kernels.select_passed(words, queries, block, first_row, *best, self.k))

        piece = min(query_block, -(-len(self.queries) // self._threads.count))
        self._threads.spread(look, len(self.queries), piece, advance)
        if sum(passed) > _MOSTLY_DROPPED * len(self.queries) * len(block):
            self._may_screen = False

    def _tile(self, n_queries: int, n_documents: int) -> FloatArray:
        """Room for one tile's products, used again by the same thread: fresh memory costs a page fault each 4 KB."""
        size = n_queries * n_documents
        tile: FloatArray | None = getattr(self._scratch, "tile", None)
        if tile is None or len(tile) < size:
            tile = self._scratch.tile = np.empty(size, dtype=np.float32)
        return tile[:size].reshape(n_queries, n_documents)


def _slack(lengths: _Lengths, longest: float, dim: int) -> FloatArray:
    """float32 (q): the most that a product of BLAS may be off, in whatever order it sums.

    Higham, Accuracy and Stability of Numerical Algorithms, section 3.1: dim * u * |query| * |document|. A few more u
    cover the rounding of the score and of the bar it is compared with, and the last term covers underflow.
    """
    unit = float(np.finfo(np.float32).eps) / 2
    tiny = float(np.finfo(np.float32).tiny)
    largest = lengths * longest
    beyond = np.flatnonzero(largest > 0.9 * np.finfo(np.float32).max)
    if len(beyond):
        raise too_large(largest[beyond[0]])
    slack: FloatArray = np.where(largest == 0, 0, 1.01 * (dim + 8) * unit * largest + dim * tiny).astype(np.float32)
    return slack


def _lengths(vectors: FloatArray, given: Matrix, name: str, first_row: int) -> _Lengths:
    """The length of each vector. Raises where one is not finite, naming its row."""
    lengths = np.empty(len(vectors), dtype=np.float64)
    kernels.norms(vectors, lengths)
    bad = np.flatnonzero(~np.isfinite(lengths))
    if len(bad):
        raise not_finite(name, first_row + int(bad[0]), given[bad[0]])
    return lengths


def _float32(vectors: Matrix) -> FloatArray:
    with np.errstate(over="ignore"):  # `_lengths` finds it, with its row
        return np.ascontiguousarray(vectors, dtype=np.float32)
