"""Spread independent pieces of a search over threads.

The kernels release the GIL and are each single-threaded, so plain Python threads keep every core busy. That is faster
than numba's own parallel loops next to BLAS, whose two thread pools would fight for the same cores, and it survives a
fork (datasets.map, a DataLoader), which numba's OpenMP pool does not.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

from numba import get_num_threads


class Threads:
    """As many threads as numba may use (NUMBA_NUM_THREADS, numba.set_num_threads), for the length of a `with`."""

    def __init__(self) -> None:
        self.count = int(get_num_threads())
        self._pool = ThreadPoolExecutor(self.count) if self.count > 1 else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def spread(
        self, work: Callable[[slice], None], total: int, piece: int, done: Callable[[int], None] = lambda _: None
    ) -> None:
        """Call `work` on every slice of `piece` out of `total`; `done` hears, in this thread, how many are finished."""
        slices = [slice(start, min(start + piece, total)) for start in range(0, total, piece)]
        run = self._pool.map if self._pool is not None and len(slices) > 1 else map
        for part, _ in zip(slices, run(work, slices), strict=True):
            done(part.stop - part.start)
