"""Fits the models of a calibration to labelled pairs, and measures by cross-validation how good they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from foolsgold.calibration.logistic import fit_logistic, folds_by_query, out_of_fold
from foolsgold.records import BoolArray, DoubleArray, IntArray, LongArray
from foolsgold.teachers.calibrated import Calibration, MadeBy, Model
from foolsgold.teachers.curves import Curve, TeacherCurve
from foolsgold.teachers.signals import LADDER, NEEDS_BM25, NEEDS_RETRIEVER, CandidateScores, matrix


@dataclass(frozen=True)
class Labelled:
    """n labelled pairs, scored.

    scores: their scores and ranks; relevant: bool (n); query: int32 (n), the query of each.
    teacher, retriever: what scored them; notes: what was left out of the labels.
    """

    scores: CandidateScores
    relevant: BoolArray
    query: IntArray
    teacher: MadeBy
    retriever: MadeBy | None
    notes: tuple[str, ...] = ()

    @property
    def teacher_scores(self) -> DoubleArray:
        """float64 (n), on the declared scale."""
        return self.scores.columns["teacher_score"].values.astype(np.float64)


def fit(
    labelled: Labelled, name: str, target: float, seed: int, ladder: Sequence[tuple[str, ...]] = LADDER
) -> Calibration:
    """The teacher alone, the models, and the threshold that keeps the target."""
    models, _ = fit_models(labelled, seed, ladder)
    scores, relevant, query = labelled.teacher_scores, labelled.relevant, labelled.query
    return Calibration(
        name=name,
        teacher=labelled.teacher,
        retriever=labelled.retriever,
        sources={"retriever": labelled.scores.retriever, "bm25": labelled.scores.bm25},
        scale=labelled.scores.scale,
        labels={"pairs": len(query), "relevant": int(relevant.sum()), "queries": len(np.unique(query))},
        teacher_auc=auc(scores, relevant),
        teacher_auc_interval=auc_interval(scores, relevant, query, seed),
        teacher_curve=TeacherCurve.of(scores, relevant, query, seed),
        models=models,
        target=target,
        notes=labelled.notes,
    )


def fit_models(
    labelled: Labelled, seed: int, ladder: Sequence[tuple[str, ...]] = LADDER
) -> tuple[tuple[Model, ...], tuple[DoubleArray, ...]]:
    """A model for each choice of sources that a ledger may have, the fullest first, and its out-of-fold probabilities.

    Of the rungs of the ladder, each with all before it, a model takes the one whose log loss out of fold is least.
    """
    has = (labelled.scores.retriever is not None, labelled.scores.bm25 is not None)
    choices = [
        (retriever, bm25)
        for retriever, bm25 in ((True, True), (True, False), (False, True), (False, False))
        if retriever <= has[0] and bm25 <= has[1]
    ]
    fold = folds_by_query(labelled.query, labelled.relevant, seed)
    found: dict[tuple[str, ...], tuple[Model, DoubleArray]] = {}
    for retriever, bm25 in choices:
        missing = (frozenset() if retriever else NEEDS_RETRIEVER) | (frozenset() if bm25 else NEEDS_BM25)
        rungs = dict.fromkeys(
            tuple(name for rung in ladder[:height] for name in rung if name not in missing)
            for height in range(1, len(ladder) + 1)
        )
        held_out = {signals: out_of_fold(_values(labelled, signals), labelled.relevant, fold) for signals in rungs}
        best = min(held_out, key=lambda signals: log_loss(held_out[signals], labelled.relevant))
        if best not in found:
            found[best] = _model(labelled, best, held_out[best], seed), held_out[best]
    models, probabilities = zip(*found.values(), strict=True)
    return models, probabilities


def log_loss(probability: DoubleArray, relevant: BoolArray) -> float:
    """The mean of -log p of what turned out to be true, in nats."""
    return float(-np.log(np.maximum(np.where(relevant, probability, 1 - probability), 1e-12)).mean())


def _model(labelled: Labelled, signals: tuple[str, ...], held_out: DoubleArray, seed: int) -> Model:
    return Model(
        signals=signals,
        **dict(fit_logistic(_values(labelled, signals), labelled.relevant)),
        curve=Curve.of(held_out, labelled.relevant),
        auc=auc(held_out, labelled.relevant),
        auc_interval=auc_interval(held_out, labelled.relevant, labelled.query, seed),
        log_loss=log_loss(held_out, labelled.relevant),
    )


def _values(labelled: Labelled, signals: tuple[str, ...]) -> DoubleArray:
    values, known = matrix(labelled.scores, signals)
    assert known.all()  # every pair was scored by everything there is
    return values


def auc(scores: DoubleArray, relevant: BoolArray) -> float:
    """How probable it is that a relevant pair scores above another one, ties half: the area under the ROC curve.

    Mann and Whitney 1947; 0.5 where one of the labels is missing.
    """
    from scipy.stats import mannwhitneyu  # `import foolsgold` works without loading scipy

    n, k = len(scores), int(relevant.sum())
    if k in (0, n):
        return 0.5
    return float(mannwhitneyu(scores[relevant], scores[~relevant], method="asymptotic").statistic / (k * (n - k)))


def auc_interval(scores: DoubleArray, relevant: BoolArray, query: IntArray, seed: int) -> tuple[float, float]:
    """The 2.5th and 97.5th percentiles of the AUC of resampled queries: pairs of one query are not independent."""
    samples = [auc(scores[rows], relevant[rows]) for rows in resampled(query, seed, 200)]
    low, high = np.percentile(samples, [2.5, 97.5])
    return float(low), float(high)


def resampled(query: IntArray, seed: int, n: int) -> list[LongArray]:
    """The rows of n bootstrap samples of whole queries (Efron and Tibshirani 1993, chapter 8)."""
    order = np.argsort(query, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(query[order])) + 1)
    rng = np.random.default_rng(seed)
    return [np.concatenate([parts[i] for i in rng.integers(0, len(parts), len(parts))]) for _ in range(n)]
