"""The regimes of a recipe: where each starts and ends in steps, and the recipe that its negatives are mined by."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from foolsgold.errors import RecipeError
from foolsgold.mining.mine import with_sections
from foolsgold.recipe import ModelSpec, Recipe, RegimeSpec, steps_in
from foolsgold.rules.select import shares
from foolsgold.training.curriculum import Segment, Stretch, mode_sections, segments, with_student

_KEPT = "kept"  # the source that passes negatives of one set on to the next


def regimes_of(recipe: Recipe) -> list[RegimeSpec]:
    """The schedule; without one, the recipe's own way of mining from the first epoch to the last."""
    if recipe.schedule:
        return recipe.schedule
    return [RegimeSpec.model_validate({"name": "all", "from": 0, "to": recipe.student.epochs or 1.0, "mode": {}})]


def negatives_of(regime: RegimeSpec, recipe: Recipe) -> int:
    """How many negatives a row has in a regime."""
    return recipe.student.negatives if regime.n is None else regime.n


def segments_of(recipe: Recipe, steps_per_epoch: int) -> list[Segment]:
    """The segments of a recipe's schedule.

    Raises:
        RecipeError: a regime is shorter than a step.
    """
    every = recipe.evaluation.every
    for regime in regimes_of(recipe):
        if round(regime.from_ * steps_per_epoch) == round(regime.to * steps_per_epoch):
            raise RecipeError(
                f"schedule, regime {regime.name}: from epoch {regime.from_:g} to {regime.to:g} is less than a step (an "
                f"epoch has {steps_per_epoch:,}); make it longer"
            )
    stretches = [
        Stretch(
            regime.from_,
            regime.to,
            steps_in(recipe.remine.every, steps_per_epoch) if recipe.remine and regime.mines_with_student else None,
            steps_in(every, steps_per_epoch) if every is not None else None,
        )
        for regime in regimes_of(recipe)
    ]
    return segments(stretches, steps_per_epoch)


def is_in_batch(regime: RegimeSpec, recipe: Recipe) -> bool:
    """Whether a regime has no mined negatives."""
    return regime.mode == "in_batch" or negatives_of(regime, recipe) == 0


def mining_recipe(recipe: Recipe, regime: RegimeSpec, student: ModelSpec, kept: Path | None) -> Recipe:
    """The recipe of a regime's mining, without the parts on training.

    student: as a model to mine with, for source `self`. kept: a run of negatives of the set before, to keep some of.

    Raises:
        RecipeError: the regime needs what the recipe does not have, or its negatives do not fit the loss.
    """
    model = {**student.model_dump(), "dtype": "auto"}
    where = f"schedule, regime {regime.name}"
    if isinstance(regime.mode, str):
        short = regime.short_mode
        if short.below is not None and recipe.teacher is None:
            raise RecipeError(f"{where}: mode {regime.mode} needs a teacher; this recipe has none")
        if short.below is not None and recipe.teacher is not None and recipe.teacher.scale == "cosine":
            raise RecipeError(
                f"{where}: {regime.mode} is a probability, but the teacher gives cosines; write the mode "
                "as a mapping with its own decide section"
            )
        if short.below is not None and recipe.decide.calibration is not None:
            raise RecipeError(
                f"{where}: mode {regime.mode} has a threshold of its own, and decide.calibration sets another; leave "
                f"one out (the mode {{sources: {{{short.sources[0]}: {{}}}}}} takes that of the calibration)"
            )
        sections = mode_sections(short.sources, short.below, recipe.model_dump(), model)
    else:
        sections = dict(regime.mode)
        if "sources" in sections:
            sections["sources"] = with_student(sections["sources"], model)
    n = negatives_of(regime, recipe)
    in_batch = is_in_batch(regime, recipe)
    mining = recipe.with_values({"student": {}, "schedule": [], "remine": None, "evaluation": {}})
    try:
        mining = with_sections(mining, {} if in_batch else sections)
    except RecipeError as error:
        raise RecipeError("\n".join(f"{where}: {line}" for line in str(error).splitlines())) from None
    needs_scores = recipe.student.distils or recipe.student.draw == "balanced"
    if needs_scores and (in_batch or mining.teacher is None):
        what = f"loss {recipe.student.loss}" if recipe.student.distils else "draw: balanced"
        raise RecipeError(f"{where}: {what} needs negatives with teacher scores; name a mode with a teacher")
    if n > mining.select.per_query:
        mining = mining.with_values({"select.per_query": n, "select.cap": max(n, mining.select.cap)})
    if kept is not None and recipe.remine is not None:
        quota = round(recipe.remine.overlap * mining.select.per_query)
        others = _within(mining, mining.select.per_query - quota)
        kept_ones = {"kind": "run", "path": str(kept), "quota": quota}
        mining = with_sections(mining, {"sources": {**others, _KEPT: kept_ones}})
    return mining


def _within(mining: Recipe, budget: int) -> dict[str, dict[str, Any]]:
    """The sources, with quotas scaled down to what a query's budget leaves for them."""
    sources: dict[str, dict[str, Any]] = mining.model_dump()["sources"]
    with_quota = [source for source in sources.values() if source["quota"] is not None]
    for source, quota in zip(with_quota, shares([source["quota"] for source in with_quota], budget), strict=True):
        source["quota"] = quota
    return sources
