"""From the scale a teacher scores on to the scale the recipe's thresholds are in (design, rule 3)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from foolsgold.errors import RecipeError
from foolsgold.records import FloatArray, Scale, sigmoid

# Probabilities are kept this far from 0 and 1 before their log-odds are taken: logits stay within +-16.1, about what
# float32 can tell from 1.
_CLIP = 1e-7


def to_scale(scores: FloatArray, have: Scale, want: Scale) -> FloatArray:
    """Scores on scale `have`, float32, as scores on scale `want`, float32.

    Raises:
        RecipeError: there is no such conversion: a cosine is neither a logit nor a probability.
    """
    check_scale(have, want)
    return _CONVERSIONS[have, want](scores)


def check_scale(have: Scale, want: Scale, teacher: str = "the teacher") -> None:
    """Refuse a scale that a teacher's scores cannot be put on; before any scoring.

    Raises:
        RecipeError: naming both scales and the remedy.
    """
    if (have, want) in _CONVERSIONS:
        return
    if have == "cosine":
        remedy = (
            "set teacher.scale: cosine and give decide.negative_below and decide.positive_above as cosines, "
            "or name a cross-encoder"
        )
    else:
        remedy = f"set teacher.scale: {have}, or name a bi-encoder"
    raise RecipeError(
        f"teacher.scale is {want}, but {teacher} scores on the scale {have}, "
        f"which cannot be turned into {want}; {remedy}"
    )


def log_odds(probabilities: FloatArray) -> FloatArray:
    """Probabilities to logits, float32, finite for 0 and 1 too."""
    clipped = np.clip(probabilities.astype(np.float64), _CLIP, 1 - _CLIP)
    return np.log(clipped / (1 - clipped)).astype(np.float32)


def _as_is(scores: FloatArray) -> FloatArray:
    return np.asarray(scores, dtype=np.float32)


_CONVERSIONS: dict[tuple[Scale, Scale], Callable[[FloatArray], FloatArray]] = {
    ("logit", "logit"): _as_is,
    ("logit", "probability"): sigmoid,
    ("probability", "probability"): _as_is,
    ("probability", "logit"): log_odds,
    ("cosine", "cosine"): _as_is,
}
