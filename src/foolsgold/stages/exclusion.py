"""Which candidates never reach a teacher, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from foolsgold import exclude
from foolsgold.records import BoolArray, Column, IntArray, Pool, ranges
from foolsgold.search.shingles import jaccard_at_least
from foolsgold.sources.protocol import HasVectors
from foolsgold.stages.run import Run
from foolsgold.stages.units import Units

_PAIRS = 1 << 20  # (candidate, positive) pairs compared at once


@dataclass(frozen=True)
class Candidates:
    """The candidates of a block, by unit; with `each` a query's candidates stand once for each of its positives.

    unit: int32 (n), ascending; excluded: a code into REASONS, known where dropped; windows: what each source may give.
    """

    unit: IntArray
    pool: Pool
    excluded: Column
    windows: Mapping[str, BoolArray]

    def __len__(self) -> int:
        return len(self.unit)


def exclude_from(run: Run, found: Pool, units: Units) -> Candidates:
    """Say of each candidate whether and why it is dropped, and share the candidates out to the units."""
    collection = run.collection
    documents, passage = collection.documents, collection.documents.passage
    offsets, answers = collection.answers
    asked = np.repeat(np.arange(len(collection.queries), dtype=np.int32), np.diff(offsets))
    masks = {
        "known_positive": exclude.is_pair(found.query, found.doc, asked, answers),
        "duplicate_of_positive": exclude.is_pair(found.query, passage[found.doc], asked, passage[answers]),
        "query_itself": (collection.queries.keys[found.query] == documents.keys[found.doc]).all(axis=1),
        "empty_text": documents.empty[found.doc],
    }

    def left() -> BoolArray:
        return np.asarray(~np.logical_or.reduce(list(masks.values())))

    masks["near_duplicate_of_positive"] = _near_duplicates(run, found, left())
    masks["duplicate_of_candidate"] = exclude.repeats(found, passage, left())
    among = left()
    windows = {name: exclude.in_window(found, name, spec.window, among) for name, spec in run.recipe.sources.items()}
    masks["outside_window"] = ~np.logical_or.reduce(list(windows.values()))
    excluded = exclude.first_reason(masks)

    # candidates by unit: those of the unit's query
    begins = np.searchsorted(found.query, units.query)
    counts = np.searchsorted(found.query, units.query, side="right") - begins
    unit = np.repeat(np.arange(len(units), dtype=np.int32), counts)
    rows = ranges(begins, counts)
    return Candidates(
        unit=unit,
        pool=found.take(rows),
        excluded=excluded.take(rows),
        windows={name: inside[rows] for name, inside in windows.items()},
    )


def _near_duplicates(run: Run, found: Pool, among: BoolArray) -> BoolArray:
    """Candidates that are nearly the text, or nearly the vector, of a positive of their query."""
    spec, (offsets, answers) = run.recipe.exclude, run.collection.answers
    dense = next((source for source in run.sources.values() if isinstance(source, HasVectors)), None)
    near = np.zeros(len(found), dtype=np.bool_)
    rows = np.flatnonzero(among)
    pairs = np.cumsum(offsets[found.query[rows] + 1] - offsets[found.query[rows]])
    # a query may have a thousand positives, and every candidate is compared with each
    for part in np.split(rows, np.searchsorted(pairs, np.arange(_PAIRS, pairs[-1], _PAIRS))) if len(rows) else ():
        query = found.query[part]
        counts = offsets[query + 1] - offsets[query]
        candidate = np.repeat(part, counts)
        place = ranges(offsets[query], counts)
        docs, positives = found.doc[candidate], answers[place]
        if spec.near_duplicate is not None:
            near[candidate[jaccard_at_least(run.collection.documents, docs, positives, spec.near_duplicate)]] = True
        if spec.near_duplicate_cosine is not None and dense is not None:
            near[candidate[dense.similarity(docs, positives) >= spec.near_duplicate_cosine]] = True
    return near
