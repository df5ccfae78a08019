"""What a run of training is about: its recipe, regimes, collection and held-out queries, all read and checked first."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from foolsgold.calibration import load as load_calibration
from foolsgold.collection import Collection, load_collection
from foolsgold.errors import CollectionError
from foolsgold.mining.mine import resolved
from foolsgold.models.names import fetched, fingerprint, locate
from foolsgold.progress import Progress
from foolsgold.recipe import CollectionSpec, ModelSpec, Recipe, RegimeSpec
from foolsgold.sources.run import RunSource
from foolsgold.training.launch import libraries
from foolsgold.training.regimes import is_in_batch, mining_recipe, regimes_of
from foolsgold.training.student import student_spec

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job:
    """One run of training, before it starts.

    collection: what is trained on. held_out: the judged queries that decide whether a round is kept.
    student: the model to train, as a model to mine with. cache: the folder of the stores, None for the usual one.
    """

    recipe: Recipe
    collection: Collection
    held_out: Collection
    regimes: list[RegimeSpec]
    student: ModelSpec
    progress: Progress
    cache: str | Path | None

    @classmethod
    def prepared(
        cls,
        recipe: Recipe | Mapping[str, Any] | str | Path,
        sections: Mapping[str, Any],
        collection: Any,
        progress: Progress,
        cache: str | Path | None,
    ) -> Job:
        """Read the recipe and the collection, and check the mining of every regime.

        Raises:
            FoolsgoldError: bad input. MissingExtra: torch is not installed.
        """
        libraries()  # without torch training ends before anything is read
        recipe = resolved(recipe, sections)
        train, held_out = held_out_parts(recipe, collection, progress)
        recipe = recipe.with_values({"collection": train.spec})
        job = cls(recipe, train, held_out, regimes_of(recipe), student_spec(recipe), progress, cache)
        for regime in job.regimes:  # a mistake in the last regime, or its last mining, must not show after hours
            again = recipe.remine is not None and regime.mines_with_student
            mining_recipe(recipe, regime, job.student, Path("kept.parquet") if again else None)
        return job

    def check_models(self) -> None:
        """See that the models and files of every regime's mining are there, before training starts; each once.

        Raises:
            FoolsgoldError: one is missing, or cannot be read.
        """
        from foolsgold.teachers.load import find_teacher  # with onnxruntime, which foolsgold is imported without

        models, teachers, runs, calibrations = {}, {}, {}, set()
        for regime in self.regimes:
            if is_in_batch(regime, self.recipe):
                continue
            mining = mining_recipe(self.recipe, regime, self.student, None)
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
            RunSource(name, path, self.collection)

    def facts(self) -> dict[str, Any]:
        """What the run depends on, as run.json and the model's foolsgold.json record it."""
        located = fetched(locate(self.student.model), with_code=self.student.trust_remote_code)
        return {
            "recipe": self.recipe.recorded(by_alias=True),
            "collection": {"name": self.collection.name, "digest": self.collection.digest},
            "held_out": {
                "name": f"{self.held_out.name}, {self.held_out.split}",
                "digest": self.held_out.digest,
                "queries": len(self.held_out.queries),
            },
            "student": {
                "model": self.student.model,
                "fingerprint": fingerprint(located),
                "static": self.recipe.student.static,
            },
        }


def version_of(facts: Mapping[str, Any]) -> str:
    """A hash of what a run depends on, but not of where its collection is stored."""
    recipe = {name: value for name, value in facts["recipe"].items() if name != "collection"}
    digests = [facts[name]["digest"] for name in ("collection", "held_out")]
    text = json.dumps([recipe, digests, facts["student"]["fingerprint"]], sort_keys=True, default=str)
    return sha256(text.encode()).hexdigest()[:12]


def held_out_parts(recipe: Recipe, given: Any, progress: Progress) -> tuple[Collection, Collection]:
    """What to train on and what to evaluate on: a split of the collection, or a share of its queries.

    Queries of a named split may also be among those trained on; then a warning says how many.

    Raises:
        CollectionError: no collection; or nothing is left to train on, or to evaluate on.
    """
    source = recipe.collection if given is None else given
    if source is None:
        raise CollectionError("no collection: give one, or a recipe with a `collection` section")
    spec = recipe.evaluation
    whole = load_collection(source, progress=progress)
    if spec.split is not None:
        train, held_out = whole, _split_of(source, spec.split, whole, progress)
    else:
        train, held_out = _share_of(whole, spec.held_out)
    if spec.limit is not None and len(held_out.queries) > spec.limit:
        held_out = held_out.with_queries(np.arange(spec.limit))
    return train, held_out


def _split_of(source: Any, split: str, trained_on: Collection, progress: Progress) -> Collection:
    if not isinstance(source, str | CollectionSpec):
        raise CollectionError(
            "evaluation.split names a split, but the collection is in memory and has only one; leave split out, "
            "and part of the queries are held out"
        )
    held_out = load_collection(source, split=split, progress=progress)
    shared = np.isin(held_out.queries.keys[:, 0], trained_on.queries.keys[:, 0])  # a part of the hash is enough
    if shared.all():
        raise CollectionError(
            f"evaluation.split: every query of {split} is trained on; name another split, or leave split out, and "
            "part of the queries are held out"
        )
    if shared.any():
        log.warning(
            "evaluation.split: %d of %d queries of %s are also trained on, so the result looks better than it is",
            shared.sum(), len(shared), split,
        )  # fmt: skip
    return held_out


def _share_of(whole: Collection, share: float) -> tuple[Collection, Collection]:
    chosen = whole.held_out(share)
    if not chosen.any() or chosen.all():
        raise CollectionError(
            f"{whole.name}: evaluation.held_out: {share:g} of {len(whole.queries):,} queries leaves none to "
            f"{'train' if chosen.all() else 'evaluate'} on; name another share, or a split"
        )
    spec = whole.spec
    train, held_out = (
        whole.with_queries(np.flatnonzero(rows), None if spec is None else {**spec, "part": part, "held_out": share})
        for rows, part in ((~chosen, "train"), (chosen, "held_out"))
    )
    return train, held_out
