"""Logistic regression of a handful of signals: few enough for a hundred labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from foolsgold.records import BoolArray, IntArray

DoubleArray = npt.NDArray[np.float64]

# Half of it times the squared coefficients (of standardised signals) is added to the summed log loss, as scikit-learn
# does with C = 1. On trecdl21 penalties from 1 to 100 change the AUC by 0.001; 1,000 costs 0.01.
L2 = 1.0
FOLDS = 5


@dataclass(frozen=True)
class Logistic:
    """p = 1 / (1 + exp(-(intercept + coefficients . (x - mean) / scale))).

    mean, scale, coefficients: float64 (n_signals).
    """

    mean: DoubleArray
    scale: DoubleArray
    coefficients: DoubleArray
    intercept: float

    @classmethod
    def fit(cls, signals: DoubleArray, relevant: BoolArray, l2: float = L2) -> Logistic:
        """The most probable coefficients; the intercept is not penalised.

        Args:
            signals: float64 (n, n_signals).
            relevant: bool (n), with both values there.
            l2: the penalty; above 0, so that labels which a signal separates have finite coefficients too.
        """
        mean, scale = signals.mean(axis=0), signals.std(axis=0)
        scale[scale == 0] = 1.0  # a signal that never changes says nothing
        x = np.column_stack([np.ones(len(signals)), (signals - mean) / scale])
        penalty = np.full(x.shape[1], l2)
        penalty[0] = 0.0

        def loss(weights: DoubleArray) -> tuple[float, DoubleArray]:
            logits = x @ weights
            value = np.logaddexp(0.0, logits).sum() - logits[relevant].sum() + 0.5 * (penalty * weights**2).sum()
            gradient: DoubleArray = x.T @ (_sigmoid(logits) - relevant) + penalty * weights
            return float(value), gradient

        from scipy.optimize import minimize  # `import foolsgold` goes without scipy

        found = minimize(loss, np.zeros(x.shape[1]), jac=True, method="L-BFGS-B", options={"ftol": 1e-13, "gtol": 1e-8})
        return cls(mean, scale, found.x[1:], float(found.x[0]))

    def probability(self, signals: DoubleArray) -> DoubleArray:
        """float64 (n), for signals float64 (n, n_signals)."""
        return _sigmoid(self.intercept + ((signals - self.mean) / self.scale) @ self.coefficients)


def out_of_fold(signals: DoubleArray, relevant: BoolArray, fold: IntArray) -> DoubleArray:
    """float64 (n): each pair's probability, by a fit to the other folds alone."""
    held_out = np.empty(len(signals))
    for number in np.unique(fold):
        test = fold == number
        held_out[test] = Logistic.fit(signals[~test], relevant[~test]).probability(signals[test])
    return held_out


def folds_by_query(query: IntArray, relevant: BoolArray, seed: int) -> IntArray:
    """int32 (n): the fold of each pair; the pairs of a query share one, and each fold leaves both labels to the others.

    `FOLDS` of them, or as many as there are queries. Where no draw leaves both labels, pairs are dealt out without
    regard to queries: few queries cannot do better.
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


def _sigmoid(logits: DoubleArray) -> DoubleArray:
    small = np.exp(-np.abs(logits))
    return np.where(logits >= 0, 1.0, small) / (1.0 + small)
