"""A user's own object or function as a teacher."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast, get_args

from foolsgold.errors import TeacherError
from foolsgold.progress import SILENT, Progress
from foolsgold.records import FloatArray, Scale
from foolsgold.teachers.protocol import Pair


class PlainTeacher:
    """Anything with `score(pairs)` and `scale`, or a function of pairs with an attribute `scale`.

    What it answers is stored between runs only if it has a `fingerprint`, since only its author knows when its scores
    change.
    """

    def __init__(self, own: Any) -> None:
        self.name = str(getattr(own, "__qualname__", type(own).__qualname__))
        score = getattr(own, "score", own)
        if not callable(score):
            raise TeacherError(
                f"teacher: {own!r} has no score(pairs) and is not a function; name a model, or give an object with "
                "score(pairs)"
            )
        scale = getattr(own, "scale", None)
        if scale not in get_args(Scale):
            raise TeacherError(
                f"teacher: {self.name}.scale is {scale!r}; set it to what its scores are: {', '.join(get_args(Scale))}"
            )
        self.scale = cast(Scale, scale)
        own_fingerprint = getattr(own, "fingerprint", None)
        self.remembered = own_fingerprint is not None
        self.fingerprint = str(own_fingerprint) if self.remembered else f"{self.name}, which gives none"
        self._score: Callable[[list[Pair]], Any] = score

    def score(self, pairs: Sequence[Pair], progress: Progress = SILENT) -> FloatArray:
        """Whatever it answers; `CachedTeacher` checks that it is one finite number per pair."""
        with progress.stage("score pairs", len(pairs)) as advance:
            try:
                answer = self._score(list(pairs))
            except (Exception, SystemExit) as error:
                raise TeacherError(f"teacher: {self.name} failed on {len(pairs)} pairs: {error!r}") from error
            advance(len(pairs))
        return cast(FloatArray, answer)
