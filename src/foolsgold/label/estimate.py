"""How far the labels so far reach: below which teacher score are the candidates safe to mine as negatives?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from foolsgold.recipe import DecideSpec
from foolsgold.records import BoolArray
from foolsgold.rules.bounds import CONFIDENCE, labels_needed

TARGET: float = DecideSpec.model_fields["max_false_negative_rate"].default


@dataclass(frozen=True)
class Estimate:
    """What the labels allow.

    threshold: the highest labelled score up to which the rate is small enough, None where no prefix is long enough;
    labels, relevant: the labels up to `threshold`, or up to where the fewest are missing;
    missing: how many more labels that prefix needs, if none of them is relevant; 0 with a threshold.
    """

    threshold: float | None
    labels: int
    relevant: int
    missing: int

    def __str__(self) -> str:
        if self.threshold is None:
            return (
                f"No threshold for {TARGET:.0%} false negatives yet: at least {self.missing:,} more answers are needed."
            )
        return (
            f"Below a teacher score of {self.threshold:.4g} at most {TARGET:.0%} are false negatives, with "
            f"{CONFIDENCE:.0%} confidence: {self.relevant:,} of {self.labels:,} answers."
        )


def estimate(scores: npt.NDArray[np.floating], relevant: BoolArray) -> Estimate:
    """The highest threshold at which Wilson's upper bound (one-sided) of the false-negative rate is within the target.

    The pairs on the page are denser near the thresholds, where more of them are relevant than among all
    candidates below, so the plain rate errs on the safe side; `foolsgold calibrate` does better with the same labels.

    Args:
        scores: float (n), the teacher's scores of the pairs labelled relevant or not (unsure ones say neither).
        relevant: bool (n).
    """
    order = np.argsort(scores, kind="stable")
    ordered = scores[order]
    ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True)) if len(order) else np.empty(0, np.int64)
    labels = np.concatenate([[0], ends + 1])  # of each prefix that ends where the score changes, the empty one first
    bad = np.concatenate([[0], np.cumsum(relevant[order])[ends]])
    missing = np.array([labels_needed(k, TARGET) for k in bad.tolist()]) - labels
    reached = np.flatnonzero(missing <= 0)
    best = int(reached[-1]) if len(reached) else int(np.argmin(missing))
    return Estimate(
        threshold=float(ordered[labels[best] - 1]) if len(reached) else None,
        labels=int(labels[best]),
        relevant=int(bad[best]),
        missing=max(0, int(missing[best])),
    )
