"""Which candidates are dropped before a teacher looks at them, and why. Pure: arrays in, arrays out.

Every function returns or takes bool masks over the n candidates of a pool; `first_reason` turns them into one reason
a candidate, the first that applies, in the order of `records.REASONS`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from foolsgold.records import REASON, BoolArray, Column, IntArray, Pool, pair_keys


def is_pair(query: IntArray, doc: IntArray, of_query: IntArray, of_doc: IntArray) -> BoolArray:
    """Which of the (query, doc) pairs are among the (of_query, of_doc) pairs. All are rows.

    With passages in place of documents this finds the duplicates of a query's positives.
    """
    return np.isin(pair_keys(query, doc), pair_keys(of_query, of_doc))


def repeats(pool: Pool, passage: IntArray, among: BoolArray) -> BoolArray:
    """Candidates (of those in `among`) whose query has the same passage already, as a document of a lower row.

    passage: int32 (n_documents), rows of equal passage have the same normalised text.
    """
    rows = np.flatnonzero(among)
    repeated = np.zeros(len(pool), dtype=np.bool_)
    # np.unique keeps the first of equals, and a pool is sorted by (query, doc)
    _, first = np.unique(pair_keys(pool.query[rows], passage[pool.doc[rows]]), return_index=True)
    repeated[np.delete(rows, first)] = True
    return repeated


def in_window(pool: Pool, source: str, window: tuple[int, int] | None, among: BoolArray) -> BoolArray:
    """Candidates of one source whose rank, counted only over the candidates in `among`, is in [from, to)."""
    rank = pool.ranks[source]
    found = among & rank.valid
    if window is None:
        return found
    rows = np.flatnonzero(found)
    rows = rows[np.lexsort((rank.values[rows], pool.query[rows]))]
    query = pool.query[rows]
    begins = np.flatnonzero(np.concatenate([[True], query[1:] != query[:-1]])) if len(rows) else np.empty(0, np.intp)
    position = np.arange(len(rows)) - np.repeat(begins, np.diff(np.append(begins, len(rows))))
    inside = np.zeros(len(pool), dtype=np.bool_)
    inside[rows[(position >= window[0]) & (position < window[1])]] = True
    return inside


def first_reason(masks: Mapping[str, BoolArray]) -> Column:
    """int16 codes into REASONS, known where a candidate is excluded; of several reasons the first of REASONS wins."""
    size = len(next(iter(masks.values())))
    reason = Column.unknown(size, np.int16)
    for name in sorted(masks, key=REASON.__getitem__, reverse=True):
        reason.values[masks[name]] = REASON[name]
        reason.valid[masks[name]] = True
    return reason
