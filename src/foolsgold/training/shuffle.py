"""The shuffle of training batches: the order that an epoch would like its rows in, and the swaps that lead to it.

An order is a wish: `places` are positions in the batches, in the order in which they are filled, and `rows` the rows
that they should get, in the same order. `arrange` fulfils as much of it as is possible without a conflict.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np

from foolsgold.records import FloatArray, IntArray, LongArray
from foolsgold.search.kernels import compiled
from foolsgold.training.conflicts import fits

_CANDIDATES = 32  # rows that a place is offered to, before it keeps what it has


class Order(NamedTuple):
    """places, rows: int64 (n) each."""

    places: LongArray
    rows: LongArray


def random_order(n: int, rng: np.random.Generator) -> Order:
    """All rows at random."""
    return Order(np.arange(n), rng.permutation(n))


def topic_order(topic: IntArray, starts: LongArray, per_batch: int, rng: np.random.Generator) -> Order:
    """Rows of one topic together, `per_batch` topics in each batch.

    A topic's rows are drawn without replacement. What is too little to fill a batch, or a topic's share of one, is put
    together with what is left of the topics next to it.

    topic: int32 (n), numbered so that topics next to each other are similar. starts: where batches start.
    """
    shares = _shares(starts, per_batch, rng)
    rows = np.lexsort((rng.random(len(topic)), topic))
    filled: list[LongArray] = []
    rest: dict[int, LongArray] = {}
    of_topic = np.split(rows, np.cumsum(np.bincount(topic))[:-1])
    for one in rng.permutation(len(of_topic)).tolist():
        left = of_topic[one]
        while len(filled) < len(shares) and len(left) >= len(shares[len(filled)]):
            share, left = np.split(left, [len(shares[len(filled)])])
            filled.append(share)
        rest[one] = left
    tour = np.concatenate([rest[one] for one in sorted(rest)])
    tour = np.roll(tour, rng.integers(max(len(tour), 1)))
    places = np.concatenate([*shares, np.arange(starts[-1], len(rows))])
    return Order(places, np.concatenate([*filled, tour]))


def _shares(starts: LongArray, per_batch: int, rng: np.random.Generator) -> list[LongArray]:
    """The places of each batch, in parts for one topic each, all in a drawn order."""
    shares = [
        part
        for begin, end in itertools.pairwise(starts.tolist())
        for part in np.array_split(np.arange(begin, end), min(per_batch, max(end - begin, 1)))
    ]
    return [shares[i] for i in rng.permutation(len(shares)).tolist()]


def similar_neighbours(centroids: FloatArray) -> LongArray:
    """int64 (c): an order of the centroids, each followed by the most similar one of those that are left."""
    order = np.zeros(len(centroids), dtype=np.int64)
    left = np.ones(len(centroids), dtype=np.bool_)
    left[0] = False
    for place in range(1, len(centroids)):
        similar = np.where(left, centroids @ centroids[order[place - 1]], -np.inf)
        order[place] = similar.argmax()
        left[order[place]] = False
    return order


@compiled
def arrange(conflicts: Any, content: Any, starts: Any, places: Any, wanted: Any) -> None:
    """Swap rows between batches so that the places, one after another, hold the rows wanted, one after another.

    A row that cannot go where it should is offered the places that follow; a place that none of the first so many rows
    can have keeps its own.

    content: int64 (n), a row for each place, without conflicts in any batch before and after.
    """
    n, n_batches = len(content), len(starts) - 1
    batch_of = np.full(n, n_batches, np.int64)
    for batch in range(n_batches):
        batch_of[starts[batch] : starts[batch + 1]] = batch
    place_of, turn_of = np.empty(n, np.int64), np.empty(n, np.int64)
    place_of[content], turn_of[wanted] = np.arange(n), np.arange(n)
    following, before = np.arange(1, n + 2), np.arange(-1, n)  # the turns still to come, as a chain; n ends it
    first = 0
    for place in places:
        old = content[place]
        chosen = old
        turn = first
        for _ in range(_CANDIDATES):
            if turn == n:
                break
            row = wanted[turn]
            if _can_swap(conflicts, content, starts, batch_of, place, place_of[row]):
                chosen = row
                break
            turn = following[turn]
        content[place_of[chosen]], place_of[old] = old, place_of[chosen]
        content[place], place_of[chosen] = chosen, place
        turn = turn_of[chosen]
        if turn == first:
            first = following[turn]
        else:
            following[before[turn]] = following[turn]
        before[following[turn]] = before[turn]


@compiled
def _can_swap(conflicts: Any, content: Any, starts: Any, batch_of: Any, one: Any, other: Any) -> Any:
    """Whether the rows in two places can change places."""
    a, b = batch_of[one], batch_of[other]
    if a == b:
        return True
    left_out = len(starts) - 1
    if a != left_out and not fits(conflicts, content[other], content, starts[a], starts[a + 1], content[one]):
        return False
    return b == left_out or fits(conflicts, content[one], content, starts[b], starts[b + 1], content[other])
