"""Bounds of a rate: how sure can we be, from so many labels, that so few of them are relevant?"""

from __future__ import annotations

from math import ceil, sqrt
from statistics import NormalDist

CONFIDENCE = 0.95  # of one-sided bounds
_Z = NormalDist().inv_cdf(CONFIDENCE)


def wilson(count: float, of: int, z: float) -> tuple[float, float]:
    """The lower and the upper bound of a rate, of which `count` of `of` were seen (Wilson, JASA 22, 1927).

    It is right near 0 and for few labels, where the usual interval is not. scipy's takes whole counts only, and the
    estimated false negatives are a sum of probabilities.

    count: a whole number, or a sum of `of` probabilities. z: how many standard deviations of the normal distribution
    the bounds are apart from the rate: 1.96 for an interval of 95 %, 1.64 for one bound of 95 %.
    """
    if of == 0:
        return 0.0, 1.0
    rate, z2 = count / of, z * z
    middle = rate + z2 / (2 * of)
    half = z * sqrt(rate * (1 - rate) / of + z2 / (4 * of**2))
    scale = 1 + z2 / of
    # rounding must not put the ends of 0 of n and n of n a little inside
    low = 0.0 if count == 0 else max(0.0, (middle - half) / scale)
    high = 1.0 if count == of else min(1.0, (middle + half) / scale)
    return low, high


def wilson_upper(relevant: int, labels: int) -> float:
    """Wilson's upper bound, one-sided at 95 %, of the rate of relevant pairs, of which `relevant` of `labels` are."""
    return wilson(relevant, labels, _Z)[1]


def labels_needed(relevant: int, target: float) -> int:
    """The smallest number of labels for which `relevant` relevant ones keep `wilson_upper` within a target above 0.

    The bound of k in n is at most p exactly if p n >= k and (p n - k)^2 >= z^2 p (1 - p) n: n is the larger root of a
    quadratic equation.
    """
    spread = _Z * _Z * target * (1 - target)
    half = 2 * target * relevant + spread
    return ceil((half + sqrt(half * half - (2 * target * relevant) ** 2)) / (2 * target * target))
