"""From what a search finds to the negatives of each query: candidates, thresholds, and which are taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import count

import numpy as np

from foolsgold.compat.arguments import Plan, Range, Sampling, Thresholds
from foolsgold.compat.nearest import Nearest
from foolsgold.compat.pairs import Pairs
from foolsgold.progress import Advance, Bars
from foolsgold.records import BoolArray, Column, FloatArray, IntArray, LongArray
from foolsgold.rules import select
from foolsgold.rules.limits import below_positive
from foolsgold.teachers.protocol import Teacher

_PATIENT_WAVES = 3  # after these a query that is still short looks twice as far ahead each time
_CANDIDATES = 1 << 20  # decided on at once

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


@dataclass(frozen=True)
class Mined:
    """The negatives of some queries, query after query, the highest score first.

    counts: int64 (n_queries); document: int32; score: float32; positive_score: float32, of each of their positives, NaN
    where nothing needs it. skipped: candidates that each threshold dropped; looked_at: candidates in all, as
    sentence-transformers counts them: with known positives and, for queries of a small corpus, with the places that
    stay empty. Where a cross-encoder scores only some: those.
    """

    counts: LongArray
    document: IntArray
    score: FloatArray
    positive_score: FloatArray
    skipped: Counter[str]
    looked_at: int

    @classmethod
    def joined(cls, parts: list[Mined]) -> Mined:
        """The parts, one after the other."""
        return cls(
            np.concatenate([part.counts for part in parts]),
            np.concatenate([part.document for part in parts]),
            np.concatenate([part.score for part in parts]),
            np.concatenate([part.positive_score for part in parts]),
            sum((part.skipped for part in parts), Counter()),
            sum(part.looked_at for part in parts),
        )


def mine(plan: Plan, pairs: Pairs, blocks: Iterable[Nearest], teacher: Teacher | None, bar: str) -> Mined:
    """The negatives of all queries; `bar` is what the progress of the search is called.

    blocks: what searches for some queries, for all of them in turn. teacher: a cross-encoder, where one is needed.
    """
    parts: list[Mined] = []
    block = 0
    for nearest in blocks:
        scores, documents = nearest.search(plan.ranks.retrieved + pairs.most_copies, _Bar(bar))
        size = max(1, _CANDIDATES // documents.shape[1])
        for start in range(0, len(documents), size):
            part = slice(start, start + size)
            found = candidates_of(
                pairs, block + start, scores[part], documents[part], plan.ranks, include_positives=plan.ranking
            )
            parts.append(_mined(plan, pairs, found, block, block + start, nearest, teacher))
        block += len(documents)
    return Mined.joined(parts)


def _mined(
    plan: Plan, pairs: Pairs, found: Candidates, block: int, first: int, nearest: Nearest, teacher: Teacher | None
) -> Mined:
    """The negatives of the queries from row `first` on; `block` is the first query of `nearest`."""
    begins = pairs.offsets[first : first + found.n_units]
    part = slice(begins[0], pairs.offsets[first + found.n_units])
    owners, positives = pairs.owners[part], pairs.positives[part]
    if not (plan.thresholds.margins or plan.scores or plan.verbose):
        positive_score = np.full(len(positives), np.nan, dtype=np.float32)
    elif teacher is not None:
        positive_score = teacher.score(pairs.texts(owners, positives), Bars())
    else:
        positive_score = nearest.pairs(owners - np.int32(block), positives)

    def by_cross_encoder(rows: LongArray) -> FloatArray:
        assert teacher is not None
        return teacher.score(pairs.texts(found.query[rows], found.document[rows]), Bars())

    decides = teacher is not None and plan.thresholds.any
    taken = choose(
        found,
        plan.ranks,
        plan.thresholds,
        n=plan.n,
        sampling=plan.sampling,
        seed=plan.seed,
        lowest_positive=np.minimum.reduceat(positive_score, begins - begins[0]) if plan.thresholds.margins else None,
        score=by_cross_encoder if decides else None,
    )
    score = taken.score.values[taken.candidate]
    if teacher is not None and not decides:
        score = by_cross_encoder(taken.candidate)
    lazy = decides and plan.sampling == "random"
    looked_at = int(taken.score.valid.sum()) if lazy else found.n_units * plan.ranks.retrieved
    return Mined(taken.counts, found.document[taken.candidate], score, positive_score, taken.skipped, looked_at)


def candidates_of(
    pairs: Pairs, first: int, scores: FloatArray, documents: IntArray, ranks: Range, *, include_positives: bool
) -> Candidates:
    """Of what was found for the queries from row `first` on, what may be a negative.

    Documents with the text of a positive or of the query are passed over as if the corpus did not have them; labelled
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

    score: float32 (n); positive: float32 (n), the lowest score of the query's positives, for the margins.
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
    continues in order of rank where they are too few. A draw follows from seed, query and document alone.

    lowest_positive: float32 (n_units), for margins. score: a cross-encoder's score of candidates, if that decides;
    where negatives are drawn it is asked in waves, only for those that would be taken (design, section 8), while the
    highest scores are known only when all are.
    """
    known = Column.known(found.score) if score is None else Column.unknown(len(found))
    usable = np.ones(len(found), dtype=np.bool_)  # until a threshold says otherwise
    skipped: Counter[str] = Counter()

    def look_at(rows: LongArray) -> None:
        """Score what has no score, and apply the thresholds."""
        if score is not None:
            known.values[rows] = score(rows)
            known.valid[rows] = True
        positive = None if lowest_positive is None else lowest_positive[found.unit[rows]]
        for name, where in dropped(known.values[rows], positive, thresholds).items():
            skipped[name] += int(where.sum())
            usable[rows[where]] = False

    if score is None or sampling == "top":
        look_at(np.arange(len(found)))
    if sampling == "top":  # of equal scores the nearest first
        within, key = np.ones(len(found), dtype=np.bool_), Column.known(-known.values)
    else:
        within, key = found.rank < ranks.end, Column.known(found.rank)
    draw = select.uniforms(seed, found.query, found.document)
    orders = [
        select.order(found.unit, found.n_units, within, key, draw, strategy=sampling),
        select.order(found.unit, found.n_units, ~within, key, draw, strategy="top"),
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
    flat = np.array([row for candidates in taken for row in candidates], dtype=np.int64)
    flat = flat[np.lexsort((found.rank[flat], -known.values[flat], found.unit[flat]))]
    return Taken(np.array([len(candidates) for candidates in taken], dtype=np.int64), flat, known, skipped)


class _Bar:
    """A `Progress` with one name for every stage."""

    def __init__(self, name: str) -> None:
        self._name = name

    def stage(self, name: str, total: int) -> AbstractContextManager[Advance]:
        """Open a stage under the one name."""
        del name
        return Bars().stage(self._name, total)
