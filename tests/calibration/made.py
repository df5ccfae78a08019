"""A calibration that can be worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from foolsgold.calibration import Calibration, Model
from foolsgold.teachers.curves import Curve, TeacherCurve


def model(signals: tuple[str, ...], coefficients: list[float], safe_to: float = 0.3) -> Model:
    """p = sigmoid(coefficients . signals); 1,000 labels below `safe_to` none of which is relevant, 1,000 above."""
    probability = np.repeat([safe_to - 0.001, 0.999], 1000)
    n = len(signals)
    return Model(
        signals=signals,
        mean=np.zeros(n),
        scale=np.ones(n),
        coefficients=np.array(coefficients),
        intercept=0.0,
        curve=Curve.of(probability, probability > safe_to),
        auc=1.0,
        auc_interval=(1.0, 1.0),
        log_loss=0.1,
    )


def calibration(*models: Model, fingerprint: str = "t", **changes: Any) -> Calibration:
    """Of a teacher `t` by these models, with sources named dense and bm25."""
    labels = np.array([False, True])
    facts: dict[str, Any] = {
        "name": "calibration.json",
        "teacher": {"model": "teacher", "fingerprint": fingerprint},
        "retriever": {"model": "retriever", "fingerprint": "r"},
        "sources": {"retriever": "dense", "bm25": "bm25"},
        "scale": "probability",
        "labels": {"pairs": 2000, "relevant": 1000, "queries": 10},
        "teacher_auc": 0.9,
        "teacher_auc_interval": (0.8, 1.0),
        "teacher_curve": TeacherCurve.of(np.array([0.1, 0.9]), labels, np.zeros(2, dtype=np.int32), seed=1),
        "models": models,
        "target": 0.02,
    }
    return Calibration(**(facts | changes))
