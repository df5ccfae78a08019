"""Mined negatives as a `datasets.Dataset`, in the columns and the order of sentence-transformers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from foolsgold.compat.sentence_transformers.pairs import Pairs
from foolsgold.compat.sentence_transformers.settings import Format
from foolsgold.records import BoolArray, FloatArray, IntArray, LongArray, ranges

if TYPE_CHECKING:
    from datasets import Dataset

_CHUNK = 65_536  # rows of one Arrow chunk, which holds at most 2 GiB of text


@dataclass(frozen=True)
class Mined:
    """The negatives of each query, the highest score first.

    counts: int64 (n_queries); document: int32 and score: float32, the negatives, query after query.
    positive_score: float32 (n_pairs), of each of `pairs.positives`; None where nobody asked.
    """

    pairs: Pairs
    counts: LongArray
    document: IntArray
    score: FloatArray
    positive_score: FloatArray | None

    def examples(self, format: Format, n: int, ragged: bool) -> Examples:
        """The (query, positive) pairs that the format has a row for: an n-tuple needs n negatives unless `ragged`."""
        owners = self.pairs.owners
        counts = self.counts[owners]
        kept = counts >= (n if format == "n-tuple" and not ragged else 1)
        begins = (np.cumsum(self.counts) - self.counts)[owners]
        return Examples(self, np.flatnonzero(kept), begins[kept], counts[kept])


@dataclass(frozen=True)
class Examples:
    """m pairs, int64 rows of `pairs.positives`, each with its part [begin, begin + count) of the mined negatives."""

    mined: Mined
    pair: LongArray
    begin: LongArray
    count: LongArray

    @property
    def negatives(self) -> LongArray:
        """Indices into the mined negatives, example after example."""
        return ranges(self.begin, self.count)

    @property
    def query(self) -> IntArray:
        """int32 (m)."""
        return self.mined.pairs.owners[self.pair]

    @property
    def positive(self) -> IntArray:
        """int32 (m)."""
        return self.mined.pairs.positives[self.pair]

    def scores(self, width: int | None = None) -> pa.ChunkedArray:
        """Lists [score of the positive, scores of its negatives], with nulls up to `width` negatives."""
        assert self.mined.positive_score is not None
        positive = self.mined.positive_score[self.pair].tolist()
        negative = self.mined.score[self.negatives].tolist()
        return _lists(pa.float64(), _beside(positive, negative, self.count, width))


def to_dataset(
    mined: Mined, format: Format, n: int, anchor: str, positive: str, *, scores: bool, ragged: bool
) -> Dataset:
    """The rows of one format; `anchor` and `positive` name their columns, whatever they then hold.

    * `triplet`: a row a pair and negative.
    * `n-tuple`: a row a pair of n negatives, or with `ragged` of at least one, and nulls for those that are missing.
    * `labeled-pair`: a query's positives, then its negatives.
    * `labeled-list`: a row a pair that has negatives.
    """
    from datasets import Dataset

    examples = mined.examples(format, n, ragged)
    columns = {"triplet": _triplets, "n-tuple": _tuples, "labeled-pair": _pairs, "labeled-list": _documents}[format]
    return Dataset(pa.table(columns(examples, n, anchor, positive, scores)))


def _triplets(of: Examples, n: int, anchor: str, positive: str, scores: bool) -> dict[str, Any]:
    del n
    pairs, negatives = of.mined.pairs, of.negatives
    columns = {
        anchor: _texts(pairs.queries, np.repeat(of.query, of.count)),
        positive: _texts(pairs.documents, np.repeat(of.positive, of.count)),
        "negative": _texts(pairs.documents, of.mined.document[negatives]),
    }
    if scores:
        each = Examples(of.mined, np.repeat(of.pair, of.count), negatives, np.ones_like(negatives))
        columns["scores"] = each.scores()
    return columns


def _tuples(of: Examples, n: int, anchor: str, positive: str, scores: bool) -> dict[str, Any]:
    pairs = of.mined.pairs
    columns = {anchor: _texts(pairs.queries, of.query), positive: _texts(pairs.documents, of.positive)}
    for i in range(n):
        there = of.count > i
        rows = np.zeros(len(there), dtype=np.int32)
        rows[there] = of.mined.document[of.begin[there] + i]
        columns[f"negative_{i + 1}"] = _texts(pairs.documents, rows, there)
    if scores:
        columns["scores"] = of.scores(n)
    return columns


def _pairs(of: Examples, n: int, anchor: str, positive: str, scores: bool) -> dict[str, Any]:
    """Every query's own, with or without negatives, so that nothing depends on which pairs `of` keeps."""
    del n
    mined, pairs = of.mined, of.mined.pairs
    positives = np.diff(pairs.offsets)
    query = np.repeat(np.arange(len(pairs.queries)), positives + mined.counts)
    place = np.arange(len(query)) - np.repeat(
        np.cumsum(positives + mined.counts) - positives - mined.counts, positives + mined.counts
    )
    is_positive = place < positives[query]
    documents = np.empty(len(query), dtype=np.int32)
    documents[is_positive], documents[~is_positive] = pairs.positives, mined.document
    columns = {anchor: _texts(pairs.queries, query), positive: _texts(pairs.documents, documents)}
    if scores:
        assert mined.positive_score is not None
        values = np.empty(len(query), dtype=np.float64)
        values[is_positive], values[~is_positive] = mined.positive_score, mined.score
        return columns | {"score": pa.array(values)}
    return columns | {"label": pa.array(is_positive.astype(np.int64))}


def _documents(of: Examples, n: int, anchor: str, positive: str, scores: bool) -> dict[str, Any]:
    del n
    pairs = of.mined.pairs
    rows = _beside(of.positive.tolist(), of.mined.document[of.negatives].tolist(), of.count)
    columns = {
        anchor: _texts(pairs.queries, of.query),
        positive: _lists(pa.string(), ([pairs.documents[row] for row in some] for some in rows)),
    }
    if scores:
        return columns | {"scores": of.scores()}
    return columns | {"labels": _lists(pa.int64(), ([1] + [0] * count for count in of.count.tolist()))}


def _beside(first: list[Any], rest: list[Any], counts: LongArray, width: int | None = None) -> Iterable[list[Any]]:
    """A list for each of `first`: it, and as many of `rest` as `counts` says, with None up to `width` of those."""
    end = 0
    for value, count in zip(first, counts.tolist(), strict=True):
        begin, end = end, end + count
        yield [value, *rest[begin:end], *[None] * (0 if width is None else width - count)]


def _texts(texts: Sequence[str], rows: IntArray | LongArray, there: BoolArray | None = None) -> pa.ChunkedArray:
    """The texts of rows, null where not `there`."""
    chunks = []
    for start in range(0, len(rows), _CHUNK):
        part = slice(start, start + _CHUNK)
        mask = None if there is None else ~there[part]
        chunks.append(pa.array([texts[row] for row in rows[part].tolist()], pa.string(), mask=mask))
    return pa.chunked_array(chunks, pa.string())


def _lists(of: pa.DataType, values: Iterable[list[Any]]) -> pa.ChunkedArray:
    """Lists as an Arrow column, in chunks."""
    chunks: list[pa.Array] = []
    waiting: list[list[Any]] = []
    for value in values:
        waiting.append(value)
        if len(waiting) == _CHUNK:
            chunks.append(pa.array(waiting, pa.list_(of)))
            waiting = []
    return pa.chunked_array([*chunks, pa.array(waiting, pa.list_(of))])
