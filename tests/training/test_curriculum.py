"""Schedules as segments, and short modes as sections of a recipe."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foolsgold.recipe import Recipe
from foolsgold.training.curriculum import Segment, Stretch, mode_sections, segments

STUDENT = {"model": "student"}


def _base(**sections: Any) -> dict[str, Any]:
    return Recipe.build(sections).model_dump()


def test_the_classic_three_steps() -> None:
    classic = [Stretch(0, 1, None), Stretch(1, 2, None), Stretch(2, 4, None)]
    assert segments(classic, 10) == [Segment(0, 10, 0, 0), Segment(10, 20, 1, 0), Segment(20, 40, 2, 0)]


def test_a_regime_that_is_mined_again_is_cut_where_it_is() -> None:
    found = segments([Stretch(0, 0.5, None), Stretch(0.5, 3, 10)], 10)
    assert found == [
        Segment(0, 5, 0, 0),
        Segment(5, 15, 1, 0),
        Segment(15, 25, 1, 1),
        Segment(25, 30, 1, 2),
    ]


def test_evaluations_cut_without_mining_again() -> None:
    assert segments([Stretch(0, 2, 10, 5)], 10) == [
        Segment(0, 5, 0, 0),
        Segment(5, 10, 0, 0),
        Segment(10, 15, 0, 1),
        Segment(15, 20, 0, 1),
    ]


def test_a_regime_too_short_for_a_step_has_no_segment() -> None:
    assert segments([Stretch(0, 0.01, None), Stretch(0.01, 1, None)], 10) == [Segment(0, 10, 1, 0)]


@given(
    st.lists(st.tuples(st.floats(0.01, 3), st.none() | st.integers(1, 50)), min_size=1, max_size=6),
    st.integers(1, 200),
)
def test_segments_cover_the_schedule_without_gap(parts: list[tuple[float, int | None]], steps_per_epoch: int) -> None:
    ends = [sum(width for width, _ in parts[: place + 1]) for place in range(len(parts))]
    stretches = [
        Stretch(begin, end, again) for begin, end, (_, again) in zip([0.0, *ends[:-1]], ends, parts, strict=True)
    ]
    at = 0
    for segment in segments(stretches, steps_per_epoch):
        assert segment.start == at < segment.stop
        at = segment.stop
        again = stretches[segment.regime].remine_steps
        assert again is None or segment.stop - segment.start <= again
    assert at == round(ends[-1] * steps_per_epoch)


def test_a_mode_keeps_a_source_as_the_recipe_has_it_but_for_its_quota() -> None:
    base = _base(sources={"bm25": {"depth": 50, "quota": 3, "k1": 0.9}, "dense": {"quota": 4}})
    made = mode_sections(["bm25", "random"], None, base, STUDENT)["sources"]
    assert made["bm25"]["k1"] == 0.9
    assert made["bm25"]["depth"] == 50
    assert made["bm25"]["quota"] is None
    assert made["random"] == {"depth": 100, "quota": None}


def test_without_ce_no_teacher_looks() -> None:
    assert mode_sections(["dense"], None, _base(), STUDENT)["teacher"] is None


def test_ce_sets_the_threshold_and_keeps_the_zone_above_it() -> None:
    decide = mode_sections(["dense"], 0.5, _base(), STUDENT)["decide"]
    assert (decide["negative_below"], decide["positive_above"]) == (0.5, 0.7)
    assert mode_sections(["dense"], 0.9, _base(), STUDENT)["decide"]["positive_above"] == 0.9


def test_a_probability_becomes_a_logit_where_the_teacher_gives_logits() -> None:
    base = _base(teacher={"scale": "logit"}, decide={"negative_below": -1.0, "positive_above": 1.0})
    decide = mode_sections(["dense"], 0.3, base, STUDENT)["decide"]
    assert decide["negative_below"] == pytest.approx(math.log(0.3 / 0.7))


def test_self_is_dense_search_with_the_student() -> None:
    made = mode_sections(["self"], 0.3, _base(), STUDENT)["sources"]["self"]
    assert made["kind"] == "dense"
    assert made["model"] == STUDENT
