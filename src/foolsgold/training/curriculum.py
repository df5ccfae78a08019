"""A schedule of regimes as segments of training, and a regime's mode as sections of a recipe. Pure: plain values only.

A *segment* is a stretch of steps between two places where something happens: another regime starts, the negatives are
mined again with the student as it is by then, or the student is only evaluated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

DEPTH = 100  # candidates that a source of a short mode gives, where the recipe does not say


@dataclass(frozen=True)
class Stretch:
    """One regime: epochs [begin, end), and every how many steps it is mined again and evaluated, None for never."""

    begin: float
    end: float
    remine_steps: int | None = None
    evaluate_steps: int | None = None


@dataclass(frozen=True)
class Segment:
    """Steps [start, stop) of training. regime: its place in the schedule; mining: which of its sets, the first is 0."""

    start: int
    stop: int
    regime: int
    mining: int


def segments(stretches: Sequence[Stretch], steps_per_epoch: int) -> list[Segment]:
    """The segments of a schedule whose stretches follow each other from 0.

    Borders are rounded to whole steps; a stretch that is too short for one step has no segment.
    """
    found = []
    for regime, stretch in enumerate(stretches):
        start, end = round(stretch.begin * steps_per_epoch), round(stretch.end * steps_per_epoch)
        minings = range(start, end, stretch.remine_steps or max(end - start, 1))
        evaluations = range(start, end, stretch.evaluate_steps or max(end - start, 1))
        cuts = [*sorted({*minings, *evaluations}), end]
        found += [Segment(begin, stop, regime, (begin - start) // minings.step) for begin, stop in pairwise(cuts)]
    return found


def mode_sections(
    sources: Sequence[str], below: float | None, base: Mapping[str, Any], student: Mapping[str, Any]
) -> dict[str, Any]:
    """The recipe sections of a short mode, such as bm25+dense_ce_0.3. base: the recipe's plain values.

    sources: kinds, in order; one that the recipe also has is taken from there, except for its quota, which belongs to
    the recipe's own mix. below: the teacher's probability that negatives stay below; None: no teacher is asked.
    student: the model section of source `self`.
    """
    named = {name: {**base["sources"].get(name, {"depth": DEPTH}), "quota": None} for name in sources}
    return {
        "sources": with_student(named, student),
        "teacher": None if below is None else base["teacher"],
        "decide": base["decide"] if below is None else _zones(below, base),
    }


def with_student(sources: Mapping[str, Any], student: Mapping[str, Any]) -> dict[str, Any]:
    """Sources in which `self` is dense search with the student."""
    return {
        name: {**(spec or {}), "kind": "dense", "model": dict(student)} if name == "self" else spec
        for name, spec in sources.items()
    }


def _zones(below: float, base: Mapping[str, Any]) -> dict[str, Any]:
    """The recipe's decide section with negatives below a probability, on the scale of its teacher."""
    threshold = below
    if base["teacher"]["scale"] == "logit":
        threshold = math.log(below / (1 - below))
    above = base["decide"]["positive_above"]
    return {
        **base["decide"],
        "negative_below": threshold,
        "positive_above": None if above is None else max(above, threshold),
    }
