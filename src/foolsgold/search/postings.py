"""The compiled loops of BM25: find by 8-bit bounds, score what is found exactly.

Each posting has a *code*, its weight rounded up to one of 255 steps, so that the sum of a document's codes bounds its
score from above. Codes are summed for a window of documents at a time, and only documents whose sum can reach the k-th
best score are scored from the weights themselves, about 1.3 k of them. Tokens of many documents have their codes as a
*row*, one byte a document whether it has the token or not: adding rows is a vector loop, 64 documents at a time, which
costs less than visiting the postings. The other tokens' postings are *lists*. Where the rows of a query cannot reach
the bar together, they are not added, but only looked up for what the lists find (MaxScore: Turtle, Flood, Information
Processing & Management 1995).

`kernels` says what a key is. numba's cache does not notice a change in another file: touch this one with it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from foolsgold.records import FloatArray, IntArray, LongArray
from foolsgold.search.kernels import _keep_best, _key, _row_of, _score_of, compiled

BLOCK = 4096  # documents whose rows are added while their sums are in the nearest cache; it divides a window
WINDOW = 65_536  # documents summed at a time: 64 KB, which a core's own cache holds
_PER_PEAK, _PER_GROUP = 16, 8  # documents with one peak, peaks with one of their own
_PEAKS = BLOCK // _PER_PEAK
_STEPS = 254  # of codes: 1 is left for rounding up
_BINS = 1024
_FREQUENT = 32  # a token in more than 1 of so many documents has a row
_FEW, _BUCKETS = 1024, 512  # up to so many hits are ordered by buckets first, quicker than any sort


class Postings(NamedTuple):
    """An index of n documents.

    starts: int64 (n_vocabulary + 1), docs: int32, weights: float32, codes: uint8 (n_postings): by token, then document.
    row_of: int32 (n_vocabulary), a token's row or -1; rows: uint8 (n_rows, n rounded up to blocks), the codes of every
    document, 0 without the token; row_peaks: uint8 (n_rows, n_windows), the highest of each window.
    ranks: uint64 (n_rows, rounded n / 32), where a document's posting is: in the low half a bit for each of 32
    documents that has the token, in the high half how many had it before (Jacobson, FOCS 1989).
    steps: codes to a score of 1. window: documents searched at a time.
    """

    starts: LongArray
    docs: IntArray
    weights: FloatArray
    codes: npt.NDArray[np.uint8]
    row_of: IntArray
    rows: npt.NDArray[np.uint8]
    row_peaks: npt.NDArray[np.uint8]
    ranks: npt.NDArray[np.uint64]
    steps: float
    window: int


def arrange(starts: LongArray, docs: IntArray, weights: FloatArray, n_docs: int) -> Postings:
    """Postings by token, in document order, with weights of at least 0, which are rounded to multiples of 2**-24.

    Then sums of them in float64 are exact, and so the same in any order.
    """
    weights = (np.rint(weights * np.float64(1 << 24)) / (1 << 24)).astype(np.float32)
    frequencies = np.diff(starts)
    frequent = np.flatnonzero((frequencies * _FREQUENT > n_docs) & (frequencies > BLOCK // _FREQUENT))
    row_of = np.full(len(frequencies), -1, dtype=np.int32)
    row_of[frequent] = np.arange(len(frequent))
    padded = -(-n_docs // BLOCK) * BLOCK
    window = min(WINDOW, padded)
    index = Postings(
        starts,
        docs,
        weights,
        np.empty(len(docs), np.uint8),
        row_of,
        np.zeros((len(frequent), padded), np.uint8),
        np.zeros((len(frequent), -(-n_docs // window)), np.uint8),
        np.zeros((len(frequent), padded // 32), np.uint64),
        _STEPS / float(weights.max(initial=0) or 1),
        window,
    )
    _arrange(index, frequent)
    return index


@compiled
def _arrange(index: Any, frequent: Any) -> None:
    starts, docs, weights, codes, _, rows, row_peaks, ranks, steps, window = index
    for p in range(len(docs)):
        codes[p] = int(np.float64(weights[p]) * steps) + 1
    for row in range(len(frequent)):
        for p in range(starts[frequent[row]], starts[frequent[row] + 1]):
            doc = docs[p]
            rows[row, doc] = codes[p]
            row_peaks[row, doc // window] = max(row_peaks[row, doc // window], codes[p])
            ranks[row, doc // 32] |= np.uint64(1) << np.uint64(doc % 32)
        before = np.uint64(0)
        for i in range(ranks.shape[1]):
            bits = ranks[row, i]
            ranks[row, i] = bits | (before << np.uint64(32))
            before += _bits_in(bits)


@compiled
def _bits_in(word: Any) -> Any:
    """How many of the low 32 bits are set; compilers know this for what it is and use the instruction."""
    word -= (word >> np.uint64(1)) & np.uint64(0x55555555)
    word = (word & np.uint64(0x33333333)) + ((word >> np.uint64(2)) & np.uint64(0x33333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F)
    return ((word * np.uint64(0x01010101)) & np.uint64(0xFFFFFFFF)) >> np.uint64(24)


@compiled
def search_postings(index: Any, tokens: Any, offsets: Any, floors: Any, scores: Any, rows: Any) -> None:
    """The k best documents of each query, by the sum of its tokens' weights and the query's floor.

    tokens: int32, query after query; offsets: int64 (q + 1); floors: float32 (q), the score where nothing matches.
    scores, rows: (q, k), written.
    """
    k = scores.shape[1]
    window = index.window
    keys = np.empty(k + window, np.uint64)
    marks, slots = np.zeros(window // 64, np.uint64), np.empty(window, np.uint32)
    hits = np.empty(window, np.uint32), np.empty(window, np.float64), marks, slots, np.empty(window, np.uint32)
    places = np.empty(window + 1, np.uint32)
    short = _sums_of(np.empty(0, np.uint8), window)
    # Sums that reach 255 stay there. Where that hides the k best among others, which takes a long query, they are
    # counted again in 32 bits.
    long = _sums_of(np.empty(0, np.uint32), window)
    for query in range(len(offsets) - 1):
        asked = tokens[offsets[query] : offsets[query + 1]]
        floor = floors[query]
        count = _search(index, asked, floor, k, keys, places, hits, short, 255)
        if count < 0:
            count = _search(index, asked, floor, k, keys, places, hits, long, 1 << 32)
        _write_with_floor(keys[:count], floor, scores[query], rows[query])


@compiled
def _sums_of(kind: Any, window: Any) -> Any:
    """Room for the sums of a window, their peaks, the sums of some documents and, all 0, those of lists alone."""
    return (
        np.empty(window, kind.dtype),
        np.empty(window // _PER_PEAK, kind.dtype),
        np.empty(window + 1, kind.dtype),  # + 1: loops write before they count
        np.zeros(window, kind.dtype),
    )


@compiled
def _search(
    index: Any, asked: Any, floor: Any, k: Any, keys: Any, places: Any, scored: Any, sums: Any, cap: Any
) -> Any:
    """Put the keys of the k best into `keys` and return how many; -1 where `cap`, the highest sum, hides them."""
    starts, docs, weights, codes, row_of, rows, row_peaks, ranks, steps, window = index
    totals, peaks, spare, apart = sums
    hits, exact, marks, slots, having = scored
    padded = rows.shape[1]
    frequent = asked[row_of[asked] >= 0]
    rare = asked[row_of[asked] < 0]
    table = row_of[frequent]
    bases = starts[frequent]
    begin = starts[rare]
    end = begin.copy()
    bar = 1  # a document whose codes sum to less is not among the k best
    count = 0
    for first in range(0, padded, window):
        for t in range(len(rare)):
            begin[t] = end[t]
            end[t] = _first_at_least(docs, begin[t], starts[rare[t] + 1], first + window)
        reach = 0  # what the rows may add
        for row in table:
            reach += row_peaks[row, first // window]
        by_rows = reach >= bar
        if not by_rows and (end - begin).sum() == 0:
            continue
        length = min(window, padded - first)
        block_peaks = peaks[: length // _PER_PEAK]
        groups = spare[: length // (_PER_PEAK * _PER_GROUP)]
        n_touched = 0
        if by_rows:
            _add_rows(rows, table, first, totals[:length], block_peaks)
            for t in range(len(rare)):
                _add_list(docs[begin[t] : end[t]], codes[begin[t] : end[t]], first, totals, peaks, cap)
            _raise_peaks(block_peaks, groups)
            level = lowest = bar
            if count < k:
                level = max(level, _reached_by(groups, k))
        else:
            level = lowest = bar - reach
            n_touched = _sum_lists(docs, codes, begin, end, first, apart, lowest, places, spare, cap)
            if count < k:
                level = max(level, _reached_by(spare[:n_touched], k))
        # At first those that are surely high enough, and then, when the k-th best is known, the others that may be.
        above = cap + 1
        while level < above:
            if by_rows:
                n_hits = _collect(totals, block_peaks, groups, level, above, places, hits)
            else:
                n_hits = _collect_touched(spare[:n_touched], places, level, above, hits, having)
                left = reach
                for row in table:
                    left -= row_peaks[row, first // window]
                    n_hits = _narrow(rows[row], first, hits[:n_hits], having, bar - left)
            if n_hits > 0:
                _mark(hits[:n_hits], marks, slots, exact, floor)
                for t in range(len(rare)):
                    _add_list_weights(docs[begin[t] : end[t]], weights[begin[t] : end[t]], first, marks, slots, exact)
                _unmark(hits[:n_hits], marks)
                for t in range(len(table)):
                    place, base = table[t], bases[t]
                    _add_row_weights(
                        rows[place], ranks[place], weights[base:], first, hits[:n_hits], exact, having, slots
                    )
                for h in range(n_hits):
                    score = np.float32(exact[h])
                    keys[count] = _key(score, first + hits[h])
                    count += score > floor
                bar = _bar_of(keys, count, k, floor, steps, bar)
                count = min(count, k)
                if bar > cap:
                    return -1
            above = level
            level = max(lowest, bar if by_rows else bar - reach)
    return count


@compiled
def _narrow(row: Any, first: Any, hits: Any, sums: Any, level: Any) -> Any:
    """Add the row's codes to the hits' sums, and keep the hits that come to `level`; return how many."""
    n = np.uint32(0)
    for h in range(len(hits)):
        hit = hits[h]
        total = np.int64(sums[h]) + row[np.uint64(first + hit)]
        hits[n] = hit
        sums[n] = total
        n = np.uint32(n + np.uint32(total >= level))
    return np.int64(n)


@compiled
def _mark(hits: Any, marks: Any, slots: Any, exact: Any, floor: Any) -> None:
    """Note of each hit that it is one, in a bit of `marks`, and which, in `slots`."""
    for h in range(len(hits)):
        hit = hits[h]
        marks[hit >> np.uint32(6)] |= np.uint64(1) << np.uint64(hit & np.uint32(63))
        slots[hit] = h
        exact[h] = floor


@compiled
def _unmark(hits: Any, marks: Any) -> None:
    for h in range(len(hits)):
        marks[hits[h] >> np.uint32(6)] = 0


@compiled
def _add_list_weights(docs: Any, weights: Any, first: Any, marks: Any, slots: Any, exact: Any) -> None:
    for p in range(len(docs)):
        i = np.uint32(docs[p] - first)
        if marks[i >> np.uint32(6)] >> np.uint64(i & np.uint32(63)) & np.uint64(1):
            exact[slots[i]] += weights[p]


@compiled
def _add_row_weights(
    row: Any, ranks: Any, weights: Any, first: Any, hits: Any, exact: Any, having: Any, postings: Any
) -> None:
    # Three short loops, none of which branches or waits for itself, so that reads from far away overlap.
    n = np.uint32(0)
    for h in range(len(hits)):
        having[n] = h
        n = np.uint32(n + np.uint32(row[np.uint64(first + hits[h])] > 0))
    for j in range(n):
        doc = np.uint64(first + hits[having[np.uint32(j)]])
        rank = ranks[doc >> np.uint64(5)]
        before = rank & ((np.uint64(1) << (doc & np.uint64(31))) - np.uint64(1))
        postings[j] = (rank >> np.uint64(32)) + _bits_in(before)
    for j in range(n):
        exact[having[np.uint32(j)]] += weights[postings[j]]


@compiled
def _add_rows(rows: Any, table: Any, first: Any, totals: Any, peaks: Any) -> None:
    """Sum the rows, two at a time, and find the peak of each document's sixteen.

    Peak p of a block is that of its documents p, p + _PEAKS, p + 2 _PEAKS, ...: so the loop that finds all of them at
    once is a vector loop, and documents that are alike, as neighbours often are, do not share one.
    """
    for start in range(0, len(totals), BLOCK):
        block = totals[start : start + BLOCK]
        low = first + start
        high = low + BLOCK
        if len(table) == 1:
            _put(rows[table[0], low:high], block)
        else:
            _put_sum(rows[table[0], low:high], rows[table[1], low:high], block)
        for t in range(2, len(table) - 1, 2):
            _add_two(rows[table[t], low:high], rows[table[t + 1], low:high], block)
        if len(table) > 2 and len(table) % 2 == 1:
            _add_one(rows[table[-1], low:high], block)
        _raise_peaks(block, peaks[start // _PER_PEAK : start // _PER_PEAK + _PEAKS])


@compiled
def _put(row: Any, block: Any) -> None:
    for i in range(len(block)):
        block[i] = row[i]


@compiled
def _put_sum(a: Any, b: Any, block: Any) -> None:
    for i in range(len(block)):
        block[i] = a[i] + b[i]
        if block[i] < a[i]:
            block[i] = -1


@compiled
def _add_one(row: Any, block: Any) -> None:
    for i in range(len(block)):
        block[i] += row[i]
        if block[i] < row[i]:  # it wrapped: stay at the highest value, which processors have an instruction for
            block[i] = -1


@compiled
def _add_two(a: Any, b: Any, block: Any) -> None:
    for i in range(len(block)):
        block[i] += a[i]
        if block[i] < a[i]:
            block[i] = -1
        block[i] += b[i]
        if block[i] < b[i]:
            block[i] = -1


@compiled
def _add_list(docs: Any, codes: Any, first: Any, totals: Any, peaks: Any, cap: Any) -> None:
    for p in range(len(docs)):
        i = np.uint32(docs[p] - first)  # unsigned: a signed index would be tested for being negative
        total = min(np.int64(totals[i]) + codes[p], cap)
        totals[i] = total
        peak = i // np.uint32(BLOCK) * np.uint32(_PEAKS) + i % np.uint32(_PEAKS)
        peaks[peak] = max(np.int64(peaks[peak]), total)


@compiled
def _sum_lists(
    docs: Any,
    codes: Any,
    begin: Any,
    end: Any,
    first: Any,
    totals: Any,
    level: Any,
    places: Any,
    sums: Any,
    cap: Any,
) -> Any:
    """Sum the lists alone; write the documents that come to `level` to `places`, their sums to `sums`; return how many.

    totals: 0 before and after.
    """
    for t in range(len(begin)):
        for p in range(begin[t], end[t]):
            i = np.uint32(docs[p] - first)
            totals[i] = min(np.int64(totals[i]) + codes[p], cap)
    n = np.uint32(0)
    for t in range(len(begin)):
        for p in range(begin[t], end[t]):
            i = np.uint32(docs[p] - first)
            places[n] = i
            sums[n] = totals[i]
            n = np.uint32(n + np.uint32(totals[i] >= level))
            totals[i] = 0  # so that no document is written twice
    return np.int64(n)


@compiled
def _raise_peaks(values: Any, peaks: Any) -> None:
    """Each peak the highest of every len(peaks)-th value, of which there are a multiple of four."""
    n = len(peaks)
    peaks[:] = 0
    for start in range(0, len(values), 4 * n):
        a, b = values[start : start + n], values[start + n : start + 2 * n]
        c, d = values[start + 2 * n : start + 3 * n], values[start + 3 * n : start + 4 * n]
        for i in range(n):
            peaks[i] = max(peaks[i], max(max(a[i], b[i]), max(c[i], d[i])))


@compiled
def _reached_by(sums: Any, k: Any) -> Any:
    """A sum that at least k of them reach, and few more: from a histogram, which has no branches to mispredict."""
    highest = np.int64(0)
    for i in range(len(sums)):
        highest = max(highest, np.int64(sums[i]))
    shift = 0
    while highest >> shift >= _BINS:
        shift += 1
    bins = np.zeros((highest >> shift) + 1, np.int32)
    for i in range(len(sums)):
        bins[np.int64(sums[i]) >> shift] += 1
    reached = 0
    for i in range(highest >> shift, 0, -1):
        reached += bins[i]
        if reached >= k:
            return i << shift
    return 0


@compiled
def _collect(totals: Any, peaks: Any, groups: Any, low: Any, high: Any, places: Any, hits: Any) -> Any:
    """Write the places of sums from `low` to below `high` to `hits`, looking only where a peak is as high.

    These loops write every place down and advance by 0 or 1: a branch would be mispredicted for each hit. Places are
    unsigned, because a signed index would be tested for being negative.
    """
    n_groups = np.uint32(0)
    for group in range(len(groups)):
        places[n_groups] = group
        n_groups = np.uint32(n_groups + np.uint32(groups[group] >= low))
    n_peaks = n_groups
    for g in range(n_groups):
        for j in range(_PER_GROUP):
            p = np.uint32(places[np.uint32(g)] + np.uint32(j * len(groups)))
            places[n_peaks] = p
            n_peaks = np.uint32(n_peaks + np.uint32(peaks[p] >= low))
    n_hits = np.uint32(0)
    for h in range(n_groups, n_peaks):
        p = places[np.uint32(h)]
        place = p // np.uint32(_PEAKS) * np.uint32(BLOCK) + p % np.uint32(_PEAKS)
        for j in range(_PER_PEAK):
            i = np.uint32(place + np.uint32(j * _PEAKS))
            hits[n_hits] = i
            n_hits = np.uint32(n_hits + np.uint32((totals[i] >= low) & (totals[i] < high)))
    return np.int64(n_hits)


@compiled
def _collect_touched(codes: Any, places: Any, low: Any, high: Any, hits: Any, having: Any) -> Any:
    n_hits = 0
    for i in range(len(codes)):
        hits[n_hits] = places[i]
        having[n_hits] = codes[i]
        n_hits += (codes[i] >= low) & (codes[i] < high)
    return n_hits


@compiled
def _bar_of(keys: Any, count: Any, k: Any, floor: Any, steps: Any, bar: Any) -> Any:
    """Move the k best keys to the front; return what codes must sum to for a score as high as the k-th best.

    A posting's code is above its weight in steps, and so is a document's sum of them. Scores are rounded to float32,
    by less than one part in ten million.
    """
    if count < k:
        return bar
    score = np.float64(_keep_best(keys, count, k))
    return max(bar, int((score - floor - 1e-7 * score) * steps) + 1)


@compiled
def _write_with_floor(keys: Any, floor: Any, scores: Any, rows: Any) -> None:
    """Best first, and after the hits the documents without one, in row order, at the floor."""
    n_hits = min(len(keys), len(rows))
    ordered = _ordered(keys)
    for rank in range(n_hits):
        scores[rank] = _score_of(ordered[rank])
        rows[rank] = _row_of(ordered[rank])
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
def _ordered(keys: Any) -> Any:
    """The keys, best first."""
    if len(keys) > _FEW:
        return np.sort(keys)[::-1].copy()
    ordered = np.empty_like(keys)
    if len(keys) == 0:
        return ordered
    low, high = keys[0], keys[0]
    for key in keys:
        low, high = min(low, key), max(high, key)
    shift = np.uint64(0)
    while (high - low) >> shift >= _BUCKETS:
        shift += np.uint64(1)
    ends = np.zeros(_BUCKETS + 1, np.int32)
    for key in keys:
        ends[((high - key) >> shift) + np.uint64(1)] += 1
    for bucket in range(_BUCKETS):
        ends[bucket + 1] += ends[bucket]
    for key in keys:
        bucket = (high - key) >> shift
        ordered[ends[bucket]] = key
        ends[bucket] += 1
    for i in range(1, len(keys)):  # what shares a bucket is still in no order
        key = ordered[i]
        j = i
        while j > 0 and ordered[j - 1] < key:
            ordered[j] = ordered[j - 1]
            j -= 1
        ordered[j] = key
    return ordered


@compiled
def score_pairs(index: Any, tokens: Any, offsets: Any, floors: Any, queries: Any, rows: Any, out: Any) -> None:
    """The score of each (query, document), as `search_postings` gives it."""
    starts, docs, weights = index.starts, index.docs, index.weights
    for pair in range(len(queries)):
        query = queries[pair]
        total = np.float64(floors[query])
        for i in range(offsets[query], offsets[query + 1]):
            stop = starts[tokens[i] + 1]
            p = _first_at_least(docs, starts[tokens[i]], stop, rows[pair])
            if p < stop and docs[p] == rows[pair]:
                total += weights[p]
        out[pair] = total


@compiled
def _first_at_least(docs: Any, low: Any, high: Any, doc: Any) -> Any:
    """The first position in docs[low:high], ascending, that holds `doc` or a later one."""
    if low < high and docs[high - 1] < doc:
        return high
    while low < high:
        middle = (low + high) // 2
        if docs[middle] < doc:
            low = middle + 1
        else:
            high = middle
    return low


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
