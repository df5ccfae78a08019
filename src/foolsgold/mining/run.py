"""What every stage of a run can see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from foolsgold.collection import Collection
from foolsgold.mining.signal import Signal
from foolsgold.progress import Progress
from foolsgold.recipe import Recipe
from foolsgold.rules import select
from foolsgold.rules.limits import Limits
from foolsgold.sources.protocol import HasVectors, Source

_DRAWN = 4096  # pairs of passages, enough to know their mean cosine to 0.003

if TYPE_CHECKING:
    from foolsgold.teachers.llm import LlmJudge


@dataclass(frozen=True)
class Run:
    """One recipe on one collection, with its sources (in the recipe's order) and what it decides on."""

    recipe: Recipe
    collection: Collection
    sources: Mapping[str, Source]
    signal: Signal
    progress: Progress
    llm: LlmJudge | None = None

    @cached_property
    def dense(self) -> HasVectors | None:
        """The source that compares documents with one another, the first of several."""
        return next((source for source in self.sources.values() if isinstance(source, HasVectors)), None)

    @cached_property
    def unrelated(self) -> float:
        """The mean cosine of two passages drawn at random: 0.05 in some models' spaces, 0.6 in others'."""
        assert self.dense is not None
        rows = np.random.default_rng(0).integers(0, len(self.collection.documents), (2, _DRAWN)).astype(np.int32)
        return float(self.dense.similarity(*rows).mean(dtype=np.float64))

    @cached_property
    def limits(self) -> Limits:
        """The thresholds that candidates are decided by."""
        signal = self.signal
        return Limits.of(
            self.recipe.decide.model_dump(),
            signal.positives.values,
            has_teacher=signal.describe() is not None,
            calibrated=None if signal.calibration is None else signal.calibration.threshold,
        )

    @property
    def source_notes(self) -> list[str]:
        """What sources have to say of what they read, for the manifest."""
        return [f"{name}: {note}" for name, source in self.sources.items() for note in getattr(source, "notes", ())]

    @property
    def quotas(self) -> select.Quotas:
        """How many negatives each source gives a unit."""
        specs, spec = self.recipe.sources, self.recipe.select
        return select.Quotas(
            shares=select.shares([source.quota for source in specs.values()], spec.per_query),
            may_fill=tuple(spec.backfill and source.kind != "random" for source in specs.values()),
            budget=spec.per_query,
        )
