"""What tells a negative from a false negative in a run: a teacher, else a source's own scores, else nothing."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from foolsgold.collection import Collection
from foolsgold.errors import RecipeError
from foolsgold.progress import Progress
from foolsgold.recipe import Recipe
from foolsgold.records import Column, FloatArray, IntArray, Scale
from foolsgold.sources.protocol import Source
from foolsgold.stores.scores import ScoreStore
from foolsgold.teachers.cached import CachedTeacher, Within
from foolsgold.teachers.calibrated import AppliedCalibration
from foolsgold.teachers.calibrated import load as load_calibration
from foolsgold.teachers.protocol import Teacher
from foolsgold.teachers.scale import check_scale, to_scale

# Pairs whose texts are held at once, and scored between two commits of the store: what a kill can cost, which is half a
# minute of a cross-encoder on two cores.
CHUNK = 512


class Signal(Protocol):
    """Scores that decisions are made on.

    lazy: whether a score costs enough to be asked for only when it decides.
    """

    lazy: bool

    @property
    def positives(self) -> Column:
        """float32 (n_positives): the score of each of the collection's `positive_rows`; unknown without a signal."""
        ...

    def score(self, query: IntArray, doc: IntArray, stage: str) -> FloatArray:
        """float32 (n): the scores of (query row, document row) pairs."""
        ...

    @property
    def calibration(self) -> AppliedCalibration | None:
        """What turns a score into a calibrated probability, if the recipe names it."""
        ...

    def describe(self) -> dict[str, Any] | None:
        """The teacher, for the manifest; None where there is none."""
        ...

    def calls(self) -> dict[str, int]:
        """How many pairs the teacher read, and how many scores came from the store."""
        ...


def build_signal(
    recipe: Recipe,
    collection: Collection,
    sources: Mapping[str, Source],
    own_teacher: Teacher | None,
    cache: Path,
    progress: Progress,
) -> Signal:
    """The signal a recipe asks for. A teacher is loaded here, so that one that cannot be had fails at once.

    Raises:
        RecipeError: a margin is set, but neither a teacher nor a source can score positives.
        FoolsgoldError: the teacher cannot be had.
    """
    if recipe.teacher is not None:
        from foolsgold.teachers.load import load_teacher  # onnxruntime takes a while to import

        teacher = own_teacher or load_teacher(recipe.teacher, recipe.retriever)
        check_scale(teacher.scale, recipe.teacher.scale, recipe.teacher.model)
        signal = TeacherSignal(teacher, recipe.teacher.scale, recipe.teacher.model, collection, cache, progress)
        signal.calibration = _calibration(recipe, signal.describe(), sources)
        return signal
    if not recipe.decide.compares:
        return NoSignal(len(collection.positive_rows))
    kinds = ("dense", "multivector", "sparse", "bm25")
    able = sorted(
        (name for name in sources if recipe.sources[name].kind in kinds),
        key=lambda name: kinds.index(recipe.sources[name].kind),
    )
    if not able:
        raise RecipeError(
            "decide: a margin compares a candidate with the positive, and nothing here can score a positive; "
            f"add a teacher or a {', '.join(kinds)} source"
        )
    return SourceSignal(sources[able[0]], collection)


def _calibration(
    recipe: Recipe, teacher: Mapping[str, Any], sources: Mapping[str, Source]
) -> AppliedCalibration | None:
    """The recipe's calibration, applied to its teacher and the first of its sources of each kind."""
    if recipe.decide.calibration is None:
        return None
    loaded = load_calibration(recipe.decide.calibration)
    retriever, bm25 = (
        next((name for name in sources if recipe.sources[name].kind == kind), None) for kind in ("dense", "bm25")
    )
    applied = loaded.apply(
        teacher=teacher,
        scale=teacher["scale"],
        retriever=retriever,
        bm25=bm25,
        target=recipe.decide.max_false_negative_rate,
    )
    if retriever is not None:
        about = sources[retriever].describe()
        loaded.check_retriever(about["model"], about["fingerprint"])
    return applied


class TeacherSignal:
    """A teacher's scores, on the scale the recipe declares, through the store."""

    lazy = True

    def __init__(
        self, teacher: Teacher, scale: Scale, name: str, collection: Collection, cache: Path, progress: Progress
    ) -> None:
        # scores of a teacher that cannot be told from another one's are for this run only
        remembered = getattr(teacher, "remembered", True)
        self._teacher = CachedTeacher(teacher, ScoreStore(cache / "teacher_scores.sqlite" if remembered else None))
        self._chunk = CHUNK * getattr(teacher, "workers", 1)
        self._scale = scale
        self._name = name
        self._collection = collection
        self._progress = progress
        self.calibration: AppliedCalibration | None = None

    @cached_property
    def positives(self) -> Column:
        """All known positives, scored when first asked for."""
        query, doc = self._collection.positive_query, self._collection.positive_rows
        return Column.known(self.score(query, doc, "score positives"))

    def score(self, query: IntArray, doc: IntArray, stage: str) -> FloatArray:
        """float32 (n), on the declared scale."""
        scores = np.empty(len(query), dtype=np.float32)
        # like lengths together: a batch is padded to its longest pair
        order = np.argsort(self._collection.documents.lengths[doc], kind="stable")
        with self._progress.stage(stage, len(query)) as advance:
            for start in range(0, len(order), self._chunk):
                rows = order[start : start + self._chunk]
                texts = zip(
                    self._collection.queries.take(query[rows]), self._collection.documents.take(doc[rows]), strict=True
                )
                answer = self._teacher.score(list(texts), Within(advance))
                scores[rows] = to_scale(answer, self._teacher.scale, self._scale)
        return scores

    def describe(self) -> dict[str, Any]:
        """Name, fingerprint, and the scale of every teacher score in the set; what judged by them."""
        about = {"model": self._name, "fingerprint": self._teacher.fingerprint, "scale": self._scale}
        return about if self.calibration is None else {**about, "judge": self.calibration.describe()}

    def calls(self) -> dict[str, int]:
        """Pairs read by the model, and scores found in the store."""
        return {"teacher": self._teacher.calls, "reused": self._teacher.reused}


class SourceSignal:
    """A source's own scores, for margins without a teacher. They cost little, so every candidate has one."""

    lazy = False
    calibration = None

    def __init__(self, source: Source, collection: Collection) -> None:
        self._source = source
        self._collection = collection

    @cached_property
    def positives(self) -> Column:
        """All known positives."""
        return Column.known(self.score(self._collection.positive_query, self._collection.positive_rows, ""))

    def score(self, query: IntArray, doc: IntArray, stage: str) -> FloatArray:
        """float32 (n), on the source's own scale."""
        del stage
        scores = self._source.score(query, doc)
        assert scores is not None  # only sources that can score are made a signal
        return scores

    def describe(self) -> None:
        """None: no teacher scores this run."""

    def calls(self) -> dict[str, int]:
        """No pair was read by a teacher."""
        return {"teacher": 0, "reused": 0}


class NoSignal:
    """Nothing to tell by: every candidate passes, and the run warns of it."""

    lazy = False
    calibration = None

    def __init__(self, n_positives: int) -> None:
        self._n_positives = n_positives

    @property
    def positives(self) -> Column:
        """Unknown for every positive."""
        return Column.unknown(self._n_positives)

    def score(self, query: IntArray, doc: IntArray, stage: str) -> FloatArray:
        """Not a number: nobody reads it, since no rule applies."""
        del doc, stage
        return np.full(len(query), np.nan, dtype=np.float32)

    def describe(self) -> None:
        """None: no teacher scores this run."""

    def calls(self) -> dict[str, int]:
        """No pair was read by a teacher."""
        return {"teacher": 0, "reused": 0}
