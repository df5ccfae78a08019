"""A batch of which several processes hold a part each, not always of the same size."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from sentence_transformers.util import all_gather_with_grad, get_world_size
from torch import Tensor
from torch.nn.functional import pad


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
