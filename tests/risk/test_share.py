from __future__ import annotations

import pytest
from scipy.stats import binomtest

from foolsgold.risk import Share


@pytest.mark.parametrize(
    ("count", "of", "low", "high"),
    [
        # Newcombe 1998 (Statistics in Medicine 17), table I, method 3: the score interval without continuity correction
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_the_interval_is_the_published_one(count: int, of: int, low: float, high: float) -> None:
    assert Share(count, of).interval == pytest.approx((low, high), abs=5e-5)


def test_the_interval_is_scipys_for_every_whole_count() -> None:
    for of in range(1, 40):
        for count in range(of + 1):
            theirs = binomtest(count, of).proportion_ci(method="wilson")
            assert Share(count, of).interval == pytest.approx((theirs.low, theirs.high), abs=1e-9)


def test_the_ends_of_none_and_of_all_are_exact() -> None:
    assert Share(0, 7).interval[0] == 0.0
    assert Share(7, 7).interval[1] == 1.0


def test_a_sum_of_probabilities_has_an_interval_around_its_mean() -> None:
    share = Share(1.5, 6)
    low, high = share.interval
    assert share.value == 0.25
    assert Share(1, 6).interval[0] < low < 0.25 < high < Share(2, 6).interval[1]


def test_nothing_counted_has_no_value_and_says_nothing() -> None:
    assert Share(0, 0).value is None
    assert Share(0, 0).interval == (0.0, 1.0)


def test_fewer_than_twenty_are_few() -> None:
    assert Share(3, 19).is_few
    assert not Share(3, 20).is_few
