"""Wilson's score interval of a rate, which holds near 0 and for few labels, where the usual one does not."""

from __future__ import annotations

from math import sqrt


def wilson(count: float, of: int, z: float) -> tuple[float, float]:
    """The lower and the upper bound of the rate that `count` of `of` speak of (Wilson, JASA 22, 1927).

    count: a whole number, or a sum of `of` probabilities. z: how many standard deviations of the normal distribution
    the bounds lie out: 1.96 for an interval of 95 %, 1.64 for one bound of 95 %.
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
