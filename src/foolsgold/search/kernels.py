"""The compiled inner loops: selection of the k best, for dense scores and over BM25 postings.

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
_PER_PEAK, _PER_GROUP = 16, 8  # documents with one peak, peaks with one of their own; their product divides a window
_BINS, _BIN_BITS = 1024, 15  # a float32 without its lowest 15 bits: 256 steps an octave
_COUNTED = 256  # up to so many hits are ordered by counting for each how many are better
_FEW = 32  # a window with fewer than 1 posting for so many documents is collected by its postings


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
    return _score_of(_select(keys[:count], k))


@compiled
def _select(values: Any, k: Any) -> Any:
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
            bar = np.nextafter(_select(line.copy(), k) - slack[query], _NO_SCORE)
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


@compiled
def sort_postings(tokens: Any, offsets: Any, starts: Any, docs: Any, counts: Any) -> Any:
    """Invert documents into postings, by token, then document: a counting sort.

    tokens: int32 (n_tokens), document after document; offsets: int64 (n_docs + 1).
    starts: int64 (n_vocabulary + 1), all 0 on entry: where each token's postings begin, on return.
    docs: int32 (n_tokens) and counts: int32 (n_tokens): of each posting, filled as far as there are postings.
    Returns the number of postings.
    """
    last = np.full(len(starts) - 1, -1, np.int32)
    for doc in range(len(offsets) - 1):
        for i in range(offsets[doc], offsets[doc + 1]):
            if last[tokens[i]] != doc:
                last[tokens[i]] = doc
                starts[tokens[i] + 1] += 1
    for token in range(len(starts) - 1):
        starts[token + 1] += starts[token]
    ends = starts[:-1].copy()
    for doc in range(len(offsets) - 1):
        for i in range(offsets[doc], offsets[doc + 1]):
            end = ends[tokens[i]]
            if end > starts[tokens[i]] and docs[end - 1] == doc:
                counts[end - 1] += 1
            else:
                docs[end] = doc
                counts[end] = 1
                ends[tokens[i]] = end + 1
    return starts[-1]


@compiled
def search_postings(
    tokens: Any,
    offsets: Any,
    floors: Any,
    starts: Any,
    docs: Any,
    weights: Any,
    n_docs: Any,
    window: Any,
    scores: Any,
    rows: Any,
) -> None:
    """The k best documents of each query, by the sum of its tokens' weights and the query's floor.

    tokens: int32, query after query; offsets: int64 (q + 1); floors: float32 (q), the score where nothing matches.
    starts, docs, weights: the postings, weights float32 and not negative; scores, rows: (q, k), written.

    Documents are visited a window at a time, so that their sums stay in cache.
    """
    k = scores.shape[1]
    sums = np.zeros(window, np.float32)
    peaks = np.empty(window // _PER_PEAK, np.uint32)
    places = np.empty(2 * window, np.int32)
    keys = np.empty(2 * k + _PER_PEAK, np.uint64)
    for query in range(len(offsets) - 1):
        asked = tokens[offsets[query] : offsets[query + 1]]
        floor = floors[query]
        begin = starts[asked]
        end = begin.copy()
        bar = floor  # only scores above it are hits
        count = 0
        for first in range(0, n_docs, window):
            touched = 0
            for t in range(len(asked)):
                begin[t] = end[t]
                end[t] = _first_at_least(docs, begin[t], starts[asked[t] + 1], first + window)
                touched += end[t] - begin[t]
                _add(sums, docs[begin[t] : end[t]], weights[begin[t] : end[t]], first)
            if touched * _FEW > window:
                bar, count = _collect(sums, peaks, first, floor, bar, keys, count, k, places)
                sums[:] = 0
            else:
                for t in range(len(asked)):
                    bar, count = _collect_few(sums, docs[begin[t] : end[t]], first, floor, bar, keys, count, k)
        _write_with_floor(keys[:count], floor, scores[query], rows[query])


@compiled
def _add(sums: Any, docs: Any, weights: Any, first: Any) -> None:
    start = np.uint32(first)
    for i in range(len(docs)):
        sums[np.uint32(docs[i]) - start] += weights[i]  # unsigned: a signed index would be tested for being negative


@compiled
def _collect(
    sums: Any, peaks: Any, first: Any, floor: Any, bar: Any, keys: Any, count: Any, k: Any, places: Any
) -> Any:
    """Take the hits of a whole window, looking only where a peak, the highest of some sums, passes the bar.

    Peak p is that of documents p, p + len(peaks), p + 2 len(peaks), ...: so the loop that finds all of them at once is
    a vector loop, and documents that are alike, as neighbours often are, do not share one.
    """
    _raise_peaks(sums.view(np.uint32), peaks)
    groups = np.empty(len(peaks) // _PER_GROUP, np.uint32)
    _raise_peaks(peaks, groups)
    reached = np.uint32(_reached_by(groups, k)).view(np.float32)
    bar = max(bar, np.nextafter(reached + floor, _NO_SCORE))
    # These loops write every place down and advance by 0 or 1: a branch would be mispredicted for each hit.
    n_groups = 0
    for group in range(len(groups)):
        places[n_groups] = group
        n_groups += np.uint32(groups[group]).view(np.float32) + floor > bar
    n_peaks = n_groups
    for g in range(n_groups):
        for p in range(places[g], len(peaks), len(groups)):
            places[n_peaks] = p
            n_peaks += np.uint32(peaks[p]).view(np.float32) + floor > bar
    n_hits = n_peaks
    for h in range(n_groups, n_peaks):
        for i in range(places[h], len(sums), len(peaks)):
            places[n_hits] = i
            n_hits += sums[i] + floor > bar
    for h in range(n_peaks, n_hits):
        score = sums[places[h]] + floor
        if score > bar:
            keys[count] = _key(score, first + places[h])
            count += 1
            if count == len(keys):
                bar = _open_bar(keys, count, k)
                count = k
    return bar, count


@compiled
def _raise_peaks(values: Any, peaks: Any) -> None:
    """Each peak the highest of every len(peaks)-th value, of which there are a multiple of four.

    Floats that are not negative order like the integers with the same bits, and those have a vector maximum.
    """
    n = len(peaks)
    peaks[:] = 0
    for start in range(0, len(values), 4 * n):
        a, b = values[start : start + n], values[start + n : start + 2 * n]
        c, d = values[start + 2 * n : start + 3 * n], values[start + 3 * n : start + 4 * n]
        for i in range(n):
            peaks[i] = max(peaks[i], max(max(a[i], b[i]), max(c[i], d[i])))


@compiled
def _open_bar(keys: Any, count: Any, k: Any) -> Any:
    """Keep the k best; return what a score must be above to be among them, if equal ones at lower rows may follow."""
    return np.nextafter(_keep_best(keys, count, k), _NO_SCORE)


@compiled
def _reached_by(peaks: Any, k: Any) -> Any:
    """Bits of a score that at least k peaks reach, and few more: from a histogram, which has no branches to mispredict.

    256 bins an octave; 0 where there are not so many peaks within four octaves of the highest.
    """
    highest = peaks[0]
    for c in range(len(peaks)):
        highest = max(highest, peaks[c])
    bins = np.zeros(_BINS, np.int32)
    for c in range(len(peaks)):
        bins[min((highest - peaks[c]) >> np.uint32(_BIN_BITS), np.uint32(_BINS - 1))] += 1
    reached = 0
    for i in range(_BINS - 1):
        reached += bins[i]
        if reached >= k:
            return max(np.int64(highest) - ((i + 1) << _BIN_BITS) + 1, 0)
    return 0


@compiled
def _collect_few(sums: Any, docs: Any, first: Any, floor: Any, bar: Any, keys: Any, count: Any, k: Any) -> Any:
    """Take the hits among one token's postings, and leave their sums at 0, so that no document is taken twice."""
    for i in range(len(docs)):
        score = sums[docs[i] - first] + floor
        sums[docs[i] - first] = 0
        if score > bar:
            keys[count] = _key(score, docs[i])
            count += 1
            if count == len(keys):
                bar = _open_bar(keys, count, k)
                count = k
    return bar, count


@compiled
def _write_with_floor(keys: Any, floor: Any, scores: Any, rows: Any) -> None:
    """Best first, and after the hits the documents without one, in row order, at the floor."""
    n_hits = min(len(keys), len(rows))
    if len(keys) <= _COUNTED:
        for i in range(len(keys)):
            rank = 0
            for j in range(len(keys)):  # a vector loop: for this few keys quicker than any sort
                rank += keys[j] > keys[i]
            if rank < n_hits:
                scores[rank] = _score_of(keys[i])
                rows[rank] = _row_of(keys[i])
    else:
        ordered = np.sort(keys)
        for rank in range(n_hits):
            scores[rank] = _score_of(ordered[len(ordered) - 1 - rank])
            rows[rank] = _row_of(ordered[len(ordered) - 1 - rank])
    if n_hits == len(rows):
        return
    taken = np.sort(rows[:n_hits])
    row = 0
    t = 0
    for rank in range(n_hits, len(rows)):
        while t < len(taken) and taken[t] == row:
            t += 1
            row += 1
        scores[rank] = floor
        rows[rank] = row
        row += 1


@compiled
def score_pairs(
    tokens: Any, offsets: Any, floors: Any, starts: Any, docs: Any, weights: Any, queries: Any, rows: Any, out: Any
) -> None:
    """The score of each (query, document): the same sum, in the same order, as `search_postings` makes."""
    for pair in range(len(queries)):
        query = queries[pair]
        total = np.float32(0)
        for i in range(offsets[query], offsets[query + 1]):
            stop = starts[tokens[i] + 1]
            p = _first_at_least(docs, starts[tokens[i]], stop, rows[pair])
            if p < stop and docs[p] == rows[pair]:
                total += weights[p]
        out[pair] = total + floors[query]


@compiled
def _first_at_least(docs: Any, low: Any, high: Any, doc: Any) -> Any:
    """The first position in docs[low:high], ascending, that holds `doc` or a later one."""
    while low < high:
        middle = (low + high) // 2
        if docs[middle] < doc:
            low = middle + 1
        else:
            high = middle
    return low
