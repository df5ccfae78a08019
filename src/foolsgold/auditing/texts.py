"""What can be seen of the negatives only in their texts: lengths, and repetition within a query."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from foolsgold.collection import Texts
from foolsgold.records import IntArray, LongArray
from foolsgold.search.shingles import jaccard_at_least

_UNITS = 500  # compared at most, spread evenly over the set: a share of 5 % is then known to about half a percent


@dataclass(frozen=True)
class Lengths:
    """Characters of the negatives and of the positives; a model can learn to go by length alone.

    ratio: median of the negatives through median of the positives; longer_share: of pairs of any negative and any
    positive, those whose negative is longer (equal lengths count half): 0.5 where length tells nothing.
    """

    negatives_median: float
    positives_median: float
    ratio: float
    longer_share: float


def lengths_of(documents: Texts, negatives: IntArray, positives: IntArray) -> Lengths | None:
    """From document rows; None without any."""
    if not len(negatives) or not len(positives):
        return None
    of_negatives, of_positives = documents.lengths[negatives], documents.lengths[positives]
    ordered = np.sort(of_positives)
    shorter = np.searchsorted(ordered, of_negatives) + np.searchsorted(ordered, of_negatives, side="right")
    medians = float(np.median(of_negatives)), float(np.median(of_positives))
    return Lengths(
        *medians,
        ratio=medians[0] / max(1.0, medians[1]),
        longer_share=float(shorter.mean() / (2 * len(ordered))),
    )


def near_duplicate_share(documents: Texts, rows: IntArray, counts: npt.NDArray[np.int32], threshold: float) -> float:
    """The share of negatives that are nearly the text of an earlier one of their unit.

    rows: int32 (n), the negatives, unit after unit; counts: int32 (n_units), how many each has; threshold: Jaccard
    similarity of character 5-shingles from which two texts are nearly the same. A large set is sampled.
    """
    ends = np.cumsum(counts)
    units = np.unique(np.linspace(0, len(counts) - 1, min(len(counts), _UNITS)).astype(np.int64))
    later, earlier = _pairs(ends[units] - counts[units], counts[units])
    looked_at = int(counts[units].sum())
    if not looked_at:
        return 0.0
    alike = jaccard_at_least(documents, rows[later], rows[earlier], threshold)
    return len(np.unique(later[alike])) / looked_at


def _pairs(begins: LongArray, counts: npt.NDArray[np.int32]) -> tuple[LongArray, LongArray]:
    """Every place with every earlier place of its unit."""
    none = np.empty(0, dtype=np.int64)
    found = [(none, none)]
    for count in np.unique(counts[counts > 1]).tolist():
        later, earlier = np.tril_indices(count, -1)
        start = begins[counts == count][:, None]
        found.append(((start + later).ravel(), (start + earlier).ravel()))
    later, earlier = (np.concatenate(side) for side in zip(*found, strict=True))
    return later, earlier
