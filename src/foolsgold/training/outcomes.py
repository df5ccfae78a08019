"""After a segment: evaluate the student on held-out queries, compare it with the best so far, and say what to do."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from foolsgold.evaluation.evaluate import Comparison, Diverged, Evaluation, evaluate
from foolsgold.mined.mined_set import MinedSet
from foolsgold.recipe import Recipe
from foolsgold.training.curriculum import Segment
from foolsgold.training.job import Job
from foolsgold.training.run import UNDONE, Outcome, Round

log = logging.getLogger(__name__)


class HeldOutQueries:
    """Measures the student on the job's held-out queries. Each evaluation is kept in the run's folder."""

    def __init__(self, job: Job, folder: Path) -> None:
        self._job, self._folder = job, folder / "evaluations"

    def first_round(self, model: Any) -> Round:
        """The student before training."""
        began = time.perf_counter()
        evaluation = self._evaluated(model, 0)
        return Round(regime="start", measures=evaluation.means, outcome="start", seconds=_since(began))

    def round_after(self, segment: Segment, mined: MinedSet | None, model: Any, best: Round, began: float) -> Round:
        """The student after a segment, against the best so far by a paired test. began: when the segment did."""
        job = self._job
        before = Evaluation.load(self._file(best.stop))
        try:
            evaluation, diverged = self._evaluated(model, segment.stop), False
        except Diverged as error:
            log.warning("%s", error)
            nothing = replace(before, values={name: np.zeros_like(values) for name, values in before.values.items()})
            evaluation, diverged = self._saved(nothing, segment.stop), True
        compared = evaluation.compare(before, seed=job.recipe.seed)
        change = compared.of(job.recipe.evaluation.decisive)
        return Round(
            regime=job.regimes[segment.regime].name,
            mining=segment.mining,
            start=segment.start,
            stop=segment.stop,
            **_facts_of(mined),
            measures=evaluation.means,
            delta=change.delta,
            interval=change.interval,
            p_value=change.p_value,
            outcome=outcome_of(compared, job.recipe, diverged, best),
            seconds=_since(began),
        )

    def _evaluated(self, model: Any, step: int) -> Evaluation:
        measures = self._job.recipe.evaluation.measures
        return self._saved(evaluate(model, self._job.held_out, measures=measures, progress=self._job.progress), step)

    def _saved(self, evaluation: Evaluation, step: int) -> Evaluation:
        self._folder.mkdir(parents=True, exist_ok=True)
        evaluation.save(self._file(step))
        return evaluation

    def _file(self, step: int) -> Path:
        return self._folder / f"step-{step}.parquet"


def _facts_of(mined: MinedSet | None) -> dict[str, Any]:
    """What a round records about its set."""
    if mined is None:
        return {}
    audit = mined.audit()
    return {
        "set_version": mined.version,
        "negatives": len(mined.negatives),
        "mean_margin": audit.mean_margin,
        "inverted": audit.inverted_share,
        "failed_gates": [gate.name for gate in audit.gates if gate.verdict == "fail"],
    }


def outcome_of(compared: Comparison, recipe: Recipe, diverged: bool, best: Round) -> Outcome:
    """What becomes of a round. diverged: the student's vectors are not finite, and more training would not fix it.

    A loss that only uses scored negatives cannot continue with those of the best model where that had none.
    """
    spec = recipe.evaluation
    softened: Outcome = "rolled back"
    if best.set_version is None and not recipe.student.ranks:
        softened = "stopped"
    if diverged:
        return softened if spec.on_regression == "rollback" else "stopped"
    if compared.of(spec.decisive).delta > 0:
        return "best"
    if not compared.is_significant_drop(spec.decisive, alpha=spec.significance):
        return "kept"
    outcomes: dict[str, Outcome] = {"stop": "stopped", "rollback": softened, "continue": "worse"}
    return outcomes[spec.on_regression]


def announce(rounds: list[Round], decisive: str) -> None:
    """Log the last round's result, and the failed gates of its set when the set is used for the first time."""
    one = rounds[-1]
    is_new = all(other.set_version != one.set_version for other in rounds[:-1])
    for gate in one.failed_gates if is_new else ():
        log.warning("regime %s: the audit's gate %s fails; see the set's report", one.regime, gate)
    level = logging.WARNING if one.outcome in ("worse", *UNDONE) else logging.INFO
    log.log(
        level, "regime %s, step %d: %s %.4f (%+.4f, p = %.3f): %s",
        one.regime, one.stop, decisive, one.measures[decisive], one.delta, one.p_value, one.outcome,
    )  # fmt: skip


def _since(began: float) -> float:
    return round(time.perf_counter() - began, 2)
