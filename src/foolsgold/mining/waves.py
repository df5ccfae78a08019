"""Score, decide and select, in waves, so that a teacher reads only what decides (design, section 8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np

from foolsgold.mining.comparisons import comparisons
from foolsgold.mining.exclusion import Candidates
from foolsgold.mining.llm import opinions
from foolsgold.mining.run import Run
from foolsgold.mining.units import Units
from foolsgold.records import Column, IntArray, LongArray, Verdicts, Zone
from foolsgold.rules import decide, select

# Waves without looking ahead: in these nothing is scored that could be done without. Looking ahead after 3 of them cost
# 51 pairs more than the 478 needed (benchmarks/teacher.py, 50 queries). Another wave costs some 30 ms of deciding for
# 800,000 candidates; a pair read in vain, 70 ms of a cross-encoder on two cores.
_PATIENT_WAVES = 12


@dataclass(frozen=True)
class Outcome:
    """What became of a block's candidates.

    score: float32 (n), what was decided on; judged: float32 (n), by the recipe's calibration, if it names one;
    taken: for each unit its (candidate, source) pairs in selection order.
    """

    score: Column
    judged: Column
    verdicts: Verdicts
    taken: Sequence[Sequence[tuple[int, int]]]


def decide_in_waves(run: Run, candidates: Candidates, units: Units) -> Outcome:
    """Score, decide and select in waves until no unit takes a candidate of which more could be known.

    In a wave candidates without a score count as usable; those that are then taken are scored. When none of them
    is, the outcome is that of scoring everything (`select`). With a language model to ask in doubt the same goes for
    ambiguous candidates: those that are taken are asked about, as far as its budget goes. Units that are still short
    after some waves look twice as far ahead in each further one, so that a few queries without negatives do not cost a
    wave a candidate.
    """
    recipe, pairs, quotas = run.recipe, candidates.pool, run.quotas
    orders = orders_of(run, candidates, units)
    judgeable = ~candidates.excluded.valid
    known = comparisons(run, pairs, candidates.unit, units, candidates.cosine)
    positive, calibration = known["positive_score"], run.signal.calibration
    judged = Column.unknown(len(candidates))
    score = Column.unknown(len(candidates))
    opinion = Column.unknown(len(candidates))
    unasked = judgeable & (run.llm is not None)
    exhaustive = not run.signal.lazy or (recipe.teacher is not None and recipe.teacher.exhaustive)
    wanted: LongArray = np.flatnonzero(judgeable) if exhaustive else np.empty(0, dtype=np.int64)
    taken: list[list[tuple[int, int]]] = [[] for _ in range(len(units))]
    open_units: Sequence[int] = range(len(units))
    wave = 0
    while True:
        if len(wanted):
            wave += 1
            stage = "score candidates" if exhaustive else f"score wave {wave}"
            score.values[wanted] = run.signal.score(pairs.query[wanted], pairs.doc[wanted], stage)
            score.valid[wanted] = True
            if calibration is not None:
                rows = {"teacher_score": score} | known
                found = calibration.probability({name: column.take(wanted) for name, column in rows.items()})
                judged.values[wanted], judged.valid[wanted] = found.values, found.valid
        verdicts = decide.decide(score, positive, run.limits, probability=judged if calibration is not None else None)
        verdicts = decide.judge_ambiguous(verdicts, opinion)
        unscored = verdicts.zone == Zone.UNSCORED
        unknown = unscored | (unasked & (verdicts.zone == Zone.AMBIGUOUS))
        usable = judgeable & (unknown | (verdicts.weight.valid & (verdicts.weight.values > 0)))
        still_open: list[int] = []
        asked: list[int] = []
        for unit in open_units:
            taken[unit] = select.take(orders, unit, usable, quotas)
            if any(unknown[candidate] for candidate, _ in taken[unit]):
                looked_at = taken[unit]
                if wave >= _PATIENT_WAVES:
                    ahead = quotas.times(2 ** (wave - _PATIENT_WAVES + 1))
                    looked_at = [*looked_at, *select.take(orders, unit, usable, ahead)]
                still_open.append(unit)
                asked += dict.fromkeys(candidate for candidate, _ in looked_at if unknown[candidate])
        if not asked:
            break
        doubtful = np.array(asked, dtype=np.int64)
        open_units, wanted = still_open, doubtful[unscored[doubtful]]
        if run.llm is not None:
            doubtful = doubtful[~unscored[doubtful]]
            said = opinions(run, run.llm, candidates, units, doubtful)
            opinion.values[doubtful], opinion.valid[doubtful] = said.values, said.valid
            unasked[doubtful] = False
    zone = np.where(judgeable, verdicts.zone, Zone.EXCLUDED).astype(np.int8)
    reason = np.where(judgeable, verdicts.reason, candidates.excluded.values).astype(np.int16)
    weight = Column(verdicts.weight.values, verdicts.weight.valid & judgeable)
    return Outcome(score, judged, Verdicts(zone, reason, weight), taken)


def orders_of(run: Run, candidates: Candidates, units: Units) -> list[select.Order]:
    """For each source, in which order its candidates are looked at."""
    spec, seed = run.recipe.select, run.recipe.seed
    orders = []
    for name in run.sources:
        among = candidates.windows[name] & ~candidates.excluded.valid
        parts: list[int | IntArray] = [crc32(name.encode()), candidates.pool.query, candidates.pool.doc]
        if units.positive.valid.any():
            parts.append(units.positive.values[candidates.unit])
        random_source = run.recipe.sources[name].kind == "random"
        orders.append(
            select.order(
                candidates.unit,
                len(units),
                among,
                candidates.pool.ranks[name],
                select.uniforms(seed, *parts),
                strategy="random" if random_source else spec.strategy,
                score=candidates.pool.scores[name].values,
                positive=None
                if random_source or spec.strategy != "simans"
                else units.by_source[name].values[candidates.unit],
                a=spec.simans_a,
                b=spec.simans_b,
                strata=spec.strata,
            )
        )
    return orders
