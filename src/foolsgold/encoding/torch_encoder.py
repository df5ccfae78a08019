"""An embedding model run by sentence-transformers: transformers and static embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from foolsgold.encoding.configs import own_prompt, own_similarity, read_json
from foolsgold.encoding.names import FORMS, Located, fetched, fingerprint
from foolsgold.encoding.protocol import Role, Similarity
from foolsgold.encoding.torch_model import load_model
from foolsgold.encoding.vectors import finished
from foolsgold.errors import MissingExtra, ModelError
from foolsgold.progress import Advance
from foolsgold.recipe import ModelSpec
from foolsgold.records import FloatArray

_CPU_BATCH = 32  # sentence-transformers' default
_GPU_BATCH = 128
_BATCHES_A_CALL = 8  # between two reports of progress


class TorchEncoder:
    """Implements `Encoder`."""

    def __init__(self, located: Located, spec: ModelSpec) -> None:
        _need_sentence_transformers(spec.model)
        located = fetched(located, with_code=spec.trust_remote_code)
        assert located.folder is not None
        _refuse_other_kinds(located.folder, spec)
        self.name = spec.model
        self._model, self.dtype = _load(located.folder, spec)
        self._batch_size = spec.batch_size or (_CPU_BATCH if self._model.device.type == "cpu" else _GPU_BATCH)
        self._prompts: dict[Role, str] = {
            "query": own_prompt(self._model.prompts, "query") if spec.query_prompt is None else spec.query_prompt,
            "document": (
                own_prompt(self._model.prompts, "document") if spec.document_prompt is None else spec.document_prompt
            ),
        }
        self.similarity: Similarity = (
            own_similarity(self._model.similarity_fn_name, spec.model) if spec.similarity == "auto" else spec.similarity
        )
        self.dimension = self.encode(["dimension"], "document", _nothing).shape[1]
        self.fingerprint = fingerprint(
            located, "torch", self._model.max_seq_length, spec.pooling, self.similarity, self.dtype
        )

    def prompt(self, role: Role) -> str:
        """What is put before each text of that role."""
        return self._prompts[role]

    def encode(self, texts: Sequence[str], role: Role, advance: Advance) -> FloatArray:
        """float32 (n, dimension); texts of nearly one length are run together, the longest first."""
        import torch

        encode = self._model.encode_query if role == "query" else self._model.encode_document
        order = np.argsort([-len(text) for text in texts], kind="stable")
        vectors: FloatArray | None = None
        for start in range(0, len(order), self._batch_size * _BATCHES_A_CALL):
            rows = order[start : start + self._batch_size * _BATCHES_A_CALL]
            try:
                part = encode(
                    [texts[row] for row in rows],
                    prompt=self._prompts[role],
                    batch_size=self._batch_size,
                    show_progress_bar=False,
                )
            except torch.OutOfMemoryError:
                raise ModelError(
                    f"{self.name}: a batch of {self._batch_size} texts does not fit into the memory of "
                    f"{self._model.device}; set batch_size lower, or max_length"
                ) from None
            if vectors is None:
                vectors = np.empty((len(texts), part.shape[1]), dtype=np.float32)
            vectors[rows] = part
            advance(len(rows))
        if vectors is None:
            return np.empty((0, self.dimension), dtype=np.float32)
        return finished(vectors, self.similarity, self.name)


def _need_sentence_transformers(model: str) -> None:
    try:
        import sentence_transformers  # noqa: F401
    except ImportError:
        raise MissingExtra("torch", f"{model} (a model that is not an ONNX folder)") from None


def _refuse_other_kinds(folder: Path, spec: ModelSpec) -> None:
    """sentence-transformers makes an embedding model of anything, by guessing; here each guess is a sentence."""
    if (folder / "model.onnx").is_file() and not (folder / "modules.json").is_file():
        raise ModelError(f"{spec.model}: has a model.onnx but no tokenizer.json, which it needs beside it")
    kind = read_json(folder / "config_sentence_transformers.json").get("model_type", "SentenceTransformer")
    if kind != "SentenceTransformer":
        raise ModelError(f"{spec.model}: is a {kind}, not a model with one vector a text; it cannot be the retriever")
    if (folder / "modules.json").is_file():
        if spec.pooling != "auto":
            raise ModelError(f"{spec.model}: says itself how it pools; leave pooling: auto")
        _refuse_pickles(folder, spec.model)
        return
    config = read_json(folder / "config.json")
    if not config:
        raise ModelError(f"{spec.model}: holds no model (no modules.json, config.json or model.onnx); {FORMS}")
    if any(architecture.endswith("ForSequenceClassification") for architecture in config.get("architectures") or ()):
        raise ModelError(f"{spec.model}: is a cross-encoder, which scores pairs; name it as the teacher")
    if spec.pooling == "auto":
        raise ModelError(
            f"{spec.model}: is a bare transformer, which does not say how the vectors of its tokens become one; "
            "set pooling: cls or pooling: mean, as its authors used it"
        )
    _refuse_pickles(folder, spec.model)


def _refuse_pickles(folder: Path, model: str) -> None:
    if not any(folder.rglob("*.safetensors")):
        raise ModelError(
            f"{model}: has no weights in safetensors format, and pickles are not loaded, because they can run code; "
            "save it again with save_pretrained(..., safe_serialization=True)"
        )


def _load(folder: Path, spec: ModelSpec) -> tuple[Any, str]:
    """A SentenceTransformer on its device, and what it computes in."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    model, dtype = load_model("SentenceTransformer", folder, spec)
    if spec.pooling != "auto":
        pooling = Pooling(model[0].get_embedding_dimension(), spec.pooling)
        model = SentenceTransformer(modules=[model[0], pooling], device=str(model.device)).eval()
    return model, dtype


def _nothing(steps: int) -> None:
    """Report no progress."""
