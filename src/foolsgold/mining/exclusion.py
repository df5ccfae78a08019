"""Which candidates never reach a teacher, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from foolsgold.mining.run import Run
from foolsgold.mining.units import Units
from foolsgold.records import BoolArray, Column, IntArray, LongArray, Pool, ranges
from foolsgold.rules import exclude
from foolsgold.search.shingles import jaccard_at_least

_PAIRS = 1 << 20  # (candidate, positive) pairs compared at once


@dataclass(frozen=True)
class Candidates:
    """The candidates of a block, by unit; with `each` a query's candidates stand once for each of its positives.

    unit: int32 (n), ascending; excluded: a code into REASONS, known where dropped; windows: what each source may give;
    cosine: float32 (n), `nearest_positive`, known where it was looked at.
    """

    unit: IntArray
    pool: Pool
    excluded: Column
    windows: Mapping[str, BoolArray]
    cosine: Column

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

    rows = np.flatnonzero(left())
    nearest = nearest_positive(run, found.query[rows], found.doc[rows])
    masks["near_duplicate_of_positive"] = _near_duplicates(run, found, rows, nearest)
    masks["duplicate_of_candidate"] = exclude.repeats(found, passage, left())
    among = left()
    windows = {name: exclude.in_window(found, name, spec.window, among) for name, spec in run.recipe.sources.items()}
    masks["outside_window"] = ~np.logical_or.reduce(list(windows.values()))
    excluded = exclude.first_reason(masks)
    cosine = Column.unknown(len(found))
    cosine.values[rows], cosine.valid[rows] = nearest.values, nearest.valid

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
        cosine=cosine.take(rows),
    )


def nearest_positive(run: Run, query: IntArray, doc: IntArray) -> Column:
    """float32 (n): the cosine of each of some pairs' documents and the nearest known positive of the query.

    Not known without a dense source.
    """
    if run.dense is None:
        return Column.unknown(len(doc))
    nearest = np.full(len(doc), -1.0, dtype=np.float32)
    for candidate, docs, positives in _beside_positives(run, query, doc):
        np.maximum.at(nearest, candidate, run.dense.similarity(docs, positives))
    return Column.known(nearest)


def _near_duplicates(run: Run, found: Pool, rows: LongArray, nearest: Column) -> BoolArray:
    """Which of the candidates in `rows` are nearly the text, or nearly the vector, of a positive of their query."""
    spec = run.recipe.exclude
    near = np.zeros(len(found), dtype=np.bool_)
    if spec.near_duplicate is not None:
        for candidate, docs, positives in _beside_positives(run, found.query[rows], found.doc[rows]):
            same = jaccard_at_least(run.collection.documents, docs, positives, spec.near_duplicate)
            near[rows[candidate[same]]] = True
    if spec.near_duplicate_cosine is not None:
        near[rows[nearest.valid & (nearest.values >= spec.near_duplicate_cosine)]] = True
    return near


def _beside_positives(run: Run, query: IntArray, doc: IntArray) -> Iterator[tuple[LongArray, IntArray, IntArray]]:
    """Each of some pairs with each known positive of its query: the pair's place, its document, the positive."""
    offsets, answers = run.collection.answers
    counts = offsets[query + 1] - offsets[query]
    ends = np.cumsum(counts)
    # a query may have a thousand positives, and every candidate is compared with each
    splits: Sequence[int] | LongArray = np.searchsorted(ends, np.arange(_PAIRS, ends[-1], _PAIRS)) if len(ends) else []
    for part in np.split(np.arange(len(query)), splits):
        place = ranges(offsets[query[part]], counts[part])
        candidate = np.repeat(part, counts[part])
        yield candidate, doc[candidate], answers[place]
