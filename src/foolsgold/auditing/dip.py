"""Hartigan's dip: how far a sample is from having one mode, with its significance and where its modes are.

J. A. Hartigan and P. M. Hartigan, The Dip Test of Unimodality, Annals of Statistics 13 (1985), 70-84.

Our own code and not `diptest`: that package is under the GPL, which a library under the Apache licence cannot ask for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foolsgold.search.kernels import compiled

_Floats = npt.NDArray[np.float64]

_SAMPLES = 1000  # of the uniform distribution: p values in steps of a thousandth
_LARGEST = 1000  # of such a sample; for more values sqrt(n) times the dip hardly changes (table 1 of the paper)
_FEWEST = 20  # values: of fewer nothing is said
_BINS = 512  # of the histogram whose smoothed tops are the modes
_VALLEY = 0.9  # two tops are two modes when the density between them falls to this share of the lower one


@dataclass(frozen=True)
class Modes:
    """Whether a sample has one mode or more, and where.

    dip: 1 / (2 n) (surely one mode) to 1/4; p: how often a sample of as many values of a distribution with one mode has
    a dip as large, 1 for less than 20 values; at: the modes of the smoothed density, ascending: the highest one alone
    where the test does not tell two.
    """

    dip: float
    p: float
    at: tuple[float, ...]


def find_modes(values: npt.NDArray[Any], independent: int | None = None, significance: float = 0.01) -> Modes:
    """The modes of a sample, one unless the dip says that there are more.

    Args:
        values: float (n), n > 0, in any order.
        independent: how many independent values the sample is worth, null: all. The margins of a query share its
            positive, so that seven of them are nearer to one value than to seven.
        significance: the p below which more than one mode is believed.
    """
    ordered = np.sort(values.astype(np.float64))
    measured = dip(ordered)
    worth = min(len(values), independent or len(values))
    p = p_value(measured, worth) if worth >= _FEWEST else 1.0
    return Modes(measured, p, _tops(ordered, several=p < significance))


def dip(ordered: npt.NDArray[Any]) -> float:
    """The largest distance between the distribution of a sample and the nearest one with a single mode.

    ordered: float (n), n > 0, ascending.
    """
    values, counts = np.unique(np.asarray(ordered, dtype=np.float64), return_counts=True)
    up_to = np.cumsum(counts)
    return float(_dip(values, up_to - counts, up_to)) / (2 * len(ordered))


def p_value(measured: float, n: int) -> float:
    """The share of samples of n uniform values (of all unimodal ones the hardest to tell) with a dip as large."""
    size = min(n, _LARGEST)
    # sorted uniform values are sums of exponential ones, but for scale, on which the dip does not depend
    samples = np.cumsum(np.random.default_rng(1985).standard_exponential((_SAMPLES, size)), axis=1)
    dips = np.empty(_SAMPLES)
    _dips(samples, dips)
    as_large = np.count_nonzero(dips * np.sqrt(size) >= measured * np.sqrt(n))
    return float((as_large + 1) / (_SAMPLES + 1))


def _tops(ordered: _Floats, several: bool) -> tuple[float, ...]:
    """The highest top of the smoothed density, or the two highest with a valley between them; ascending."""
    low, high = ordered[0], ordered[-1]
    quarters = np.quantile(ordered, (0.25, 0.75))
    spreads = [spread for spread in (float(ordered.std()), float(np.diff(quarters)[0]) / 1.34) if spread > 0]
    if not spreads:
        return (float(np.median(ordered)),)
    width = 0.9 * min(spreads) * len(ordered) ** -0.2  # Silverman, Density Estimation (1986), equation 3.31
    edges = np.linspace(low - 3 * width, high + 3 * width, _BINS + 1)
    step = edges[1] - edges[0]
    reach = np.arange(-int(3 * width / step) - 1, int(3 * width / step) + 2)
    density = np.convolve(np.histogram(ordered, edges)[0], np.exp(-0.5 * (reach * step / width) ** 2), "same")
    rises = np.diff(density, prepend=-1.0, append=-1.0) > 0
    tops = np.flatnonzero(rises[:-1] & ~rises[1:])
    tops = tops[np.argsort(-density[tops], kind="stable")]
    chosen = [tops[0]]
    for top in tops[1:] if several else ():
        between = density[min(top, chosen[0]) : max(top, chosen[0]) + 1]
        if between.min() <= _VALLEY * density[top]:
            chosen.append(top)
            break
    return tuple(float((edges[top] + edges[top + 1]) / 2) for top in sorted(chosen))


@compiled
def _dips(samples: Any, dips: Any) -> None:
    n = samples.shape[1]
    below, up_to = np.arange(n), np.arange(1, n + 1)
    for row in range(len(samples)):
        dips[row] = _dip(samples[row], below, up_to) / (2 * n)


@compiled
def _dip(values: Any, below: Any, up_to: Any) -> Any:
    """Twice the dip, in counts: the algorithm of section 3 of the paper.

    values: float64 (m), distinct, ascending; below, up_to: int64 (m), how many of the sample are smaller, not larger.
    The interval that holds the mode shrinks from both sides: to its left the convex minorant is the best fit, to its
    right the concave majorant. It may stop shrinking when they are no further from each other than from the sample.
    """
    first, last = 0, len(values) - 1
    largest = 1.0  # a sample's distribution has steps
    while first < last:
        convex = _hull(values, below, first, last, 1.0)
        concave = _hull(values, up_to, first, last, -1.0)
        apart = -1.0
        left, right = first, last
        c = 0
        for g in range(len(convex)):  # the majorant over each corner of the minorant
            at = convex[g]
            while concave[c + 1] < at:
                c += 1
            gap = _line(values, up_to, concave[c], concave[c + 1], at) - below[at]
            if gap > apart:
                apart = gap
                left, right = at, concave[c] if concave[c] >= at else concave[c + 1]
        g = 0
        for c in range(len(concave)):
            at = concave[c]
            while convex[g + 1] < at:
                g += 1
            gap = up_to[at] - _line(values, below, convex[g], convex[g + 1], at)
            if gap > apart:
                apart = gap
                left, right = convex[g + 1] if convex[g + 1] <= at else convex[g], at
        if apart <= largest:
            break
        for g in range(len(convex) - 1):
            if convex[g + 1] <= left:
                for at in range(convex[g], convex[g + 1]):
                    largest = max(largest, up_to[at] - _line(values, below, convex[g], convex[g + 1], at))
        for c in range(len(concave) - 1):
            if concave[c] >= right:
                for at in range(concave[c] + 1, concave[c + 1] + 1):
                    largest = max(largest, _line(values, up_to, concave[c], concave[c + 1], at) - below[at])
        if left == first and right == last:
            break
        first, last = left, right
    return largest


@compiled
def _hull(values: Any, heights: Any, first: Any, last: Any, side: Any) -> Any:
    """The corners of the greatest convex minorant of points (side 1) or the least concave majorant (side -1)."""
    corners = np.empty(last - first + 1, np.int64)
    size = 0
    for at in range(first, last + 1):
        while size > 1:
            a, b = corners[size - 2], corners[size - 1]
            turn = (heights[b] - heights[a]) * (values[at] - values[b]) - (heights[at] - heights[b]) * (
                values[b] - values[a]
            )
            if side * turn < 0:
                break
            size -= 1
        corners[size] = at
        size += 1
    return corners[:size]


@compiled
def _line(values: Any, heights: Any, a: Any, b: Any, at: Any) -> Any:
    """The height over `at` of the line through points a and b."""
    return heights[a] + (heights[b] - heights[a]) * (values[at] - values[a]) / (values[b] - values[a])
