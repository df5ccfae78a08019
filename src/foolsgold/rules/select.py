"""Which negatives are taken: strategy, quotas, budget. Pure: arrays in, arrays out.

Two steps. `order` says, for each source, in which order a query's candidates are looked at; it needs no teacher score.
`take` walks these orders and takes usable candidates until every quota and the budget are full.

A candidate changes the outcome of `take` only by being taken when it is reached. So if candidates that have no score
yet count as usable, and none of them is taken, then their scores cannot change the outcome: that is what makes lazy
teacher scoring exact (design, section 8).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from foolsgold.records import BoolArray, Column, FloatArray, IntArray, LongArray

Strategy = Literal["top", "random", "simans", "log_random", "stratified"]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Order:
    """For one source, each unit's candidates in the order they are looked at.

    offsets: int64 (n_units + 1); candidates: int64, indices into the pool.
    """

    offsets: LongArray
    candidates: LongArray

    def of(self, unit: int) -> list[int]:
        """The candidates of one unit (a query, or a query with one of its positives)."""
        return self.candidates[self.offsets[unit] : self.offsets[unit + 1]].tolist()  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Quotas:
    """How many negatives each source gives a unit, in the order in which they are asked, and what may fill the rest.

    shares: a quota a source; they sum to at most `budget`. may_fill: whether a source may give more than its quota
    when others fall short (never a `random` source: random fill has a quota of its own or does not happen).
    """

    shares: tuple[int, ...]
    may_fill: tuple[bool, ...]
    budget: int

    def times(self, factor: int) -> Quotas:
        """The same shape for a budget `factor` times as large."""
        return Quotas(tuple(share * factor for share in self.shares), self.may_fill, self.budget * factor)


def uniforms(seed: int, *parts: int | IntArray) -> Floats:
    """float64 (n) in (0, 1): a draw for each row of `parts` (query rows, document rows, a salt), fixed by the seed.

    It does not depend on which other candidates there are, nor on blocks, threads or engines, so a deeper pool or a
    changed threshold never reshuffles the rest. SplitMix64's mixer (Steele, Lea, Flood 2014) over the parts in turn.
    """
    state = mix(np.array([seed], dtype=np.uint64))
    for part in parts:
        state = mix(state ^ mix(np.atleast_1d(part).astype(np.uint64)))
    return ((state >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53


def order(
    unit: IntArray,
    n_units: int,
    among: BoolArray,
    rank: Column,
    draw: Floats,
    *,
    strategy: Strategy,
    score: FloatArray | None = None,
    positive: FloatArray | None = None,
    a: float = 0.5,
    b: float = 0.0,
    strata: int = 4,
) -> Order:
    """In which order one source's candidates are looked at.

    Args:
        unit: int32 (n), ascending: whose candidate each is. among: bool (n), those this source may give.
        rank: int32 (n), this source's rank, 0 is best, known for all in `among`.
        draw: float64 (n) in (0, 1), one uniform draw a candidate.
        strategy: `top`: by rank. `random`: uniform. `log_random`: weight 1 / log(1 + rank), rank from 1. `simans`:
            weight exp(-a (s - s_positive - b)^2) on this source's scores (Zhou et al. 2022, eq. 4). `stratified`: the
            unit's score range in `strata` equal bands, one drawn from each in turn, hardest band first.
            Weighted draws are without replacement (Efraimidis and Spirakis 2006, by Gumbel keys).
        score: float32 (n), this source's score, for `simans` and `stratified`.
        positive: float32 (n), this source's score of the unit's positive, for `simans`.
        a, b: SimANS's. strata: bands of `stratified`.
    """
    rows = np.flatnonzero(among)
    owner, u = unit[rows], draw[rows]
    if strategy == "top":
        keys: tuple[npt.NDArray[np.generic], ...] = (rank.values[rows],)
    elif strategy == "random":
        keys = (u,)
    elif strategy == "log_random":
        keys = (-(_gumbel(u) - np.log(np.log(2.0 + rank.values[rows]))),)
    elif strategy == "simans":
        if score is None or positive is None:
            raise ValueError("simans needs this source's scores of candidates and positives")
        gap = score[rows].astype(np.float64) - positive[rows] - b
        keys = (-(_gumbel(u) - a * gap * gap),)
    else:
        if score is None:
            raise ValueError("stratified needs this source's scores")
        band = _bands(owner, score[rows].astype(np.float64), strata)
        turn = _position_within(owner * np.int64(strata) + band, u)
        keys = (band, turn)
    # equal keys fall back on the pool's order, which is by document row; lexsort's last key counts most
    chosen = rows[np.lexsort((rows, *keys, owner))]
    offsets = np.searchsorted(unit[chosen], np.arange(n_units + 1)).astype(np.int64)
    return Order(offsets, chosen.astype(np.int64))


def take(orders: Sequence[Order], unit: int, usable: BoolArray, quotas: Quotas) -> list[tuple[int, int]]:
    """What one unit takes: (candidate, source) pairs in the order they were taken.

    Each source in turn gives usable candidates up to its quota; what is then missing to the budget is filled by the
    sources that may, one each in turn. A candidate that several sources found fills the quota of the first.

    usable: bool (n), what may be taken (and what has no score yet, for lazy scoring).
    """
    lists = [order.of(unit) for order in orders]
    at = [0] * len(lists)
    taken: list[tuple[int, int]] = []
    used: set[int] = set()

    def give(source: int) -> bool:
        """Take this source's next usable candidate, if there is one."""
        candidates = lists[source]
        while at[source] < len(candidates):
            candidate = candidates[at[source]]
            at[source] += 1
            if usable[candidate] and candidate not in used:
                used.add(candidate)
                taken.append((candidate, source))
                return True
        return False

    for source, share in enumerate(quotas.shares):
        for _ in range(share):
            if not give(source):
                break
    fillers = [source for source, may in enumerate(quotas.may_fill) if may]
    while fillers and len(taken) < quotas.budget:
        for source in list(fillers):
            if len(taken) < quotas.budget and not give(source):
                fillers.remove(source)
    return taken


def shares(quotas: Sequence[int | None], budget: int) -> tuple[int, ...]:
    """Quotas that sum to at most the budget.

    A source without a quota gets an equal share of what the others leave (the earlier ones the odd negatives); quotas
    of more than the budget in all are scaled down to it, by largest remainder.
    """
    given = [quota or 0 for quota in quotas]
    total = sum(given)
    if total > budget:
        exact = [quota * budget / total for quota in given]
        floors = [int(part) for part in exact]
        largest = sorted(range(len(given)), key=lambda i: (floors[i] - exact[i], i))
        for i in largest[: budget - sum(floors)]:
            floors[i] += 1
        return tuple(floors)
    open_ones = [i for i, quota in enumerate(quotas) if quota is None]
    for i, source in enumerate(open_ones):
        left = budget - total
        given[source] = left // len(open_ones) + (1 if i < left % len(open_ones) else 0)
    return tuple(given)


def _gumbel(u: Floats) -> Floats:
    """Standard Gumbel draws from uniform ones."""
    return -np.log(-np.log(u))


def _bands(owner: IntArray, score: Floats, strata: int) -> LongArray:
    """0 is the band of the highest scores; each owner's own range from lowest to highest is cut in equal parts."""
    if len(owner) == 0:
        return np.empty(0, dtype=np.int64)
    size = int(owner.max()) + 1
    low, high = np.full(size, np.inf), np.full(size, -np.inf)
    np.minimum.at(low, owner, score)
    np.maximum.at(high, owner, score)
    span = (high - low)[owner]
    depth = np.divide(high[owner] - score, span, out=np.zeros_like(score), where=span > 0)
    bands: LongArray = np.minimum((depth * strata).astype(np.int64), strata - 1)
    return bands


def _position_within(group: LongArray, key: Floats) -> LongArray:
    """The place of each item among those of its group, by ascending key."""
    by_group = np.lexsort((key, group))
    ordered = group[by_group]
    begins = np.searchsorted(ordered, ordered, side="left")
    position = np.empty(len(group), dtype=np.int64)
    position[by_group] = np.arange(len(group)) - begins
    return position


def mix(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """uint64 (n): numbers as good as random, one for each, by SplitMix64's mixer (Steele, Lea, Flood, OOPSLA 2014)."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
