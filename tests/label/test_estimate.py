"""The running estimate, by hand and against scipy's Wilson intervals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from foolsgold.label.estimate import TARGET, estimate
from foolsgold.rules.bounds import CONFIDENCE


def _upper(relevant: int, labels: int) -> float:
    test = binomtest(relevant, labels, alternative="less")
    return float(test.proportion_ci(CONFIDENCE, method="wilson").high)


def test_none_relevant_needs_133_answers() -> None:
    # k = 0: z^2 / (n + z^2) <= p, n >= 2.7055 * (1 / 0.02 - 1) = 132.57
    found = estimate(np.arange(100) / 1000, np.zeros(100, dtype=np.bool_))
    assert (found.threshold, found.labels, found.relevant, found.missing) == (None, 100, 0, 33)
    assert "at least 33 more answers" in str(found)


def test_without_an_answer_all_are_missing() -> None:
    found = estimate(np.array([]), np.array([], dtype=np.bool_))
    assert (found.threshold, found.labels, found.missing) == (None, 0, 133)


def test_the_threshold_is_the_highest_that_the_answers_allow() -> None:
    # 150 low scores that are not relevant, then relevant ones from 0.6: one more would need some 216 answers
    scores = np.concatenate([np.linspace(0.0, 0.5, 150), np.linspace(0.6, 0.9, 20)])
    found = estimate(scores[::-1], np.arange(170)[::-1] >= 150)
    assert (found.threshold, found.labels, found.relevant, found.missing) == (0.5, 150, 0, 0)
    assert "Below a teacher score of 0.5" in str(found)


def test_equal_scores_stand_or_fall_together() -> None:
    # at 0.2 there are ten answers of which five are relevant: a threshold of 0.2 would take all ten or none
    scores = np.concatenate([np.linspace(0.0, 0.1, 140), np.full(10, 0.2)])
    relevant = np.arange(150) >= 145
    assert estimate(scores, relevant).threshold == pytest.approx(0.1)


def test_the_fewest_missing_are_counted_where_they_are_fewest() -> None:
    # 50 answers below 0.5, then a relevant one: going past it would need more
    scores = np.linspace(0.0, 1.0, 52)
    relevant = np.arange(52) >= 50
    assert estimate(scores, relevant).missing == 133 - 50


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 400))
def test_no_higher_labelled_score_would_do(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 200, size) / 200
    relevant = rng.random(size) < scores * rng.random() * 0.1
    allowed = [
        score
        for score in np.unique(scores)
        if _upper(int(relevant[scores <= score].sum()), int((scores <= score).sum())) <= TARGET
    ]
    assert estimate(scores, relevant).threshold == (max(allowed) if allowed else None)
