"""Fits the models of a calibration to labelled pairs, and says by cross-validation what they are worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from foolsgold.calibration.judge import Calibration, Model
from foolsgold.calibration.logistic import DoubleArray, Logistic, folds_by_query, out_of_fold
from foolsgold.calibration.rates import Curve, TeacherCurve, auc, auc_interval
from foolsgold.calibration.signals import LADDER, NEEDS_BM25, NEEDS_RETRIEVER, Evidence, matrix
from foolsgold.records import BoolArray, IntArray


@dataclass(frozen=True)
class Labelled:
    """n labelled pairs, scored.

    evidence: what is known of them; relevant: bool (n); query: int32 (n), the query of each.
    teacher, retriever: model and fingerprint of what scored them; notes: what was left out of the labels.
    """

    evidence: Evidence
    relevant: BoolArray
    query: IntArray
    teacher: Mapping[str, str]
    retriever: Mapping[str, str] | None
    notes: tuple[str, ...] = ()

    @property
    def teacher_scores(self) -> DoubleArray:
        """float64 (n), on the declared scale."""
        return self.evidence.columns["teacher_score"].values.astype(np.float64)


def fit(
    labelled: Labelled, name: str, target: float, seed: int, ladder: Sequence[tuple[str, ...]] = LADDER
) -> Calibration:
    """All that the labels say: of the teacher alone, of the models, and of the threshold that keeps the target."""
    models, _ = fit_models(labelled, seed, ladder)
    scores, relevant, query = labelled.teacher_scores, labelled.relevant, labelled.query
    return Calibration(
        name=name,
        teacher=labelled.teacher,
        retriever=labelled.retriever,
        sources={"retriever": labelled.evidence.retriever, "bm25": labelled.evidence.bm25},
        scale=labelled.evidence.scale,
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
    has = (labelled.evidence.retriever is not None, labelled.evidence.bm25 is not None)
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
        logistic=Logistic.fit(_values(labelled, signals), labelled.relevant),
        curve=Curve.of(held_out, labelled.relevant),
        auc=auc(held_out, labelled.relevant),
        auc_interval=auc_interval(held_out, labelled.relevant, labelled.query, seed),
        log_loss=log_loss(held_out, labelled.relevant),
    )


def _values(labelled: Labelled, signals: tuple[str, ...]) -> DoubleArray:
    values, known = matrix(labelled.evidence, signals)
    assert known.all()  # every pair was scored by everything there is
    return values
