"""START HERE: measure(collection, recipe) -> Risk, the false-negative rate of each way of mining.

Every figure comes from sets that `mine` made: a method is a recipe, a truth (`truth`) is a collection to mine and what
is known of its candidates, and a `tally` counts what came of the two.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from foolsgold.calibration import Calibration
from foolsgold.collection import Collection, load_collection
from foolsgold.errors import CollectionError, RecipeError
from foolsgold.files import cache_folder
from foolsgold.mining.mine import mine
from foolsgold.progress import SILENT, Advance, Progress
from foolsgold.recipe import Recipe
from foolsgold.risk.methods import Method, methods
from foolsgold.risk.tally import Band, Tally, by_rank, tally
from foolsgold.risk.truth import Probabilities, Truth, Way, by_estimate, by_hiding, by_judgements

log = logging.getLogger(__name__)

_NEEDED = {
    "hidden": "a second positive for some queries",
    "judged": "judgements of passages that are not relevant (grades below relevant_from)",
    "estimated": "a calibration (--calibration FILE)",
}
_HIGHEST = 3.4e38  # no logit, and no cosine, is above this


@dataclass(frozen=True)
class Row:
    """One method, measured in one way, with the recipe's filter or without. tally: None where it was not mined."""

    way: Way
    method: Method
    filtered: bool
    tally: Tally | None
    missing: str | None = None

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        named = {"way": self.way, "method": self.method.name, "label": self.method.label, "filtered": self.filtered}
        if self.tally is None:
            return named | {"not_measured": self.missing}
        rate, returned = self.tally.rate, self.tally.returned
        return (
            named
            | dict(self.tally.__dict__)
            | {"rate": rate.value, "interval": rate.interval, "few": rate.is_few, "literature": self.method.usually}
            | {"returned": None if returned is None else returned.value}
        )


@dataclass(frozen=True)
class Curve:
    """One method's rate against its source's rank."""

    way: Way
    method: Method
    filtered: bool
    bands: tuple[Band, ...]

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        bands = [
            {"ranks": [band.first, band.last], "relevant": band.rate.count, "known": band.rate.of,
             "rate": band.rate.value, "interval": band.rate.interval}
            for band in self.bands
        ]  # fmt: skip
        return {"way": self.way, "method": self.method.name, "filtered": self.filtered, "bands": bands}


@dataclass(frozen=True)
class Risk:
    """Rows by way, method and filter; curves of the methods that have ranks; notes on what could not be measured."""

    collection: str
    split: str
    rows: tuple[Row, ...]
    curves: tuple[Curve, ...]
    notes: tuple[str, ...]

    @property
    def ways(self) -> tuple[Way, ...]:
        """Those that the data allowed, in the order of the rows."""
        return tuple(dict.fromkeys(row.way for row in self.rows))

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "collection": self.collection,
            "split": self.split,
            "rows": [row.to_json() for row in self.rows],
            "curves": [curve.to_json() for curve in self.curves],
            "notes": list(self.notes),
        }


def measure(
    collection: Any = None,
    recipe: Recipe | None = None,
    *,
    depth: int = 50,
    student: str | None = None,
    queries: int | None = None,
    calibration: Probabilities | None = None,
    teacher: Any = None,
    progress: Progress = SILENT,
    cache: str | Path | None = None,
) -> Risk:
    """Mine in every way, and count the negatives that are positives.

    Args:
        collection: as `mine` takes it; None for the recipe's own.
        recipe: retriever, teacher, zones, budget and seed; its own sources are one of the methods.
        depth: candidates of each method, 50 as in the ranges usually reported.
        student: the model being trained, for the method `self`.
        queries: measure on the first so many queries that can be measured.
        calibration: estimates from the teacher's scores, on the whole collection; the teacher then reads the negatives
            of every method, filtered or not.
        teacher: an object with `score(pairs)` and `scale` in place of the recipe's.
        progress, cache: as `mine` takes them.

    Raises:
        CollectionError: nothing in the data shows which negatives are false.
        RecipeError: a depth below the budget; a calibration, but no teacher.
        FoolsgoldError: what `mine` raises.
    """
    recipe = recipe or Recipe()
    if depth < recipe.select.per_query:
        raise RecipeError(f"depth is {depth}, which is less than the {recipe.select.per_query} negatives per query")
    if collection is None and recipe.collection is None:
        raise CollectionError("no collection: give one, or a recipe with a `collection` section")
    has_teacher = teacher is not None or recipe.teacher is not None
    if calibration is not None and not has_teacher:
        raise RecipeError("a calibration estimates from a teacher's scores, and the recipe has no teacher; name it")
    if isinstance(calibration, Calibration):
        _check_calibration(calibration, recipe, teacher, cache)
    loaded = load_collection(recipe.collection if collection is None else collection, progress=progress)
    truths, notes = _truths(loaded, recipe, queries, calibration)
    if not has_teacher:
        notes.append("the recipe has no teacher: no row has a filter")
    plan = [
        (truth, method, filtered)
        for truth in truths
        for method in methods(recipe, depth=depth, student=student)
        for filtered in ((False, True) if has_teacher else (False,))
    ]
    rows: list[Row] = []
    curves: list[Curve] = []
    with TemporaryDirectory() as folder, _without_warnings():
        for number, (truth, method, filtered) in enumerate(plan, start=1):
            if method.missing:
                rows.append(Row(truth.way, method, filtered, None, method.missing))
                continue
            own = recipe.with_values({**method.sections, "collection": None, "relabel": False})
            scored = filtered or truth.way == "estimated"
            mined = mine(
                truth.collection,
                own if filtered else _unfiltered(own),
                out=folder,
                progress=_Numbered(progress, f"{number}/{len(plan)} {method.name}"),
                cache=cache,
                **({"teacher": teacher} if teacher is not None and scored else {} if scored else {"teacher": None}),
            )
            rows.append(Row(truth.way, method, filtered, tally(mined, truth)))
            if method.ranked_by:
                curves.append(Curve(truth.way, method, filtered, by_rank(mined, truth, method.ranked_by)))
    return Risk(loaded.name, loaded.split, tuple(rows), tuple(curves), tuple(notes))


def _truths(
    collection: Collection, recipe: Recipe, queries: int | None, calibration: Probabilities | None
) -> tuple[list[Truth], list[str]]:
    """The ways of knowing that the data allow, and a note for each of the others."""
    scale = recipe.teacher.scale if recipe.teacher else "probability"
    found: dict[Way, Truth | None] = {
        "hidden": by_hiding(collection, seed=recipe.seed, queries=queries),
        "judged": by_judgements(collection, queries=queries),
        "estimated": None
        if calibration is None
        else by_estimate(collection, calibration, scale=scale, queries=queries),
    }
    truths = [truth for truth in found.values() if truth is not None]
    if not truths:
        raise CollectionError(
            f"{collection.name}, split {collection.split}: nothing here shows which negatives are false; "
            f"needed is one of: {'; '.join(_NEEDED.values())}"
        )
    notes = [f"{way}: not measured: needs {_NEEDED[way]}" for way, truth in found.items() if truth is None]
    return truths, [f"{collection.name}: {note}" for note in collection.notes] + notes


def _check_calibration(calibration: Calibration, recipe: Recipe, own_teacher: Any, cache: str | Path | None) -> None:
    """Before anything is mined: was it calibrated with this teacher and this retriever?"""
    from foolsgold.stores.encoders import described_encoder  # onnxruntime takes a while to import
    from foolsgold.teachers.load import load_teacher
    from foolsgold.teachers.plain import PlainTeacher

    if own_teacher is not None:
        teacher: Any = PlainTeacher(own_teacher)
        calibration.check_teacher(teacher.name, teacher.fingerprint, teacher.scale)
    elif recipe.teacher is not None:
        teacher = load_teacher(recipe.teacher, recipe.retriever)
        calibration.check_teacher(recipe.teacher.model, teacher.fingerprint, recipe.teacher.scale)
    if recipe.retriever is not None and calibration.sources["retriever"] is not None:
        store = cache_folder(cache)
        calibration.check_retriever(recipe.retriever.model, described_encoder(recipe.retriever, store).fingerprint)


def _unfiltered(recipe: Recipe) -> Recipe:
    """The recipe with zones that let every candidate pass, and yet have the teacher, if any, score what is taken."""
    highest = 1.0 if recipe.teacher is None or recipe.teacher.scale == "probability" else _HIGHEST
    reference = recipe.decide.positive_reference
    decide = {"negative_below": None, "positive_above": highest, "positive_reference": reference}
    return recipe.with_values({"decide": decide})


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Silence `mine`, which would warn once per method that mining without a filter finds false negatives."""
    logger = logging.getLogger("foolsgold.mining")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


class _Numbered:
    """Progress that names the run that a stage belongs to."""

    def __init__(self, progress: Progress, prefix: str) -> None:
        self._progress = progress
        self._prefix = prefix

    def stage(self, name: str, total: int) -> AbstractContextManager[Advance]:
        """Open the stage under its longer name."""
        return self._progress.stage(f"{self._prefix}: {name}", total)
