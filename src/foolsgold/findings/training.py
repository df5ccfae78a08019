"""Rules on how a student is trained: FG003, FG004, FG007, FG015, FG016."""

from __future__ import annotations

from collections.abc import Iterator

from foolsgold.findings.rule import Fault, Unknown
from foolsgold.findings.subject import Subject
from foolsgold.recipe import steps_in
from foolsgold.training.regimes import regimes_of

LONG = 2.0  # epochs; more on the same negatives need a curriculum
SMALL = 32  # rows in a batch; 7, 31 and 127 in-batch negatives are what DPR compares (Karpukhin et al., 2020, table 3)

_MINED_BY = ("sources", "teacher", "exclude", "decide", "select")


def no_curriculum(subject: Subject) -> Iterator[Fault | Unknown]:
    """FG003: every regime mines in the same way, with models that stay as they are."""
    if not subject.trains:
        return
    recipe, ways = subject.recipe, subject.ways
    if not ways or any(way.regime is not None and way.regime.mines_with_student for way in ways):
        return
    sections = [way.recipe.model_dump(include=set(_MINED_BY)) for way in ways]
    if len(ways) > 1 and all(one == sections[0] for one in sections):
        yield Fault("schedule", f"{len(ways)} regimes, and each of them mines the same negatives with the same models")
    elif len(ways) == 1:
        regime = ways[0].regime
        begin, end = (regime.from_, regime.to) if regime else (0.0, regimes_of(recipe)[-1].to)
        if end - begin > LONG:
            at = f"schedule.{regime.name}" if regime else "student.epochs"
            yield Fault(at, f"{end - begin:g} epochs on negatives that are mined once")


def unmasked(subject: Subject) -> Iterator[Fault | Unknown]:
    """FG004: a batch, or the bank, may hold a positive of a query as its negative."""
    if not subject.trains:
        return
    student = subject.recipe.student
    if not student.ranks or student.masks or student.guide is not None:
        return
    if student.loss == "memory_bank":
        yield Fault(
            "student.masks",
            "the memory bank holds documents of earlier batches, and nothing masks the positives among them",
        )
    elif student.batches == "random":
        yield Fault("student.batches", f"loss {student.loss} over random batches, and neither ids nor texts are masked")


def stale_self(subject: Subject) -> Iterator[Fault | Unknown]:
    """FG007: mined with the student once, and trained on for longer than an epoch."""
    if not subject.trains:
        return
    recipe = subject.recipe
    for way in subject.ways:
        regime = way.regime
        if regime is None or not regime.mines_with_student:
            continue
        length = regime.to - regime.from_
        if (length <= 1 and regime.from_ > 0) or (recipe.remine is not None and _epochs(recipe.remine.every) < length):
            continue
        when = f"at epoch {regime.from_:g}" if regime.from_ > 0 else "before its first step"
        yield Fault(
            f"schedule.{regime.name}" if recipe.remine is None else "remine.every",
            f"regime {regime.name} mines with the student as it is {when}, and not again in its {length:g} epochs",
        )


def small_batch(subject: Subject) -> Iterator[Fault | Unknown]:
    """FG015: few in-batch negatives, for a loss that lives on them."""
    student = subject.recipe.student
    if subject.trains and student.loss == "mnr" and student.batch_size < SMALL:
        accumulated = (
            f"; gradient_accumulation {student.gradient_accumulation} does not share negatives between batches"
            if student.gradient_accumulation > 1
            else ""
        )
        yield Fault(
            "student.batch_size",
            f"{student.batch_size} rows in a batch leave {student.batch_size - 1} positives of others to rank against"
            + accumulated,
        )


def no_held_out(subject: Subject) -> Iterator[Fault | Unknown]:
    """FG016: no queries that training has not seen decide what is kept."""
    if subject.model is not None:
        if not subject.model.get("evaluation"):
            yield Fault("foolsgold.json", "no evaluation is recorded")
        return
    if not subject.trains:
        return
    recipe = subject.recipe
    spec, collection = recipe.evaluation, recipe.collection
    if spec.split is None:
        if spec.held_out == 0:
            yield Fault("evaluation.held_out", "no split is named, and no query is held out")
    elif collection is not None and spec.split == (collection.split or "train"):
        yield Fault("evaluation.split", f"{spec.split} is the split that is trained on")


def _epochs(every: str) -> float:
    """How many epochs an `Every` is; 0 where it is in steps, of which an epoch has nobody knows how many."""
    return steps_in(every, 1000) / 1000 if "epoch" in every else 0.0
