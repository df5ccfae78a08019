"""An embedding model run by onnxruntime: a folder with model.onnx and tokenizer.json. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from foolsgold.errors import ModelError
from foolsgold.models.describe import Pooling, own_similarity, prompts_in_use
from foolsgold.models.known import known
from foolsgold.models.names import Located, fingerprint
from foolsgold.models.onnx import OnnxModel, Tokens
from foolsgold.models.protocol import Role, Similarity
from foolsgold.models.vectors import gathered
from foolsgold.progress import Advance, no_steps
from foolsgold.recipe import ModelSpec
from foolsgold.records import FloatArray


class OnnxEncoder:
    """Implements `Encoder`. A graph computes in the numbers it was exported with, so `dtype` asks for nothing here."""

    def __init__(self, located: Located, spec: ModelSpec) -> None:
        if spec.dtype not in ("auto", "float32"):
            raise ModelError(
                f"{spec.model}: an ONNX graph computes in the numbers it was exported with, not in {spec.dtype}; "
                "leave dtype: auto"
            )
        self.name = spec.model
        self._model = OnnxModel(located.files, max_length=spec.max_length)
        self._batch_size = spec.batch_size
        self._output, self._pooling = _how_to_read(self._model, spec)
        about = self._model.about
        asked = spec.similarity
        self.similarity: Similarity = (
            own_similarity(about.settings.get("similarity_fn_name"), spec.model) if asked == "auto" else asked
        )
        self._prompts = prompts_in_use(about.prompts, spec.query_prompt, spec.document_prompt)
        self.dtype = self._model.dtype
        self.dimension = self.encode(["dimension"], "document", no_steps).shape[1]
        self.fingerprint = fingerprint(
            located, "onnx", self._model.max_length, self._output, self._pooling, self.similarity
        )

    def prompt(self, role: Role) -> str:
        """What is put before each text of that role."""
        return self._prompts[role]

    def encode(self, texts: Sequence[str], role: Role, advance: Advance) -> FloatArray:
        """float32 (n, dimension); a text's vector is the same whatever it is encoded with."""
        tokens = self._model.tokenize([self._prompts[role] + text for text in texts])
        parts = (
            (rows, _pooled(outputs[self._output], [tokens[row] for row in rows], self._pooling))
            for rows, outputs in self._model.run_all(tokens, batch_size=self._batch_size)
        )
        return gathered(parts, len(texts), self, advance)


def _how_to_read(model: OnnxModel, spec: ModelSpec) -> tuple[str, Pooling | None]:
    """Which output holds the vectors, and how those of its tokens are pooled (None: one vector per text already)."""
    if "logits" in model.outputs:
        raise ModelError(
            f"{spec.model}: is a cross-encoder (its output is logits), which scores pairs; name it as the teacher"
        )
    ranks = {name: len(model.output_shape(name)) for name in model.outputs}
    if ranks.get("sentence_embedding") == 2 and spec.pooling == "auto":
        return "sentence_embedding", None
    tokens = next((name for name in ("last_hidden_state", "token_embeddings") if ranks.get(name) == 3), None)
    if tokens is None:
        raise ModelError(
            f"{spec.model}: has no output named sentence_embedding, last_hidden_state or token_embeddings "
            f"(it has: {', '.join(model.outputs)}), so foolsgold cannot run it as an embedding model"
        )
    if model.about.has_dense_layer:
        raise ModelError(
            f"{spec.model}: has a Dense layer after its pooling, which is not in model.onnx; export it with the output "
            "sentence_embedding, or use the sentence-transformers model itself"
        )
    return tokens, _pooling(model, spec)


def _pooling(model: OnnxModel, spec: ModelSpec) -> Pooling:
    if spec.pooling != "auto":
        return spec.pooling
    demo = known(spec.model)
    pooling = demo.pooling if demo else model.about.pooling()
    if pooling is None:
        raise ModelError(
            f"{spec.model}: does not say how the vectors of its tokens become one; set pooling: cls or pooling: mean, "
            "as its authors used it"
        )
    return pooling


def _pooled(output: FloatArray, batch: Sequence[Tokens], pooling: Pooling | None) -> FloatArray:
    """float32 (n, d): a batch's vectors, from the graph's output."""
    if pooling is None:
        return output
    if pooling == "cls":
        return output[:, 0]
    return np.stack([output[row, : len(tokens)].mean(axis=0) for row, tokens in enumerate(batch)])
