"""Exact top-k on a torch device: products in float16, and what they cannot decide in float64.

The corpus streams through the device in blocks, the next of which is read and copied while the last is searched. A
document is looked at again when its float16 product may, by a proven bound of its error, belong to the query's k best
so far: after the first blocks that is a handful a query. Those pairs are summed in float64, and that is the score which
counts. What is dropped provably is not among the k best, so nothing has to be searched twice, and the answer is that of
`dense.top_k` on the CPU, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from foolsgold.errors import SourceError
from foolsgold.progress import SILENT, Advance, Progress
from foolsgold.records import FloatArray, IntArray
from foolsgold.search import kernels
from foolsgold.search.device import Tensor, accumulating_in_float32, blocks, copied, find, torch
from foolsgold.search.inputs import not_finite, too_large

_Matrix = npt.NDArray[Any]

_QUERIES = 4096
_PRODUCTS = 1 << 30  # in one tile: torch.nonzero takes fewer than 2**31
_SCRATCH = 128 << 20  # bytes of float64 in one array beside a tile
_CPU_ROOM = 1 << 30
_U16, _U32, _U64 = 2.0**-11, 2.0**-24, 2.0**-53  # unit roundoffs
_MORE = 1.01  # for the rounding of the bounds themselves


def top_k_on_device(
    queries: _Matrix,
    corpus: _Matrix,
    k: int,
    *,
    device: str,
    progress: Progress = SILENT,
    query_block: int = _QUERIES,
    document_block: int | None = None,
) -> tuple[FloatArray, IntArray]:
    """`dense.top_k`, which has checked the shapes and k, on "cuda", "cuda:1" or "cpu".

    document_block: documents on the device at once; by default as many as half of its free memory has room for.

    Returns:
        scores: float32 (q, min(k, n)) and rows: int32 (q, min(k, n)), the same arrays as without a device.

    Raises:
        SourceError: no such device, NaN or infinity (with its row), products beyond float32, too little memory.
    """
    place = find(device)
    k, dim = min(k, len(corpus)), corpus.shape[1]
    scores = np.empty((len(queries), k), dtype=np.float32)
    rows = np.empty((len(queries), k), dtype=np.int32)
    room = torch.cuda.mem_get_info(place)[0] if place.type == "cuda" else _CPU_ROOM
    group = max(query_block, room // 4 // (6 * dim + 16 * k + 32))
    query_block = max(1, min(query_block, len(queries)))
    # two blocks as they are stored and one in float16; a product, whether it passes, on the CPU its float64
    fits = min(room // 2 // (10 * dim + 16 * query_block), _PRODUCTS // query_block)
    block = document_block or max(1, fits)
    steps = -(-len(queries) // group) * len(corpus)
    with progress.stage("search dense", steps) as advance, accumulating_in_float32():
        for start in range(0, len(queries), group):
            part = slice(start, start + group)
            search = _Search(queries[part], start, k, query_block, place)
            block = search.run(corpus, block, advance)
            found = _from_keys(search.keys)
            scores[part], rows[part] = found[0].cpu().numpy(), found[1].cpu().numpy()
    return scores, rows


class _Search:
    """The k best so far of some queries: `keys`, int64 (q, k), best first."""

    def __init__(self, queries: _Matrix, first_query: int, k: int, query_block: int, place: torch.device) -> None:
        self.place, self.k, self.query_block = place, k, query_block
        self.given, self.queries = queries, copied(queries, place)
        lengths = _lengths(self.queries, queries, "queries", first_query)
        self.longest = float(lengths.max())
        self.scales = torch.exp2(-torch.frexp(lengths).exponent.double())
        self.lengths = lengths * self.scales  # from 0.5 to 1, or 0
        self.halves, self.lost = _halved(self.queries, self.scales)
        nothing = torch.full((len(queries), k), -math.inf, device=place)
        self.keys = _to_keys(nothing, torch.zeros_like(nothing, dtype=torch.int64))

    def run(self, corpus: _Matrix, size: int, advance: Advance) -> int:
        """Search the corpus in blocks of `size`, or half of it where memory runs out; returns the size that worked."""
        first_row = 0
        while True:
            try:
                for block in blocks(corpus, first_row, size, self.place):
                    self._add(first_row, block, corpus)
                    first_row += len(block)
                    advance(len(block))
                return size
            except torch.cuda.OutOfMemoryError:
                if size == 1:
                    raise SourceError(
                        f"{self.place} has too little free memory for this search; end what else runs on it, or search "
                        "without a device"
                    ) from None
            size //= 2  # not in the handler, whose traceback keeps the tensors alive
            torch.cuda.empty_cache()

    def _add(self, first_row: int, block: Tensor, corpus: _Matrix) -> None:
        """Look at the documents from `first_row` on. Changes nothing if it fails."""
        lengths = _lengths(block, corpus[first_row : first_row + len(block)], "corpus", first_row)
        longest = float(lengths.max())
        if self.longest * longest > 0.9 * float(np.finfo(np.float32).max):
            raise too_large(self.longest * longest)
        scale = math.ldexp(1.0, -math.frexp(longest)[1])
        halves, lost = _halved(block, torch.full_like(lengths, scale))
        first = first_row == 0
        keys = self.keys.clone()
        for start in range(0, len(keys), self.query_block):
            part = slice(start, start + self.query_block)
            products = _product(self.halves[part], halves)
            error = self._error(part, scale, longest * scale, float(lost.max()))
            if first and len(block) >= self.k:  # k documents reach this, so that few of the first block pass
                bar = _less_rounding(products.topk(self.k, dim=1).values[:, -1].double()) - error
            else:
                bar = _from_keys(keys[part, -1])[0].double() * self.scales[part] * scale
            entry = _less_rounding(bar - error).float()[:, None]
            # later an equal score comes too late, because rows ascend
            query, document = torch.nonzero(products >= entry if first else products > entry, as_tuple=True)
            del products
            for piece in _pieces(len(query), block.shape[1]):
                pairs = query[piece] + start, document[piece]
                scores = self._scores(*pairs, block, corpus[first_row : first_row + len(block)])
                _merge(keys, pairs[0], _to_keys(scores, pairs[1] + first_row))
        self.keys = keys

    def _error(self, part: slice, scale: float, longest: float, lost: float) -> Tensor:
        """float64 (q): how far the products of halves may be from those of the scaled vectors, `_less_rounding` apart.

        What rounding the vectors lost counts by Cauchy and Schwarz. The sum counts 4 u a term: tensor cores truncate
        where others round, and align some terms to the largest of them (Fasi, Higham, Mikaitis and Pranesh, Numerical
        Behavior of NVIDIA Tensor Cores, 2021); a few more u cover the rounding of the score and of the bar. The last
        line is what the smallest numbers may be off by, of float16 for a product and of float32 for a score.
        """
        lengths, own, dim = self.lengths[part], self.lost[part], self.queries.shape[1]
        summed = 4 * (dim + 8) * _U32 * (lengths + own) * (longest + lost)
        underflow = lengths * (2.0**-23 + 2.0**-148 * self.scales[part] * scale)
        return _MORE * (own * longest + (lengths + own) * lost + summed) + underflow

    def _scores(self, query: Tensor, document: Tensor, block: Tensor, given: _Matrix) -> Tensor:
        """float32 (pairs): the inner products as `kernels.dot` sums them.

        Two float64 sums in any order differ by less than `doubt`. Where that does not decide to which float32 they are
        rounded, about once in a million pairs, the kernel itself is asked.
        """
        terms = self.queries[query].double() * block[document].double()
        total = terms.sum(dim=1)
        doubt = 2 * _MORE * (terms.shape[1] + 2) * _U64 * terms.abs_().sum(dim=1)
        scores = (total + doubt).float()
        unsure = torch.nonzero(scores != (total - doubt).float())[:, 0]
        asked = [
            kernels.dot(_float32(self.given[i]), _float32(given[j]))
            for i, j in zip(query[unsure].tolist(), document[unsure].tolist(), strict=True)
        ]
        scores[unsure] = torch.tensor(asked, dtype=torch.float32, device=self.place)
        return scores


def _less_rounding(values: Tensor) -> Tensor:
    """Below `values` by at least what rounding to float16 may add to a number."""
    return values - _MORE * _U16 * values.abs()


def _product(queries: Tensor, documents: Tensor) -> Tensor:
    """float16 (q, n), summed in more bits than that and rounded once."""
    if queries.device.type == "cuda":
        return queries @ documents.T
    return (queries.double() @ documents.double().T).half()  # a CPU's float16 product may be summed in float16


def _merge(keys: Tensor, query: Tensor, found: Tensor) -> None:
    """Put the keys `found`, int64 (pairs), of queries in ascending order, among the k best of each query."""
    touched, own, counts = torch.unique_consecutive(query, return_inverse=True, return_counts=True)
    k = keys.shape[1]
    pool = torch.cat([keys[touched].flatten(), found])
    owner = torch.cat([torch.arange(len(touched), device=keys.device).repeat_interleave(k), own])
    order = pool.argsort(descending=True)
    order = order[owner[order].argsort(stable=True)]
    sizes = counts + k
    best = (sizes.cumsum(0) - sizes)[:, None] + torch.arange(k, device=keys.device)
    keys[touched] = pool[order[best]]


def _to_keys(scores: Tensor, rows: Tensor) -> Tensor:
    """int64: larger for a higher score, and for a lower row where scores are equal; as in `kernels`, but signed."""
    bits = (scores + 0.0).view(torch.int32)  # -0.0 becomes 0.0
    return (torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits).long() << 32) | (0xFFFFFFFF - rows)


def _from_keys(keys: Tensor) -> tuple[Tensor, Tensor]:
    """The scores, float32, and rows, int32, of keys."""
    bits = (keys >> 32).int()
    scores = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits).view(torch.float32)
    return scores, (0xFFFFFFFF - (keys & 0xFFFFFFFF)).int()


def _lengths(vectors: Tensor, given: _Matrix, name: str, first_row: int) -> Tensor:
    """float64 (n): the length of each vector. Raises where one is not finite, naming its row."""
    parts = [torch.linalg.vector_norm(vectors[part].double(), dim=1) for part in _pieces(*vectors.shape)]
    lengths = torch.cat(parts)
    bad = torch.nonzero(~lengths.isfinite())
    if len(bad):
        raise not_finite(name, first_row + int(bad[0]), given[int(bad[0])])
    return lengths


def _halved(vectors: Tensor, scales: Tensor) -> tuple[Tensor, Tensor]:
    """The vectors times their scales in float16, (n, d), and how far each is from what it was rounded from, (n)."""
    halves = torch.empty(vectors.shape, dtype=torch.float16, device=vectors.device)
    lost = torch.empty_like(scales)
    for part in _pieces(*vectors.shape):
        scaled = vectors[part].double() * scales[part, None]
        halves[part] = scaled
        lost[part] = torch.linalg.vector_norm(scaled - halves[part], dim=1)
    return halves, lost


def _pieces(n: int, dim: int) -> Iterator[slice]:
    """Slices of n vectors that take `_SCRATCH` bytes each in float64."""
    size = max(1, _SCRATCH // max(1, 8 * dim))
    for start in range(0, n, size):
        yield slice(start, start + size)


def _float32(vector: _Matrix) -> FloatArray:
    return np.ascontiguousarray(vector, dtype=np.float32)
