"""What is checked: a recipe, a mined set, a run of training or a model, opened as far as it is there."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from foolsgold.auditing import Audit, Gate
from foolsgold.collection import Collection, load_collection
from foolsgold.errors import CollectionError, FoolsgoldError, MinedSetError, RecipeError
from foolsgold.findings.finding import Unknown
from foolsgold.mined.mined_set import MinedSet
from foolsgold.progress import SILENT, Progress
from foolsgold.recipe import CollectionSpec, ModelSpec, Recipe, RegimeSpec
from foolsgold.training.regimes import is_in_batch, mining_recipe, regimes_of
from foolsgold.training.rounds import Trained
from foolsgold.training.run import RunState
from foolsgold.training.student import student_spec

Kind = Literal["recipe", "set", "run", "model"]

_log = logging.getLogger(__name__)

_RECIPES = (".yaml", ".yml")
MODEL_FILE = "foolsgold.json"  # what a model that a run made says of itself


@dataclass(frozen=True)
class Way:
    """One way of mining that a recipe asks for: its own (regime None), or that of one regime of the schedule.

    recipe: as `mine` is given it; whole: the recipe it is part of.
    """

    recipe: Recipe
    whole: Recipe
    regime: RegimeSpec | None = None

    def key(self, path: str, of_regime: str = "mode") -> str:
        """Where the value at a path is written: in the recipe's own section, unless the regime has another there."""
        if self.regime is None or _value(self.recipe, path) == _value(self.whole, path):
            return path
        return f"schedule.{self.regime.name}.{of_regime}"


@dataclass(frozen=True)
class Subject:
    """One thing that rules look at.

    place: what messages call it, a file or folder; recipe: what it says of mining and, with `trains`, of training.
    mined: a set that is there; run: a run that is there, this one or that which the set is part of; model: what a
    model's own record says; sets: of a run, those that its model was trained on.
    measure: whether models may be run; progress, cache: for that, and for reading a collection.
    """

    kind: Kind
    place: str
    recipe: Recipe
    mined: MinedSet | None = None
    run: Trained | None = None
    model: Mapping[str, Any] | None = None
    sets: tuple[Subject, ...] = ()
    measure: bool = False
    progress: Progress = SILENT
    cache: Path | None = None

    @property
    def trains(self) -> bool:
        """Whether its recipe's part on training counts; a set's is for whoever trains on it."""
        return self.kind != "set"

    @cached_property
    def ways(self) -> list[Way]:
        """Every way in which it is mined: each regime of the schedule that mines, or else the recipe's own."""
        if not (self.trains and self.recipe.schedule):
            return [Way(self.recipe, self.recipe)]
        student = student_spec(self.recipe)
        return [
            Way(mining_recipe(self.recipe, regime, student, None), self.recipe, regime)
            for regime in regimes_of(self.recipe)
            if not is_in_batch(regime, self.recipe)
        ]

    @cached_property
    def audit(self) -> Audit | None:
        """Of a set: its measures."""
        return None if self.mined is None else self.mined.audit()

    def gate(self, name: str) -> Gate | None:
        """Of a set: one gate of its audit; None where its limit is null."""
        return next((gate for gate in self.audit.gates if gate.name == name), None) if self.audit else None

    @property
    def collection(self) -> Collection:
        """What is mined.

        Raises:
            Unknown: it is not at hand.
        """
        if isinstance(self._collection, str):
            raise Unknown(self._collection)
        return self._collection

    @cached_property
    def _collection(self) -> Collection | str:
        """What is mined, or why it is not at hand."""
        spec = self.recipe.collection
        try:
            if self.mined is not None:
                return self.mined.collection
            if spec is None:
                return "the recipe names no collection"
            if _is_remote(spec):
                return "the collection may have to be downloaded; check the mined set"
            return load_collection(spec, progress=self.progress)
        except FoolsgoldError as error:
            why = " ".join(str(error).split())
            _log.warning("what needs the collection is not checked: %s", why)
            return why

    def other_split(self, split: str) -> Collection:
        """The same collection with the judgements of another split.

        Raises:
            Unknown: it is not at hand.
        """
        spec = self.recipe.collection
        if spec is None or _is_remote(spec):
            raise Unknown(f"split {split} is not at hand: the collection is in memory, or may have to be downloaded")
        try:
            whole = spec.model_copy(update={"split": split, "limit": None, "part": None})
            return load_collection(whole, progress=self.progress)
        except CollectionError as error:
            raise Unknown(" ".join(str(error).split())) from None

    @cached_property
    def student(self) -> ModelSpec | None:
        """The model that is trained, as an embedding model: in a run that is finished, as it was trained."""
        if self.run is not None and self.run.state.is_finished:
            return ModelSpec(model=str(self.run.model_path))
        if self.kind == "model":
            return ModelSpec(model=self.place)
        try:
            return student_spec(self.recipe)
        except RecipeError:
            return None


def open_subject(
    thing: Any,
    values: Mapping[str, Any] | None,
    *,
    measure: bool = False,
    progress: Progress = SILENT,
    cache: str | Path | None = None,
) -> Subject:
    """What a caller gives.

    thing: a recipe (Recipe, plain values or YAML file), a MinedSet, a Trained, or a folder: of a set or of sets (the
    newest), of a run or of runs (the newest), or of a model that a run made. values: as `Recipe.with_values` has them.

    Raises:
        FoolsgoldError: there is nothing of the kind, or it cannot be read.
    """

    def subject(kind: Kind, place: str | Path, recipe: Recipe, **parts: Any) -> Subject:
        changed = recipe.with_values(values) if values else recipe
        folder = None if cache is None else Path(cache)
        return Subject(kind, str(place), changed, measure=measure, progress=progress, cache=folder, **parts)

    def of_set(mined: MinedSet, run: Trained | None = None) -> Subject:
        return subject("set", mined.path, _kept(mined.manifest.recipe_values, mined.path), mined=mined, run=run)

    def of_run(folder: Path) -> Subject:
        run = Trained(folder, RunState.load(folder))
        whole = subject("run", folder, _kept(run.state.facts["recipe"], folder), run=run)
        sets = [folder / "sets" / version for version in run.state.set_versions]
        sets = [path for path in sets if (path / "manifest.json").is_file()]
        found = whole._collection if sets else ""  # all of them were mined from it, and it is read once
        collection = None if isinstance(found, str) else found
        return replace(whole, sets=tuple(of_set(MinedSet(path, collection), run) for path in sets))

    if isinstance(thing, Recipe | Mapping):
        return subject("recipe", "recipe", thing if isinstance(thing, Recipe) else Recipe.build(thing))
    if isinstance(thing, MinedSet):
        return of_set(thing)
    if isinstance(thing, Trained):
        return of_run(thing.path)
    path = Path(thing)
    if path.is_file() and path.suffix not in (*_RECIPES, ".json", ""):
        raise MinedSetError(
            f"{path}: not a recipe in YAML; `foolsgold audit {path}` says how good a file of negatives is, and "
            "`foolsgold import` makes a mined set of it, which can be checked"
        )
    if path.is_file() or path.suffix in _RECIPES:
        return subject("recipe", path, Recipe.from_yaml(path))
    if (path / "run.json").is_file():
        return of_run(path)
    if (record := record_of(path)) is not None:
        if (path.parent / "run.json").is_file():
            return of_run(path.parent)
        return subject("model", path, _kept(record["recipe"], path), model=record)
    if runs := list(path.glob("*/run.json")):
        return of_run(max(runs, key=lambda run: run.stat().st_mtime_ns).parent)
    if (path / "manifest.json").is_file() or any(path.glob("*/manifest.json")):
        return of_set(MinedSet(path))
    raise MinedSetError(
        f"{path}: nothing to check is here; name a recipe, or the folder of a mined set, a run or a trained model"
    )


def record_of(folder: Path) -> Mapping[str, Any] | None:
    """What a model that a run made says of itself; None for any other model.

    Raises:
        MinedSetError: it cannot be read.
    """
    try:
        facts: dict[str, Any] = json.loads((folder / MODEL_FILE).read_text(encoding="utf-8"))
        facts["recipe"], facts["sets"], facts["created"]
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise MinedSetError(f"{folder}: {MODEL_FILE} cannot be read ({error}); name the run's folder") from None
    return facts


def _is_remote(spec: CollectionSpec) -> bool:
    return spec.hf is not None or spec.ir_datasets is not None


def _kept(values: Mapping[str, Any], place: Path) -> Recipe:
    """The recipe that a set, a run or a model keeps."""
    try:
        return Recipe.build(values)
    except RecipeError as error:
        first = str(error).splitlines()[0]
        raise MinedSetError(f"{place}: the recipe in it is not one of this version of foolsgold ({first})") from None


def _value(recipe: Recipe, path: str) -> Any:
    value: Any = recipe
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else getattr(value, part, None)
    return value
