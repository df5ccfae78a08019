"""A teacher that never scores the same texts twice, and whose answers are checked: one finite number per pair."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from foolsgold.errors import TeacherError
from foolsgold.progress import SILENT, Advance, Progress
from foolsgold.records import BoolArray, Column, FloatArray, Scale, text_key
from foolsgold.stores.scores import PairKey, ScoreStore
from foolsgold.teachers.protocol import Pair, Teacher

_EXCERPT = 60
# How far outside [-1, 1] rounding may put a cosine (bfloat16 models).
_COSINE_SLACK = 0.02


class CachedTeacher:
    """Asks `teacher` only for what `store` lacks, each distinct (query, document) text pair once.

    calls: pairs that the teacher really scored; reused: pairs that were answered without it.
    """

    def __init__(self, teacher: Teacher, store: ScoreStore) -> None:
        self._teacher = teacher
        self._store = store
        self.scale = teacher.scale
        self.fingerprint = teacher.fingerprint
        self.calls = 0
        self.reused = 0

    def score(self, pairs: Sequence[Pair], progress: Progress = SILENT) -> FloatArray:
        """float32 (n), on the teacher's scale. What was scored is committed before this returns.

        Raises:
            TeacherError: an answer that is not one finite number per pair, on the declared scale. None of it is kept.
        """
        keys = list(_keys(pairs))
        distinct: dict[PairKey, int] = {}
        for row, key in enumerate(keys):
            distinct.setdefault(key, row)
        found = self._store.get(self.fingerprint, list(distinct))
        found = Column(found.values, found.valid & _possible(found.values, self.scale))  # a store may be damaged
        answers = dict(zip(distinct, found.values.tolist(), strict=True))
        missing = [key for key, known in zip(distinct, found.valid, strict=True) if not known]
        with progress.stage("score pairs", len(pairs)) as advance:
            advance(len(pairs) - len(missing))
            if missing:
                asked = [pairs[distinct[key]] for key in missing]
                scores = checked(self._teacher.score(asked, Within(advance)), asked, self.scale)
                self._store.put(self.fingerprint, missing, scores)
                answers.update(zip(missing, scores.tolist(), strict=True))
        self.calls += len(missing)
        self.reused += len(pairs) - len(missing)
        return np.array([answers[key] for key in keys], dtype=np.float32)


def checked(answer: Any, pairs: Sequence[Pair], scale: Scale, teacher: str = "the teacher") -> FloatArray:
    """A teacher's answer as float32 (n), if it is one finite number per pair on its scale.

    Raises:
        TeacherError: it is not; names the first pair it is not for.
    """
    try:
        scores = np.asarray(answer)
    except (RuntimeError, TypeError, ValueError) as error:  # lists of several lengths, a tensor on a GPU
        raise TeacherError(f"{teacher} must give one number per pair, as a list or array ({error})") from None
    if scores.ndim != 1 or (scores.dtype.kind not in "fiu" and len(scores)):
        raise TeacherError(
            f"{teacher} must give one number per pair; for {len(pairs)} pairs it gave shape {scores.shape} "
            f"of type {scores.dtype} (first pair: {_excerpt(pairs[0])})"
        )
    if len(scores) != len(pairs):
        first = f"; the first pair without one: {_excerpt(pairs[len(scores)])}" if len(scores) < len(pairs) else ""
        raise TeacherError(f"{teacher} gave {len(scores)} scores for {len(pairs)} pairs{first}")
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is refused
        scores = scores.astype(np.float32)
    bad = ~_possible(scores, scale)
    if bad.any():
        first_bad = int(np.argmax(bad))
        raise TeacherError(
            f"{teacher}: {int(bad.sum())} of {len(pairs)} scores are not a finite {scale}: "
            f"{scores[first_bad]} for {_excerpt(pairs[first_bad])}"
        )
    return scores


def _possible(scores: FloatArray, scale: Scale) -> BoolArray:
    """Which scores are finite, and on their scale."""
    possible: BoolArray = np.isfinite(scores)
    if scale == "probability":
        possible &= (scores >= 0) & (scores <= 1)
    if scale == "cosine":
        possible &= np.abs(scores) <= 1 + _COSINE_SLACK
    return possible


def _excerpt(pair: Pair) -> str:
    query, document = (text if len(text) <= _EXCERPT else text[:_EXCERPT] + "..." for text in pair)
    return f"query {query!r}, document {document!r}"


def _keys(pairs: Sequence[Pair]) -> Iterator[PairKey]:
    """The key of each pair; each distinct text is hashed once (a query comes with many documents)."""
    known: dict[str, bytes] = {}
    for pair in pairs:
        for text in pair:
            if text not in known:
                known[text] = text_key(text)
        yield known[pair[0]], known[pair[1]]


class Within:
    """What is scored inside a stage that is open already: its steps are steps of that stage, so that one bar shows."""

    def __init__(self, advance: Advance) -> None:
        self._advance = advance

    @contextmanager
    def stage(self, name: str, total: int) -> Iterator[Advance]:
        """Open nothing."""
        del name, total
        yield self._advance
