"""Logistic regression of a handful of signals: few enough for a hundred labels."""

from __future__ import annotations

import numpy as np

from foolsgold.records import BoolArray, DoubleArray, IntArray
from foolsgold.teachers.calibrated import Logistic

# Half of it times the squared coefficients (of standardised signals) is added to the summed log loss, as scikit-learn
# does with C = 1. On trecdl21 penalties from 1 to 100 change the AUC by 0.001; 1,000 costs 0.01.
L2 = 1.0
FOLDS = 5


def fit_logistic(signals: DoubleArray, relevant: BoolArray, l2: float = L2) -> Logistic:
    """The most probable coefficients; the intercept is not penalised.

    Args:
        signals: float64 (n, n_signals).
        relevant: bool (n), with both values there.
        l2: the penalty; above 0, so that labels which a signal separates have finite coefficients too.
    """
    from scipy.optimize import minimize  # `import foolsgold` works without loading scipy
    from scipy.special import expit

    mean, scale = signals.mean(axis=0), signals.std(axis=0)
    scale[scale == 0] = 1.0  # a signal that never changes has no effect
    x = np.column_stack([np.ones(len(signals)), (signals - mean) / scale])
    penalty = np.full(x.shape[1], l2)
    penalty[0] = 0.0

    def loss(weights: DoubleArray) -> tuple[float, DoubleArray]:
        logits = x @ weights
        value = np.logaddexp(0.0, logits).sum() - logits[relevant].sum() + 0.5 * (penalty * weights**2).sum()
        gradient: DoubleArray = x.T @ (expit(logits) - relevant) + penalty * weights
        return float(value), gradient

    found = minimize(loss, np.zeros(x.shape[1]), jac=True, method="L-BFGS-B", options={"ftol": 1e-13, "gtol": 1e-8})
    return Logistic(mean=mean, scale=scale, coefficients=found.x[1:], intercept=float(found.x[0]))


def out_of_fold(signals: DoubleArray, relevant: BoolArray, fold: IntArray) -> DoubleArray:
    """float64 (n): each pair's probability, by a fit to the other folds alone."""
    held_out = np.empty(len(signals))
    for number in np.unique(fold):
        test = fold == number
        held_out[test] = fit_logistic(signals[~test], relevant[~test]).of_signals(signals[test])
    return held_out


def folds_by_query(query: IntArray, relevant: BoolArray, seed: int) -> IntArray:
    """int32 (n): the fold of each pair; the pairs of a query share one, and each fold leaves both labels to the others.

    `FOLDS` of them, or as many as there are queries. Where no draw leaves both labels, as with few queries, the pairs
    are dealt out without regard to queries.
    """
    distinct, place = np.unique(query, return_inverse=True)
    rng = np.random.default_rng(seed)
    n_folds = min(FOLDS, len(distinct))
    for _ in range(100 if n_folds > 1 else 0):
        fold = (rng.permutation(len(distinct)) % n_folds)[place].astype(np.int32)
        if _leaves_both(fold, relevant):
            return fold
    by_label = np.lexsort((rng.permutation(len(query)), relevant))
    fold = np.empty(len(query), dtype=np.int32)
    fold[by_label] = np.arange(len(query)) % FOLDS
    return fold


def _leaves_both(fold: IntArray, relevant: BoolArray) -> bool:
    others = [relevant[fold != number] for number in np.unique(fold)]
    return all(rest.any() and not rest.all() for rest in others)
