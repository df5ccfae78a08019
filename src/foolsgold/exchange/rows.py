"""A mined set as rows of one query each, with texts and scores: what the json lines of every trainer are made from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from foolsgold.collection import Collection
from foolsgold.mined.formats import Examples
from foolsgold.records import Column, FloatArray, IntArray, LongArray, ranges

_BLOCK = 2048  # rows whose texts are held at once


@dataclass(frozen=True)
class Passage:
    """A document of a row. score: the teacher's, None where it was not asked; weight: 1 for a positive."""

    doc_id: str
    text: str
    score: float | None
    weight: float = 1.0


@dataclass(frozen=True)
class Row:
    """A query with its positives and the negatives that were mined for it, in the order of selection."""

    query_id: str
    query: str
    positives: list[Passage]
    negatives: list[Passage]


def rows_of(examples: Examples, collection: Collection, *, negatives: int | None, one_positive: bool) -> Iterator[Row]:
    """A row for every query, or with `one_positive` for every (query, positive).

    negatives: at most so many; None: all. With `positive_reference: each`, whose negatives belong to a positive, every
    row has one positive in any case.
    """
    starts = np.arange(len(examples.query)) if one_positive else np.flatnonzero(examples.first)
    ends = np.append(starts[1:], len(examples.query))
    for begin in range(0, len(starts), _BLOCK):
        yield from _block(examples, collection, starts[begin : begin + _BLOCK], ends[begin : begin + _BLOCK], negatives)


def _block(
    examples: Examples, collection: Collection, starts: LongArray, ends: LongArray, negatives: int | None
) -> Iterator[Row]:
    """The rows that are made of examples [start, end): one query's, whose negatives are those of the first."""
    counts = examples.counts[starts]
    counts = counts if negatives is None else np.minimum(counts, negatives)
    chosen = np.concatenate([[0], np.cumsum(counts)])
    place = ranges(examples.begin[starts], counts)
    first, last = int(starts[0]), int(ends[-1])
    positives = _passages(collection, examples.positive[first:last], examples.positive_score.take(slice(first, last)))
    others = _passages(collection, examples.negative[place], examples.score.take(place), examples.weight[place])
    query = examples.query[starts]
    for at, (query_id, text) in enumerate(
        zip(collection.queries.take_ids(query), collection.queries.take(query), strict=True)
    ):
        yield Row(
            query_id,
            text,
            positives[starts[at] - first : ends[at] - first],
            others[chosen[at] : chosen[at + 1]],
        )


def _passages(
    collection: Collection, docs: IntArray, scores: Column, weights: FloatArray | None = None
) -> list[Passage]:
    ids, texts = collection.documents.take_ids(docs), collection.documents.take(docs)
    known = [score if valid else None for score, valid in zip(scores.values.tolist(), scores.valid, strict=True)]
    weighed = [1.0] * len(ids) if weights is None else weights.tolist()
    return [Passage(*parts) for parts in zip(ids, texts, known, weighed, strict=True)]
