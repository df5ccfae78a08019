"""Measures: by hand, and as pytrec_eval has them."""

from __future__ import annotations

from math import log2

import numpy as np
import pytest
import toy

from foolsgold.collection import Collection
from foolsgold.errors import EvaluationError
from foolsgold.evaluation.measures import MEASURES, Measures
from foolsgold.records import Hits


def _hits(*lists: list[int]) -> Hits:
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in lists])]).astype(np.int64)
    rows = np.array([row for one in lists for row in one], dtype=np.int32)
    return Hits(offsets, rows, np.zeros(len(rows), dtype=np.float32))  # all scores are equal


@pytest.fixture
def graded() -> Collection:
    """Documents d0 to d5; p has grades 2, 1, 0 of d0, d1, d2, and q has 1 of d5."""
    return toy.collection(
        {f"d{row}": f"text {row}" for row in range(6)},
        {"p": "ask p", "q": "ask q"},
        {"p": {"d0": 2, "d1": 1, "d2": 0}, "q": {"d5": 1}},
    )


def test_measures_are_as_worked_out_by_hand(graded: Collection) -> None:
    names = ("nDCG@3", "MRR@3", "recall@1", "recall@3", "MAP", "P@3", "MAP@2")
    values = Measures(names, 1).score(_hits([3, 1, 2, 0], [5, 0, 1, 2]), graded)
    assert values["nDCG@3"] == pytest.approx([(1 / log2(3)) / (2 + 1 / log2(3)), 1])
    assert values["MRR@3"] == pytest.approx([1 / 2, 1])
    assert values["recall@1"] == pytest.approx([0, 1])
    assert values["recall@3"] == pytest.approx([1 / 2, 1])
    assert values["MAP"] == pytest.approx([(1 / 2 + 2 / 4) / 2, 1])
    assert values["P@3"] == pytest.approx([1 / 3, 1 / 3])
    assert values["MAP@2"] == pytest.approx([1 / 4, 1])


def test_grades_count_in_ndcg_and_relevant_from_in_the_others() -> None:
    strict = Collection.from_judgements(
        name="toy",
        split="test",
        documents=toy.Texts.from_lists(["a", "b", "c"], ["x", "y", "z"]),
        queries=toy.Texts.from_lists(["q"], ["ask"]),
        judgements={("q", "a"): 1, ("q", "b"): 3, ("q", "c"): -1},
        relevant_from=2,
    )
    values = Measures(("nDCG@2", "MRR", "recall@1"), strict.relevant_from).score(_hits([0, 2, 1]), strict)
    assert values["nDCG@2"] == pytest.approx([1 / (3 + 1 / log2(3))])  # a counts, c is no worse than nothing
    assert values["MRR"] == pytest.approx([1 / 3])
    assert values["recall@1"] == pytest.approx([0])


def test_equal_scores_keep_the_order_they_are_in(graded: Collection) -> None:
    first = Measures(["MRR@6"], 1).score(_hits([0, 3, 4], [5, 3, 4]), graded)["MRR@6"]
    last = Measures(["MRR@6"], 1).score(_hits([4, 3, 0], [4, 3, 5]), graded)["MRR@6"]
    assert first.tolist() == [1, 1]
    assert last == pytest.approx([1 / 3, 1 / 3])


def test_a_query_that_finds_nothing_scores_nothing(graded: Collection) -> None:
    values = Measures(MEASURES, 1).score(_hits([], [5]), graded)
    assert all(value.tolist() == [0, 1] for value in values.values())


def test_measures_equal_pytrec_eval_on_random_rankings() -> None:
    """More queries than are scored at a time, ids that sort otherwise than rows, and judged documents not found."""
    pytrec_eval = pytest.importorskip("pytrec_eval", reason="the oracle, which comes with ir-measures")
    rng = np.random.default_rng(5)
    n_queries, n_docs, depth = 300, 60, 30
    judged = {
        f"q{query}": {f"d{doc}": int(rng.integers(0, 4)) for doc in rng.choice(n_docs, 8, replace=False)} | {"d0": 1}
        for query in range(n_queries)
    }
    collection = toy.collection(
        {f"d{row}": f"text {row}" for row in range(n_docs)}, {query: f"ask {query}" for query in judged}, judged
    )
    lists = [rng.permutation(n_docs)[:depth].tolist() for _ in range(n_queries)]
    ours = Measures(("nDCG@10", "MRR", "recall@10", "recall@100", "MAP", "P@5", "MAP@5"), 1)
    values = ours.score(_hits(*lists), collection)
    run = {
        query: {f"d{doc}": float(depth - rank) for rank, doc in enumerate(lists[row])}
        for row, query in enumerate(judged)
    }
    names = {
        "nDCG@10": "ndcg_cut_10",
        "MRR": "recip_rank",
        "recall@10": "recall_10",
        "recall@100": "recall_100",
        "MAP": "map",
        "P@5": "P_5",
        "MAP@5": "map_cut_5",
    }
    oracle = pytrec_eval.RelevanceEvaluator(judged, set(names.values())).evaluate(run)
    for name, theirs in names.items():
        np.testing.assert_allclose(values[name], [oracle[query][theirs] for query in judged], rtol=0, atol=1e-12)


def test_names_are_known_in_any_case_and_kept_as_they_were_written(graded: Collection) -> None:
    import ir_measures

    measures = Measures(("ndcg@10", "RR@10", "mrr@10", "R@5", ir_measures.R(rel=2) @ 5), 1)
    values = measures.score(_hits([1, 0], [5]), graded)
    assert list(values) == ["ndcg@10", "RR@10", "mrr@10", "R@5", "R(rel=2)@5"]
    assert values["RR@10"].tolist() == values["mrr@10"].tolist()
    assert values["R(rel=2)@5"].tolist() == [1, 0]


@pytest.mark.parametrize(
    ("names", "depth"), [(("nDCG@10",), 10), (("MRR@10", "recall@100"), 100), (("nDCG@10", "MAP"), 1000)]
)
def test_the_depth_is_the_deepest_cutoff_and_a_thousand_without_one(names: tuple[str, ...], depth: int) -> None:
    assert Measures(names, 1).depth == depth


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nDCCG@10", "did you mean ndcg"),
        ("loss", "not a measure of ir-measures"),
        ("recall", "needs a cutoff, as in recall@10"),
        ("nDCG@ten", "the cutoff is a whole number"),
        ("nDCG@0", "the cutoff is a whole number"),
        ("nDCG@", "the cutoff is a whole number"),
        ("", "not a measure of ir-measures"),
        ("alpha_nDCG@10", "no package that computes it is installed"),
    ],
)
def test_what_is_no_measure_is_said_in_a_sentence(name: str, said: str) -> None:
    with pytest.raises(EvaluationError, match=said):
        Measures([name], 1)


def test_at_least_one_measure_and_one_grade_are_needed() -> None:
    with pytest.raises(EvaluationError, match="no name given"):
        Measures([], 1)
    with pytest.raises(EvaluationError, match="relevant_from is 0"):
        Measures(MEASURES, 0)
