"""The thresholds that a run decides by, worked out once. Pure: plain values and arrays in, arrays out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]
_Float = TypeVar("_Float", bound=np.floating[Any])


@dataclass(frozen=True)
class Limits:
    """The thresholds of a run; a rule that is None is not applied. Fields have the names of the recipe's `decide`.

    negative_below, positive_above: where the zones begin, on the score that `zones_on` names.
    zones_on: the ledger's column that the zones are on: the teacher's score, or a calibrated probability.
    weigh_ambiguous: ambiguous candidates get a weight.
    relative_margin: a fraction f of the positive's score (`below_positive`). NV-Retriever (Moreira et al. 2024),
        section 3, TopK-PercPos.
    absolute_margin: keeps scores up to the positive's score minus this.
    positive_percentile: the percentile of all positives' scores that negatives must stay below.
    ceiling: the score at that percentile.
    """

    negative_below: float | None = None
    positive_above: float | None = None
    zones_on: Literal["teacher_score", "judge_probability"] = "teacher_score"
    weigh_ambiguous: bool = False
    relative_margin: float | None = None
    absolute_margin: float | None = None
    positive_percentile: float | None = None
    ceiling: float | None = None

    @classmethod
    def of(
        cls,
        decide: Mapping[str, Any],
        positives: npt.NDArray[np.floating],
        *,
        has_teacher: bool,
        calibrated: float | None = None,
    ) -> Limits:
        """From a recipe's `decide` section and the scores of all known positives.

        decide: its plain values. positives: float (n), only read for a percentile. has_teacher: without one, scores are
        a source's own, and only the rules that compare with positives apply. calibrated: a calibration's threshold, on
        its probability, in place of negative_below.
        """
        percentile = decide["positive_percentile"]
        low, high = (decide["negative_below"], decide["positive_above"]) if has_teacher else (None, None)
        if calibrated is not None:
            low, high = calibrated, None if high is None else max(calibrated, high)
        return cls(
            negative_below=low,
            positive_above=high,
            zones_on="teacher_score" if calibrated is None else "judge_probability",
            weigh_ambiguous=decide["ambiguous"] == "weight" and low is not None and high is not None,
            relative_margin=decide["relative_margin"],
            absolute_margin=decide["absolute_margin"],
            positive_percentile=percentile,
            ceiling=float(np.percentile(positives, percentile)) if percentile is not None and len(positives) else None,
        )

    def flips(self, positive: Doubles) -> dict[str, Doubles]:
        """The score at which each rule changes its mind about a candidate, by the rule's field; each float64 (n).

        positive: float64 (n), the score of each candidate's positive. The scores are in the column `column_of`.
        """
        flips: dict[str, Doubles] = {}
        for name, score in (
            ("negative_below", self.negative_below),
            ("positive_above", self.positive_above),
            ("positive_percentile", self.ceiling),
        ):
            if score is not None:
                flips[name] = np.broadcast_to(score, positive.shape)
        if self.absolute_margin is not None:
            flips["absolute_margin"] = positive - self.absolute_margin
        if self.relative_margin is not None:
            flips["relative_margin"] = below_positive(positive, 1 - self.relative_margin)
        return flips

    def column_of(self, rule: str) -> str:
        """The ledger's column that a rule reads."""
        return self.zones_on if rule in ("negative_below", "positive_above") else "teacher_score"

    @property
    def on_teacher(self) -> Mapping[str, float]:
        """Where the zones begin on the teacher's score; empty under a calibration."""
        zones = {"negative_below": self.negative_below, "positive_above": self.positive_above}
        is_teachers = self.zones_on == "teacher_score"
        return {name: value for name, value in zones.items() if is_teachers and value is not None}


def below_positive(positive: npt.NDArray[_Float], share: float) -> npt.NDArray[_Float]:
    """The highest score that a relative margin keeps: p - |p| share, below the positive whatever the sign.

    For a share of 0.05 it is 0.76 for p = 0.8, and -0.84 for p = -0.8.
    """
    return np.asarray(positive - np.abs(positive) * share)
