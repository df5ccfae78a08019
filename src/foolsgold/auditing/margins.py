"""How far the teacher holds the negatives from their positives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from foolsgold.records import BoolArray, FloatArray, Scale
from foolsgold.teachers.scale import to_scale

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class Scores:
    """What the teacher says of the n negatives that it has scored, beside what it says of their positives.

    positive, negative: float32 (n), logits, or cosines where the teacher gives those; source: whose quota each fills.
    """

    scale: Scale
    positive: FloatArray
    negative: FloatArray
    source: npt.NDArray[np.object_]

    @classmethod
    def of(cls, negatives: pa.Table, scale: Scale) -> Scores:
        """From a set's negatives (`records.negatives_schema`), whose scores are on the declared scale."""
        scored = negatives.filter(
            pc.and_(pc.is_valid(negatives["teacher_score"]), pc.is_valid(negatives["positive_score"]))
        )
        return cls(
            scale=unit_of(scale),
            positive=in_unit(scored["positive_score"].to_numpy(), scale),
            negative=in_unit(scored["teacher_score"].to_numpy(), scale),
            source=scored["source"].cast(pa.string()).to_numpy(),
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.negative)

    @property
    def margin(self) -> FloatArray:
        """float32 (n): positive minus negative."""
        return self.positive - self.negative

    @property
    def inverted(self) -> BoolArray:
        """bool (n): the negative scores above its positive."""
        return np.asarray(self.negative > self.positive)


@dataclass(frozen=True)
class Margins:
    """Positive minus negative score over some negatives.

    mean, quantiles: in logits, or in cosines where the teacher gives those; quantiles: 5, 25, 50, 75 and 95 %;
    inverted_share: of the negatives that score above their positive.
    """

    mean: float
    quantiles: tuple[float, ...]
    inverted_share: float

    @classmethod
    def of(cls, scores: Scores, among: BoolArray | None = None) -> Margins | None:
        """Of all, or of those in the mask; None if there are none."""
        margin = scores.margin if among is None else scores.margin[among]
        if not len(margin):
            return None
        inverted = scores.inverted if among is None else scores.inverted[among]
        quantiles = np.quantile(margin, QUANTILES).tolist()
        return cls(float(np.mean(margin, dtype=np.float64)), tuple(quantiles), float(np.mean(inverted)))


def unit_of(scale: Scale) -> Scale:
    """What margins are measured in: a probability's differences vanish near 0 and 1, where a logit's do not."""
    return "cosine" if scale == "cosine" else "logit"


def in_unit(scores: FloatArray, scale: Scale) -> FloatArray:
    """Scores on the declared scale, in that unit."""
    return to_scale(scores, scale, unit_of(scale))
