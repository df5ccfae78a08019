"""Rules on how a recipe mines and trains: FG001 to FG004, FG006, FG007, FG009, FG010, FG013, FG015, FG016.

Some of them see more in a set or a run, and look there.
"""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

from foolsgold.findings.finding import Fault, Said
from foolsgold.findings.models import same_model
from foolsgold.findings.subject import Subject, Way
from foolsgold.recipe import HARD_CAP, DecideSpec, Recipe, steps_in
from foolsgold.records import FloatArray, Scale, sigmoid
from foolsgold.rules import select
from foolsgold.training.regimes import regimes_of

LONG = 2.0  # epochs; more on the same negatives need a curriculum
SMALL = 32  # rows in a batch; 7, 31 and 127 in-batch negatives are what DPR compares (Karpukhin et al., 2020, table 3)
MOST_RANDOM = 0.1  # of a query's negatives, where random ones are mixed with harder ones
_FEW = 50  # scores; that fewer than these all lie between 0 and 1 may be chance
_MINED_BY = {"sources", "teacher", "exclude", "decide", "select"}


def unfiltered(subject: Subject) -> Said:
    """FG001: near sources whose candidates nothing looks at."""
    for way in subject.ways:
        near = near_sources(way.recipe)
        decide = way.recipe.decide
        if not near or decide.compares:
            continue
        among = " and ".join(near)
        if way.recipe.teacher is None:
            yield Fault(way.key("teacher"), f"{among} candidates, and no teacher or margin to tell false negatives by")
        elif decide.calibration is None and decide.negative_below is None and decide.positive_above is None:
            yield Fault(way.key("decide"), f"a teacher scores the {among} candidates, and no rule reads its scores")


def nearest_only(subject: Subject) -> Said:
    """FG002: one negative per query, from a window that starts at the nearest passage, and no teacher."""
    for way in subject.ways:
        recipe = way.recipe
        if recipe.teacher is not None or recipe.select.per_query > 1:
            continue
        for name in near_sources(recipe):
            first, last = recipe.sources[name].window or (0, recipe.sources[name].depth)
            if first == 0:
                said = f"one negative per query from the {last:,} nearest of {name}, and no teacher"
                yield Fault(way.key(f"sources.{name}.window"), said)


def over_cap(subject: Subject) -> Said:
    """FG006: more than 8 negatives per query, or nothing that would stop it."""
    if subject.audit is not None:
        counts = subject.audit.per_query
        if above := sum(counts[HARD_CAP + 1 :]):
            said = f"{above:,} queries have more than {HARD_CAP} negatives, up to {len(counts) - 1}"
            yield Fault("negatives.parquet", said)
        return
    for way in subject.ways:
        spec = way.recipe.select
        if spec.per_query > HARD_CAP:
            said = f"{spec.per_query} negatives per query, and more than {HARD_CAP} add nothing"
            yield Fault(way.key("select.per_query", "n"), said)
        elif spec.cap > HARD_CAP:
            said = f"a cap of {spec.cap} allows more than the {HARD_CAP} negatives per query that help"
            yield Fault(way.key("select.cap", "n"), said)


def off_scale(subject: Subject) -> Said:
    """FG009: thresholds or scores that are not on the teacher's scale."""
    if subject.run is None or subject.mined is None:  # the sets of a run have its thresholds
        yield from _off_scale_thresholds(Way(subject.recipe, subject.recipe))
        for way in subject.ways:  # a short mode puts its threshold on the teacher's scale itself
            if way.regime is not None and not isinstance(way.regime.mode, str):
                yield from _off_scale_thresholds(way)
    if subject.mined is not None and subject.mined.manifest.teacher is not None:
        scale: Scale = subject.mined.manifest.teacher.scale
        for name, table in (("positives", subject.mined.positives), ("negatives", subject.mined.negatives)):
            if said := _off_scale_scores(pc.drop_null(table["teacher_score"]).to_numpy(), scale):
                yield Fault(f"{name}.parquet", said)
                return


def _off_scale_thresholds(way: Way) -> Said:
    teacher, decide = way.recipe.teacher, way.recipe.decide
    if teacher is None or decide.calibration is not None:
        return
    low, high = decide.negative_below, decide.positive_above
    limits = [limit for limit in (low, high) if limit is not None]
    said, default = None, DecideSpec()
    if teacher.scale == "probability":  # outside 0 to 1 a recipe refuses them itself
        if low == 1 and not decide.compares:
            said = "at 1 nearly every probability is below it: all may pass"
        elif low == 0:
            said = "no probability is below 0: nothing can be a negative"
    elif (low, high) == (default.negative_below, default.positive_above):
        said = f"{low} and {high} are the defaults, for probabilities, and teacher.scale is {teacher.scale}"
    elif teacher.scale == "cosine" and (beyond := [limit for limit in limits if abs(limit) > 1]):
        said = f"a threshold of {beyond[0]:g}, and a cosine is from -1 to 1"
    elif teacher.scale == "logit" and limits and all(0 < limit < 1 for limit in limits):
        meant = " and ".join(f"{limit:g}" for limit in limits)
        read = " and ".join(f"{p:.2f}" for p in sigmoid(np.array(limits, dtype=np.float32)))
        said = f"teacher.scale is logit, and {meant} look like probabilities; as logits they mean {read}"
    if said is not None:
        yield Fault(way.key("decide.negative_below"), said)


def _off_scale_scores(scores: FloatArray, scale: Scale) -> str | None:
    """What is wrong with a set's scores, float32 (n), if they cannot be on the scale."""
    if not len(scores):
        return None
    low, high = float(scores.min()), float(scores.max())
    if scale == "probability" and (low < 0 or high > 1):
        return f"teacher scores from {low:.3g} to {high:.3g} are said to be probabilities; they look like logits"
    if scale == "cosine" and max(-low, high) > 1.02:  # what rounding may add
        return f"teacher scores from {low:.3g} to {high:.3g} are said to be cosines"
    if scale == "logit" and len(scores) >= _FEW and low >= 0 and high <= 1:
        span = f"all from {low:.3g} to {high:.3g}"
        return f"{len(scores):,} teacher scores, {span}, are said to be logits; they look like probabilities"
    return None


def teacher_retrieves(subject: Subject) -> Said:
    """FG010: the teacher is a model whose neighbours it scores."""
    for way in subject.ways:
        teacher = way.recipe.teacher
        models = {name: way.recipe.model_of(name) for name in near_sources(way.recipe)}
        own = [name for name, model in models.items() if teacher and model and same_model(model.model, teacher.model)]
        if teacher and own:
            yield Fault(way.key("teacher.model"), f"{teacher.model} scores what it found itself, as source {own[0]}")


def random_fill(subject: Subject) -> Said:
    """FG013: more than a tenth of the negatives beside harder ones are random."""
    if subject.audit is not None:
        sources = subject.audit.sources
        drawn = [name for name in sources if subject.recipe.sources[name].kind == "random"]
        share = sum(sources[name].share for name in drawn)
        if len(drawn) < len(sources) and share > MOST_RANDOM:
            yield Fault("negatives.parquet", f"{share:.0%} of the negatives are from {' and '.join(drawn)}")
        return
    for way in subject.ways:
        specs, budget = way.recipe.sources, way.recipe.select.per_query
        quotas = dict(zip(specs, select.shares([spec.quota for spec in specs.values()], budget), strict=True))
        drawn = [name for name, spec in specs.items() if spec.kind == "random"]
        given = sum(quotas[name] for name in drawn)
        if drawn and len(drawn) < len(specs) and given > MOST_RANDOM * budget:
            said = f"{given} of {budget} negatives per query are random ({given / budget:.0%})"
            yield Fault(way.key(f"sources.{drawn[0]}"), said)


def no_curriculum(subject: Subject) -> Said:
    """FG003: every regime mines in the same way, with models that do not change."""
    ways = subject.ways if subject.trains else []
    if any(way.regime is not None and way.regime.mines_with_student for way in ways):
        return
    sections = [way.recipe.model_dump(include=_MINED_BY) for way in ways]
    if len(ways) > 1 and all(one == sections[0] for one in sections):
        yield Fault("schedule", f"{len(ways)} regimes, and each of them mines the same negatives with the same models")
    elif len(ways) == 1:
        regime = ways[0].regime or regimes_of(subject.recipe)[0]
        length = regime.to - regime.from_
        if length > LONG:
            at = f"schedule.{regime.name}" if ways[0].regime else "student.epochs"
            yield Fault(at, f"{length:g} epochs on negatives that are mined once")


def unmasked(subject: Subject) -> Said:
    """FG004: a batch, or the bank, may hold a positive of a query as its negative."""
    student = subject.recipe.student
    if not subject.trains or not student.ranks or student.masks or student.guide is not None:
        return
    if student.loss == "memory_bank":
        said = "the memory bank holds documents of earlier batches, and nothing masks the positives among them"
        yield Fault("student.masks", said)
    elif student.batches == "random":
        yield Fault("student.batches", f"loss {student.loss} over random batches, and neither ids nor texts are masked")


def stale_self(subject: Subject) -> Said:
    """FG007: mined with the student once, and trained on for longer than an epoch."""
    remine = subject.recipe.remine
    at = "remine.every" if remine is not None else ""
    for way in subject.ways if subject.trains else []:
        regime = way.regime
        if regime is None or not regime.mines_with_student:
            continue
        length = regime.to - regime.from_
        if (length <= 1 and regime.from_ > 0) or (remine is not None and _epochs(remine.every) < length):
            continue
        when = f"at epoch {regime.from_:g}" if regime.from_ > 0 else "before its first step"
        said = f"regime {regime.name} mines with the student as it is {when}, and not again in its {length:g} epochs"
        yield Fault(at or f"schedule.{regime.name}", said)


def small_batch(subject: Subject) -> Said:
    """FG015: few in-batch negatives, for a loss that depends on them."""
    student = subject.recipe.student
    if subject.trains and student.loss == "mnr" and student.batch_size < SMALL:
        said = f"{student.batch_size} rows in a batch give each row {student.batch_size - 1} in-batch negatives"
        if student.gradient_accumulation > 1:
            said += f"; gradient_accumulation {student.gradient_accumulation} does not share negatives between batches"
        yield Fault("student.batch_size", said)


def no_held_out(subject: Subject) -> Said:
    """FG016: no queries that training has not seen decide what is kept."""
    spec, collection = subject.recipe.evaluation, subject.recipe.collection
    if subject.model is not None:
        if not subject.model.get("evaluation"):
            yield Fault("foolsgold.json", "no evaluation is recorded")
    elif subject.trains and spec.split is None and spec.held_out == 0:
        yield Fault("evaluation.held_out", "no split is named, and no query is held out")
    elif subject.trains and collection is not None and spec.split == (collection.split or "train"):
        yield Fault("evaluation.split", f"{spec.split} is the split that is trained on")


def near_sources(recipe: Recipe) -> list[str]:
    """The sources that find what is near in meaning, unlabelled positives too; a run may have found anything."""
    return [name for name, spec in recipe.sources.items() if spec.kind not in ("random", "bm25")]


def _epochs(every: str) -> float:
    """How many epochs an `Every` is; 0 where it is in steps, since the length of an epoch is not known here."""
    return steps_in(every, 1000) / 1000 if "epoch" in every else 0.0
