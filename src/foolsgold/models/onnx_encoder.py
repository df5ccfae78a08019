"""An embedding model run by onnxruntime: a folder with model.onnx and tokenizer.json. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from foolsgold.errors import ModelError
from foolsgold.models.configs import Pooling, own_pooling, own_prompt, own_similarity, read_json
from foolsgold.models.known import known
from foolsgold.models.names import Located, fingerprint
from foolsgold.models.onnx import OnnxModel, Tokens
from foolsgold.models.protocol import Role, Similarity
from foolsgold.models.vectors import finished
from foolsgold.progress import Advance
from foolsgold.recipe import ModelSpec
from foolsgold.records import FloatArray

# Reads a batch's vectors (n, d) from the graph's output and the batch's inputs.
_Read = Callable[[FloatArray, Sequence[Tokens]], FloatArray]


class OnnxEncoder:
    """Implements `Encoder`. A graph computes in the numbers it was exported with, so `dtype` asks for nothing here."""

    def __init__(self, located: Located, spec: ModelSpec) -> None:
        assert located.folder is not None
        folder = located.folder
        if spec.dtype not in ("auto", "float32"):
            raise ModelError(
                f"{spec.model}: an ONNX graph computes in the numbers it was exported with, not in {spec.dtype}; "
                "leave dtype: auto"
            )
        self.name = spec.model
        self._model = OnnxModel(folder, max_length=spec.max_length)
        self._batch_size = spec.batch_size
        self._output, pooling = _how_to_read(self._model, spec)
        self._read = _READERS[pooling]
        config = read_json(folder / "config_sentence_transformers.json")
        self.similarity: Similarity = (
            own_similarity(config.get("similarity_fn_name"), spec.model)
            if spec.similarity == "auto"
            else spec.similarity
        )
        own = config.get("prompts", {})
        self._prompts: dict[Role, str] = {
            "query": own_prompt(own, "query") if spec.query_prompt is None else spec.query_prompt,
            "document": own_prompt(own, "document") if spec.document_prompt is None else spec.document_prompt,
        }
        self.dtype = self._model.dtype
        self.dimension = self.encode(["dimension"], "document", _nothing).shape[1]
        self.fingerprint = fingerprint(located, "onnx", self._model.max_length, self._output, pooling, self.similarity)

    def prompt(self, role: Role) -> str:
        """What is put before each text of that role."""
        return self._prompts[role]

    def encode(self, texts: Sequence[str], role: Role, advance: Advance) -> FloatArray:
        """float32 (n, dimension); a text's vector is the same whatever it is encoded with."""
        prompt = self._prompts[role]
        tokens = self._model.tokenize([prompt + text for text in texts])
        vectors: FloatArray | None = None
        for rows, outputs in self._model.run_all(tokens, batch_size=self._batch_size):
            part = self._read(outputs[self._output], [tokens[row] for row in rows])
            if vectors is None:
                vectors = np.empty((len(texts), part.shape[1]), dtype=np.float32)
            vectors[rows] = part
            advance(len(rows))
        if vectors is None:
            return np.empty((0, self.dimension), dtype=np.float32)
        return finished(vectors, self.similarity, self.name)


def _how_to_read(model: OnnxModel, spec: ModelSpec) -> tuple[str, Pooling | None]:
    """Which output holds the vectors, and how those of its tokens are pooled (None: one vector a text already)."""
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
            f"(it has: {', '.join(model.outputs)}), so it is no embedding model that foolsgold can run"
        )
    layers = [module.get("type", "") for module in read_json(model.folder / "modules.json", [])]
    if any(layer.endswith(".Dense") for layer in layers):
        raise ModelError(
            f"{spec.model}: has a Dense layer after its pooling, which is not in model.onnx; export it with the output "
            "sentence_embedding, or use the sentence-transformers model itself"
        )
    return tokens, _pooling(model, spec)


def _pooling(model: OnnxModel, spec: ModelSpec) -> Pooling:
    if spec.pooling != "auto":
        return spec.pooling
    demo = known(spec.model)
    pooling = demo.pooling if demo else own_pooling(model.folder, spec.model)
    if pooling is None:
        raise ModelError(
            f"{spec.model}: does not say how the vectors of its tokens become one; set pooling: cls or pooling: mean, "
            "as its authors used it"
        )
    return pooling


def _first_token(output: FloatArray, batch: Sequence[Tokens]) -> FloatArray:
    del batch
    return output[:, 0]


def _mean_of_tokens(output: FloatArray, batch: Sequence[Tokens]) -> FloatArray:
    return np.stack([output[row, : len(tokens)].mean(axis=0) for row, tokens in enumerate(batch)])


def _as_is(output: FloatArray, batch: Sequence[Tokens]) -> FloatArray:
    del batch
    return output


_READERS: dict[Pooling | None, _Read] = {"cls": _first_token, "mean": _mean_of_tokens, None: _as_is}


def _nothing(steps: int) -> None:
    """Report no progress."""
