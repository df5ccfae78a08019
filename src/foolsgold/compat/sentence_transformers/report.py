"""What `verbose` prints of the mined negatives."""

from __future__ import annotations

from collections import Counter

import numpy as np

from foolsgold.compat.sentence_transformers.rows import Examples
from foolsgold.compat.sentence_transformers.settings import Thresholds
from foolsgold.records import FloatArray

_ROW = "{:<6} {:>14} {:>14} {:>14}"


def print_scores(of: Examples) -> None:
    """A table of the scores of positives and negatives, and of their differences pair by pair."""
    positive = of.mined.positive_score
    assert positive is not None
    negative = of.mined.score[of.negatives]
    difference = np.repeat(positive[of.pair], of.count) - negative
    columns = [_summary(scores) for scores in (positive, negative, difference)]
    print(_ROW.format("Metric", "Positive", "Negative", "Difference"))
    print(_ROW.format("Count", f"{len(positive):,}", f"{len(negative):,}", ""))
    for metric in columns[0]:
        print(_ROW.format(metric, *(column[metric] for column in columns)))


def print_skipped(skipped: Counter[str], looked_at: int, thresholds: Thresholds) -> None:
    """How many candidates each threshold dropped, of those that the margins before it left."""
    left = looked_at
    for name in ("absolute_margin", "relative_margin", "max_score", "min_score"):
        if not skipped[name]:
            continue
        print(
            f"Skipped {skipped[name]:,} potential negatives ({skipped[name] / left:.2%}) due to the {name} of "
            f"{getattr(thresholds, name)}."
        )
        if name.endswith("margin"):
            left -= skipped[name]


def print_missing(missing: int, possible: int, thresholds: Thresholds, *, range_min: int) -> None:
    """How many rows could not be made, and what to change."""
    if missing <= 0:
        return
    tried = {"range_min": range_min > 0} | {
        name: getattr(thresholds, name) is not None for name in ("absolute_margin", "relative_margin", "max_score")
    }
    remedies = ["range_max", *(name for name, given in tried.items() if given)]
    named = ", ".join(remedies[:-1]) + " and " + remedies[-1] if len(remedies) > 1 else remedies[0]
    print(
        f"Could not find enough negatives for {missing} samples ({missing / possible:.2%}). Consider adjusting the "
        f"{named} parameter{'s' if len(remedies) > 1 else ''} if you'd like to find more valid negatives."
    )


def _summary(scores: FloatArray) -> dict[str, str]:
    """As torch computes them: the lower of two medians, the standard deviation of a sample."""
    if not len(scores):
        lowest = dict.fromkeys(("Min", "25%", "50%", "75%"), "inf")
        return {"Mean": "nan", "Median": "nan", "Std": "nan", **lowest, "Max": "-inf"}
    wide = scores.astype(np.float64)
    ordered = np.sort(wide)
    values = {
        "Mean": wide.mean(),
        "Median": ordered[(len(ordered) - 1) // 2],
        "Std": wide.std(ddof=1) if len(wide) > 1 else np.nan,
        "Min": ordered[0],
        **{f"{percent}%": np.percentile(ordered, percent) for percent in (25, 50, 75)},
        "Max": ordered[-1],
    }
    return {name: f"{value:.4f}" for name, value in values.items()}
