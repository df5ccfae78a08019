"""An embedding model run by sentence-transformers: transformers and static embeddings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from foolsgold.errors import ModelError
from foolsgold.models.batches import length_batches, run_in_threads
from foolsgold.models.describe import describe, own_similarity, prompts_in_use
from foolsgold.models.names import FORMS, Located, fingerprint
from foolsgold.models.protocol import Role, Similarity
from foolsgold.models.torch_model import fetched_for_torch, load_model
from foolsgold.models.vectors import gathered
from foolsgold.progress import Advance, no_steps
from foolsgold.recipe import ModelSpec
from foolsgold.records import FloatArray, LongArray

_BATCH = 128  # texts, where the recipe does not say
_CPU_TOKENS = 2_048  # of a batch with its padding: what lies between two layers stays in a core's share of the cache
_GPU_TOKENS = 65_536
_TOKENIZED_AT_ONCE = 256

# Positions of texts, and what sentence-transformers' tokenisation gives for them.
_Batch = tuple[LongArray, dict[str, Any]]


class TorchEncoder:
    """Implements `Encoder`.

    On a CPU a batch has one thread, and as many batches run at once as torch may use threads. So the vectors do not
    depend on their number; on the texts beside it in its batch a vector depends by rounding.
    """

    def __init__(self, located: Located, spec: ModelSpec) -> None:
        located = fetched_for_torch(located, spec)
        self.name = spec.model
        self._model, self.dtype = load_embedding_model(located.files, spec)
        self._batch_size = spec.batch_size or _BATCH
        self._prompts = prompts_in_use(self._model.prompts, spec.query_prompt, spec.document_prompt)
        asked = spec.similarity
        self.similarity: Similarity = (
            own_similarity(self._model.similarity_fn_name, spec.model) if asked == "auto" else asked
        )
        self.dimension = self.encode(["dimension"], "document", no_steps).shape[1]
        self.fingerprint = fingerprint(
            located, "torch", self._model.max_seq_length, spec.pooling, self.similarity, self.dtype
        )

    def prompt(self, role: Role) -> str:
        """What is put before each text of that role."""
        return self._prompts[role]

    def encode(self, texts: Sequence[str], role: Role, advance: Advance) -> FloatArray:
        """float32 (n, dimension); texts of nearly one length are run together, the longest first."""
        parts = ((rows, part) for (rows, _), part in self._run_all(self._batches(texts, role), role))
        return gathered(parts, len(texts), self, advance)

    def _batches(self, texts: Sequence[str], role: Role) -> Iterator[_Batch]:
        """Positions in `texts` and their tokens, padded to the longest of the batch."""
        order = np.argsort([-len(text) for text in texts], kind="stable")
        max_tokens = _CPU_TOKENS if self._model.device.type == "cpu" else _GPU_TOKENS
        for start in range(0, len(order), _TOKENIZED_AT_ONCE):
            rows = order[start : start + _TOKENIZED_AT_ONCE]
            features = self._model.preprocess([texts[row] for row in rows], prompt=self._prompts[role], task=role)
            attended = features.get("attention_mask")
            if attended is None:  # a table of vectors, which has nothing to pad
                yield rows, features
                continue
            for batch in length_batches(attended.sum(dim=1).numpy(), size=self._batch_size, max_tokens=max_tokens):
                yield rows[batch], _rows_of(features, batch)

    def _run_all(self, batches: Iterator[_Batch], role: Role) -> Iterator[tuple[_Batch, FloatArray]]:
        """Each batch and its vectors, float32 (texts of the batch, dimension)."""
        import torch

        def run(batch: _Batch) -> FloatArray:
            features = {
                name: value.to(self._model.device) if isinstance(value, torch.Tensor) else value
                for name, value in batch[1].items()
            }
            with torch.inference_mode():
                vectors: FloatArray = self._model(features, task=role)["sentence_embedding"].float().cpu().numpy()
            return vectors

        threads = torch.get_num_threads()
        at_once = threads if self._model.device.type == "cpu" else 1  # one, to tokenise while another device is busy
        try:
            yield from run_in_threads(run, batches, threads=at_once, on_start=lambda: torch.set_num_threads(1))
        except torch.OutOfMemoryError:
            raise ModelError(
                f"{self.name}: a batch of {self._batch_size} texts does not fit into the memory of "
                f"{self._model.device}; set batch_size lower, or max_length"
            ) from None
        finally:
            torch.set_num_threads(threads)  # what a thread sets is also what later threads start with


def _rows_of(features: dict[str, Any], rows: LongArray) -> dict[str, Any]:
    """The features of some of the texts, without the columns in which all of them are padding."""
    attended = features["attention_mask"]
    columns = attended[rows].any(dim=0)
    return {
        name: value[rows][:, columns] if getattr(value, "shape", None) == attended.shape else value
        for name, value in features.items()
    }


def _refuse_other_kinds(folder: Path, spec: ModelSpec) -> None:
    """sentence-transformers makes an embedding model of anything, by guessing; here each guess is a sentence."""
    about = describe(folder, spec.model)
    if (folder / "model.onnx").is_file() and not about.modules:
        raise ModelError(f"{spec.model}: has a model.onnx but no tokenizer.json, which it needs beside it")
    if about.kind not in (None, "SentenceTransformer"):
        raise ModelError(
            f"{spec.model}: is {about.what}, not a model with one vector per text; it cannot be the retriever"
        )
    if about.modules and spec.pooling != "auto":
        raise ModelError(f"{spec.model}: says itself how it pools; leave pooling: auto")
    if not about.modules:
        if not about.config:
            raise ModelError(f"{spec.model}: holds no model (no modules.json, config.json or model.onnx); {FORMS}")
        if about.has_architecture("ForSequenceClassification"):
            raise ModelError(f"{spec.model}: is a cross-encoder, which scores pairs; name it as the teacher")
        if spec.pooling == "auto":
            raise ModelError(
                f"{spec.model}: is a bare transformer, which does not say how the vectors of its tokens become one; "
                "set pooling: cls or pooling: mean, as its authors used it"
            )
    if not any(folder.rglob("*.safetensors")):
        raise ModelError(
            f"{spec.model}: has no weights in safetensors format, and pickles are not loaded, because they can run "
            "code; save it again with save_pretrained(..., safe_serialization=True)"
        )


def load_embedding_model(folder: Path, spec: ModelSpec) -> tuple[Any, str]:
    """A SentenceTransformer on its device, with the pooling that is asked for, and what it computes in.

    Raises:
        ModelError: not an embedding model, one that does not say how it pools, or one that cannot be loaded.
    """
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    _refuse_other_kinds(folder, spec)
    model, dtype = load_model("SentenceTransformer", folder, spec)
    if spec.pooling != "auto":
        pooling = Pooling(model[0].get_embedding_dimension(), spec.pooling)
        model = SentenceTransformer(modules=[model[0], pooling], device=str(model.device)).eval()
    return model, dtype
