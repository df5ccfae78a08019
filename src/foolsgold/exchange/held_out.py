"""What a file of training rows shares with the collection that a model is to be evaluated on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from foolsgold.collection import Collection
from foolsgold.collection.leakage import known_answers, same_text
from foolsgold.exchange.listed import Listed, Pairs


@dataclass(frozen=True)
class HeldOut:
    """Compared by normalised text, so that ids need not agree.

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
    shared = same_text(listed.queries, evaluation.queries) >= 0

    def known(pairs: Pairs) -> int:
        return int(known_answers(listed.queries, listed.documents, pairs.query, pairs.doc, evaluation).sum())

    return HeldOut(
        name=f"{evaluation.name}, split {evaluation.split}",
        queries=int(shared.sum()),
        share=float(shared.mean()),
        answered=known(listed.positives),
        denied=known(listed.negatives),
    )
