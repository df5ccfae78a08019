"""An embedding model as a teacher: the cosine of the query's vector and the document's."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import numpy as np

from foolsgold.models.encoders import load_encoder
from foolsgold.models.remembered import Remembered
from foolsgold.progress import SILENT, Progress
from foolsgold.recipe import ModelSpec, TeacherSpec
from foolsgold.records import FloatArray, Scale
from foolsgold.teachers.protocol import Pair


class BiEncoderTeacher:
    """Cosines, also of a model that was made for dot products, which know no fixed scale to set a threshold on."""

    scale: Scale = "cosine"

    def __init__(self, spec: TeacherSpec, retriever: ModelSpec | None = None) -> None:
        encoder = load_encoder(as_model(spec, retriever).model_copy(update={"similarity": "cosine"}))
        prompts = encoder.prompt("query"), encoder.prompt("document")
        self.fingerprint = sha256(f"bi_encoder\0{encoder.fingerprint}\0{prompts!r}".encode()).hexdigest()[:32]
        self._queries = Remembered(lambda texts: list(encoder.encode(texts, "query", _no_steps)))
        self._documents = Remembered(lambda texts: list(encoder.encode(texts, "document", _no_steps)))

    def score(self, pairs: Sequence[Pair], progress: Progress = SILENT) -> FloatArray:
        """float32 (n), cosines."""
        with progress.stage("score pairs", len(pairs)) as advance:
            if not pairs:
                return np.empty(0, dtype=np.float32)
            queries = np.stack(self._queries([query for query, _ in pairs]))
            documents = np.stack(self._documents([document for _, document in pairs]))
            advance(len(pairs))
        cosines: FloatArray = np.einsum("nd,nd->n", queries, documents)
        return np.clip(cosines, -1, 1)


def as_model(spec: TeacherSpec, retriever: ModelSpec | None) -> ModelSpec:
    """The embedding model a teacher section names; of the retriever's own model, with the retriever's prompts.

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


def _no_steps(steps: int) -> None:
    del steps
