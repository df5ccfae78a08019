"""Embedding models as teachers: the cosine of a query's vector and a document's, or MaxSim of their tokens' vectors."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import numpy as np

from foolsgold.models.encoders import load_encoder
from foolsgold.models.late_interaction import load_late_interaction, max_sim, one_thread_a_product
from foolsgold.models.protocol import Encoder
from foolsgold.models.remembered import Remembered
from foolsgold.progress import SILENT, Progress, no_steps
from foolsgold.recipe import ModelSpec, TeacherSpec
from foolsgold.records import FloatArray, Scale
from foolsgold.teachers.protocol import Pair


class BiEncoderTeacher:
    """Cosines, also of a model that was made for dot products, which have no fixed scale to set a threshold on."""

    scale: Scale = "cosine"

    def __init__(self, spec: TeacherSpec, retriever: ModelSpec | None = None) -> None:
        encoder: Encoder = load_encoder(_as_model(spec, retriever).model_copy(update={"similarity": "cosine"}))
        prompts = encoder.prompt("query"), encoder.prompt("document")
        self.fingerprint = sha256(f"bi_encoder\0{encoder.fingerprint}\0{prompts!r}".encode()).hexdigest()[:32]
        self._queries = Remembered(lambda texts: list(encoder.encode(texts, "query", no_steps)))
        self._documents = Remembered(lambda texts: list(encoder.encode(texts, "document", no_steps)))

    def score(self, pairs: Sequence[Pair], progress: Progress = SILENT) -> FloatArray:
        """float32 (n), cosines."""
        if not pairs:
            return np.empty(0, dtype=np.float32)
        with progress.stage("score pairs", len(pairs)) as advance:
            queries = self._queries([query for query, _ in pairs])
            documents = self._documents([document for _, document in pairs])
            scores = self._compare(queries, documents)
            advance(len(pairs))
        return np.clip(scores, -1, 1)

    def _compare(self, queries: list[FloatArray], documents: list[FloatArray]) -> FloatArray:
        cosines: FloatArray = np.einsum("nd,nd->n", np.stack(queries), np.stack(documents))
        return cosines


class MultiVectorTeacher(BiEncoderTeacher):
    """Late interaction: MaxSim divided by the number of the query's tokens, filled-up ones included (see `max_sim`)."""

    def __init__(self, spec: TeacherSpec) -> None:
        model = load_late_interaction(_as_model(spec, None))
        self.fingerprint = sha256(f"multivector\0{model.fingerprint}".encode()).hexdigest()[:32]
        self._queries = Remembered(lambda texts: model.encode(texts, "query", no_steps))
        self._documents = Remembered(lambda texts: model.encode(texts, "document", no_steps))

    def _compare(self, queries: list[FloatArray], documents: list[FloatArray]) -> FloatArray:
        with one_thread_a_product():
            scores = [max_sim(query, document) for query, document in zip(queries, documents, strict=True)]
        return np.array(scores, dtype=np.float32)


def _as_model(spec: TeacherSpec, retriever: ModelSpec | None) -> ModelSpec:
    """The embedding model that a teacher section names; if it is the retriever's, with the retriever's prompts.

    `max_length` left at its default, which is meant for pairs, leaves the model its own limit.
    """
    base = retriever if retriever and retriever.model == spec.model else ModelSpec.model_validate({"model": spec.model})
    asked: dict[str, Any] = {
        "query_prompt": spec.prompt,
        "max_length": None if spec.max_length == TeacherSpec.model_fields["max_length"].default else spec.max_length,
        "dtype": None if spec.dtype == "auto" else spec.dtype,
        "batch_size": spec.batch_size,
        "device": spec.device,
        "trust_remote_code": spec.trust_remote_code or None,
    }
    return base.model_copy(update={name: value for name, value in asked.items() if value is not None})
