"""One pool of candidates out of every source's hits; a candidate found by several keeps all its ranks and scores."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from foolsgold.mining.run import Run
from foolsgold.records import Column, Hits, IntArray, Pool, pair_keys


def retrieve(run: Run, queries: IntArray) -> Pool:
    """The candidates of some queries (int32 rows, ascending), with all scores that the sources can give."""
    hits = {
        name: source.retrieve(queries, run.recipe.sources[name].depth, run.progress)
        for name, source in run.sources.items()
    }
    found = merge(queries, hits)
    for name, source in run.sources.items():
        column = found.scores[name]
        missing = np.flatnonzero(~column.valid)
        scores = source.score(found.query[missing], found.doc[missing])
        if scores is not None:
            column.values[missing] = scores
            column.valid[missing] = True
    return found


def merge(queries: IntArray, hits: Mapping[str, Hits]) -> Pool:
    """Merge the hits of all sources for the same `queries` (int32 rows, ascending; one list of each Hits a query)."""
    keys = {source: pair_keys(np.repeat(queries, np.diff(found.offsets)), found.rows) for source, found in hits.items()}
    merged = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *keys.values()]))
    ranks: dict[str, Column] = {}
    scores: dict[str, Column] = {}
    for source, found in hits.items():
        place = np.searchsorted(merged, keys[source])
        rank = Column.unknown(len(merged), np.int32)
        score = Column.unknown(len(merged), np.float32)
        rank.values[place] = np.arange(len(found.rows)) - np.repeat(found.offsets[:-1], np.diff(found.offsets))
        score.values[place] = found.scores
        rank.valid[place] = score.valid[place] = True
        ranks[source], scores[source] = rank, score
    return Pool(
        query=(merged >> 32).astype(np.int32), doc=(merged & 0xFFFFFFFF).astype(np.int32), ranks=ranks, scores=scores
    )
