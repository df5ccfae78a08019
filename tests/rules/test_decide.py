"""Zones, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from foolsgold.records import REASONS, Column, Zone
from foolsgold.rules.decide import decide
from foolsgold.rules.limits import Limits


def _column(values: list[float | None]) -> Column:
    return Column(
        np.array([0.0 if value is None else value for value in values], dtype=np.float32),
        np.array([value is not None for value in values]),
    )


def _decide(scores: list[float | None], positive: float | None = 1.0, **rules: Any) -> list[tuple[str, str]]:
    verdicts = decide(_column(scores), _column([positive] * len(scores)), Limits(**rules))
    return [(Zone(zone).label, REASONS[why]) for zone, why in zip(verdicts.zone, verdicts.reason, strict=True)]


def test_thresholds_make_three_zones_and_both_thresholds_belong_to_the_middle() -> None:
    zones = _decide([0.25, 0.5, 0.6, 0.75, 0.8], negative_below=0.5, positive_above=0.75)
    assert [zone for zone, _ in zones] == ["negative", "ambiguous", "ambiguous", "ambiguous", "false_negative"]


def test_a_candidate_without_a_score_is_unscored_whatever_the_rules() -> None:
    assert _decide([None], negative_below=0.3, positive_above=0.7) == [("unscored", "not_needed")]


def test_with_no_rule_everything_passes_and_says_that_nothing_was_asked() -> None:
    assert _decide([0.99, None]) == [("negative", "no_filter"), ("negative", "no_filter")]


def test_only_an_upper_threshold_leaves_no_ambiguous_zone() -> None:
    assert _decide([0.7, 0.71], positive_above=0.7) == [
        ("negative", "passed_every_rule"),
        ("false_negative", "above_positive_threshold"),
    ]


def test_only_a_lower_threshold_makes_all_the_rest_ambiguous() -> None:
    assert [zone for zone, _ in _decide([0.2, 0.99], negative_below=0.3)] == ["negative", "ambiguous"]


@pytest.mark.parametrize(
    ("positive", "kept", "dropped"),
    [
        (0.8, 0.7599, 0.7601),  # 0.8 - 0.8 * 0.05 = 0.76
        (-0.8, -0.8401, -0.8399),  # -0.8 - 0.8 * 0.05 = -0.84: a naive 0.95 * s_pos would keep up to -0.76
        (0.0, 0.0, 0.0001),
        (6.0, 5.69, 5.71),
        (-6.0, -6.31, -6.29),
    ],
)
def test_a_relative_margin_is_below_the_positive_whatever_the_sign(
    positive: float, kept: float, dropped: float
) -> None:
    zones = _decide([kept, dropped], positive, relative_margin=0.95)
    assert zones == [("negative", "passed_every_rule"), ("false_negative", "within_relative_margin")]


def test_an_absolute_margin_keeps_what_is_that_far_below_the_positive() -> None:
    assert _decide([0.5, 0.75], 1.0, absolute_margin=0.5) == [
        ("negative", "passed_every_rule"),
        ("false_negative", "within_absolute_margin"),
    ]


def test_a_ceiling_keeps_only_what_is_below_it() -> None:
    assert [why for _, why in _decide([0.39, 0.4], ceiling=0.4)] == ["passed_every_rule", "above_positive_percentile"]


def test_any_rule_can_make_a_false_negative_of_what_the_thresholds_call_a_negative() -> None:
    zones = _decide([0.2, 0.05], 0.21, negative_below=0.3, positive_above=0.7, relative_margin=0.9)
    assert zones == [("false_negative", "within_relative_margin"), ("negative", "below_negative_threshold")]


def test_ambiguous_weights_fall_in_a_line_from_one_to_nothing() -> None:
    verdicts = decide(
        _column([0.1, 0.25, 0.5, 0.75, 0.9, None]),
        _column([1.0] * 6),
        Limits(negative_below=0.25, positive_above=0.75, weigh_ambiguous=True),
    )
    assert verdicts.weight.to_arrow().to_pylist() == [1.0, 1.0, 0.5, 0.0, None, None]


def test_ambiguous_candidates_have_no_weight_unless_asked_for() -> None:
    verdicts = decide(_column([0.1, 0.5]), _column([1.0, 1.0]), Limits(negative_below=0.25, positive_above=0.75))
    assert verdicts.weight.to_arrow().to_pylist() == [1.0, None]
