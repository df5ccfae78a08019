"""The dip test: by hand, against another implementation, and by its properties."""

from __future__ import annotations

import numpy as np
import pytest

from foolsgold.auditing.dip import dip, find_modes, p_value


@pytest.mark.parametrize(
    ("sample", "expected"),
    [
        # a step of 1/n is as near as a continuous distribution comes: half of it
        ([0.0, 1.0, 2.0, 3.0, 4.0], 1 / 10),
        # half the sample at each end: on one side of any mode a jump of 1/2 must be bridged
        ([0.0, 0.0, 1.0, 1.0], 1 / 4),
        # the mode is the jump of 3/4; a concave rise from it passes the step of 1/4 in the middle
        ([0.0, 0.0, 0.0, 1.0], 1 / 8),
        # the mode is one of three equal jumps; each of the others, 1/3, is passed in the middle
        ([0.0, 0.0, 1.0, 1.0, 2.0, 2.0], 1 / 6),
        ([5.0], 1 / 2),
        ([5.0, 5.0, 5.0, 5.0], 1 / 8),
    ],
)
def test_small_samples_by_hand(sample: list[float], expected: float) -> None:
    assert dip(np.array(sample)) == pytest.approx(expected)


def test_the_dip_is_that_of_the_published_implementation() -> None:
    diptest = pytest.importorskip("diptest", reason="the oracle is not installed: pip install diptest")
    draw = np.random.default_rng(7)
    for number in range(300):
        n = int(draw.integers(4, 150))
        sample = np.sort(
            [
                draw.normal(size=n),
                draw.random(n),
                np.where(draw.random(n) < 0.4, draw.normal(size=n), draw.normal(4, 1, n)),
                draw.integers(0, 9, n).astype(np.float64),  # ties
            ][number % 4]
        )
        if sample[0] < sample[-1]:
            assert dip(sample) == pytest.approx(diptest.dipstat(sample), abs=1e-12)


def test_the_dip_does_not_depend_on_scale_or_direction() -> None:
    sample = np.sort(np.random.default_rng(1).gamma(2.0, size=200))
    assert dip(3 * sample + 5) == pytest.approx(dip(sample))
    assert dip(np.sort(-sample)) == pytest.approx(dip(sample))


def test_uniform_samples_are_called_significant_as_often_as_the_level_says() -> None:
    draw = np.random.default_rng(2)
    p = [p_value(dip(np.sort(draw.random(60))), 60) for _ in range(400)]
    assert 0.02 <= np.mean(np.array(p) <= 0.05) <= 0.09  # 0.05 within three standard errors
    assert 0.4 <= np.mean(p) <= 0.6


def test_two_groups_are_two_modes_and_one_group_is_one() -> None:
    draw = np.random.default_rng(3)
    two = find_modes(np.concatenate([draw.normal(0, 1, 200), draw.normal(9, 1, 600)]))
    assert two.p < 0.01
    assert two.at == pytest.approx((0, 9), abs=0.5)
    one = find_modes(draw.normal(4, 2, 800))
    assert one.p > 0.05
    assert one.at == pytest.approx((4,), abs=1)


def test_few_independent_values_make_two_groups_no_evidence() -> None:
    draw = np.random.default_rng(4)
    values = np.concatenate([draw.normal(0, 1, 200), draw.normal(5, 1, 200)])
    assert find_modes(values).p < 0.01
    assert find_modes(values, independent=40).p > 0.01
    assert len(find_modes(values, independent=40).at) == 1


def test_a_handful_of_values_tells_nothing() -> None:
    modes = find_modes(np.array([0.0, 0.0, 9.0, 9.0, 9.0]))
    assert (modes.p, modes.at) == (1.0, pytest.approx((9.0,), abs=1.5))


def test_equal_values_have_their_mode_there() -> None:
    assert find_modes(np.full(30, 2.5)).at == (2.5,)
