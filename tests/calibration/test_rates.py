"""Bounds and thresholds, checked with numbers worked out by hand."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foolsgold.calibration.fit import auc, auc_interval, resampled
from foolsgold.rules.bounds import labels_needed, wilson_upper
from foolsgold.teachers.curves import Curve, TeacherCurve

Z = 1.6448536269514722  # the 95th percentile of the normal distribution


@pytest.mark.parametrize(
    ("relevant", "labels", "bound"),
    [
        (0, 100, Z**2 / (100 + Z**2)),  # 2.71 / 102.71 = 0.0263
        (2, 100, 0.05865),  # (0.02 + 0.01353 + 1.645 sqrt(0.000196 + 0.0000676)) / 1.02706
        (50, 100, 0.5 + Z / 2 / sqrt(100 + Z**2)),  # symmetrical at a half: 0.5811
        (100, 100, 1.0),
        (0, 0, 1.0),
    ],
)
def test_the_upper_bound_is_wilsons(relevant: int, labels: int, bound: float) -> None:
    assert wilson_upper(relevant, labels) == pytest.approx(bound, abs=5e-5)


def test_with_none_relevant_133_labels_are_enough_for_two_percent() -> None:
    # z^2 / (n + z^2) <= 0.02 from n = 49 z^2 = 132.57 on
    assert labels_needed(0, 0.02) == 133
    assert wilson_upper(0, 133) <= 0.02 < wilson_upper(0, 132)


@given(relevant=st.integers(0, 300), target=st.floats(0.002, 0.5))
def test_the_labels_needed_are_the_fewest_that_do(relevant: int, target: float) -> None:
    needed = labels_needed(relevant, target)
    assert wilson_upper(relevant, needed) <= target + 1e-9
    assert needed - 1 < relevant or wilson_upper(relevant, needed - 1) > target - 1e-9


def test_the_highest_threshold_within_the_target_is_chosen() -> None:
    # 200 pairs at 0.1, none relevant: bound 2.71 / 202.7 = 1.3 %. With 100 at 0.3, 4 of them relevant, 4 of 300:
    # (0.01333 + 0.00451 + 1.645 sqrt(0.00004385 + 0.0000075)) / 1.00902 = 2.9 %
    probability = np.repeat([0.102, 0.302], [200, 100])
    relevant = np.zeros(300, dtype=np.bool_)
    relevant[-4:] = True
    curve = Curve.of(probability, relevant)
    strict = curve.choose(0.02)
    assert (strict.threshold, strict.labels, strict.relevant, strict.needed) == (0.3, 200, 0, 0)
    assert strict.upper == pytest.approx(Z**2 / (200 + Z**2))
    loose = curve.choose(0.03)
    assert (loose.threshold, loose.labels, loose.relevant) == (1.0, 300, 4)
    assert loose.upper == pytest.approx(0.0294, abs=2e-4)


def test_where_no_threshold_does_it_says_how_many_labels_are_missing() -> None:
    probability = np.repeat([0.1, 0.5], [60, 40])
    relevant = np.repeat([False, True], [60, 40])
    choice = Curve.of(probability, relevant).choose(0.02)
    assert (choice.threshold, choice.labels, choice.relevant, choice.needed) == (None, 60, 0, 133 - 60)


def test_a_pair_on_a_threshold_is_not_below_it() -> None:
    curve = Curve.of(np.array([0.25, 1.0]), np.array([False, True]))
    assert curve.labels[[48, 49, 50, 199]].tolist() == [0, 0, 1, 2]  # thresholds 0.245, 0.25, 0.255, 1


def test_auc_counts_the_pairs_of_pairs_in_order_and_ties_half() -> None:
    scores = np.array([0.1, 0.4, 0.4, 0.9])
    # relevant 0.4 and 0.9 against 0.1 and 0.4: 1 + 1/2 + 1 + 1 of 4
    assert auc(scores, np.array([False, True, False, True])) == pytest.approx(3.5 / 4)
    assert auc(scores, np.ones(4, dtype=np.bool_)) == 0.5


def test_whole_queries_are_resampled() -> None:
    query = np.array([0, 0, 0, 7, 7], dtype=np.int32)
    for rows in resampled(query, seed=1, n=50):
        counts = np.bincount(rows, minlength=5)
        assert counts[0] == counts[1] == counts[2]
        assert counts[3] == counts[4]
        assert counts[0] + counts[3] == 2


def test_the_interval_of_a_perfect_score_is_one() -> None:
    query = np.repeat(np.arange(4, dtype=np.int32), 2)
    relevant = np.tile([False, True], 4)
    assert auc_interval(np.tile([0.0, 1.0], 4), relevant, query, seed=1) == (1.0, 1.0)


def test_the_teachers_curve_by_hand() -> None:
    # two equal queries, so that every bootstrap sample is the labels as they are
    scores = np.array([0.1, 0.3, 0.5, 0.9] * 2)
    relevant = np.array([False, True, False, True] * 2)
    query = np.repeat(np.arange(2, dtype=np.int32), 4)
    curve = TeacherCurve.of(scores, relevant, query, seed=1, n=1)
    assert curve.thresholds.tolist() == [0.4]  # the median
    assert curve.precision.tolist() == [[0.5, 0.5, 0.5]]  # of 0.5, 0.5, 0.9, 0.9
    assert curve.recall.tolist() == [[0.5, 0.5, 0.5]]
    assert curve.false_negative_rate.tolist() == [[0.5, 0.5, 0.5]]  # 0.3 of 0.1 and 0.3


def test_the_curves_intervals_hold_what_single_queries_say() -> None:
    # below 0.725 the one query has 1 of 2 relevant, the other 0 of 2: samples of two queries say 0, 1/4 or 1/2
    scores = np.array([0.1, 0.2, 0.9, 0.1, 0.2, 0.9])
    relevant = np.array([False, True, True, False, False, True])
    query = np.array([0, 0, 0, 1, 1, 1], dtype=np.int32)
    curve = TeacherCurve.of(scores, relevant, query, seed=1, n=3)
    assert curve.thresholds[-1] == pytest.approx(0.725)  # the third quartile
    assert curve.false_negative_rate[-1].tolist() == [0.25, 0.0, 0.5]


def test_a_curve_comes_back_from_json_with_its_gaps() -> None:
    scores, relevant = np.array([0.1, 0.1, 0.9]), np.array([False, True, True])
    curve = TeacherCurve.of(scores, relevant, np.zeros(3, dtype=np.int32), seed=1)
    again = TeacherCurve.model_validate(curve.model_dump(mode="json"))
    assert np.isnan(curve.false_negative_rate[0, 0])  # nothing lies below the lowest score
    np.testing.assert_allclose(again.false_negative_rate, curve.false_negative_rate, atol=1e-6)
