"""The student's vectors of a batch: their similarities, and the parts of it that other processes hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from sentence_transformers.util import all_gather_with_grad, get_world_size
from torch import Tensor
from torch.nn.functional import normalize, pad

from foolsgold.errors import TrainingError

Similarity = Literal["cosine", "dot"]


def comparable(vectors: Tensor, how: Similarity) -> Tensor:
    """float32 or float64 (..., d), whatever precision the student is trained in: their `products` are similarities."""
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
    """Raise a TrainingError where a similarity or its scale is not one that training can use."""
    if how not in ("cosine", "dot"):
        raise TrainingError(f"unknown similarity {how!r}; use cosine or dot")
    if not scale > 0:
        raise TrainingError(f"scale: {scale!r} is not above 0; it is 1 / temperature, 20 for example")


def part_sizes(own: Tensor) -> list[int]:
    """How many rows each process has, in the order of their ranks; own: this one's, (b, ...)."""
    if get_world_size() == 1:
        return [len(own)]
    sizes: list[int] = all_gather_with_grad(torch.tensor([len(own)], device=own.device)).tolist()
    return sizes


def gathered(own: Tensor, sizes: Sequence[int]) -> Tensor:
    """The rows of all processes, (sum(sizes), ...), with gradients that flow back to whoever has the row."""
    if len(sizes) == 1:
        return own
    most = max(sizes)
    parts = torch.split(all_gather_with_grad(pad(own, [0, 0] * (own.ndim - 1) + [0, most - len(own)])), most)
    return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])
