"""A share with its interval."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

_Z = 1.959963984540054  # the 97.5th percentile of the normal distribution: intervals are of 95 %
FEW = 20  # below this the interval is wider than 40 points at a half: no figure to act on


@dataclass(frozen=True)
class Share:
    """`count` of `of`. The count is a whole number, or a sum of `of` probabilities."""

    count: float
    of: int

    @property
    def value(self) -> float | None:
        """From 0 to 1; None of nothing."""
        return self.count / self.of if self.of else None

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's score interval of 95 % (Wilson 1927), which holds near 0 and for few where the usual one does not.

        For a sum of probabilities it covers the draw alone, and generously: a sum of unequal Bernoulli variables varies
        less than a binomial of the same mean. That the probabilities are right is the judge's to show.
        """
        if self.of == 0:
            return 0.0, 1.0
        n, p = self.of, self.count / self.of
        scale = 1 + _Z**2 / n
        middle = p + _Z**2 / (2 * n)
        half = _Z * sqrt(p * (1 - p) / n + _Z**2 / (4 * n**2))
        # rounding must not put the ends of 0 of n and n of n a little inside
        low = 0.0 if self.count == 0 else max(0.0, (middle - half) / scale)
        high = 1.0 if self.count == n else min(1.0, (middle + half) / scale)
        return low, high

    @property
    def is_few(self) -> bool:
        """Whether so few were counted that only the interval says anything."""
        return self.of < FEW
