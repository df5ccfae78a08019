"""What negatives are mined for: a query, or with `positive_reference: each` a query with one of its positives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foolsgold.collection import Collection
from foolsgold.records import Column, FloatArray, IntArray
from foolsgold.sources.protocol import Source
from foolsgold.stages.run import Run


@dataclass(frozen=True)
class Units:
    """What negatives are mined for, in one block.

    query: int32 (n_units), the unit's query; positive: int32, the document row of its positive, known only with `each`;
    score: float32, the score of the positive that margins are measured from.
    """

    query: IntArray
    positive: Column
    score: Column

    def __len__(self) -> int:
        return len(self.query)


def units_of(run: Run, queries: IntArray) -> Units:
    """The units of some queries (int32 rows, consecutive), with the score that margins are measured from."""
    collection, reference = run.collection, run.recipe.decide.positive_reference
    if reference == "each":
        mine = positives_of(run.collection, queries)
        return Units(
            query=collection.positive_query[mine],
            positive=Column.known(collection.positive_rows[mine]),
            score=run.signal.positives.take(mine),
        )
    return Units(
        query=queries,
        positive=Column.unknown(len(queries), np.int32),
        score=_reference(run, queries, run.signal.positives),
    )


def source_reference(run: Run, source: Source, units: Units) -> FloatArray:
    """float32 (n_units): a source's own score of each unit's positive, for SimANS."""
    mine = positives_of(run.collection, units.query)
    scores = source.score(run.collection.positive_query[mine], run.collection.positive_rows[mine])
    assert scores is not None  # the recipe refuses simans on a source that cannot score
    if units.positive.valid.any():  # a unit a positive, in the same order
        return scores
    everyone = Column.unknown(len(run.collection.positive_rows))
    everyone.values[mine] = scores
    return _reference(run, units.query, everyone).values.astype(np.float32)


def positives_of(collection: Collection, queries: IntArray) -> slice:
    """Where the positives of consecutive queries are in `positive_rows`."""
    offsets = collection.positive_offsets
    return slice(int(offsets[queries[0]]), int(offsets[queries[-1] + 1]))


def _reference(run: Run, queries: IntArray, positives: Column) -> Column:
    """One score a query out of those of all positives, by `positive_reference` (min, max or mean)."""
    mine = positives_of(run.collection, queries)
    values = positives.values[mine]
    begins = run.collection.positive_offsets[queries] - mine.start
    counts = np.diff(np.append(begins, len(values)))
    known = np.minimum.reduceat(positives.valid[mine], begins)
    match run.recipe.decide.positive_reference:
        case "max":
            reduced = np.maximum.reduceat(values, begins)
        case "mean":
            reduced = np.add.reduceat(values.astype(np.float64), begins) / counts
        case _:
            reduced = np.minimum.reduceat(values, begins)
    return Column(reduced.astype(np.float32), known)
