"""Selection: orders and quotas by hand, distributions against their definition, and why lazy scoring is exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foolsgold.records import Column
from foolsgold.rules import select


def _order(n: int, strategy: select.Strategy, draw: Any = None, **more: Any) -> list[int]:
    """The order of n candidates of one unit, ranked as they stand."""
    made = select.order(
        np.zeros(n, dtype=np.int32),
        1,
        np.ones(n, dtype=bool),
        Column.known(np.arange(n, dtype=np.int32)),
        np.linspace(0.1, 0.9, n) if draw is None else np.asarray(draw, dtype=np.float64),
        strategy=strategy,
        **more,
    )
    return made.of(0)


def test_top_is_by_rank() -> None:
    assert _order(4, "top", [0.9, 0.1, 0.5, 0.2]) == [0, 1, 2, 3]


def test_random_is_by_the_draw() -> None:
    assert _order(4, "random", [0.9, 0.1, 0.5, 0.2]) == [1, 3, 2, 0]


def test_equal_draws_fall_back_on_the_document_row() -> None:
    assert _order(3, "random", [0.5, 0.5, 0.5]) == [0, 1, 2]


def test_each_unit_has_its_own_order_and_a_unit_without_candidates_an_empty_one() -> None:
    made = select.order(
        np.array([0, 0, 2, 2], dtype=np.int32),
        3,
        np.array([True, True, True, False]),
        Column.known(np.array([1, 0, 0, 1], dtype=np.int32)),
        np.full(4, 0.5),
        strategy="top",
    )
    assert [made.of(unit) for unit in range(3)] == [[1, 0], [], [2]]


def test_stratified_takes_one_of_each_band_in_turn_hardest_first() -> None:
    # range 0 .. 1 in two bands: 1.0, 0.9, 0.6 above the middle, 0.2, 0.0 below; by draw within a band
    scores = np.array([1.0, 0.9, 0.6, 0.2, 0.0], dtype=np.float32)
    assert _order(5, "stratified", [0.3, 0.2, 0.1, 0.9, 0.4], score=scores, strata=2) == [2, 4, 1, 3, 0]


def test_stratified_with_all_scores_equal_is_random() -> None:
    assert _order(3, "stratified", [0.3, 0.2, 0.1], score=np.ones(3, dtype=np.float32)) == [2, 1, 0]


def _first_shares(strategy: select.Strategy, n: int, **more: Any) -> np.ndarray:
    """How often each of n candidates comes first, over many draws."""
    units = 40_000
    unit = np.repeat(np.arange(units, dtype=np.int32), n)
    made = select.order(
        unit,
        units,
        np.ones(len(unit), dtype=bool),
        Column.known(np.tile(np.arange(n, dtype=np.int32), units)),
        select.uniforms(5, 1, unit, np.tile(np.arange(n, dtype=np.int32), units)),
        strategy=strategy,
        **{name: np.tile(np.asarray(value, dtype=np.float32), units) if np.ndim(value) else value
           for name, value in more.items()},
    )  # fmt: skip
    first = made.candidates[made.offsets[:-1]] % n
    return np.bincount(first, minlength=n) / units


def test_log_random_comes_first_in_proportion_to_one_over_log_one_plus_rank() -> None:
    weights = 1 / np.log(1 + np.arange(1, 6))
    np.testing.assert_allclose(_first_shares("log_random", 5), weights / weights.sum(), atol=0.01)


def test_simans_comes_first_in_proportion_to_its_density_around_the_positive() -> None:
    scores, positive, a, b = np.array([9.0, 7.0, 6.0, 3.0]), 7.0, 0.5, -1.0
    weights = np.exp(-a * (scores - positive - b) ** 2)
    shares = _first_shares("simans", 4, score=scores, positive=np.full(4, positive), a=a, b=b)
    np.testing.assert_allclose(shares, weights / weights.sum(), atol=0.01)


def test_simans_orders_even_where_every_density_underflows() -> None:
    scores = np.array([1000.0, 2000.0, 3000.0], dtype=np.float32)
    assert _order(3, "simans", score=scores, positive=np.zeros(3, dtype=np.float32)) == [0, 1, 2]


def test_simans_without_scores_is_refused() -> None:
    with pytest.raises(ValueError, match="simans"):
        _order(3, "simans")


def test_a_draw_depends_on_seed_salt_query_and_document_alone() -> None:
    query = np.array([0, 0, 1, 7], dtype=np.int32)
    doc = np.array([5, 6, 5, 123456], dtype=np.int32)
    draws = select.uniforms(13, 3, query, doc)
    assert len(set(draws)) == 4
    assert ((draws > 0) & (draws < 1)).all()
    np.testing.assert_array_equal(draws[[3, 1]], select.uniforms(13, 3, query[[3, 1]], doc[[3, 1]]))
    assert (draws != select.uniforms(14, 3, query, doc)).all()
    assert (draws != select.uniforms(13, 4, query, doc)).all()


def test_draws_are_uniform_and_neighbours_are_unrelated() -> None:
    query, doc = (grid.ravel().astype(np.int32) for grid in np.meshgrid(np.arange(300), np.arange(300)))
    draws = select.uniforms(0, 0, query, doc)
    counts, _ = np.histogram(draws, bins=20, range=(0, 1))
    assert abs(counts / len(draws) - 0.05).max() < 0.003
    assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) < 0.02


def _take(orders: list[list[int]], quotas: select.Quotas, usable: list[bool]) -> list[tuple[int, int]]:
    made = [select.Order(np.array([0, len(o)]), np.array(o, dtype=np.int64)) for o in orders]
    return select.take(made, 0, np.array(usable), quotas)


def test_quotas_are_filled_in_order_and_a_shared_candidate_counts_for_the_first_source() -> None:
    quotas = select.Quotas((2, 2), (True, True), 4)
    assert _take([[0, 1, 2], [1, 3, 4]], quotas, [True] * 5) == [(0, 0), (1, 0), (3, 1), (4, 1)]


def test_what_one_source_lacks_comes_from_the_others_if_they_may() -> None:
    orders = [[0], [1, 2, 3, 4]]
    assert _take(orders, select.Quotas((2, 2), (True, True), 4), [True] * 5) == [(0, 0), (1, 1), (2, 1), (3, 1)]
    assert _take(orders, select.Quotas((2, 2), (False, False), 4), [True] * 5) == [(0, 0), (1, 1), (2, 1)]


def test_a_random_source_never_gives_more_than_its_quota() -> None:
    quotas = select.Quotas((2, 1), (True, False), 4)
    assert _take([[0], [1, 2, 3]], quotas, [True] * 4) == [(0, 0), (1, 1)]


def test_fewer_negatives_than_asked_is_a_shortfall_not_an_error() -> None:
    assert _take([[0, 1], []], select.Quotas((2, 2), (True, True), 4), [False, True]) == [(1, 0)]


@pytest.mark.parametrize(
    ("quotas", "budget", "expected"),
    [
        ([3, 4], 7, (3, 4)),
        ([3, 4], 5, (2, 3)),  # 2.14 and 2.86
        ([None, None], 7, (4, 3)),
        ([2, None, None], 7, (2, 3, 2)),
        ([1, 1], 7, (1, 1)),
        ([0, None], 3, (0, 3)),
        ([5, 5, 5], 2, (1, 1, 0)),
    ],
)
def test_shares_are_quotas_that_fit_the_budget(
    quotas: list[int | None], budget: int, expected: tuple[int, ...]
) -> None:
    assert select.shares(quotas, budget) == expected


@given(st.lists(st.one_of(st.none(), st.integers(0, 9)), min_size=1, max_size=5), st.integers(1, 12))
def test_shares_never_exceed_the_budget_or_a_quota(quotas: list[int | None], budget: int) -> None:
    given_shares = select.shares(quotas, budget)
    assert sum(given_shares) <= budget
    assert all(quota is None or share <= quota for share, quota in zip(given_shares, quotas, strict=True))


@given(st.data())
def test_taking_only_scored_candidates_makes_the_scores_of_the_rest_irrelevant(data: st.DataObject) -> None:
    """The property that lazy scoring rests on, over orders, quotas and verdicts."""
    n = data.draw(st.integers(1, 12))
    orders = [data.draw(st.permutations(range(n)).map(lambda p: p[: data.draw(st.integers(0, n))])) for _ in range(2)]
    budget = data.draw(st.integers(1, 6))
    quotas = select.Quotas(
        select.shares([data.draw(st.one_of(st.none(), st.integers(0, 4))) for _ in orders], budget),
        tuple(data.draw(st.booleans()) for _ in orders),
        budget,
    )
    truth = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
    scored = [False] * n
    while True:
        usable = [truth[i] if scored[i] else True for i in range(n)]
        lazy = _take(orders, quotas, usable)
        missing = [candidate for candidate, _ in lazy if not scored[candidate]]
        if not missing:
            break
        for candidate in missing:
            scored[candidate] = True
    assert lazy == _take(orders, quotas, truth)
