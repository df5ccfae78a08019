"""What a file of training rows shares with the collection that a model is to be evaluated on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from foolsgold.collection import Collection
from foolsgold.exchange.listed import Listed, Pairs
from foolsgold.records import BoolArray, pair_keys


@dataclass(frozen=True)
class HeldOut:
    """Told by normalised text, so that ids need not agree.

    queries: of the file that are also asked in the evaluation; share: of the file's queries; answered: of the file's
    positives, (query, document) pairs that the evaluation counts as right: the answers are in the training data;
    denied: negatives that are right answers to the same query in the evaluation: each is a false negative for certain.
    """

    name: str
    queries: int
    share: float
    answered: int
    denied: int

    @property
    def verdict(self) -> Literal["pass", "fail"]:
        """Whether anything is shared."""
        return "fail" if self.queries else "pass"


def overlap_with(listed: Listed, evaluation: Collection) -> HeldOut:
    """The queries, and the right answers to them, that are in both."""
    asked = _which(listed.queries.keys, evaluation.queries.keys)
    shared = asked >= 0
    passages = _which(listed.documents.keys, evaluation.documents.keys)
    documents = evaluation.documents.passage
    right = pair_keys(evaluation.queries.passage[evaluation.positive_query], documents[evaluation.positive_rows])

    def is_right(pairs: Pairs) -> BoolArray:
        query, doc = asked[pairs.query], passages[pairs.doc]
        known = (query >= 0) & (doc >= 0)
        return np.asarray(known & np.isin(pair_keys(query, doc), right))

    return HeldOut(
        name=f"{evaluation.name}, split {evaluation.split}",
        queries=int(shared.sum()),
        share=float(shared.mean()),
        answered=int(is_right(listed.positives).sum()),
        denied=int(is_right(listed.negatives).sum()),
    )


def _which(keys: npt.NDArray[np.uint64], among: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """int64 (n): for each row of keys, uint64 (n, 2), the first row of `among` that is equal to it, or -1."""
    first: dict[bytes, int] = {}
    for row, key in enumerate(map(bytes, np.ascontiguousarray(among))):
        first.setdefault(key, row)
    return np.array([first.get(key, -1) for key in map(bytes, np.ascontiguousarray(keys))], dtype=np.int64)
