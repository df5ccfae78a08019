"""What a run of training would do: `foolsgold train --dry-run`."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foolsgold.progress import SILENT, Advance, Progress
from foolsgold.recipe import Recipe, RegimeSpec
from foolsgold.training.curriculum import Segment
from foolsgold.training.job import Job
from foolsgold.training.regimes import is_in_batch, mining_recipe, negatives_of, segments_of

_MEASURED = 20  # steps


@dataclass(frozen=True)
class PlannedRegime:
    """One regime: its steps, negatives per row, number of minings, and the least and most teacher calls.

    The calls assume that no score is in the store yet, not even from an earlier regime. None without a teacher.
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
    """A planned run. rows: (query, positive) pairs. seconds_per_step: measured, without mined negatives."""

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
        """Of training alone, without mining and evaluation."""
        return sum(regime.seconds for regime in self.regimes)


class _Clock:
    """A progress that also notes when training starts, and when each of its steps ends."""

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
        """Without the first step, which sets things up, unless it is the only one."""
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
    """Load the collection and the student, and train some steps on in-batch negatives in a folder that is deleted.

    Raises:
        FoolsgoldError: as `train`.
    """
    job = Job.prepared(recipe, sections, collection, progress, cache)
    job.check_models()
    from foolsgold.training.build import build_trainer

    with tempfile.TemporaryDirectory() as folder:
        trainer = build_trainer(
            job.recipe, job.collection, None, epochs=job.regimes[-1].to, folder=Path(folder), cache=cache,
            progress=progress,
        )  # fmt: skip
        clock = _Clock(progress)
        trainer.train_to(min(_MEASURED, trainer.total_steps), clock)
    parts = segments_of(job.recipe, trainer.steps_per_epoch)
    return Plan(
        rows=len(trainer.rows),
        queries=len(job.collection.queries),
        documents=len(job.collection.documents),
        held_out=len(job.held_out.queries),
        steps_per_epoch=trainer.steps_per_epoch,
        steps=trainer.total_steps,
        seconds_per_step=clock.seconds_a_step,
        regimes=[
            _planned(job, regime, [part for part in parts if part.regime == place], clock.seconds_a_step)
            for place, regime in enumerate(job.regimes)
        ],
    )


def _planned(job: Job, regime: RegimeSpec, parts: list[Segment], seconds_a_step: float) -> PlannedRegime:
    mining = mining_recipe(job.recipe, regime, job.student, None)
    steps = sum(part.stop - part.start for part in parts)
    n = 0 if is_in_batch(regime, job.recipe) else negatives_of(regime, job.recipe)
    minings = 0 if n == 0 else len({part.mining for part in parts})
    calls = None
    if minings and mining.teacher is not None:
        queries, positives = len(job.collection.queries), len(job.collection.positive_rows)
        depth = sum(spec.depth for spec in mining.sources.values())
        least = min(mining.select.per_query, depth)
        calls = (minings * queries * least + positives, minings * queries * depth + positives)
    return PlannedRegime(
        name=regime.name,
        start=parts[0].start if parts else 0,
        stop=parts[-1].stop if parts else 0,
        negatives=n,
        minings=minings,
        teacher_calls=calls,
        seconds=steps * seconds_a_step * (2 + n) / 2,  # texts of a row against those of the measured steps
    )
