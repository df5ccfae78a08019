"""From what a search found to the negatives of each query: candidates, thresholds, and who is taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import numpy as np

from foolsgold.compat.sentence_transformers.pairs import Pairs
from foolsgold.compat.sentence_transformers.settings import Range, Sampling, Thresholds
from foolsgold.records import BoolArray, Column, FloatArray, IntArray, LongArray
from foolsgold.rules import select
from foolsgold.rules.limits import below_positive

_PATIENT_WAVES = 3  # after these a query that is still short looks twice as far ahead each time

Score = Callable[[LongArray], FloatArray]


@dataclass(frozen=True)
class Candidates:
    """What may be a negative of some queries: those of one query side by side, the nearest first.

    unit: int32 (n), which of the queries, counted from 0; query, document: int32 (n), rows;
    rank: int32 (n), from 0 over the query's candidates; score: float32 (n), by the retriever.
    """

    n_units: int
    unit: IntArray
    query: IntArray
    document: IntArray
    rank: IntArray
    score: FloatArray

    def __len__(self) -> int:
        return len(self.unit)


@dataclass(frozen=True)
class Taken:
    """counts: int64 (n_units), negatives of each query; candidate: int64, theirs, the highest score first.

    score: float32 (n candidates), what was decided on, known where it was needed; skipped: candidates that each
    threshold dropped, of those looked at.
    """

    counts: LongArray
    candidate: LongArray
    score: Column
    skipped: Counter[str]


def candidates_of(
    pairs: Pairs, first: int, scores: FloatArray, documents: IntArray, ranks: Range, *, include_positives: bool
) -> Candidates:
    """Of what was found for the queries from row `first` on, what may be a negative.

    Documents that say what a positive or the query says are passed over as if the corpus did not have them; labelled
    positives then count to `ranks.retrieved`, as sentence-transformers counts, but have no rank of their own.

    scores, documents: (q, k), as searched, descending.
    """
    shape = documents.shape
    query = np.repeat(np.arange(first, first + shape[0], dtype=np.int32), shape[1])
    document = documents.ravel()
    labelled = pairs.labelled(query, document)
    there = (labelled | ~pairs.same_text(query, document)).reshape(shape)
    retrieved = there & (np.cumsum(there, axis=1) <= ranks.retrieved)
    allowed = retrieved if include_positives else retrieved & ~labelled.reshape(shape)
    rank = np.cumsum(allowed, axis=1, dtype=np.int32) - 1
    kept = (allowed & (rank >= ranks.begin)).ravel()
    return Candidates(
        n_units=shape[0],
        unit=query[kept] - np.int32(first),
        query=query[kept],
        document=document[kept],
        rank=rank.ravel()[kept],
        score=scores.ravel()[kept],
    )


def dropped(score: FloatArray, positive: FloatArray | None, thresholds: Thresholds) -> dict[str, BoolArray]:
    """Which of n candidates each threshold drops that none before it did.

    score: float32 (n); positive: float32 (n), the lowest score of the query's positives, for the margins. A relative
    margin m keeps s <= p - |p| m, which is safe for either sign of p.
    """
    left = np.ones(len(score), dtype=np.bool_)
    found: dict[str, BoolArray] = {}

    def drop(name: str, where: BoolArray) -> None:
        found[name] = left & where
        left[where] = False

    if thresholds.absolute_margin is not None:
        assert positive is not None
        drop("absolute_margin", score + thresholds.absolute_margin > positive)
    if thresholds.relative_margin is not None:
        assert positive is not None
        drop("relative_margin", score > below_positive(positive, thresholds.relative_margin))
    if thresholds.max_score is not None:
        drop("max_score", score > thresholds.max_score)
    if thresholds.min_score is not None:
        drop("min_score", score < thresholds.min_score)
    return found


def choose(
    found: Candidates,
    ranks: Range,
    thresholds: Thresholds,
    *,
    n: int,
    sampling: Sampling,
    seed: int,
    lowest_positive: FloatArray | None,
    score: Score | None,
) -> Taken:
    """Up to n negatives of each query.

    `top` takes the highest scores that the thresholds leave; `random` draws from those of a rank below `ranks.end`, and
    goes on in order of rank where they are too few. A draw follows from seed, query and document alone.

    lowest_positive: float32 (n_units), for margins. score: a cross-encoder's score of candidates, if that decides;
    where negatives are drawn it is asked in waves, for those alone that would be taken (design, section 8), while the
    highest scores are known only when all are.
    """
    known = Column.known(found.score) if score is None else Column.unknown(len(found))
    usable = np.ones(len(found), dtype=np.bool_)  # until a threshold says otherwise
    skipped: Counter[str] = Counter()

    def look_at(rows: LongArray) -> None:
        """Score what has no score, and hold it against the thresholds."""
        if score is not None:
            known.values[rows] = score(rows)
            known.valid[rows] = True
        positive = None if lowest_positive is None else lowest_positive[found.unit[rows]]
        for name, where in dropped(known.values[rows], positive, thresholds).items():
            skipped[name] += int(where.sum())
            usable[rows[where]] = False

    if score is None or sampling == "top":
        look_at(np.arange(len(found)))
    within, rank = found.rank < ranks.end, found.rank
    if score is not None and sampling == "top":
        within, rank = np.ones(len(found), dtype=np.bool_), _ranked_anew(found, known.values)
    draw = select.uniforms(seed, found.query, found.document)
    orders = [
        select.order(found.unit, found.n_units, within, Column.known(rank), draw, strategy=sampling),
        select.order(found.unit, found.n_units, ~within, Column.known(rank), draw, strategy="top"),
    ]
    quotas = select.Quotas(shares=(n, 0), may_fill=(False, True), budget=n)
    taken: list[list[int]] = [[] for _ in range(found.n_units)]
    open_units = list(range(found.n_units))
    for wave in count():
        for unit in open_units:
            taken[unit] = [candidate for candidate, _ in select.take(orders, unit, usable, quotas)]
        open_units = [unit for unit in open_units if not known.valid[taken[unit]].all()]
        if not open_units:
            break
        ahead = quotas.times(2 ** max(0, wave - _PATIENT_WAVES))
        asked = [candidate for unit in open_units for candidate, _ in select.take(orders, unit, usable, ahead)]
        rows = np.array(asked, dtype=np.int64)
        look_at(rows[~known.valid[rows]])
    for candidates in taken:
        candidates.sort(key=lambda row: (-known.values[row], found.rank[row]))
    counts = np.array([len(candidates) for candidates in taken], dtype=np.int64)
    flat = np.array([row for candidates in taken for row in candidates], dtype=np.int64)
    return Taken(counts, flat, known, skipped)


def _ranked_anew(found: Candidates, score: FloatArray) -> IntArray:
    """int32 (n): each candidate's place among its query's by `score`, the highest first."""
    order = np.lexsort((found.rank, -score, found.unit))
    begins = np.searchsorted(found.unit, found.unit[order])
    rank = np.empty(len(found), dtype=np.int32)
    rank[order] = np.arange(len(found)) - begins
    return rank
