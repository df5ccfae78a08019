"""Rules on how negatives are mined: FG001, FG002, FG006, FG009, FG010, FG013."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foolsgold.findings.models import same_model
from foolsgold.findings.rule import Fault, Unknown
from foolsgold.findings.subject import Subject, Way
from foolsgold.recipe import HARD_CAP, DecideSpec, Recipe
from foolsgold.records import FloatArray, Scale, sigmoid
from foolsgold.rules import select

MOST_RANDOM = 0.1  # of a query's negatives, where random ones fill up harder ones
_FEW = 50  # scores: of fewer, that all lie between 0 and 1 may be chance


def unfiltered(subject: Subject) -> Iterator[Fault | Unknown]:
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


def nearest_only(subject: Subject) -> Iterator[Fault | Unknown]:
    """FG002: one negative a query, from a window that begins at the nearest passage, and no teacher."""
    for way in subject.ways:
        recipe = way.recipe
        if recipe.teacher is not None or recipe.select.per_query > 1:
            continue
        for name in near_sources(recipe):
            window = recipe.sources[name].window
            if window is None or window[0] == 0:
                last = window[1] if window else recipe.sources[name].depth
                yield Fault(
                    way.key(f"sources.{name}.window"),
                    f"one negative a query from the {last:,} nearest of {name}, the very nearest among them, and no "
                    "teacher",
                )


def over_cap(subject: Subject) -> Iterator[Fault | Unknown]:
    """FG006: more than 8 negatives a query, or nothing that would stop it."""
    if subject.audit is not None:
        counts = np.array(subject.audit.per_query)
        above = int(counts[HARD_CAP + 1 :].sum())
        if above:
            yield Fault(
                "negatives.parquet", f"{above:,} queries have more than {HARD_CAP} negatives, up to {len(counts) - 1}"
            )
        return
    for way in subject.ways:
        spec = way.recipe.select
        if spec.per_query > HARD_CAP:
            yield Fault(
                way.key("select.per_query", "n"),
                f"{spec.per_query} negatives a query, and more than {HARD_CAP} add none",
            )
        elif spec.cap > HARD_CAP:
            yield Fault(
                way.key("select.cap", "n"), f"a cap of {spec.cap} stops nothing; beyond {HARD_CAP} a query it should"
            )


def off_scale(subject: Subject) -> Iterator[Fault | Unknown]:
    """FG009: thresholds or scores that are not on the teacher's scale."""
    if subject.run is None or subject.mined is None:  # the sets of a run have its thresholds
        of_regimes = [way for way in subject.ways if way.regime is not None and not isinstance(way.regime.mode, str)]
        for way in (subject.own_way, *of_regimes):  # a short mode puts its threshold on the teacher's scale itself
            yield from _off_scale_thresholds(way)
    if subject.mined is not None and subject.mined.manifest["teacher"] is not None:
        scale: Scale = subject.mined.manifest["teacher"]["scale"]
        tables = {"positives": subject.mined.positives, "negatives": subject.mined.negatives}
        for name, table in tables.items():
            said = _off_scale_scores(_known(table, "teacher_score"), scale)
            if said:
                yield Fault(f"{name}.parquet", said)
                return


def _off_scale_thresholds(way: Way) -> Iterator[Fault]:
    teacher, decide = way.recipe.teacher, way.recipe.decide
    if teacher is None or decide.calibration is not None:
        return
    if teacher.scale == "probability":  # outside 0 to 1 a recipe refuses them itself
        if decide.negative_below == 1 and not decide.compares:
            yield Fault(way.key("decide.negative_below"), "at 1 nearly every probability is below it: all may pass")
        elif decide.negative_below == 0:
            yield Fault(way.key("decide.negative_below"), "no probability is below 0: nothing can be a negative")
        return
    limits = [limit for limit in (decide.negative_below, decide.positive_above) if limit is not None]
    default = DecideSpec()
    if limits == [default.negative_below, default.positive_above]:
        yield Fault(
            way.key("decide.negative_below"),
            f"{limits[0]} and {limits[1]} are the defaults, for probabilities, and teacher.scale is {teacher.scale}",
        )
    elif teacher.scale == "cosine" and (beyond := [limit for limit in limits if abs(limit) > 1]):
        yield Fault(way.key("decide.negative_below"), f"a threshold of {beyond[0]:g}, and a cosine is from -1 to 1")
    elif teacher.scale == "logit" and limits and all(0 < limit < 1 for limit in limits):
        meant = " and ".join(f"{limit:g}" for limit in limits)
        read = " and ".join(f"{p:.2f}" for p in sigmoid(np.array(limits, dtype=np.float32)))
        yield Fault(
            way.key("decide.negative_below"),
            f"teacher.scale is logit, and {meant} look like probabilities; as logits they mean {read}",
        )


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


def teacher_retrieves(subject: Subject) -> Iterator[Fault | Unknown]:
    """FG010: the teacher is a model whose neighbours it judges."""
    for way in subject.ways:
        teacher = way.recipe.teacher
        if teacher is None:
            continue
        for name in near_sources(way.recipe):
            model = way.recipe.model_of(name)
            if model is not None and same_model(model.model, teacher.model):
                yield Fault(way.key("teacher.model"), f"{teacher.model} judges what it found itself, as source {name}")
                break


def random_fill(subject: Subject) -> Iterator[Fault | Unknown]:
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
            yield Fault(
                way.key(f"sources.{drawn[0]}"),
                f"{given} of {budget} negatives a query are random ({given / budget:.0%})",
            )


def near_sources(recipe: Recipe) -> list[str]:
    """The sources that find what is near in meaning, unlabelled positives among it; who knows what a run found."""
    return [name for name, spec in recipe.sources.items() if spec.kind not in ("random", "bm25")]


def _known(table: pa.Table, column: str) -> FloatArray:
    """float32 (n): the values that are not null."""
    values: FloatArray = pc.drop_null(table[column]).to_numpy()
    return values
