"""What negatives are mined for: a query, or with `positive_reference: each` a query with one of its positives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from foolsgold.collection import Collection
from foolsgold.mining.run import Run
from foolsgold.records import Column, IntArray


@dataclass(frozen=True)
class Units:
    """What negatives are mined for, in one block.

    query: int32 (n_units), the unit's query; positive: int32, the document row of its positive, known only with `each`;
    score: float32, the score of the positive that margins are measured from; by_source: the same, of each source.
    """

    query: IntArray
    positive: Column
    score: Column
    by_source: Mapping[str, Column]

    def __len__(self) -> int:
        return len(self.query)


def units_of(run: Run, queries: IntArray) -> Units:
    """The units of some queries (int32 rows, consecutive), with the scores that candidates are compared with."""
    collection, mine = run.collection, positives_of(run.collection, queries)
    query, doc = collection.positive_query[mine], collection.positive_rows[mine]
    own = {name: source.score(query, doc) for name, source in run.sources.items()}
    by_source = {
        name: Column.unknown(len(query)) if score is None else Column.known(score) for name, score in own.items()
    }
    score = run.signal.positives.take(mine)
    if run.recipe.decide.positive_reference == "each":
        return Units(query, Column.known(doc), score, by_source)
    return Units(
        query=queries,
        positive=Column.unknown(len(queries), np.int32),
        score=_reference(run, queries, score),
        by_source={name: _reference(run, queries, scores) for name, scores in by_source.items()},
    )


def positives_of(collection: Collection, queries: IntArray) -> slice:
    """Where the positives of consecutive queries are in `positive_rows`."""
    offsets = collection.positive_offsets
    return slice(int(offsets[queries[0]]), int(offsets[queries[-1] + 1]))


def _reference(run: Run, queries: IntArray, positives: Column) -> Column:
    """One score a query out of those of its positives, by `positive_reference` (min, max or mean)."""
    values = positives.values
    begins = run.collection.positive_offsets[queries] - positives_of(run.collection, queries).start
    counts = np.diff(np.append(begins, len(values)))
    known = np.minimum.reduceat(positives.valid, begins)
    match run.recipe.decide.positive_reference:
        case "max":
            reduced = np.maximum.reduceat(values, begins)
        case "mean":
            reduced = np.add.reduceat(values.astype(np.float64), begins) / counts
        case _:
            reduced = np.minimum.reduceat(values, begins)
    return Column(reduced.astype(np.float32), known)
