"""How all rows fit into a fixed number of batches without conflicts; found once, before the first epoch."""

from __future__ import annotations

from typing import Any

import numpy as np

from foolsgold.records import LongArray
from foolsgold.search.kernels import compiled
from foolsgold.training.conflicts import Conflicts, fits, sharing

_SWAPS = 10_000  # attempts to make room for a row by moving another, before one more batch is added


def batch_plan(conflicts: Conflicts, batch_size: int, processes: int, drop_last: bool) -> tuple[LongArray, LongArray]:
    """Batches without conflicts: the row in each place, int64 (n), and where batches start, int64 (batches + 1).

    As few as hold all rows, or are full where drop_last, a multiple of the number of processes. What comes after the
    last batch is left out.
    """
    n = len(conflicts.texts)
    # Rows with most conflicts first, while there is room everywhere.
    order = np.argsort(-sharing(conflicts.texts) - (conflicts.end - conflicts.begin), kind="stable")
    rounds = n // (batch_size * processes) if drop_last else _needed(n, conflicts, batch_size, processes)
    while True:
        sizes = np.full(rounds * processes, batch_size) if drop_last else _even(n, rounds, processes)
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        content = np.full(n, -1, dtype=np.int64)
        if _place(conflicts, order, starts, content):
            return starts, content
        rounds += -1 if drop_last else 1 + rounds // 20


def _needed(n: int, conflicts: Conflicts, batch_size: int, processes: int) -> int:
    return -(-max(-(-n // batch_size), conflicts.most_alike) // processes)


def _even(n: int, rounds: int, processes: int) -> LongArray:
    """int64 (rounds * processes): n in as equal numbers as can be, larger ones first; so most rounds have one size."""
    count = rounds * processes
    sizes: LongArray = n // max(count, 1) + (np.arange(count) < n % max(count, 1)).astype(np.int64)
    return sizes


@compiled
def _place(conflicts: Any, order: Any, starts: Any, content: Any) -> Any:
    """Put each row, in that order, into a batch that has room and no conflict. Returns whether this worked for all.

    content: int64 (n), all -1 at first. The places after the last batch form one more, which takes any row.
    """
    n, n_batches = len(content), len(starts) - 1
    ends = np.append(starts[1:], n)
    filled = starts.copy()  # up to where each batch is
    batch_of = np.empty(n, np.int64)
    for batch in range(n_batches + 1):
        batch_of[starts[batch] : ends[batch]] = batch
    are_open = np.flatnonzero(filled < ends)
    n_open = len(are_open)
    luck = 1
    for row in order:
        luck = _next(luck)
        found, moved = -1, -1
        for step in range(n_open):
            place = (luck + step) % n_open
            batch = are_open[place]
            if batch == n_batches or fits(conflicts, row, content, starts[batch], filled[batch], -1):
                found = place
                break
        for _ in range(0 if found >= 0 else _SWAPS):  # another row makes room for it
            luck = _next(luck)
            moved = luck % n
            luck = _next(luck)
            place = luck % n_open
            old, new = batch_of[moved], are_open[place]
            if (
                content[moved] >= 0
                and old != new
                and (old == n_batches or fits(conflicts, row, content, starts[old], ends[old], content[moved]))
                and (new == n_batches or fits(conflicts, content[moved], content, starts[new], ends[new], -1))
            ):
                found = place
                break
        if found < 0:
            return False
        batch = are_open[found]
        if moved >= 0:
            content[filled[batch]], content[moved] = content[moved], row
        else:
            content[filled[batch]] = row
        filled[batch] += 1
        if filled[batch] == ends[batch]:
            n_open -= 1
            are_open[found] = are_open[n_open]
    return True


@compiled
def _next(luck: Any) -> Any:
    """A random number from the one before: MINSTD (Park, Miller, Comm. ACM 1988)."""
    return luck * 48271 % 2147483647
