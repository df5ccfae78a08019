"""What a loss must know about its rows besides their texts: ids, weights and teacher scores, as one tensor of labels.

sentence-transformers' trainer hands a loss one label tensor per batch, whatever its width, and moves it to the device.
So integers of 64 bits carry everything: rows of the collection as they are, and float32 as their bits.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from foolsgold.errors import TrainingError
from foolsgold.records import FloatArray, IntArray

NOBODYS = -1  # in place of the row of a document that counts for no query


class RowLabels(NamedTuple):
    """Of b training rows with n negatives each, as tensors on one device.

    query: int64 (b), query rows. documents: int64 (b, 1 + n), document rows, the positive first.
    weights: float32 (b, n), how much each negative counts; 0 where a row has fewer than n and one is repeated.
    scores: float32 (b, 1 + n), the teacher's logits, NaN where it was not asked.
    """

    query: Tensor
    documents: Tensor
    weights: Tensor
    scores: Tensor

    @classmethod
    def unpack(cls, labels: Tensor) -> Self:
        """From the int64 (b, 3 + 3 n) that `pack` made."""
        n = labels.shape[1] // 3 - 1
        query, documents, weights, scores = torch.split(labels, [1, 1 + n, n, 1 + n], dim=1)
        return cls(query[:, 0], documents, _floats(weights), _floats(scores))

    def ids(self) -> Tensor:
        """int64 (b, 1 + n): document rows, `NOBODYS` for one of weight 0, which repeats a document of its row."""
        return torch.cat([self.documents[:, :1], self.documents[:, 1:].where(self.weights != 0, NOBODYS)], dim=1)


def pack(query: IntArray, documents: IntArray, weights: FloatArray, scores: FloatArray) -> Tensor:
    """One int64 tensor (b, 3 + 3 n) of what `RowLabels` says: query (b), the others of the shapes there.

    Raises:
        TrainingError: shapes that do not fit together; a negative row; a weight that is negative or not finite.
    """
    b, width = documents.shape if documents.ndim == 2 else (-1, 0)
    if not (query.shape == (b,) and weights.shape == (b, width - 1) and scores.shape == (b, width)):
        raise TrainingError(
            f"labels of {query.shape} queries, {documents.shape} documents, {weights.shape} weights and {scores.shape} "
            "scores; for b rows of n negatives these are (b), (b, 1 + n), (b, n) and (b, 1 + n)"
        )
    if b and (query.min() < 0 or documents.min() < 0):
        raise TrainingError("labels hold a negative row; a filled-up negative repeats a document with weight 0")
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise TrainingError("labels hold a weight that is negative or not finite")
    parts = [query[:, np.newaxis], documents, _bits(weights), _bits(scores)]
    return torch.from_numpy(np.concatenate(parts, axis=1, dtype=np.int64))


def is_packed(labels: Tensor | None) -> bool:
    """Whether these are labels of ours, and not the scores or margins that others train with, which are floats."""
    return labels is not None and labels.dtype == torch.int64 and labels.ndim == 2 and labels.shape[1] % 3 == 0


def _bits(values: FloatArray) -> IntArray:
    return np.ascontiguousarray(values, dtype=np.float32).view(np.int32)


def _floats(bits: Tensor) -> Tensor:
    return bits.to(torch.int32).view(torch.float32)
