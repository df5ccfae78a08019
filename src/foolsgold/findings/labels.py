"""Labelled pairs that test a threshold: how many there are, and how many of the negatives among them are relevant."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from foolsgold.calibration.labels import read_labels
from foolsgold.errors import CollectionError, RecipeError
from foolsgold.findings.finding import Unknown
from foolsgold.findings.subject import Subject
from foolsgold.mined.mined_set import MinedSet
from foolsgold.rules.bounds import wilson_upper
from foolsgold.teachers.calibrated import DEFAULT
from foolsgold.teachers.calibrated import load as load_calibration

ENOUGH = 100  # labelled pairs
FILE = "labels.jsonl"  # where `foolsgold label` keeps the answers about a set


@dataclass(frozen=True)
class Validation:
    """Labelled pairs, and what a threshold says of them.

    origin: the file; pairs: labelled relevant or not; below: those that the threshold makes negatives; relevant: those
    of them that are relevant, so that they are false negatives.
    """

    origin: str
    pairs: int
    below: int
    relevant: int

    @property
    def is_enough(self) -> bool:
        """Whether a rate can be told from so many."""
        return self.pairs >= ENOUGH

    def __str__(self) -> str:
        said = f"{self.pairs:,} labelled pairs in {self.origin}"
        if not self.below:
            return f"{said}, none of them below the threshold"
        bound = wilson_upper(self.relevant, self.below)
        return (
            f"{said}; of {self.below:,} below the threshold {self.relevant:,} are relevant (at most {bound:.1%}, 95 %)"
        )


def validation_of(subject: Subject) -> Validation | None:
    """The labelled pairs that test the thresholds; None where there are none.

    Of a set the answers in its folder, else, of a recipe too, the calibration that it names. The one that ships with
    foolsgold rests on the labels of other collections, which say nothing of this one.

    Raises:
        Unknown: answers or a calibration are there, and cannot be read.
        MinedSetError: the set's ledger cannot be read.
    """
    if subject.mined is not None and (subject.mined.path / FILE).is_file():
        return _of_answers(subject.mined, subject.mined.path / FILE)
    name = subject.recipe.decide.calibration
    if name is None or name == DEFAULT:
        return None
    try:
        calibrated = load_calibration(name)
    except RecipeError as error:
        raise Unknown(str(error)) from None
    choice = calibrated.models[0].curve.choose(subject.recipe.decide.max_false_negative_rate)
    return Validation(Path(name).name, int(calibrated.labels["pairs"]), choice.labels, choice.relevant)


def _of_answers(mined: MinedSet, path: Path) -> Validation:
    """Answers of people beside the ledger's verdicts on the same pairs."""
    try:
        labels, _ = read_labels(path, 1)
    except CollectionError as error:
        raise Unknown(" ".join(str(error).split())) from None
    relevant = {(label.query_id, label.doc_id): label.relevant for label in labels}
    below: set[tuple[str, str]] = set()
    asked = pa.array(list({query for query, _ in relevant}), pa.string())
    for batch in mined.ledger_batches(["query_id", "doc_id", "verdict"]):
        of_asked = batch.filter(pc.is_in(batch["query_id"], value_set=asked))
        for query, doc, verdict in zip(*(column.to_pylist() for column in of_asked.columns), strict=True):
            if verdict == "negative" and (query, doc) in relevant:
                below.add((query, doc))
    return Validation(FILE, len(relevant), len(below), sum(relevant[pair] for pair in below))
