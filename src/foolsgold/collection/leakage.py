"""What a collection, or a file of training rows, shares with the queries that a model is evaluated on."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from foolsgold.collection.collection import Collection
from foolsgold.collection.texts import Texts, first_of_equal
from foolsgold.records import BoolArray, IntArray, pair_keys


def same_text(texts: Texts, among: Texts) -> IntArray:
    """int32 (n): for each of the texts, the first row of `among` with the same normalised text, or -1."""
    first = first_of_equal(np.concatenate([among.keys, texts.keys]))[len(among) :]
    return np.where(first < len(among), first, -1).astype(np.int32)


def shared_queries(queries: Texts, evaluated: Texts) -> tuple[int, int]:
    """How many of the evaluated queries are among `queries`: by id, and by normalised text."""
    return len(queries.find(evaluated.ids.to_pylist())), int((same_text(evaluated, queries) >= 0).sum())


def known_answers(
    queries: Texts, documents: Texts, query: npt.NDArray[Any], doc: npt.NDArray[Any], evaluation: Collection
) -> BoolArray:
    """bool (n): which (query, document) pairs are positives of the evaluation, both compared by normalised text.

    query, doc: int (n), rows of `queries` and `documents`. Only the documents of shared queries are compared, so that
    a large corpus is not hashed for this.
    """
    asked = same_text(queries, evaluation.queries)[query]
    theirs = evaluation.queries.passage[evaluation.positive_query]
    shared, wanted = np.flatnonzero(asked >= 0), np.isin(theirs, asked)
    ours, place = np.unique(doc[shared], return_inverse=True)
    right, right_place = np.unique(evaluation.positive_rows[wanted], return_inverse=True)
    answers = evaluation.documents.subset(right)
    found = same_text(documents.subset(ours), answers)[place]  # -1 makes a key that no positive has
    known = np.zeros(len(query), dtype=np.bool_)
    positives = pair_keys(theirs[wanted], answers.passage[right_place])
    known[shared] = np.isin(pair_keys(asked[shared], found), positives)
    return known
