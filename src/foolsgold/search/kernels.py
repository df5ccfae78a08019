"""The compiled inner loops of dense search, and the selection of the k best, which BM25's (`postings`) share.

All in one file, because numba's cache looks only at the file a kernel is in: a helper elsewhere could change unseen.

A hit is held as one uint64 *key*, its float32 score in the high half and its row in the low half, both turned so that
a larger key is a better hit: higher score first, equal scores by lower row. Comparing, partitioning and sorting hits
is then comparing, partitioning and sorting integers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(function: _Function) -> _Function:
    """Compile a function without the GIL, and remember the code in numba's cache where there is a place for it."""
    return _compile(function, fastmath=False)


def compiled_sum(function: _Function) -> _Function:
    """Compile, free to regroup a float64 sum, which makes it a vector loop.

    Its order then depends on the length alone, so equal vectors get equal sums, whatever block or thread they are in.
    """
    return _compile(function, fastmath={"reassoc", "contract"})


def _compile(function: _Function, fastmath: bool | set[str]) -> _Function:
    try:
        kernel = njit(nogil=True, cache=True, fastmath=fastmath)(function)
    except RuntimeError:  # neither this folder nor the user's cache can be written: compile in every process
        kernel = njit(nogil=True, fastmath=fastmath)(function)
    return cast(_Function, kernel)


_LOW = 0xFFFFFFFF
_SIGN = 0x80000000
_NO_SCORE = np.float32(-np.inf)
_SCAN = 128  # products compared before the dense loop branches


@compiled
def _key(score: Any, row: Any) -> Any:
    if score == 0:
        score = np.float32(0)  # -0.0 equals 0.0, so it must not be a key of its own
    bits = np.int64(np.float32(score).view(np.uint32))
    bits = _LOW - bits if bits >= _SIGN else bits + _SIGN
    return np.uint64(bits << 32) | np.uint64(_LOW - np.int64(row))


@compiled
def _score_of(key: Any) -> Any:
    bits = np.int64(key >> np.uint64(32))
    bits = bits - _SIGN if bits >= _SIGN else _LOW - bits
    return np.uint32(bits).view(np.float32)


@compiled
def _row_of(key: Any) -> Any:
    return np.int32(_LOW - np.int64(key & np.uint64(_LOW)))


@compiled
def _keep_best(keys: Any, count: Any, k: Any) -> Any:
    """Move the k best of the first `count` keys to the front; return the score of the worst of them."""
    return _score_of(select(keys[:count], k))


@compiled
def select(values: Any, k: Any) -> Any:
    """Move the k largest values to the front and return the k-th largest (Hoare's selection, FIND, 1961).

    numba's np.partition does the same, but takes six seconds to compile.
    """
    low = 0
    high = len(values) - 1
    while low < high:
        first, middle, last = values[low], values[(low + high) // 2], values[high]
        pivot = max(min(first, middle), min(max(first, middle), last))
        i = low
        j = high
        while i <= j:
            while values[i] > pivot:
                i += 1
            while values[j] < pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if k - 1 <= j:
            high = j
        elif k - 1 >= i:
            low = i
        else:
            break
    return values[k - 1]


@compiled
def write_hits(keys: Any, counts: Any, scores: Any, rows: Any) -> None:
    """Sort each query's keys, best first, into scores float32 and rows int32, both (n_queries, k)."""
    k = scores.shape[1]
    for query in range(len(scores)):
        ordered = np.sort(keys[query, : counts[query]])
        last = len(ordered) - 1
        for rank in range(k):
            scores[query, rank] = _score_of(ordered[last - rank])
            rows[query, rank] = _row_of(ordered[last - rank])


@compiled_sum
def norms(vectors: Any, out: Any) -> None:
    """Euclidean length of each row, float64; not finite where the row holds NaN or infinity."""
    for row in range(len(vectors)):
        total = 0.0
        for i in range(vectors.shape[1]):
            total += np.float64(vectors[row, i]) * np.float64(vectors[row, i])
        out[row] = np.sqrt(total)


@compiled_sum
def dot(left: Any, right: Any) -> Any:
    """Inner product summed in float64, where the product of two float32 is exact, then rounded once."""
    total = 0.0
    for i in range(len(left)):
        total += np.float64(left[i]) * np.float64(right[i])
    return np.float32(total)


@compiled
def select_dense(
    products: Any, queries: Any, block: Any, first_row: Any, slack: Any, keys: Any, counts: Any, bars: Any, k: Any
) -> None:
    """Take from one block of float32 products what may belong to the k best of each query.

    products: float32 (q, n), queries @ block.T as BLAS rounds it; slack: float32 (q), the most it may be off by.
    keys: uint64 (q, room > k), counts: int64 (q), bars: float32 (q), the score of the k-th best so far: kept between
    blocks, which come in ascending order of rows.

    A product within `slack` of the bar is summed again by `dot`, and that is the score which counts: BLAS rounds the
    same two vectors differently at different places of a block.
    """
    n = products.shape[1]
    room = keys.shape[1]
    for query in range(len(products)):
        bar = bars[query]
        line = products[query]
        if bar == _NO_SCORE and n >= k:  # k documents reach this, so that only about k of the first block pass
            bar = np.nextafter(select(line.copy(), k) - slack[query], _NO_SCORE)
        entry = bar - slack[query]
        count = counts[query]
        for start in range(0, n, _SCAN):
            stop = min(start + _SCAN, n)
            if not _any_above(line[start:stop], entry):
                continue
            for j in range(start, stop):
                if line[j] > entry:
                    score = dot(queries[query], block[j])
                    if score > bar:  # rows ascend, so an equal score comes too late
                        keys[query, count] = _key(score, first_row + j)
                        count += 1
                        if count == room:
                            bar = _keep_best(keys[query], count, k)
                            entry = bar - slack[query]
                            count = k
        counts[query] = count
        bars[query] = bar


@compiled
def select_passed(
    words: Any, queries: Any, block: Any, first_row: Any, keys: Any, counts: Any, bars: Any, k: Any
) -> Any:
    """Like `select_dense`, for a block whose documents were screened; returns how many pairs passed the screen.

    words: uint64 (at least q, groups): bit d of word g is set where document g * 64 + d may be above the query's bar.
    """
    room = keys.shape[1]
    passed = 0
    for query in range(len(queries)):
        bar = bars[query]
        count = counts[query]
        for group in range(words.shape[1]):
            word = words[query, group]
            while word != 0:
                j = group * 64 + _lowest_bit(word)
                word &= word - np.uint64(1)
                passed += 1
                score = dot(queries[query], block[j])
                if score > bar:
                    keys[query, count] = _key(score, first_row + j)
                    count += 1
                    if count == room:
                        bar = _keep_best(keys[query], count, k)
                        count = k
        counts[query] = count
        bars[query] = bar
    return passed


def _count_trailing_zeros(typing_context: Any, word: Any) -> Any:
    def emit(context: Any, build: Any, signature: Any, arguments: Any) -> Any:
        return build.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.intp(types.uint64), emit


_lowest_bit: Any = intrinsic(_count_trailing_zeros)  # the place of it, of a uint64 that is not 0


@compiled
def _any_above(scores: Any, bar: Any) -> Any:
    above = 0
    for i in range(len(scores)):  # counted, not left at the first one, so that it is a vector loop
        above += scores[i] > bar
    return above > 0
