"""A share with its interval."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

from foolsgold.stats import wilson

_Z = NormalDist().inv_cdf(0.975)  # intervals are of 95 %
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
        """Wilson's score interval of 95 %.

        For a sum of probabilities it covers the draw alone, and generously: a sum of unequal Bernoulli variables varies
        less than a binomial of the same mean. Whether the probabilities are right it does not show.
        """
        return wilson(self.count, self.of, _Z)

    @property
    def is_few(self) -> bool:
        """Whether so few were counted that only the interval says anything."""
        return self.of < FEW
