"""What a recipe says of training, worked out: its regimes, how each is mined, what is trained and evaluated on."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np

from foolsgold.calibration import load as load_calibration
from foolsgold.collection import Collection, load_collection
from foolsgold.errors import CollectionError, RecipeError
from foolsgold.mining.mine import with_sections
from foolsgold.models.names import fetched, locate
from foolsgold.progress import Progress
from foolsgold.recipe import CollectionSpec, ModelSpec, Recipe, RegimeSpec, steps_in
from foolsgold.rules.select import shares
from foolsgold.sources.run import RunSource
from foolsgold.training.curriculum import Segment, Stretch, mode_sections, segments, with_student

log = logging.getLogger(__name__)

_KEPT = "kept"  # the source that hands a set's negatives on to the next


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
        RecipeError: the regime asks for what the recipe does not have, or gives what the loss cannot be trained on.
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


def check_there(recipe: Recipe, student: ModelSpec, collection: Collection) -> None:
    """See that the models and files of every regime's mining are there, before the first is trained; each once.

    Raises:
        FoolsgoldError: one is not, or cannot be read.
    """
    from foolsgold.teachers.load import find_teacher  # with onnxruntime, which foolsgold itself is imported without

    models, teachers, runs, calibrations = {}, {}, {}, set()
    for regime in regimes_of(recipe):
        if is_in_batch(regime, recipe):
            continue
        mining = mining_recipe(recipe, regime, student, None)
        for name, source in mining.sources.items():
            model = mining.model_of(name)
            if model is not None and name != "self":
                models[model.model, model.trust_remote_code] = model
            if source.kind == "run":
                runs[source.path] = name
        if mining.teacher is not None:
            teachers[mining.teacher.model, mining.teacher.kind] = mining.teacher
        if mining.decide.calibration is not None:
            calibrations.add(mining.decide.calibration)
    for model in models.values():
        fetched(locate(model.model), with_code=model.trust_remote_code)
    for teacher in teachers.values():
        find_teacher(teacher)
    for path in calibrations:
        load_calibration(path)
    for path, name in runs.items():
        RunSource(name, path, collection)


def _within(mining: Recipe, budget: int) -> dict[str, dict[str, Any]]:
    """The sources, with quotas scaled down to what a query's budget leaves for them."""
    sources: dict[str, dict[str, Any]] = mining.model_dump()["sources"]
    with_quota = [source for source in sources.values() if source["quota"] is not None]
    for source, quota in zip(with_quota, shares([source["quota"] for source in with_quota], budget), strict=True):
        source["quota"] = quota
    return sources


def held_out_parts(recipe: Recipe, given: Any, progress: Progress) -> tuple[Collection, Collection]:
    """What to train on and what to evaluate on. Of a split of their own the held-out queries may be trained on too.

    Raises:
        CollectionError: all of them are; nothing is left to train or to evaluate on.
    """
    source = recipe.collection if given is None else given
    if source is None:
        raise CollectionError("no collection: give one, or a recipe with a `collection` section")
    spec = recipe.evaluation
    whole = load_collection(source, progress=progress)
    if spec.split is not None:
        if not isinstance(source, str | CollectionSpec):
            raise CollectionError(
                "evaluation.split names a split, but the collection is in memory and has only one; leave split out, "
                "and part of the queries are held out"
            )
        held_out = load_collection(source, split=spec.split, progress=progress)
        train = whole
        shared = np.isin(held_out.queries.keys[:, 0], whole.queries.keys[:, 0])  # a part of the hash is enough
        if shared.all():
            raise CollectionError(
                f"evaluation.split: every query of {spec.split} is trained on; name another split, or none, and "
                "part of the queries are held out"
            )
        if shared.any():
            log.warning(
                "evaluation.split: %d of %d queries of %s are trained on too, and look better than they are",
                shared.sum(), len(shared), spec.split,
            )  # fmt: skip
    else:
        chosen = whole.held_out(spec.held_out)
        if not chosen.any() or chosen.all():
            raise CollectionError(
                f"{whole.name}: evaluation.held_out: {spec.held_out:g} of {len(whole.queries):,} queries leaves "
                f"none to {'train' if chosen.all() else 'evaluate'} on; name another share, or a split"
            )
        of_whole = whole.spec
        train, held_out = (
            whole.with_queries(
                np.flatnonzero(rows),
                None if of_whole is None else {**of_whole, "part": part, "held_out": spec.held_out},
            )
            for rows, part in ((~chosen, "train"), (chosen, "held_out"))
        )
    if spec.limit is not None and len(held_out.queries) > spec.limit:
        held_out = held_out.with_queries(np.arange(spec.limit))
    return train, held_out
