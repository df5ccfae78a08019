"""A cross-encoder run by onnxruntime: a folder with model.onnx and tokenizer.json that gives one logit per pair."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from foolsgold.errors import ModelError
from foolsgold.models.names import Located, fingerprint
from foolsgold.models.onnx import OnnxModel
from foolsgold.progress import SILENT, Progress
from foolsgold.recipe import TeacherSpec
from foolsgold.records import FloatArray, Scale
from foolsgold.teachers.protocol import Pair


class OnnxTeacher:
    """Raw logits, whatever activation the model's authors put after them. Imports neither torch nor transformers."""

    scale: Scale = "logit"

    def __init__(self, located: Located, spec: TeacherSpec) -> None:
        if located.folder is None or not located.is_onnx:
            raise ModelError(f"{spec.model}: kind onnx needs a folder with model.onnx and tokenizer.json")
        self._model = OnnxModel(located.folder, max_length=spec.max_length)
        output = logit_output(self._model)
        if output is None:
            raise ModelError(
                f"{spec.model}: does not give one logit per pair (its outputs: {', '.join(self._model.outputs)}), "
                "so it cannot be a cross-encoder teacher; an embedding model is kind bi_encoder"
            )
        self._output = output
        self._prompt = spec.prompt or ""
        self._batch_size = spec.batch_size
        self.fingerprint = fingerprint(located, "onnx", self._model.max_length, self._prompt)

    def score(self, pairs: Sequence[Pair], progress: Progress = SILENT) -> FloatArray:
        """float32 (n), logits."""
        # Tokenising takes 0.3 to 0.7 % of the model's time, so a query's tokens are not kept between its pairs, and
        # the tokeniser itself decides what is cut from a pair that is too long.
        tokens = self._model.tokenize_pairs([(self._prompt + query, document) for query, document in pairs])
        scores = np.empty(len(pairs), dtype=np.float32)
        with progress.stage("score pairs", len(pairs)) as advance:
            for rows, outputs in self._model.run_all(tokens, batch_size=self._batch_size):
                scores[rows] = outputs[self._output].reshape(len(rows))
                advance(len(rows))
        return scores


def logit_output(model: OnnxModel) -> str | None:
    """The output that is one number per pair; None where there is none (an embedding model, a classifier)."""
    probe = model.run(model.tokenize_pairs([("query", "document")]))
    single = [name for name, value in probe.items() if value.size == 1]
    return "logits" if "logits" in single else next(iter(single), None)
