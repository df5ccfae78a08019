"""START HERE: mine(collection, recipe) -> MinedSet. The one file that knows the order of the stages.

    load -> for each block of queries: retrieve (each source), exclude, waves, tables -> write -> audit

A *wave* scores, decides and selects: one loop, since what is selected says what has to be scored (`waves`). Queries go
through in blocks, so that memory does not grow with their number. A *unit* is what negatives are mined for: a query, or
with `positive_reference: each` a query with one of its positives.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from foolsgold.auditing import audit
from foolsgold.collection import Collection, load_collection
from foolsgold.collection.columns import CHOSEN
from foolsgold.errors import CollectionError, RecipeError
from foolsgold.files import cache_folder
from foolsgold.mined.mined_set import MinedSet
from foolsgold.mining.exclusion import exclude_from
from foolsgold.mining.funnel import Funnel
from foolsgold.mining.llm import build_judge
from foolsgold.mining.retrieve import retrieve
from foolsgold.mining.run import Run
from foolsgold.mining.signal import NoSignal, build_signal
from foolsgold.mining.tables import tables
from foolsgold.mining.units import units_of
from foolsgold.mining.waves import decide_in_waves
from foolsgold.mining.writer import SetWriter
from foolsgold.progress import SILENT, Progress
from foolsgold.recipe import DecideSpec, Recipe
from foolsgold.recipe.manifest import Calls, CollectionFacts, Manifest
from foolsgold.records import IntArray
from foolsgold.sources.build import build_sources
from foolsgold.teachers.plain import PlainTeacher
from foolsgold.teachers.protocol import Teacher

log = logging.getLogger(__name__)

_RECIPES_OWN: Any = object()  # tells "no teacher" (None) from "the teacher the recipe names"
BLOCK = 4096  # queries mined at once: enough to keep matrix products and teacher batches full,
CANDIDATES = 2_000_000  # unless they would have more candidates than this, for memory
LIBRARIES = ("foolsgold", "numpy", "pyarrow", "bm25s", "onnxruntime", "tokenizers")


def mine(
    collection: Any = None,
    recipe: Recipe | Mapping[str, Any] | str | Path | None = None,
    *,
    out: str | Path = "mined",
    teacher: Any = _RECIPES_OWN,
    progress: Progress = SILENT,
    cache: str | Path | None = None,
    **sections: Any,
) -> MinedSet:
    """Mine hard negatives and write them as a versioned set.

    Args:
        collection: a Collection, a `datasets.Dataset` of pairs, or a name that `load_collection` knows; None for the
            recipe's own.
        recipe: how to mine: a Recipe, its plain values, or a YAML file; the default recipe if None.
        out: the folder that the set's own folder `<version>` is made in.
        teacher: in place of the recipe's: a model's name, its settings as a mapping, None for no teacher, or any object
            with `score(pairs)` and `scale` (see `teachers.plain`).
        progress: where long stages report to; `foolsgold.progress.Bars()` shows bars.
        cache: the folder of the stores of embeddings and teacher scores; `cache_folder()` if None.
        sections: recipe sections to replace: `retriever="org/model"`, `select={"per_query": 5}`.

    Raises:
        FoolsgoldError: bad input, one sentence (see `foolsgold.errors`).
    """
    started = time.perf_counter()
    recipe, own_teacher = _with_teacher(recipe, teacher, sections)
    loaded = _load(collection, recipe, progress)
    recipe = recipe.with_values({"collection": loaded.spec})
    # opened first: a folder that cannot be written to must not cost hours of scoring
    with SetWriter(Path(out), list(recipe.sources)) as writer:
        run = _prepare(recipe, loaded, own_teacher, cache_folder(cache), progress)
        warnings = _logged(_before(run))
        funnel = Funnel(list(run.sources))
        for queries in _blocks(run):
            block = mine_block(run, queries)
            writer.add(**block)
            funnel.add(**block)
        warnings += _logged(_after(run, funnel))
        seconds = round(time.perf_counter() - started, 2)
        written = writer.write(_manifest(run, funnel, warnings, seconds), loaded)
        measured = audit(written)
        folder = writer.publish(written, measured)
    return MinedSet(folder, loaded, measured)


def mine_block(run: Run, queries: IntArray) -> dict[str, pa.Table]:
    """The negatives, ledger, queries and positives of some queries (int32 rows, consecutive)."""
    found = retrieve(run, queries)
    units = units_of(run, queries)
    candidates = exclude_from(run, found, units)
    outcome = decide_in_waves(run, candidates, units)
    return tables(run, queries, units, candidates, outcome)


def _with_teacher(
    recipe: Recipe | Mapping[str, Any] | str | Path | None, teacher: Any, sections: Mapping[str, Any]
) -> tuple[Recipe, Teacher | None]:
    """The recipe that the arguments of `mine` mean, and the teacher, where it is a caller's object."""
    own = None
    if teacher is not _RECIPES_OWN:
        if teacher is not None and not isinstance(teacher, str | Mapping):
            own = PlainTeacher(teacher)
            teacher = {"model": own.name}
        sections = {**sections, "teacher": teacher}
    return resolved(Recipe() if recipe is None else recipe, sections), own


def _load(collection: Any, recipe: Recipe, progress: Progress) -> Collection:
    if collection is None and recipe.collection is None:
        raise CollectionError("no collection: give one, or a recipe with a `collection` section")
    loaded = load_collection(recipe.collection if collection is None else collection, progress=progress)
    for note in loaded.notes:
        log.log(logging.INFO if note.startswith(CHOSEN) else logging.WARNING, "%s: %s", loaded.name, note)
    return loaded


def _prepare(
    recipe: Recipe, collection: Collection, own_teacher: Teacher | None, store: Path, progress: Progress
) -> Run:
    """Sources, teacher and judge, ready to be asked: what cannot be had fails here, before anything is scored."""
    sources = build_sources(recipe, collection, store)
    signal = build_signal(recipe, collection, sources, own_teacher, store, progress)
    run = Run(recipe, collection, sources, signal, progress, build_judge(recipe, store))
    for note in run.source_notes:
        log.warning("%s", note)
    return run


def _blocks(run: Run) -> Iterator[IntArray]:
    """The query rows of each block."""
    n_queries, n_documents = len(run.collection.queries), len(run.collection.documents)
    depth = sum(min(spec.depth, n_documents) for spec in run.recipe.sources.values())
    size = max(1, min(BLOCK, CANDIDATES // depth))
    for first in range(0, n_queries, size):
        yield np.arange(first, min(first + size, n_queries), dtype=np.int32)


def _manifest(run: Run, funnel: Funnel, warnings: list[str], seconds: float) -> Manifest:
    """Everything but the version and the parent, which the writer knows."""
    collection, recipe, judge = run.collection, run.recipe, run.llm
    calls = run.signal.calls() | ({"llm": judge.calls, "llm_reused": judge.reused} if judge else {})
    return Manifest.model_validate(
        {
            "version": "",
            "parent": None,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": seconds,
            "collection": CollectionFacts(
                name=collection.name,
                split=collection.split,
                digest=collection.digest,
                documents=len(collection.documents),
                queries=len(collection.queries),
                positives=len(collection.positive_rows),
            ),
            "seed": recipe.seed,
            "sources": {name: source.describe() for name, source in run.sources.items()},
            "teacher": run.signal.describe(),
            "llm": judge.describe() if judge else None,
            "limits": asdict(run.limits),
            "counts": funnel.counts(),
            "calls": Calls.model_validate(calls),
            "warnings": warnings,
            "notes": [*(f"{collection.name}: {note}" for note in collection.notes), *run.source_notes],
            "libraries": {name: version(name) for name in LIBRARIES},
            "recipe": recipe.recorded(),
        }
    )


def _logged(warnings: list[str]) -> list[str]:
    for warning in warnings:
        log.warning("%s", warning)
    return warnings


def resolved(recipe: Recipe | Mapping[str, Any] | str | Path, sections: Mapping[str, Any]) -> Recipe:
    """The recipe that a caller means: one, its plain values or a YAML file, with sections updated."""
    if isinstance(recipe, str | Path):
        recipe = Recipe.from_yaml(recipe)
    elif isinstance(recipe, Mapping):
        recipe = Recipe.build(recipe)
    elif not isinstance(recipe, Recipe):
        raise RecipeError(f"{type(recipe).__name__} is not a recipe; give a Recipe, its plain values or a YAML file")
    return with_sections(recipe, sections)


def with_sections(recipe: Recipe, sections: Mapping[str, Any]) -> Recipe:
    """A recipe with sections updated.

    Fields that are not named stay, but `sources` is replaced whole, and so are `retriever` and `teacher` by a model's
    name: another model has another prompt, length and scale.
    """
    values = recipe.model_dump()
    for name, value in sections.items():
        current = values.get(name)
        if isinstance(value, str) and name in ("retriever", "teacher"):
            values[name] = {"model": value}
        elif name != "sources" and isinstance(value, Mapping) and isinstance(current, Mapping):
            values[name] = {**current, **value}
        else:
            values[name] = value
    return Recipe.build(values) if sections else recipe


def _before(run: Run) -> list[str]:
    """What the user should look at before anything is scored."""
    recipe, sentences = run.recipe, []
    near = [name for name, spec in recipe.sources.items() if spec.kind not in ("random", "bm25")]
    if near and isinstance(run.signal, NoSignal):
        sentences.append(
            f"{', '.join(near)} without a teacher or a margin: of a query's nearest passages a third to two thirds "
            "are unlabelled positives, and they are mined as negatives here; set `teacher`"
        )
    decide, defaults = recipe.decide, DecideSpec()
    thresholds = (decide.negative_below, decide.positive_above)
    untouched = decide.calibration is None and thresholds == (defaults.negative_below, defaults.positive_above)
    if recipe.teacher is not None and recipe.teacher.scale != "probability" and untouched:
        sentences.append(
            f"teacher.scale is {recipe.teacher.scale}: decide.negative_below {thresholds[0]} and positive_above "
            f"{thresholds[1]}, defaults that were chosen for probabilities, are read as {recipe.teacher.scale}s"
        )
    margin = decide.relative_margin
    if margin is not None and margin < 0.5:
        sentences.append(
            f"decide.relative_margin {margin} keeps only candidates up to {margin:.0%} of the positive's score; what "
            f"sentence-transformers calls relative_margin={margin} is {1 - margin:g} here"
        )
    return sentences


def _after(run: Run, funnel: Funnel) -> list[str]:
    """What the user should look at in what was mined."""
    sentences = funnel.warnings(asked_for_all=run.recipe.takes_whole_runs)
    if run.llm is not None and not run.llm.budget_left:
        used = run.llm.calls + run.llm.reused
        sentences.insert(0, f"judge.budget ({used:,}) is used up; further candidates stay ambiguous")
    return sentences
