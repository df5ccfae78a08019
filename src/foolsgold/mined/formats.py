"""A mined set as training rows, in the four formats of sentence-transformers. Columns in, columns out."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from foolsgold.collection import Collection, Texts
from foolsgold.errors import MinedSetError
from foolsgold.mined.folder import MinedFolder
from foolsgold.records import BoolArray, Column, IntArray, LongArray, Scale, pair_keys, ranges
from foolsgold.teachers.scale import to_scale

if TYPE_CHECKING:
    from datasets import Dataset

log = logging.getLogger(__name__)

Format = Literal["triplet", "n-tuple", "labeled-pair", "labeled-list"]
_CHUNK = 65_536  # rows of one Arrow chunk of texts


def to_dataset(
    mined: MinedFolder,
    format: Format,
    *,
    scores: bool,
    weights: bool,
    n: int | None,
    scale: Scale | None = None,
) -> Dataset:
    """Texts of a mined set as a `datasets.Dataset`.

    Columns, with the order that sentence-transformers' `mine_hard_negatives` gives:

    * `triplet`: anchor, positive, negative; a row for every (positive, negative) of a query.
    * `n-tuple`: anchor, positive, negative_1 .. negative_n; a row a positive. Those with fewer than n negatives are
      left out and counted in a warning. n is the recipe's `per_query` unless given.
    * `labeled-pair`: anchor, positive (any document), label (1 or 0); each document of a query once.
    * `labeled-list`: anchor, positive (list of documents, the positive first), labels.

    Args:
        mined: the set. format: one of the four.
        scores: teacher scores on the teacher's scale. `scores` [positive, negative, ...] is added to the first two;
            `score` and `scores` replace label and labels in the others. Null where the teacher was not asked.
        weights: adds `weights`, one for each negative (`weight`, with 1 for positives, in `labeled-pair`).
        n: negatives in an `n-tuple`.
        scale: what scores are converted to; None: as they are, on the teacher's scale.

    Raises:
        MinedSetError: an unknown format; scores of a set mined without a teacher; no row left.
        RecipeError: scores that cannot be converted to that scale.
    """
    from datasets import Dataset

    if format not in get_args(Format):
        raise MinedSetError(f"unknown format {format!r}; one of {', '.join(get_args(Format))}")
    teacher = mined.manifest.teacher
    if scores and teacher is None:
        raise MinedSetError(f"{mined.path}: scores were asked for, but this set was mined without a teacher")
    if n is not None and (type(n) is not int or n < 1):
        raise MinedSetError(f"n={n!r}: the number of negatives in an n-tuple is a whole number, at least 1")
    if n is not None and format != "n-tuple":
        raise MinedSetError(f"n={n}: only an n-tuple has a fixed number of negatives; {format} has all there are")
    width = mined.manifest.recipe.select.per_query if n is None else n
    collection = mined.collection
    found = examples(mined, collection)
    if teacher is not None and scores and scale is not None:
        found = found.on_scale(teacher.scale, scale)
    if format == "n-tuple":
        whole = found.counts >= max(width, 1)
        if not whole.all():
            log.warning(
                "%d of %d (query, positive) rows have fewer than %d negatives and are left out; n=... asks for fewer",
                np.sum(~whole), len(whole), width,
            )  # fmt: skip
        found = found.keep(whole)
    elif format != "labeled-pair":
        found = found.keep(found.counts > 0)
    if len(found.query) == 0:
        raise MinedSetError(f"{mined.path}: no query has {width if format == 'n-tuple' else 'any'} negatives")
    return Dataset(table_of(found, format, width, scores=scores, weights=weights))


def table_of(of: Examples, format: Format, width: int, *, scores: bool, weights: bool) -> pa.Table:
    """The rows of one format; every example has `width` negatives in an `n-tuple`, and one at least in the others."""
    columns = {"triplet": _triplets, "n-tuple": _tuples, "labeled-pair": _pairs, "labeled-list": _lists}[format]
    if format != "labeled-list":
        return pa.table(columns(of, width, scores, weights))
    # an Arrow list of texts holds at most 2 GiB of them
    starts = range(0, max(len(of.query), 1), _CHUNK)
    parts = (of.keep(slice(start, start + _CHUNK)) for start in starts)
    return pa.concat_tables(pa.table(columns(part, width, scores, weights)) for part in parts)


@dataclass(frozen=True)
class Examples:
    """m rows of (query, positive), each with its part [begin, begin + count) of the mined negatives.

    query, positive: rows of `queries` and `documents`; first: whether it is its query's first row (with `each` all
    are): a query's negatives stand beside that one in a `labeled-pair`;
    negative: int32 (k), document rows; score, weight: of the negatives.
    """

    queries: Texts
    documents: Texts
    query: IntArray
    positive: IntArray
    positive_score: Column
    first: BoolArray
    begin: LongArray
    counts: LongArray
    negative: IntArray
    score: Column
    weight: npt.NDArray[np.float32]

    def keep(self, rows: BoolArray | slice) -> Examples:
        """The examples of some rows."""
        return replace(
            self,
            query=self.query[rows],
            positive=self.positive[rows],
            positive_score=self.positive_score.take(rows),
            first=self.first[rows],
            begin=self.begin[rows],
            counts=self.counts[rows],
        )

    def on_scale(self, have: Scale, want: Scale) -> Examples:
        """The same examples with the teacher's scores on another scale (`teachers.scale.to_scale`)."""
        return replace(
            self,
            positive_score=Column(to_scale(self.positive_score.values, have, want), self.positive_score.valid),
            score=Column(to_scale(self.score.values, have, want), self.score.valid),
        )

    def flat(self, counts: LongArray) -> LongArray:
        """Indices of the first `counts` negatives of every row, one row after the other."""
        return ranges(self.begin, counts)


def examples(mined: MinedFolder, collection: Collection) -> Examples:
    """Each (query, positive) of the collection with the negatives that were mined for it."""
    each = mined.manifest.recipe.decide.positive_reference == "each"
    query, positive = collection.positive_query, collection.positive_rows
    table = mined.negatives
    owner = collection.queries.rows_of(table["query_id"], "query")
    if each:
        owner_keys = pair_keys(owner, collection.documents.rows_of(table["positive_id"]))
        keys = pair_keys(query, positive)
    else:
        owner_keys, keys = owner.astype(np.int64), query.astype(np.int64)
    begin = np.searchsorted(owner_keys, keys)  # a set's negatives are in the order of the collection's queries
    first = np.ones(len(query), dtype=np.bool_)
    if not each:
        first[1:] = query[1:] != query[:-1]
    return Examples(
        queries=collection.queries,
        documents=collection.documents,
        query=query,
        positive=positive,
        positive_score=_positive_scores(mined, collection),
        first=first,
        begin=begin,
        counts=np.searchsorted(owner_keys, keys, side="right") - begin,
        negative=collection.documents.rows_of(table["doc_id"]),
        score=_column(table["teacher_score"]),
        weight=table["weight"].to_numpy(),
    )


def _positive_scores(mined: MinedFolder, collection: Collection) -> Column:
    """The teacher's score of each of the collection's positives, relabelled ones included."""
    parts = [mined.positives.select(["query_id", "doc_id", "teacher_score"])]
    if mined.manifest.recipe.relabel:
        parts.append(mined.relabelled)
    table = pa.concat_tables(parts, promote_options="permissive")
    keys = pair_keys(
        collection.queries.rows_of(table["query_id"], "query"), collection.documents.rows_of(table["doc_id"])
    )
    order = np.argsort(keys)
    place = order[np.searchsorted(keys[order], pair_keys(collection.positive_query, collection.positive_rows))]
    return _column(table["teacher_score"]).take(place)


def _triplets(of: Examples, width: int, scores: bool, weights: bool) -> dict[str, Any]:
    del width
    negatives = of.flat(of.counts)
    columns = {
        "anchor": _texts(of.queries, np.repeat(of.query, of.counts)),
        "positive": _texts(of.documents, np.repeat(of.positive, of.counts)),
        "negative": _texts(of.documents, of.negative[negatives]),
    }
    row = np.repeat(np.arange(len(of.query)), of.counts)
    if scores:
        columns["scores"] = _interleaved(of, row, negatives[:, None])
    if weights:
        columns["weights"] = _lists_of(np.ones(len(row), dtype=np.int64), pa.array(of.weight[negatives]))
    return columns


def _tuples(of: Examples, width: int, scores: bool, weights: bool) -> dict[str, Any]:
    negatives = of.begin[:, None] + np.arange(width)
    columns = {
        "anchor": _texts(of.queries, of.query),
        "positive": _texts(of.documents, of.positive),
        **{f"negative_{i + 1}": _texts(of.documents, of.negative[negatives[:, i]]) for i in range(width)},
    }
    if scores:
        columns["scores"] = _interleaved(of, np.arange(len(of.query)), negatives)
    if weights:
        columns["weights"] = _lists_of(np.full(len(of.query), width), pa.array(of.weight[negatives.ravel()]))
    return columns


def _pairs(of: Examples, width: int, scores: bool, weights: bool) -> dict[str, Any]:
    del width
    counts = np.where(of.first, of.counts, 0)  # a query's negatives stand once, beside its first positive
    query = np.repeat(of.query, counts + 1)
    flat = _Flat(of, counts)
    # with `each`, a document may have been mined beside several positives of one query
    _, once = np.unique(pair_keys(query, flat.documents), return_index=True)
    flat.keep(np.sort(once))
    columns = {
        "anchor": _texts(of.queries, query[np.sort(once)]),
        "positive": _texts(of.documents, flat.documents),
    }
    columns |= {"score": flat.scores} if scores else {"label": flat.labels}
    return columns | ({"weight": flat.weights} if weights else {})


def _lists(of: Examples, width: int, scores: bool, weights: bool) -> dict[str, Any]:
    del width
    flat = _Flat(of, of.counts)
    sizes = of.counts + 1
    documents = _texts(of.documents, flat.documents).combine_chunks()
    columns = {
        "anchor": _texts(of.queries, of.query),
        "positive": _lists_of(sizes, documents),
    }
    columns |= {"scores": _lists_of(sizes, flat.scores)} if scores else {"labels": _lists_of(sizes, flat.labels)}
    negatives = of.flat(of.counts)
    return columns | ({"weights": _lists_of(of.counts, pa.array(of.weight[negatives]))} if weights else {})


class _Flat:
    """Each row's positive followed by the first `counts` of its negatives, all rows in one list."""

    def __init__(self, of: Examples, counts: LongArray) -> None:
        at = np.cumsum(counts + 1) - (counts + 1)
        is_positive = np.zeros(int((counts + 1).sum()), dtype=np.bool_)
        is_positive[at] = True
        negatives = of.flat(counts)

        def merge(positive: npt.NDArray[Any], negative: npt.NDArray[Any]) -> npt.NDArray[Any]:
            merged = np.empty(len(is_positive), dtype=np.asarray(negative).dtype)
            merged[is_positive], merged[~is_positive] = positive, negative
            return merged

        score = of.score.take(negatives)
        self.documents = merge(of.positive, of.negative[negatives])
        self.labels = pa.array(is_positive.astype(np.int64))
        self.weights = pa.array(merge(np.ones(len(at), dtype=np.float32), of.weight[negatives]))
        self.scores = Column(
            merge(of.positive_score.values, score.values), merge(of.positive_score.valid, score.valid)
        ).to_arrow()

    def keep(self, rows: LongArray) -> None:
        """Only some rows."""
        self.documents = self.documents[rows]
        self.labels, self.weights, self.scores = (
            values.take(rows) for values in (self.labels, self.weights, self.scores)
        )


def _interleaved(of: Examples, row: LongArray, negatives: LongArray) -> pa.Array:
    """Lists [score of the positive of `row`, scores of its `negatives`], one for each of the rows."""
    score = of.score.take(negatives.ravel())
    values = np.column_stack([of.positive_score.values[row], score.values.reshape(negatives.shape)])
    valid = np.column_stack([of.positive_score.valid[row], score.valid.reshape(negatives.shape)])
    return _lists_of(np.full(len(row), values.shape[1]), Column(values.ravel(), valid.ravel()).to_arrow())


def _lists_of(sizes: LongArray, values: pa.Array) -> pa.Array:
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), values).cast(pa.list_(values.type))


def _texts(texts: Texts, rows: npt.NDArray[Any]) -> pa.ChunkedArray:
    """Texts of rows as Arrow `string`, in chunks, since one chunk holds at most 2 GiB."""
    chunks = [pa.array(texts.take(rows[start : start + _CHUNK]), pa.string()) for start in range(0, len(rows), _CHUNK)]
    return pa.chunked_array(chunks, pa.string())


def _column(values: pa.ChunkedArray) -> Column:
    return Column(values.fill_null(0.0).to_numpy().astype(np.float32), np.asarray(values.is_valid()))
