"""From scores to zones: a negative, a false negative, or too close to say? Pure: arrays in, arrays out."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from foolsgold.records import REASON, BoolArray, Column, FloatArray, Verdicts, Zone
from foolsgold.rules.limits import Limits

_FALSE_NEGATIVE = {  # the reason of each rule, in the order in which they are asked
    "positive_above": "above_positive_threshold",
    "positive_percentile": "above_positive_percentile",
    "absolute_margin": "within_absolute_margin",
    "relative_margin": "within_relative_margin",
}


def decide(score: Column, positive: Column, limits: Limits, *, probability: Column | None = None) -> Verdicts:
    """Zone, reason and weight of each candidate.

    A candidate is a false negative when any rule says so: above `positive_above`, at or above the percentile of all
    positives, or within a margin of its query's positive. Of the others those below `negative_below` are negatives and
    the rest ambiguous. With no rule at all every candidate passes as a negative, with the reason `no_filter`.

    Args:
        score: float32 (n), the teacher's (or, without a teacher, the retriever's) score of each candidate. Where it is
            not known the candidate was never needed: UNSCORED.
        positive: float32 (n), the score of the positive that margins are measured from, on the same scale.
        limits: the thresholds; `weigh_ambiguous` gives ambiguous candidates a weight, falling linearly from 1 at
            `negative_below` to 0 at `positive_above`, so that they may be selected.
        probability: float32 (n), a calibrated probability that each scored candidate is relevant, where the zones are
            on that.
    """
    size = len(score)
    p = positive.values.astype(np.float64)
    flips = limits.flips(p)
    if not flips:
        return Verdicts(
            zone=np.full(size, Zone.NEGATIVE, dtype=np.int8),
            reason=np.full(size, REASON["no_filter"], dtype=np.int16),
            weight=Column.known(np.ones(size, dtype=np.float32)),
        )
    zone = np.full(size, Zone.UNSCORED, dtype=np.int8)
    reason = np.full(size, REASON["not_needed"], dtype=np.int16)

    def put(where: BoolArray, into: Zone, why: str) -> None:
        """Move the scored candidates that no rule has moved yet."""
        chosen = where & (zone == Zone.UNSCORED) & score.valid
        zone[chosen] = into
        reason[chosen] = REASON[why]

    s = score.values.astype(np.float64)
    risk = s if probability is None else probability.values.astype(np.float64)
    for rule, why in _FALSE_NEGATIVE.items():
        if rule not in flips:
            continue
        if rule == "positive_above":
            over = risk > flips[rule]
        elif rule == "positive_percentile":
            over = s >= flips[rule]
        else:
            over = positive.valid & (s > flips[rule])
        put(over, Zone.FALSE_NEGATIVE, why)
    low, high = limits.negative_below, limits.positive_above
    if low is not None:
        put(risk < low, Zone.NEGATIVE, "below_negative_threshold")
        put(risk >= low, Zone.AMBIGUOUS, "between_thresholds")
    else:
        put(np.ones(size, dtype=np.bool_), Zone.NEGATIVE, "passed_every_rule")

    weight = Column.unknown(size, np.float32)
    weight.values[zone == Zone.NEGATIVE] = 1.0
    weight.valid[zone == Zone.NEGATIVE] = True
    if limits.weigh_ambiguous and low is not None and high is not None:
        ambiguous = zone == Zone.AMBIGUOUS
        weight.values[ambiguous] = _fall(risk[ambiguous], low, high)
        weight.valid[ambiguous] = True
    return Verdicts(zone=zone, reason=reason, weight=weight)


def judge_ambiguous(verdicts: Verdicts, opinion: Column) -> Verdicts:
    """The verdicts with ambiguous candidates turned to negatives or false negatives where the judge has an opinion.

    Args:
        verdicts: of n candidates; those that are not ambiguous stay as they are.
        opinion: float32 (n), above 0.5: relevant, below: not. What is 0.5 or unknown leaves a candidate ambiguous.
    """
    heard = (verdicts.zone == Zone.AMBIGUOUS) & opinion.valid
    negative, positive = heard & (opinion.values < 0.5), heard & (opinion.values > 0.5)
    zone, reason = verdicts.zone.copy(), verdicts.reason.copy()
    weight = Column(verdicts.weight.values.copy(), verdicts.weight.valid.copy())
    zone[negative], reason[negative] = Zone.NEGATIVE, REASON["judge_says_negative"]
    zone[positive], reason[positive] = Zone.FALSE_NEGATIVE, REASON["judge_says_positive"]
    weight.values[negative], weight.valid[negative] = 1.0, True
    weight.valid[positive] = False
    return Verdicts(zone, reason, weight)


def _fall(score: npt.NDArray[np.floating], low: float, high: float) -> FloatArray:
    """1 at `low`, 0 at `high`, a straight line between."""
    if high == low:
        return np.zeros(len(score), dtype=np.float32)
    return np.clip((high - score.astype(np.float64)) / (high - low), 0.0, 1.0).astype(np.float32)
