"""A cross-encoder in memory as a teacher, asked for what decides and no more."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from foolsgold.compat.sentence_transformers.contents import fingerprint
from foolsgold.compat.sentence_transformers.nearest import array
from foolsgold.compat.sentence_transformers.pairs import Pairs
from foolsgold.progress import SILENT, Progress
from foolsgold.records import FloatArray, IntArray, Scale
from foolsgold.stores.scores import ScoreStore
from foolsgold.teachers.cached import CachedTeacher, checked
from foolsgold.teachers.protocol import Pair

log = logging.getLogger("foolsgold.compat.sentence_transformers")

_BATCHES_A_CALL = 64  # between two reports of progress, and two commits to the store


class InMemory:
    """Implements `Teacher` by the cross-encoder's own `predict`.

    Its activation is applied, whatever it is, because the caller's thresholds are in the scale that comes of it: it may
    be no logit, and all that is known of a score is that it is a finite number.
    """

    scale: Scale = "logit"

    def __init__(self, cross_encoder: Any, batch_size: int, pool: Any, contents: str) -> None:
        self.fingerprint = contents
        self._model = cross_encoder
        self._batch_size = batch_size
        self._pool = pool

    def score(self, pairs: Sequence[Pair], progress: Progress = SILENT) -> FloatArray:
        """float32 (n); pairs of nearly one length are run together, the longest first."""
        order = np.argsort([-len(query) - len(document) for query, document in pairs], kind="stable")
        scores = np.empty(len(pairs), dtype=np.float32)
        size = self._batch_size * _BATCHES_A_CALL
        with progress.stage("Rescoring with CrossEncoder", len(pairs)) as advance:
            for start in range(0, len(order), size):
                rows = order[start : start + size]
                asked = [pairs[row] for row in rows]
                answer = self._model.predict(
                    asked, batch_size=self._batch_size, convert_to_tensor=True, pool=self._pool
                )
                scores[rows] = checked(array(answer), asked, self.scale, "the cross-encoder")
                advance(len(rows))
        return scores


class Rescorer:
    """Scores rows of `pairs` by a cross-encoder; what is in the cache folder's store is not scored again."""

    def __init__(
        self,
        cross_encoder: Any,
        pairs: Pairs,
        cache_folder: str | None,
        *,
        batch_size: int,
        pool: Any,
        progress: Progress,
    ) -> None:
        contents = fingerprint(cross_encoder) if cache_folder else None
        self._teacher: InMemory | CachedTeacher = InMemory(cross_encoder, batch_size, pool, contents or "")
        self._store: ScoreStore | None = None
        if cache_folder and contents is None:
            log.warning(
                "%s is no torch module, so that its weights cannot be told from others'; its scores are not kept in "
                "cache_folder",
                type(cross_encoder).__name__,
            )
        elif cache_folder:
            self._store = ScoreStore(Path(cache_folder) / "teacher_scores.sqlite")
            self._teacher = CachedTeacher(self._teacher, self._store)
        self._pairs = pairs
        self._progress = progress

    def score(self, query: IntArray, document: IntArray) -> FloatArray:
        """float32 (n), for rows of queries and documents."""
        texts = zip(query.tolist(), document.tolist(), strict=True)
        asked = [(self._pairs.queries[row], self._pairs.documents[doc]) for row, doc in texts]
        return self._teacher.score(asked, self._progress)

    def close(self) -> None:
        """Close the store."""
        if self._store is not None:
            self._store.close()
