"""What labelled pairs say of each threshold, as calibration.json keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, PlainSerializer, PlainValidator, model_validator

from foolsgold.records import BoolArray, DoubleArray, IntArray, LongArray
from foolsgold.rules.bounds import labels_needed, wilson_upper

_STEPS = 200  # thresholds on a probability: 0.005, 0.010, ... 1
_RESAMPLES = 1000


def _rounded(rates: DoubleArray) -> list[list[float | None]]:
    return [[None if np.isnan(end) else round(float(end), 6) for end in row] for row in rates]


def _doubles(values: Any) -> DoubleArray:
    return np.array(values, dtype=np.float64)  # null becomes NaN


def _longs(values: Any) -> LongArray:
    return np.array(values, dtype=np.int64)


Doubles = Annotated[DoubleArray, PlainValidator(_doubles), PlainSerializer(np.ndarray.tolist)]
Longs = Annotated[LongArray, PlainValidator(_longs), PlainSerializer(np.ndarray.tolist)]
Rates = Annotated[DoubleArray, PlainValidator(_doubles), PlainSerializer(_rounded)]


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


class Curve(BaseModel):
    """For each threshold on a probability, how many labelled pairs are below it, and how many of them are relevant.

    labels, relevant: int64 (200), for the thresholds 0.005, 0.010, ... 1.
    """

    model_config = ConfigDict(frozen=True)

    labels: Longs
    relevant: Longs

    @model_validator(mode="after")
    def _has_all_thresholds(self) -> Self:
        if self.labels.shape != (_STEPS,) or self.relevant.shape != (_STEPS,):
            raise ValueError(f"a curve has {_STEPS} thresholds")
        return self

    @classmethod
    def of(cls, probability: DoubleArray, relevant: BoolArray) -> Curve:
        """From pairs with a probability, float64 (n), by models that were not fitted to their own labels."""
        step = np.minimum(np.floor(probability * _STEPS).astype(np.int64), _STEPS - 1)
        labels, found = (np.bincount(step[mask], minlength=_STEPS) for mask in (slice(None), relevant))
        return cls(labels=np.cumsum(labels), relevant=np.cumsum(found))

    def choose(self, target: float) -> Choice:
        """The highest threshold whose upper bound is within the target, a false-negative rate above 0."""
        counts = list(zip(self.relevant.tolist(), self.labels.tolist(), strict=True))
        bounds = [wilson_upper(*count) for count in counts]
        missing = [labels_needed(relevant, target) - labels for relevant, labels in counts]
        within = np.flatnonzero(np.array(bounds) <= target)
        best = int(within[-1] if len(within) else np.argmin(missing))
        return Choice(
            threshold=(best + 1) / _STEPS if len(within) else None,
            labels=counts[best][1],
            relevant=counts[best][0],
            upper=bounds[best],
            needed=0 if len(within) else missing[best],
        )


class TeacherCurve(BaseModel):
    """What each threshold on the teacher's score would do, with bootstrap intervals by query (95 %).

    thresholds: float64 (n), ascending, on the declared scale. precision, recall: of "relevant from the threshold on";
    false_negative_rate: the share of relevant pairs among those below it, which a mined set would have.
    Each is float64 (n, 3): the rate, its lower and its upper end; NaN where there is nothing to take a share of.
    """

    model_config = ConfigDict(frozen=True)

    thresholds: Doubles
    precision: Rates
    recall: Rates
    false_negative_rate: Rates

    @classmethod
    def of(cls, scores: DoubleArray, relevant: BoolArray, query: IntArray, seed: int, n: int = 50) -> TeacherCurve:
        """From labelled pairs: scores float64 (pairs), at the scores' own n quantiles."""
        thresholds = np.unique(np.quantile(scores, np.linspace(0, 1, n + 2)[1:-1]))
        distinct, place = np.unique(query, return_inverse=True)
        below, is_relevant = scores[:, np.newaxis] < thresholds, relevant[:, np.newaxis]
        # per query and threshold: all and relevant pairs below, then from the threshold on
        counts = np.zeros((4, len(distinct), len(thresholds)))
        for row, mask in enumerate((below, below & is_relevant, ~below, ~below & is_relevant)):
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

        return cls(
            thresholds=thresholds,
            precision=rate(found, over),
            recall=rate(found, found + missed),
            false_negative_rate=rate(missed, under),
        )
