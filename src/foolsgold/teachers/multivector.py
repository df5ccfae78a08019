"""A late-interaction model (ColBERT) as a teacher: MaxSim, as a mean over the query's tokens."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import numpy as np

from foolsgold.models.late_interaction import load_late_interaction, max_sim, one_thread_a_product
from foolsgold.models.remembered import Remembered
from foolsgold.progress import SILENT, Progress
from foolsgold.recipe import TeacherSpec
from foolsgold.records import FloatArray, Scale
from foolsgold.teachers.bi_encoder import as_model
from foolsgold.teachers.protocol import Pair


class MultiVectorTeacher:
    """Cosines: MaxSim divided by the number of the query's tokens, filled-up ones included (see `max_sim`)."""

    scale: Scale = "cosine"

    def __init__(self, spec: TeacherSpec) -> None:
        model = load_late_interaction(as_model(spec, None))
        self.fingerprint = sha256(f"multivector\0{model.fingerprint}".encode()).hexdigest()[:32]
        self._queries = Remembered(lambda texts: model.encode(texts, "query", _no_steps))
        self._documents = Remembered(lambda texts: model.encode(texts, "document", _no_steps))

    def score(self, pairs: Sequence[Pair], progress: Progress = SILENT) -> FloatArray:
        """float32 (n), cosines."""
        with progress.stage("score pairs", len(pairs)) as advance:
            queries = self._queries([query for query, _ in pairs])
            documents = self._documents([document for _, document in pairs])
            with one_thread_a_product():
                scores = [max_sim(query, document) for query, document in zip(queries, documents, strict=True)]
            advance(len(pairs))
        return np.clip(np.array(scores, dtype=np.float32), -1, 1)


def _no_steps(steps: int) -> None:
    del steps
