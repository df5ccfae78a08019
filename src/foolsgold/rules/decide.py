"""From scores to zones: a negative, a false negative, or too close to say? Pure: arrays in, arrays out."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from foolsgold.records import REASON, Column, FloatArray, Verdicts, Zone


def decide(
    score: Column,
    positive: Column,
    *,
    judged: Column | None = None,
    negative_below: float | None = None,
    positive_above: float | None = None,
    weigh_ambiguous: bool = False,
    relative_margin: float | None = None,
    absolute_margin: float | None = None,
    ceiling: float | None = None,
) -> Verdicts:
    """Zone, reason and weight of each candidate.

    A candidate is a false negative when any rule says so: above `positive_above`, at or above `ceiling`, or within a
    margin of its query's positive. Of the others those below `negative_below` are negatives and the rest ambiguous. A
    rule that is None says nothing; with no rule at all every scored candidate passes for a negative, and its reason is
    `no_filter`.

    Args:
        score: float32 (n), the teacher's (or, without a teacher, the retriever's) score of each candidate. Where it is
            not known the candidate was never needed: UNSCORED.
        positive: float32 (n), the score of the positive that margins are measured from, on the same scale.
        judged: float32 (n), a calibrated probability that each scored candidate is relevant, if there is one.
        negative_below, positive_above: thresholds on that scale, or where there is one on the calibrated probability.
        weigh_ambiguous: give ambiguous candidates a weight, falling linearly from 1 at `negative_below` to 0 at
            `positive_above`, so that they may be selected.
        relative_margin: a fraction f: keeps s <= p - |p| (1 - f), which is sign-safe: for f = 0.95 and p = 0.8 up to
            0.76, for p = -0.8 up to -0.84. NV-Retriever (Moreira et al. 2024), section 3, TopK-PercPos.
        absolute_margin: keeps s <= p - absolute_margin.
        ceiling: keeps s < ceiling (a percentile of all positives' scores).
    """
    size = len(score)
    scored = score.valid
    rules = (negative_below, positive_above, relative_margin, absolute_margin, ceiling)
    if all(rule is None for rule in rules):
        everyone = np.ones(size, dtype=np.float32)
        return Verdicts(
            zone=np.full(size, Zone.NEGATIVE, dtype=np.int8),
            reason=np.full(size, REASON["no_filter"], dtype=np.int16),
            weight=Column.known(everyone),
        )
    zone = np.full(size, Zone.UNSCORED, dtype=np.int8)
    reason = np.full(size, REASON["not_needed"], dtype=np.int16)

    def put(where: np.ndarray[tuple[int], np.dtype[np.bool_]], into: Zone, why: str) -> None:
        """Move the candidates that no rule has claimed yet."""
        chosen = where & (zone == Zone.UNSCORED) & scored
        zone[chosen] = into
        reason[chosen] = REASON[why]

    s = score.values.astype(np.float64)
    risk = s if judged is None else judged.values.astype(np.float64)
    p = positive.values.astype(np.float64)
    if positive_above is not None:
        put(risk > positive_above, Zone.FALSE_NEGATIVE, "above_positive_threshold")
    if ceiling is not None:
        put(s >= ceiling, Zone.FALSE_NEGATIVE, "above_positive_percentile")
    if absolute_margin is not None:
        put(positive.valid & (s > p - absolute_margin), Zone.FALSE_NEGATIVE, "within_absolute_margin")
    if relative_margin is not None:
        put(
            positive.valid & (s > p - np.abs(p) * (1 - relative_margin)),
            Zone.FALSE_NEGATIVE,
            "within_relative_margin",
        )
    if negative_below is not None:
        put(risk < negative_below, Zone.NEGATIVE, "below_negative_threshold")
        put(risk >= negative_below, Zone.AMBIGUOUS, "between_thresholds")
    else:
        put(np.ones(size, dtype=np.bool_), Zone.NEGATIVE, "passed_every_rule")

    weight = Column.unknown(size, np.float32)
    weight.values[zone == Zone.NEGATIVE] = 1.0
    weight.valid[zone == Zone.NEGATIVE] = True
    if weigh_ambiguous and negative_below is not None and positive_above is not None:
        ambiguous = zone == Zone.AMBIGUOUS
        weight.values[ambiguous] = _fall(risk[ambiguous], negative_below, positive_above)
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
