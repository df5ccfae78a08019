"""A mined set as training rows, in the four formats of sentence-transformers."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from foolsgold.errors import MinedSetError

if TYPE_CHECKING:
    from datasets import Dataset

    from foolsgold.mined_set import MinedSet

log = logging.getLogger(__name__)

Format = Literal["triplet", "n-tuple", "labeled-pair", "labeled-list"]


@dataclass(frozen=True)
class _Example:
    """One (query, positive) with the negatives mined for it; texts are document rows until they are written."""

    query: int
    positive: int
    positive_score: float | None
    first_of_query: bool
    negatives: list[int]
    scores: list[float | None]
    weights: list[float]


def to_dataset(mined: MinedSet, format: Format, *, scores: bool, weights: bool, n: int | None) -> Dataset:
    """Texts of a mined set as a `datasets.Dataset`.

    Columns, with the names and the order that sentence-transformers' `mine_hard_negatives` gives:

    * `triplet`: anchor, positive, negative; a row for every (positive, negative) of a query.
    * `n-tuple`: anchor, positive, negative_1 .. negative_n; a row a positive. Queries with fewer than n negatives are
      left out and counted in a warning. n is the recipe's `per_query` unless given.
    * `labeled-pair`: anchor, positive (any document), label (1 or 0).
    * `labeled-list`: anchor, positive (list of documents), labels.

    Args:
        mined: the set. format: one of the four.
        scores: teacher scores on the teacher's scale. `scores` [positive, negative, ...] is added to the first two;
            `score` and `scores` replace label and labels in the others. Null where the teacher was not asked.
        weights: adds `weights`, one for each negative (`weight`, with 1 for positives, in `labeled-pair`).
        n: negatives in an `n-tuple`.

    Raises:
        MinedSetError: an unknown format; scores of a set mined without a teacher; no row left.
    """
    from datasets import Dataset

    if format not in get_args(Format):
        raise MinedSetError(f"unknown format {format!r}; one of {', '.join(get_args(Format))}")
    if scores and mined.manifest["teacher"] is None:
        raise MinedSetError(f"{mined.path}: scores were asked for, but this set was mined without a teacher")
    width = n or int(mined.manifest["recipe"]["select"]["per_query"])
    collection = mined.collection

    def rows() -> Iterator[dict[str, Any]]:
        """Texts are fetched a row at a time, so that the set is never whole in Python memory."""
        for example in _examples(mined):
            anchor = collection.queries.take([example.query])[0]
            if format == "n-tuple" and len(example.negatives) < width:
                continue
            taken = width if format == "n-tuple" else len(example.negatives)
            positive, *negatives = collection.documents.take([example.positive, *example.negatives[:taken]])
            yield from _rows(format, example, anchor, positive, negatives, scores, weights)

    # from_list keeps None scores; a generator would be cached by datasets under a hash of this closure
    table = list(rows())
    if not table:
        raise MinedSetError(f"{mined.path}: no query has {width if format == 'n-tuple' else 'any'} negatives")
    if format == "n-tuple":
        left_out = sum(len(example.negatives) < width for example in _examples(mined))
        if left_out:
            log.warning("%d of %d (query, positive) rows have fewer than %d negatives and are left out; n=... asks for "
                        "fewer", left_out, left_out + len(table), width)  # fmt: skip
    return Dataset.from_list(table)


def _rows(
    format: str,
    example: _Example,
    anchor: str,
    positive: str,
    negatives: list[str],
    scores: bool,
    weights: bool,
) -> Iterator[dict[str, Any]]:
    if format == "triplet":
        for negative, score, weight in zip(negatives, example.scores, example.weights, strict=True):
            yield (
                {"anchor": anchor, "positive": positive, "negative": negative}
                | ({"scores": [example.positive_score, score]} if scores else {})
                | ({"weights": [weight]} if weights else {})
            )
    elif format == "n-tuple":
        size = len(negatives)
        yield (
            {"anchor": anchor, "positive": positive}
            | {f"negative_{i}": negative for i, negative in enumerate(negatives, start=1)}
            | ({"scores": [example.positive_score, *example.scores[:size]]} if scores else {})
            | ({"weights": example.weights[:size]} if weights else {})
        )
    elif format == "labeled-pair":
        documents = [(positive, 1, example.positive_score, 1.0)]
        if example.first_of_query:  # a query's negatives are rows once, whatever the number of its positives
            documents += [
                (negative, 0, score, weight)
                for negative, score, weight in zip(negatives, example.scores, example.weights, strict=True)
            ]
        for document, label, score, weight in documents:
            yield (
                {"anchor": anchor, "positive": document}
                | ({"score": score} if scores else {"label": label})
                | ({"weight": weight} if weights else {})
            )
    elif negatives:
        yield (
            {"anchor": anchor, "positive": [positive, *negatives]}
            | (
                {"scores": [example.positive_score, *example.scores]}
                if scores
                else {"labels": [1] + [0] * len(negatives)}
            )
            | ({"weights": example.weights} if weights else {})
        )


def _examples(mined: MinedSet) -> Iterator[_Example]:
    collection = mined.collection
    each = mined.manifest["recipe"]["decide"]["positive_reference"] == "each"
    negatives: dict[tuple[str, str | None], list[tuple[int, float | None, float]]] = {}
    columns = ("query_id", "positive_id", "doc_id", "teacher_score", "weight")
    for query_id, positive_id, doc_id, score, weight in zip(
        *(mined.negatives[name].to_pylist() for name in columns), strict=True
    ):
        row = collection.documents.rows[doc_id]
        negatives.setdefault((query_id, positive_id), []).append((row, score, weight))
    positive_scores = {
        (query_id, doc_id): score
        for query_id, doc_id, score in zip(
            *(mined.positives[name].to_pylist() for name in ("query_id", "doc_id", "teacher_score")), strict=True
        )
    }
    if mined.manifest["recipe"]["relabel"]:
        positive_scores |= {
            (row["query_id"], row["doc_id"]): row["teacher_score"] for row in mined.relabelled.to_pylist()
        }
    query_ids = collection.queries.ids.to_pylist()
    for query, query_id in enumerate(query_ids):
        for place, positive in enumerate(collection.positives(query).tolist()):
            positive_id = collection.documents.take_ids([positive])[0]
            found = negatives.get((query_id, positive_id if each else None), [])
            yield _Example(
                query=query,
                positive=positive,
                positive_score=positive_scores.get((query_id, positive_id)),
                first_of_query=each or place == 0,
                negatives=[row for row, _, _ in found],
                scores=[score for _, score, _ in found],
                weights=[weight for _, _, weight in found],
            )
