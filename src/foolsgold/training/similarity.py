"""Similarities of the student's vectors, in full precision whatever precision the student is trained in."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import normalize

from foolsgold.errors import TrainingError

Similarity = Literal["cosine", "dot"]


def comparable(vectors: Tensor, how: Similarity) -> Tensor:
    """float32 or float64 (..., d): vectors whose `products` are their similarities."""
    precise = vectors.to(torch.promote_types(vectors.dtype, torch.float32))
    return normalize(precise, dim=-1) if how == "cosine" else precise


def products(queries: Tensor, documents: Tensor) -> Tensor:
    """(b, m) of queries (b, d) with all documents (m, d), or (b, k) with documents of each query (b, k, d)."""
    # In bfloat16 a logit of 20 is known to an eighth, which is a temperature of its own.
    with torch.autocast(queries.device.type, enabled=False):
        if documents.ndim == 2:
            return queries @ documents.T
        return torch.einsum("bd,bkd->bk", queries, documents)


def check_similarity(how: str, scale: float) -> None:
    """Raise a TrainingError, in place of training with another similarity than was meant."""
    if how not in ("cosine", "dot"):
        raise TrainingError(f"similarity: {how!r} is none; cosine or dot")
    if not scale > 0:
        raise TrainingError(f"scale: {scale!r} is not above 0; it is 1 / temperature, 20 for example")
