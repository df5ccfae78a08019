"""Logistic regression against what can be worked out, and against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest

from foolsgold.calibration.logistic import fit_logistic, folds_by_query, out_of_fold


def test_without_a_signal_the_probability_is_the_share() -> None:
    fit = fit_logistic(np.zeros((8, 1)), np.array([True, True] + [False] * 6))
    assert fit.of_signals(np.zeros((1, 1))) == pytest.approx([0.25], abs=1e-6)


def test_separable_labels_have_finite_coefficients_and_the_right_order() -> None:
    signal = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    fit = fit_logistic(signal, signal[:, 0] > 0)
    probability = fit.of_signals(signal)
    assert np.all(np.diff(probability) > 0)
    assert probability[1] < 0.5 < probability[2]
    assert 0 < fit.coefficients[0] < 10
    assert fit.intercept == pytest.approx(0, abs=1e-6)


def test_at_the_optimum_the_gradient_is_zero() -> None:
    rng = np.random.default_rng(3)
    signals = rng.normal(size=(50, 3)) * [1, 10, 0.1] + [0, 5, -2]
    relevant = rng.random(50) < 1 / (1 + np.exp(-signals[:, 0]))
    fit = fit_logistic(signals, relevant, l2=2.0)
    error = fit.of_signals(signals) - relevant
    assert error.sum() == pytest.approx(0, abs=1e-4)
    x = (signals - signals.mean(axis=0)) / signals.std(axis=0)
    np.testing.assert_allclose(x.T @ error + 2.0 * fit.coefficients, 0, atol=1e-4)


def test_scikit_learn_agrees() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model", reason="scikit-learn is the oracle here")
    rng = np.random.default_rng(4)
    signals = rng.normal(size=(80, 2))
    relevant = rng.random(80) < 1 / (1 + np.exp(-2 * signals[:, 1]))
    x = (signals - signals.mean(axis=0)) / signals.std(axis=0)
    oracle = linear_model.LogisticRegression(C=1.0, tol=1e-10).fit(x, relevant)
    fit = fit_logistic(signals, relevant)
    np.testing.assert_allclose(fit.coefficients, oracle.coef_[0], atol=1e-5)
    np.testing.assert_allclose(fit.of_signals(signals), oracle.predict_proba(x)[:, 1], atol=1e-5)


def test_a_query_is_in_one_fold_and_every_fold_leaves_both_labels() -> None:
    query = np.repeat(np.arange(10, dtype=np.int32), 6)
    relevant = np.arange(60) % 6 == 0
    fold = folds_by_query(query, relevant, seed=1)
    assert sorted(np.unique(fold)) == [0, 1, 2, 3, 4]
    for one in range(10):
        assert len(np.unique(fold[query == one])) == 1
    for one in range(5):
        assert 0 < relevant[fold != one].sum() < (fold != one).sum()


def test_one_query_alone_is_dealt_out_by_pairs() -> None:
    relevant = np.arange(20) < 10
    fold = folds_by_query(np.zeros(20, dtype=np.int32), relevant, seed=1)
    for one in range(5):
        assert relevant[fold == one].sum() == 2
        assert (~relevant[fold == one]).sum() == 2


def test_out_of_fold_no_pair_is_judged_by_its_own_label() -> None:
    signals, fold = np.zeros((8, 1)), np.repeat([0, 1], 4).astype(np.int32)
    relevant = np.array([True] * 3 + [False] + [True] + [False] * 3)
    # a signal that says nothing: each fold is given the share of the other
    np.testing.assert_allclose(out_of_fold(signals, relevant, fold), [0.25] * 4 + [0.75] * 4, atol=1e-6)
