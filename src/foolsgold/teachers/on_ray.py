"""A teacher on the workers of a Ray cluster: mining stays on one machine, the reading of pairs does not.

A cross-encoder is nearly all of mining's time, and its pairs are independent. Everything else happens where `mine`
runs, so that the set is the one that a single machine would mine, and scores land in that machine's store.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from foolsgold.errors import FoolsgoldError, MissingExtra, ModelError, TeacherError
from foolsgold.progress import SILENT, Progress
from foolsgold.recipe import ModelSpec, TeacherSpec
from foolsgold.records import FloatArray, Scale
from foolsgold.teachers.protocol import Pair, Teacher

_PATIENCE = 900.0  # seconds for a worker to start and load its model

_Load = Callable[[TeacherSpec, ModelSpec | None], Teacher]


class RayTeacher:
    """The teacher of a recipe, loaded with `load` by each of `spec.ray_workers` Ray actors, sharing its cores and GPUs.

    Ray is started if it was not: it joins the cluster that RAY_ADDRESS names, or else makes one of this machine. Models
    must be where every worker finds them: on the hub, in an installed package, or in a folder that all machines share.

    Raises:
        MissingExtra: ray is not installed. FoolsgoldError: no worker could load the teacher. ModelError: the cluster
            gave no workers in a quarter of an hour.
    """

    def __init__(self, spec: TeacherSpec, retriever: ModelSpec | None, load: _Load) -> None:
        try:
            import ray
        except ImportError:
            raise MissingExtra("ray", "teacher.ray_workers") from None
        assert spec.ray_workers is not None
        if not ray.is_initialized():
            ray.init(log_to_driver=False)
        self.workers = spec.ray_workers
        total: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
        paths = os.pathsep.join([os.getcwd(), *sys.path])  # a user's own function is found as it is here
        actor: Any = ray.remote(
            num_cpus=max(1, int(total.get("CPU", 1) // self.workers)),
            num_gpus=min(1.0, total.get("GPU", 0.0) / self.workers),
            runtime_env={"env_vars": {"PYTHONPATH": paths}},
        )(_Worker)
        alone = spec.model_copy(update={"ray_workers": None})
        self._actors = [actor.remote(alone, retriever, load) for _ in range(self.workers)]
        self.scale: Scale
        self.fingerprint: str
        self.scale, self.fingerprint = self._answers([actor.about.remote() for actor in self._actors])[0]

    def score(self, pairs: Sequence[Pair], progress: Progress = SILENT) -> FloatArray:
        """float32 (n): each worker reads an equal part, in the order given."""
        bounds = np.linspace(0, len(pairs), self.workers + 1).astype(int)
        with progress.stage("score pairs", len(pairs)) as advance:
            parts = [
                actor.score.remote(list(pairs[begin:end]))
                for actor, begin, end in zip(self._actors, bounds[:-1], bounds[1:], strict=True)
                if begin < end
            ]
            scores = self._answers(parts)
            advance(len(pairs))
        return np.concatenate(scores) if scores else np.empty(0, dtype=np.float32)

    def _answers(self, tasks: list[Any]) -> list[Any]:
        import ray

        try:
            found: list[Any] = ray.get(tasks, timeout=_PATIENCE)
        except ray.exceptions.GetTimeoutError:
            raise ModelError(
                f"teacher.ray_workers: {self.workers} workers did not answer within {_PATIENCE / 60:.0f} minutes; "
                "`ray status` shows what the cluster has free"
            ) from None
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, FoolsgoldError):
                raise error.cause from None
            raise TeacherError(f"teacher: a Ray worker failed: {error.cause!r}") from error
        except ray.exceptions.RayError as error:  # a worker that died, a cluster that went away
            raise TeacherError(
                f"teacher: a Ray worker was lost ({type(error).__name__}); what was scored is kept; mine again"
            ) from error
        return found


class _Worker:
    def __init__(self, spec: TeacherSpec, retriever: ModelSpec | None, load: _Load) -> None:
        self._teacher: Teacher | None = None
        self._error: FoolsgoldError | None = None
        try:
            self._teacher = load(spec, retriever)
        except FoolsgoldError as error:  # raised where it is asked for: an actor that dies says less
            self._error = error

    def about(self) -> tuple[Scale, str]:
        if self._teacher is None:
            assert self._error is not None
            raise self._error
        return self._teacher.scale, self._teacher.fingerprint

    def score(self, pairs: list[Pair]) -> FloatArray:
        assert self._teacher is not None
        return self._teacher.score(pairs)
