"""The compiled loops of BM25: a window of documents at a time, so that their sums stay in a core's cache.

A query's postings are added up in float64, and a document is kept while its score is among the k best so far. The
weights are multiples of 2**-24, so these sums are exact and do not depend on their order.

`kernels` says what a key is. numba's cache does not notice a change in another file: touch this one with it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from foolsgold.records import FloatArray, IntArray, LongArray
from foolsgold.search.kernels import _SCAN, _any_above, _keep_best, _key, _row_of, _score_of, compiled

WINDOW = 32_768  # documents summed at a time: 256 KB of float64


class Postings(NamedTuple):
    """An index: by token, then document.

    starts: int64 (n_vocabulary + 1); docs: int32 and weights: float32 (n_postings), at least 0.
    """

    starts: LongArray
    docs: IntArray
    weights: FloatArray


def arrange(starts: LongArray, docs: IntArray, weights: FloatArray) -> Postings:
    """Postings by token, in document order, with weights rounded to multiples of 2**-24."""
    return Postings(starts, docs, (np.rint(weights * np.float64(1 << 24)) / (1 << 24)).astype(np.float32))


@compiled
def search_postings(
    index: Any, n_docs: Any, window: Any, tokens: Any, offsets: Any, floors: Any, scores: Any, rows: Any
) -> None:
    """The k best documents of each query, by the sum of its tokens' weights and the query's floor.

    tokens: int32, query after query; offsets: int64 (q + 1); floors: float32 (q), the score where nothing matches.
    scores, rows: (q, k), written: best first, equal scores by row, and then documents at the floor, by row.
    """
    starts, docs, weights = index
    k = scores.shape[1]
    keys = np.empty(2 * k + 64, np.uint64)
    sums = np.zeros(window, np.float64)
    for query in range(len(offsets) - 1):
        asked = tokens[offsets[query] : offsets[query + 1]]
        begin, end = starts[asked], starts[asked]
        floor = floors[query]
        count = 0
        worst = np.uint64(0)  # the key of the k-th best
        least = 0.0  # a sum up to this is not among the k best
        for first in range(0, n_docs, window):
            found = 0
            for t in range(len(asked)):
                begin[t] = end[t]
                end[t] = _first_at_least(docs, begin[t], starts[asked[t] + 1], first + window)
                found += end[t] - begin[t]
                _add(docs[begin[t] : end[t]], weights[begin[t] : end[t]], first, sums)
            if found == 0:
                continue
            for start in range(0, window, _SCAN):
                some = sums[start : start + _SCAN]
                if _any_above(some, least):
                    for i in range(len(some)):
                        if some[i] > least:
                            score = np.float32(some[i] + floor)
                            key = _key(score, first + start + i)
                            if score > floor and key > worst:
                                keys[count] = key
                                count += 1
                                if count == len(keys):
                                    score = _keep_best(keys, count, k)
                                    count, worst = k, keys[:k].min()
                                    least = np.float64(np.nextafter(score, np.float32(-np.inf))) - floor
            sums[:] = 0
        _write(np.sort(keys[:count])[::-1], floor, scores[query], rows[query])


@compiled
def _add(docs: Any, weights: Any, first: Any, sums: Any) -> None:
    for p in range(len(docs)):
        sums[np.uint32(docs[p] - first)] += weights[p]  # unsigned: a signed index would be tested for being negative


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
def _write(best: Any, floor: Any, scores: Any, rows: Any) -> None:
    """The best keys, and after them the documents without a hit, in row order, at the floor."""
    n_hits = min(len(best), len(rows))
    for rank in range(n_hits):
        scores[rank] = _score_of(best[rank])
        rows[rank] = _row_of(best[rank])
    taken = np.sort(rows[:n_hits])
    row = t = 0
    for rank in range(n_hits, len(rows)):
        while t < n_hits and taken[t] == row:
            t += 1
            row += 1
        scores[rank] = floor
        rows[rank] = row
        row += 1


@compiled
def score_pairs(index: Any, tokens: Any, offsets: Any, floors: Any, queries: Any, rows: Any, out: Any) -> None:
    """The score of each (query, document), as `search_postings` gives it."""
    starts, docs, weights = index
    for pair in range(len(queries)):
        query = queries[pair]
        total = np.float64(0)
        for i in range(offsets[query], offsets[query + 1]):
            stop = starts[tokens[i] + 1]
            low = _first_at_least(docs, starts[tokens[i]], stop, rows[pair])
            if low < stop and docs[low] == rows[pair]:
                total += weights[low]
        out[pair] = total + floors[query]


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
