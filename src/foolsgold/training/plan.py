"""What a run of training would do, before it does it: `foolsgold train --dry-run`."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foolsgold.mining.mine import resolved
from foolsgold.progress import SILENT, Advance, Progress
from foolsgold.recipe import Recipe
from foolsgold.training.launch import libraries
from foolsgold.training.regimes import (
    check_there,
    held_out_parts,
    is_in_batch,
    mining_recipe,
    negatives_of,
    regimes_of,
    segments_of,
)

_MEASURED = 20  # steps


@dataclass(frozen=True)
class PlannedRegime:
    """One regime: steps, negatives a row, how often it is mined, and the teacher's calls at least and at most.

    The calls are of pairs that are not in the store yet, were each regime the first; scores that one regime has asked
    for, another does not ask for again. None without a teacher.
    """

    name: str
    start: int
    stop: int
    negatives: int
    minings: int
    teacher_calls: tuple[int, int] | None
    seconds: float


@dataclass(frozen=True)
class Plan:
    """A run. rows: (query, positive) pairs; seconds: of training alone, from some measured steps."""

    rows: int
    queries: int
    documents: int
    held_out: int
    steps_per_epoch: int
    steps: int
    seconds_per_step: float
    regimes: list[PlannedRegime]

    @property
    def seconds(self) -> float:
        """Of training, without mining and evaluation."""
        return sum(regime.seconds for regime in self.regimes)


class _Clock:
    """A progress that also notes when training begins, and when each step of it ends."""

    def __init__(self, shown: Progress) -> None:
        self._shown = shown
        self._times: list[float] = []

    @contextmanager
    def stage(self, name: str, total: int) -> Iterator[Advance]:
        with self._shown.stage(name, total) as advance:
            self._times.append(time.perf_counter())

            def step(number: int) -> None:
                advance(number)
                self._times.append(time.perf_counter())

            yield step

    @property
    def seconds_a_step(self) -> float:
        """But for the first, if there are more, before which much is made."""
        first, *ends = self._times
        return (ends[-1] - ends[0]) / (len(ends) - 1) if len(ends) > 1 else ends[0] - first


def plan(
    recipe: Recipe | Mapping[str, Any] | str | Path,
    *,
    collection: Any = None,
    progress: Progress = SILENT,
    cache: str | Path | None = None,
    **sections: Any,
) -> Plan:
    """Load the collection and the student, train some steps on in-batch negatives in a folder that is deleted.

    Raises:
        FoolsgoldError: as `train`.
    """
    libraries()
    from foolsgold.training.build import build_trainer
    from foolsgold.training.student import student_spec

    recipe = resolved(recipe, sections)
    train, held_out = held_out_parts(recipe, collection, progress)
    regimes = regimes_of(recipe)
    recipes = [mining_recipe(recipe, regime, student_spec(recipe), None) for regime in regimes]
    check_there(recipe, student_spec(recipe), train)
    with tempfile.TemporaryDirectory() as folder:
        trainer = build_trainer(
            recipe, train, None, epochs=regimes[-1].to, folder=Path(folder), cache=cache, progress=progress
        )
        clock = _Clock(progress)
        trainer.train_to(min(_MEASURED, trainer.total_steps), clock)
    parts = segments_of(recipe, trainer.steps_per_epoch)
    planned = []
    for place, (regime, mining) in enumerate(zip(regimes, recipes, strict=True)):
        own = [part for part in parts if part.regime == place]
        steps = sum(part.stop - part.start for part in own)
        n = 0 if is_in_batch(regime, recipe) else negatives_of(regime, recipe)
        mines = 0 if n == 0 else len({part.mining for part in own})
        calls = None
        if mines and mining.teacher is not None:
            depth = sum(spec.depth for spec in mining.sources.values())
            each = (min(mining.select.per_query, depth), depth)
            calls = tuple(mines * len(train.queries) * least + len(train.positive_rows) for least in each)
        planned.append(
            PlannedRegime(
                regime.name,
                own[0].start if own else 0,
                own[-1].stop if own else 0,
                n,
                mines,
                (calls[0], calls[1]) if calls else None,
                steps * clock.seconds_a_step * (2 + n) / 2,  # texts of a row against those of the measured steps
            )
        )
    return Plan(
        len(trainer.rows), len(train.queries), len(train.documents), len(held_out.queries), trainer.steps_per_epoch,
        trainer.total_steps, clock.seconds_a_step, planned,
    )  # fmt: skip
