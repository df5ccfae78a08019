"""What every stage of a run can see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from foolsgold import select
from foolsgold.collection import Collection
from foolsgold.progress import Progress
from foolsgold.recipe import Recipe
from foolsgold.signal import Signal
from foolsgold.sources.protocol import Source


@dataclass(frozen=True)
class Run:
    """One recipe on one collection, with its sources (in the recipe's order) and what it decides on."""

    recipe: Recipe
    collection: Collection
    sources: Mapping[str, Source]
    signal: Signal
    progress: Progress

    @property
    def quotas(self) -> select.Quotas:
        """How many negatives each source gives a unit."""
        specs, spec = self.recipe.sources, self.recipe.select
        return select.Quotas(
            shares=select.shares([source.quota for source in specs.values()], spec.per_query),
            may_fill=tuple(spec.backfill and self.recipe.kind_of(name) != "random" for name in specs),
            budget=spec.per_query,
        )
