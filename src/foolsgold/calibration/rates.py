"""Rates with their bounds: how sure can we be, from so many labels, that so few negatives are relevant?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np

from foolsgold.calibration.logistic import DoubleArray
from foolsgold.calibration.wilson import wilson
from foolsgold.records import BoolArray, IntArray, LongArray

CONFIDENCE = 0.95  # of one-sided bounds
_Z = NormalDist().inv_cdf(CONFIDENCE)
_STEPS = 200  # thresholds on a probability: 0.005, 0.010, ... 1
_RESAMPLES = 1000


def wilson_upper(relevant: int, labels: int) -> float:
    """Wilson's score bound, one-sided at 95 %, of the rate that `relevant` of `labels` speak of."""
    return wilson(relevant, labels, _Z)[1]


def labels_needed(relevant: int, target: float) -> int:
    """The fewest labels of which so many may be relevant with `wilson_upper` within the target, a rate above 0.

    The bound of k in n is at most p exactly if p n >= k and (p n - k)^2 >= z^2 p (1 - p) n: n is the larger root of a
    quadratic equation.
    """
    spread = _Z * _Z * target * (1 - target)
    half = 2 * target * relevant + spread
    return ceil((half + sqrt(half * half - (2 * target * relevant) ** 2)) / (2 * target * target))


@dataclass(frozen=True)
class Choice:
    """A threshold, and what the labels say of the candidates below it.

    threshold: None where no threshold keeps the upper bound within the target;
    labels, relevant: the labelled pairs below it (with None: below the threshold that lacks the fewest labels);
    upper: the bound of the rate; needed: labels that are missing below it, if none of them is relevant.
    """

    threshold: float | None
    labels: int
    relevant: int
    upper: float
    needed: int


@dataclass(frozen=True)
class Curve:
    """What labelled pairs say of each threshold on a probability: how many lie below it, and how many are relevant.

    labels, relevant: int64 (200), for the thresholds 0.005, 0.010, ... 1.
    """

    labels: LongArray
    relevant: LongArray

    @classmethod
    def of(cls, probability: DoubleArray, relevant: BoolArray) -> Curve:
        """From pairs with a probability, float64 (n), that no label of their own went into."""
        step = np.minimum(np.floor(probability * _STEPS).astype(np.int64), _STEPS - 1)
        labels, found = (np.bincount(step[mask], minlength=_STEPS) for mask in (slice(None), relevant))
        return cls(np.cumsum(labels), np.cumsum(found))

    def choose(self, target: float) -> Choice:
        """The highest threshold whose upper bound is within the target, a false-negative rate above 0."""
        bounds = [wilson_upper(int(k), int(n)) for k, n in zip(self.relevant, self.labels, strict=True)]
        within = np.flatnonzero(np.array(bounds) <= target)
        if len(within):
            best, needed = int(within[-1]), 0
        else:
            missing = [labels_needed(int(k), target) - int(n) for k, n in zip(self.relevant, self.labels, strict=True)]
            best = int(np.argmin(missing))
            needed = missing[best]
        return Choice(
            threshold=(best + 1) / _STEPS if len(within) else None,
            labels=int(self.labels[best]),
            relevant=int(self.relevant[best]),
            upper=bounds[best],
            needed=needed,
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"labels": self.labels.tolist(), "relevant": self.relevant.tolist()}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Curve:
        """From `to_json`'s."""
        curve = cls(*(np.asarray(values[name], dtype=np.int64) for name in ("labels", "relevant")))
        if curve.labels.shape != (_STEPS,) or curve.relevant.shape != (_STEPS,):
            raise ValueError(f"a curve has {_STEPS} thresholds")
        return curve


def auc(scores: DoubleArray, relevant: BoolArray) -> float:
    """How probable it is that a relevant pair scores above another one, ties half: the area under the ROC curve.

    Mann and Whitney 1947; 0.5 where one of the labels is missing.
    """
    from scipy.stats import rankdata  # `import foolsgold` goes without scipy

    n, k = len(scores), int(relevant.sum())
    if k in (0, n):
        return 0.5
    return float((rankdata(scores)[relevant].sum() - k * (k + 1) / 2) / (k * (n - k)))


def auc_interval(scores: DoubleArray, relevant: BoolArray, query: IntArray, seed: int) -> tuple[float, float]:
    """The 2.5th and 97.5th percentiles of the AUC of resampled queries: pairs of one query are not independent."""
    samples = [auc(scores[rows], relevant[rows]) for rows in resampled(query, seed, 200)]
    low, high = np.percentile(samples, [2.5, 97.5])
    return float(low), float(high)


def resampled(query: IntArray, seed: int, n: int) -> list[LongArray]:
    """The rows of n bootstrap samples of whole queries (Efron and Tibshirani 1993, chapter 8)."""
    order = np.argsort(query, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(query[order])) + 1)
    rng = np.random.default_rng(seed)
    return [np.concatenate([parts[i] for i in rng.integers(0, len(parts), len(parts))]) for _ in range(n)]


@dataclass(frozen=True)
class TeacherCurve:
    """What each threshold on the teacher's score would do, with bootstrap intervals by query (95 %).

    thresholds: float64 (n), ascending, on the declared scale. precision, recall: of "relevant from the threshold on";
    false_negative_rate: the share of relevant pairs among those below it, which is what a mined set would hold.
    Each is float64 (n, 3): the rate, its lower and its upper end; NaN where there is nothing to take a share of.
    """

    thresholds: DoubleArray
    precision: DoubleArray
    recall: DoubleArray
    false_negative_rate: DoubleArray

    @classmethod
    def of(cls, scores: DoubleArray, relevant: BoolArray, query: IntArray, seed: int, n: int = 50) -> TeacherCurve:
        """From labelled pairs: scores float64 (pairs), at the scores' own n quantiles."""
        thresholds = np.unique(np.quantile(scores, np.linspace(0, 1, n + 2)[1:-1]))
        distinct, place = np.unique(query, return_inverse=True)
        below = scores[:, np.newaxis] < thresholds
        counts = np.zeros(
            (4, len(distinct), len(thresholds))
        )  # all and relevant pairs below, then from the threshold on
        for row, mask in enumerate((below, below & relevant[:, None], ~below, ~below & relevant[:, None])):
            np.add.at(counts[row], place, mask)
        draws = np.random.default_rng(seed).multinomial(
            len(distinct), np.full(len(distinct), 1 / len(distinct)), size=_RESAMPLES
        )
        weights = np.vstack([np.ones(len(distinct)), draws])  # the labels as they are, then the samples
        under, missed, over, found = (weights @ part for part in counts)

        def rate(part: DoubleArray, whole: DoubleArray) -> DoubleArray:
            shares = np.divide(part, whole, out=np.full_like(part, np.nan), where=whole > 0)
            some = ~np.isnan(shares[1:]).all(axis=0)
            ends = np.full((2, shares.shape[1]), np.nan)
            ends[:, some] = np.nanpercentile(shares[1:, some], [2.5, 97.5], axis=0)
            return np.column_stack([shares[0], *ends])

        return cls(thresholds, rate(found, over), rate(found, found + missed), rate(missed, under))

    def to_json(self) -> dict[str, Any]:
        """Plain values; null where there is no rate."""
        return {
            "thresholds": self.thresholds.tolist(),
            **{
                name: [[None if np.isnan(end) else round(float(end), 6) for end in row] for row in getattr(self, name)]
                for name in ("precision", "recall", "false_negative_rate")
            },
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> TeacherCurve:
        """From `to_json`'s."""
        parts = (np.array(values[name], dtype=np.float64) for name in ("precision", "recall", "false_negative_rate"))
        return cls(np.array(values["thresholds"], dtype=np.float64), *parts)
