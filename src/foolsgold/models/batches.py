"""Inputs of nearly one length run together, several batches at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from foolsgold.records import IntArray, LongArray

_Batch = TypeVar("_Batch")
_Output = TypeVar("_Output")


def length_batches(
    lengths: Sequence[int] | IntArray, *, size: int, max_tokens: int | None = 16_384
) -> Iterator[LongArray]:
    """Positions of inputs that are run together: at most `size`, of nearly one length, the longest first.

    lengths: tokens of each input. max_tokens bounds a batch's tokens with its padding, so that memory is bounded; an
    input longer than that is a batch by itself; None: no bound.
    """
    lengths = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        longest = max(1, int(lengths[order[start]]))
        fits = size if max_tokens is None else max(1, min(size, max_tokens // longest))
        yield order[start : start + fits]
        start += fits


def run_in_threads(
    run: Callable[[_Batch], _Output],
    batches: Iterable[_Batch],
    *,
    threads: int,
    on_start: Callable[[], Any] = lambda: None,
) -> Iterator[tuple[_Batch, _Output]]:
    """Each batch and what `run` gives for it, in the order of `batches`.

    So many batches are run at once, each by one thread. `batches` is read in the calling thread, a few ahead, so that
    an iterator may tokenise the next ones while these are run. on_start: called by each thread before its first batch.
    """
    running: deque[tuple[_Batch, Future[_Output]]] = deque()
    with ThreadPoolExecutor(threads, initializer=on_start) as pool:
        try:
            for batch in batches:
                running.append((batch, pool.submit(run, batch)))
                if len(running) > 2 * threads:
                    batch, output = running.popleft()
                    yield batch, output.result()
            while running:
                batch, output = running.popleft()
                yield batch, output.result()
        finally:
            for _, output in running:
                output.cancel()
