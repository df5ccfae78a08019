"""Similarities of the student's vectors, in full precision whatever precision the student is trained in."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import normalize

from foolsgold.errors import TrainingError

Similarity = Literal["cosine", "dot"]


def similarities(queries: Tensor, documents: Tensor, how: Similarity) -> Tensor:
    """float32 (b, m) of queries (b, d) with all documents (m, d), or (b, k) with documents of each query (b, k, d)."""
    # In bfloat16 a logit of 20 is known to an eighth, which is a temperature of its own.
    with torch.autocast(queries.device.type, enabled=False):
        left, right = (
            vectors.to(torch.promote_types(vectors.dtype, torch.float32)) for vectors in (queries, documents)
        )
        if how == "cosine":
            left, right = normalize(left, dim=-1), normalize(right, dim=-1)
        return left @ right.T if right.ndim == 2 else torch.einsum("bd,bkd->bk", left, right)


def check_similarity(how: str, scale: float) -> None:
    """Raise a TrainingError, in place of training with another similarity than was meant."""
    if how not in ("cosine", "dot"):
        raise TrainingError(f"similarity: {how!r} is none; cosine or dot")
    if not scale > 0:
        raise TrainingError(f"scale: {scale!r} is not above 0; it is 1 / temperature, 20 for example")
