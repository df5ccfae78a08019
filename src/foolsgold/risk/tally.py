"""Counts the false negatives of one mined set: in all, and by the rank they were found at."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from foolsgold.mined.mined_set import MinedSet
from foolsgold.records import LongArray
from foolsgold.risk.truth import Truth
from foolsgold.rules.bounds import wilson

_ENDS = np.array([digit * 10**power for power in range(7) for digit in (1, 2, 5)])  # last ranks of the bands
_Z = NormalDist().inv_cdf(0.975)  # for intervals of 95 %
FEW = 20  # with fewer the interval is wider than 40 points at a rate of a half


@dataclass(frozen=True)
class Share:
    """`count` of `of`. The count is a whole number, or a sum of `of` probabilities."""

    count: float
    of: int

    @property
    def value(self) -> float | None:
        """From 0 to 1; None where nothing was counted."""
        return self.count / self.of if self.of else None

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's score interval of 95 %.

        For a sum of probabilities it covers the draw only, and is rather too wide: a sum of unequal Bernoulli variables
        varies less than a binomial of the same mean. It does not show whether the probabilities are right.
        """
        return wilson(self.count, self.of, _Z)

    @property
    def is_few(self) -> bool:
        """Whether too few were counted for the rate to mean anything."""
        return self.of < FEW


@dataclass(frozen=True)
class Tally:
    """Counts of one mined set.

    asked: negatives that the budget allows. negatives: those selected. known: of these, those whose relevance is known.
    relevant: how many of the known ones are, or the sum of their probabilities.
    within_reach: relevant candidates that no exclusion dropped, whatever became of them; None where only selected
        candidates are known.
    """

    queries: int
    without_negatives: int
    asked: int
    negatives: int
    known: int
    relevant: float
    within_reach: int | None

    @property
    def rate(self) -> Share:
        """The false-negative rate: relevant of the negatives whose relevance is known."""
        return Share(self.relevant, self.known)

    @property
    def returned(self) -> Share | None:
        """Of the relevant candidates within reach, those that were taken for negatives."""
        return None if self.within_reach is None else Share(self.relevant, self.within_reach)


def tally(mined: MinedSet, truth: Truth) -> Tally:
    """Count a set that was mined from `truth.collection`."""
    ledger = mined.ledger()
    selected = ledger.filter(ledger["selected"])
    found = truth.relevance(selected)
    relevant = float(found.values[found.valid].sum(dtype=np.float64))
    reach = None
    if truth.every_candidate:
        among = truth.relevance(_candidates(ledger))
        reach = int(among.values[among.valid].sum(dtype=np.float64))
    taken = mined.queries["selected"].to_numpy()
    return Tally(
        queries=len(taken),
        without_negatives=int((taken == 0).sum()),
        asked=len(taken) * mined.manifest.recipe.select.per_query,
        negatives=len(selected),
        known=int(found.valid.sum()),
        relevant=relevant,
        within_reach=reach,
    )


@dataclass(frozen=True)
class Band:
    """Ranks `first` to `last`, counted from 1 among the candidates that no exclusion dropped."""

    first: int
    last: int
    rate: Share


def by_rank(mined: MinedSet, truth: Truth, source: str) -> tuple[Band, ...]:
    """The false-negative rate against a source's rank, of all negatives, selected or over budget."""
    candidates = _candidates(mined.ledger())
    candidates = candidates.filter(pc.is_valid(candidates[f"{source}_rank"]))
    place = _place_in_unit(candidates, source)
    negative = np.asarray(pc.fill_null(pc.greater(candidates["weight"], 0), False))
    found = truth.relevance(candidates.filter(pa.array(negative)))
    band = np.searchsorted(_ENDS, place[negative][found.valid])
    known = np.bincount(band, minlength=len(_ENDS))
    relevant = np.bincount(band, weights=found.values[found.valid], minlength=len(_ENDS))
    firsts = np.concatenate([[1], _ENDS[:-1] + 1])
    return tuple(
        Band(int(firsts[i]), int(_ENDS[i]), Share(float(relevant[i]), int(known[i]))) for i in np.flatnonzero(known)
    )


def _candidates(ledger: pa.Table) -> pa.Table:
    """What no exclusion dropped."""
    return ledger.filter(pc.not_equal(ledger["verdict"].cast(pa.string()), "excluded"))


def _place_in_unit(candidates: pa.Table, source: str) -> LongArray:
    """int64 (n), from 1: each candidate's place by the source's rank among those of its query (and positive)."""
    names = [candidates["query_id"], pc.fill_null(candidates["positive_id"], "")]
    unit: npt.NDArray[np.int64] = np.zeros(len(candidates), dtype=np.int64)
    for name in names:
        codes = name.combine_chunks().dictionary_encode().indices.to_numpy()
        unit = unit * (codes.max(initial=0) + 1) + codes
    order = np.lexsort((candidates[f"{source}_rank"].to_numpy(), unit))
    ordered = unit[order]
    place = np.empty(len(candidates), dtype=np.int64)
    place[order] = np.arange(len(candidates)) - np.searchsorted(ordered, ordered) + 1
    return place
