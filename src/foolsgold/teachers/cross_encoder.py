"""A cross-encoder run by sentence-transformers. Imports torch when it is made."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from foolsgold.errors import ModelError
from foolsgold.models.describe import describe
from foolsgold.models.names import Located, fingerprint
from foolsgold.models.torch_model import fetched_for_torch, load_model
from foolsgold.progress import SILENT, Progress
from foolsgold.recipe import TeacherSpec
from foolsgold.records import FloatArray, Scale
from foolsgold.teachers.protocol import Pair

log = logging.getLogger(__name__)

# What is run together where the recipe does not say. On two cores batches of 8 read as many pairs a second as any
# (MiniLM-L12, float32 and bfloat16, pairs of 37 tokens; of 350 tokens in bfloat16 within 4 %).
_CPU_PAIRS = 8
_GPU_TOKENS = 65_536  # padding included; 128 pairs of 512 tokens
_CHARACTERS_A_TOKEN = 4  # of English; too few for other languages only make a batch larger than meant
_BATCHES_A_CALL = 8  # between two reports of progress


class CrossEncoderTeacher:
    """Raw logits. The activation that the model's own configuration names (often a sigmoid) is never applied.

    A pair's logit depends on the batch it is in by rounding: in the sixth decimal in float32, in the second in
    bfloat16. Set dtype: float32 where that matters more than speed.
    """

    scale: Scale = "logit"

    def __init__(self, located: Located, spec: TeacherSpec) -> None:
        located = fetched_for_torch(located, spec, "a cross-encoder that is not an ONNX folder")
        _refuse_without_head(located.files, spec.model)
        import torch

        self.name = spec.model
        self._no_activation = torch.nn.Identity()
        self._model, dtype = load_model("CrossEncoder", located.files, spec, activation_fn=self._no_activation)
        if self._model.num_labels != 1:
            raise ModelError(
                f"{spec.model}: has {self._model.num_labels} labels; a teacher must give one logit per pair. Wrap it "
                "in a function and name that as module:function, kind callable"
            )
        self._batch_size = spec.batch_size or (_CPU_PAIRS if self._model.device.type == "cpu" else None)
        self._fraction = 1  # of such a batch that fits into memory: 1 / this
        self._prompt = spec.prompt
        self.fingerprint = fingerprint(located, "cross_encoder", self._model.max_seq_length, dtype, spec.prompt)

    def score(self, pairs: Sequence[Pair], progress: Progress = SILENT) -> FloatArray:
        """float32 (n), logits; pairs of nearly one length are run together, the longest first.

        Raises:
            ModelError: the device does not have the memory for one pair.
        """
        order = np.argsort([-len(query) - len(document) for query, document in pairs], kind="stable")
        scores = np.empty(len(pairs), dtype=np.float32)
        done = 0
        with progress.stage("score pairs", len(pairs)) as advance:
            while done < len(order):
                size = self._size_of_batch(pairs[order[done]])
                rows = order[done : done + size * _BATCHES_A_CALL]
                answer = self._predict([pairs[row] for row in rows], size)
                if answer is None:
                    self._halve(size)
                    continue
                scores[rows] = answer
                advance(len(rows))
                done += len(rows)
        return scores

    def _size_of_batch(self, longest: Pair) -> int:
        """How many pairs are run together where this is the longest of them."""
        tokens = min(self._model.max_seq_length, sum(map(len, longest)) // _CHARACTERS_A_TOKEN + 3)
        return max(1, (self._batch_size or _GPU_TOKENS // tokens) // self._fraction)

    def _predict(self, pairs: list[Pair], batch_size: int) -> Any:
        """float32 (n); None if a batch does not fit into the device's memory."""
        import torch

        try:
            return self._model.predict(
                [((self._prompt or "") + query, document) for query, document in pairs],
                prompt=None if self._prompt is None else "",  # the recipe's prompt stands in place of the model's own
                batch_size=batch_size,
                activation_fn=self._no_activation,
                show_progress_bar=False,
            )
        except torch.OutOfMemoryError:
            return None

    def _halve(self, size: int) -> None:
        """Continue with half of a batch of `size` pairs, for the rest of the run."""
        import torch

        device = self._model.device
        if size == 1:
            raise ModelError(
                f"{self.name}: a single pair does not fit into the memory of {device}; set max_length lower"
            )
        log.warning("%s: a batch of %d pairs does not fit into the memory of %s; halved", self.name, size, device)
        self._fraction *= 2
        if device.type == "cuda":
            torch.cuda.empty_cache()  # what the larger batch left lies in pieces of the wrong size


def _refuse_without_head(folder: Path, model: str) -> None:
    """sentence-transformers puts a random head on a model that has none, and it would score at random."""
    about = describe(folder, model)
    if about.is_cross_encoder:
        return
    if about.kind or about.modules or not about.config:
        what = f"is a {about.kind or 'SentenceTransformer'}" if about.kind or about.config else "holds no config.json"
        raise ModelError(f"{model}: {what}, not a cross-encoder; an embedding model is kind bi_encoder")
    raise ModelError(f"{model}: is {about.what}, which has no trained head that scores pairs; name a cross-encoder")
