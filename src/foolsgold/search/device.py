"""What `on_device` needs of torch: a device by its name, and a corpus that streams through it in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from foolsgold.errors import MissingExtra, SourceError

try:
    import torch
    from torch import Tensor
except ImportError:
    raise MissingExtra("torch", "searching on a device") from None

__all__ = ["Tensor", "accumulating_in_float32", "blocks", "copied", "find", "torch"]

_Matrix = npt.NDArray[Any]


def find(device: str) -> torch.device:
    """The device of that name.

    Raises:
        SourceError: this machine has no such device, or it is not one whose sums are known to be precise enough.
    """
    there = ["cpu", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]
    known = [*there, "cuda"] if len(there) > 1 else there
    if device not in known:
        raise SourceError(f"there is no device {device!r} to search on; torch finds {', '.join(there)} here")
    return torch.device(device)


def blocks(corpus: _Matrix, first_row: int, size: int, place: torch.device) -> Iterator[Tensor]:
    """The corpus from `first_row` on, in blocks on the device; each is copied there while the last is searched."""
    stream = torch.cuda.Stream(place) if place.type == "cuda" else None  # type: ignore[no-untyped-call]

    def load(row: int) -> Tensor:
        with torch.cuda.stream(stream):
            block = copied(corpus[row : row + size], place)
        if stream is not None:
            stream.synchronize()
        return block

    with ThreadPoolExecutor(1) as ahead:
        coming = ahead.submit(load, first_row)
        for row in range(first_row, len(corpus), size):
            block = coming.result()
            if row + size < len(corpus):
                coming = ahead.submit(load, row + size)
            if stream is not None:
                block.record_stream(torch.cuda.current_stream(place))
            yield block


def copied(vectors: _Matrix, place: torch.device) -> Tensor:
    """On the device in float16 or bfloat16 as given, everything else in float32; by way of pinned memory."""
    kept = {"float16": torch.float16, "bfloat16": torch.bfloat16}
    dtype = kept.get(vectors.dtype.name, torch.float32)
    staging = torch.empty(vectors.shape, dtype=dtype, pin_memory=place.type == "cuda")
    if dtype is torch.bfloat16:  # which numpy knows only as the array's own dtype
        staging.view(torch.int16).numpy().view(vectors.dtype)[:] = vectors
    else:
        with np.errstate(over="ignore"):  # the search finds what float32 cannot hold, with its row
            staging.numpy()[:] = vectors
    return staging.to(place, non_blocking=True)


@contextmanager
def accumulating_in_float32() -> Iterator[None]:
    """CUDA may by default add partial sums in float16, of which `_error` knows nothing."""
    switches = ("allow_fp16_reduced_precision_reduction", "allow_fp16_accumulation")
    matmul = torch.backends.cuda.matmul
    before = {switch: getattr(matmul, switch) for switch in switches if hasattr(matmul, switch)}
    try:
        for switch in before:
            setattr(matmul, switch, False)
        yield
    finally:
        for switch, value in before.items():
            setattr(matmul, switch, value)
