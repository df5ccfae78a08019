"""Paired tests: small ones worked out, large ones against scipy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foolsgold.evaluation.paired import interval, p_value


def _of(*differences: float) -> np.ndarray:
    return np.array(differences, dtype=np.float64)


def test_few_differences_are_tried_with_all_signs() -> None:
    # of the 8 choices of signs only +++ and --- are as far from 0
    assert p_value(_of(0.1, 0.2, 0.3), seed=1) == 2 / 8
    # 0.1 + 0.2 - 0.3 is 0 but for rounding, so all 8 are
    assert p_value(_of(0.1, 0.2, -0.3), seed=1) == 1
    # as far as 0.3 + 0.3 - 0.1: +++, ++-, and their opposites
    assert p_value(_of(0.3, 0.3, -0.1), seed=1) == 4 / 8
    assert p_value(_of(0.5), seed=1) == 1


def test_queries_that_score_the_same_change_nothing() -> None:
    assert p_value(_of(0.1, 0.2, 0.3, *[0.0] * 500), seed=1) == 2 / 8
    assert p_value(_of(*[0.0] * 5), seed=1) == 1


def test_many_differences_agree_with_all_their_signs() -> None:
    differences = np.random.default_rng(3).normal(0.1, 0.3, 16)
    signs = 1 - 2 * (np.arange(2**16)[:, None] >> np.arange(16) & 1)
    exact = (np.abs(signs @ differences) >= abs(differences.sum()) - 1e-12).mean()
    assert 0.01 < exact < 0.9
    spread = np.sqrt(exact * (1 - exact) / 10_000)
    assert p_value(differences, seed=1) == pytest.approx(exact, abs=4 * spread)


def test_the_test_agrees_with_scipy() -> None:
    stats = pytest.importorskip("scipy.stats", reason="the oracle")
    differences = np.random.default_rng(7).normal(0.03, 0.3, 200)
    theirs = stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", n_resamples=9_999, vectorized=True, random_state=2
    ).pvalue
    assert 0.01 < theirs < 0.9
    assert p_value(differences, seed=1) == pytest.approx(theirs, abs=6 * np.sqrt(theirs * (1 - theirs) / 10_000))


def test_a_p_value_is_never_zero() -> None:
    assert p_value(np.full(200, 0.1), seed=1) == 1 / 10_001


def test_of_models_that_are_the_same_one_in_twenty_is_found_different() -> None:
    rng = np.random.default_rng(11)
    found = sum(p_value(rng.normal(0, 1, 12), seed=1) < 0.05 for _ in range(600))
    assert 0.05 - 4 * np.sqrt(0.05 * 0.95 / 600) < found / 600 < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 600)


def test_the_interval_agrees_with_scipy() -> None:
    stats = pytest.importorskip("scipy.stats", reason="the oracle")
    differences = np.random.default_rng(7).exponential(0.2, 150) - 0.15
    theirs = stats.bootstrap((differences,), np.mean, method="percentile", n_resamples=10_000, random_state=2)
    width = theirs.confidence_interval.high - theirs.confidence_interval.low
    assert interval(differences, seed=1) == pytest.approx(tuple(theirs.confidence_interval), abs=width / 25)


def test_the_interval_of_one_query_is_that_query() -> None:
    assert interval(_of(0.25), seed=1) == (0.25, 0.25)


def test_more_numbers_than_fit_at_once_are_resampled_as_often() -> None:
    differences = np.random.default_rng(1).normal(0, 1, 2_001)
    low, high = interval(differences, seed=1)
    middle, half = differences.mean(), 1.96 * differences.std() / np.sqrt(2_001)
    assert (low, high) == pytest.approx((middle - half, middle + half), abs=half / 10)
    assert 0 < p_value(differences, seed=1) <= 1


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-1, 1), min_size=1, max_size=30))
def test_the_other_way_round_is_as_probable_and_the_same_seed_gives_the_same(values: list[float]) -> None:
    differences = np.array(values)
    assert p_value(differences, seed=4) == p_value(differences, seed=4) == p_value(-differences, seed=4)
    low, high = interval(differences, seed=4)
    assert interval(-differences, seed=4) == pytest.approx((-high, -low))


def test_sums_that_differ_by_rounding_alone_are_equal() -> None:
    # of the 8 sums of +-0.3 +-0.1 +-0.1 all but +-0.1, twice each way, are as far from 0 as -0.3: 6 of 8
    assert p_value(np.array([-0.3, -0.1, 0.1]), 13) == 0.75
