"""Where ours is not theirs: one test for each difference that docs/drop_in.md lists."""

from __future__ import annotations

import logging
import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from datasets import Dataset
from sentence_transformers.util import mine_hard_negatives as theirs

from foolsgold.compat.sentence_transformers import mine_hard_negatives as ours

pytestmark = pytest.mark.filterwarnings("ignore:std")  # theirs, of fewer than two negatives


class TableModel:
    """A model whose vectors are written down: the query `q` points along the first axis, a document at its cosine."""

    device = torch.device("cpu")

    def __init__(self, **cosines: float) -> None:
        self.cosines = cosines

    def encode_query(self, texts: list[str], **settings: Any) -> np.ndarray:
        return np.array([[1.0, 0.0] for _ in texts], dtype=np.float32)

    def encode_document(self, texts: list[str], **settings: Any) -> np.ndarray:
        cosines = np.array([self.cosines[text.strip().lower()] for text in texts])
        return np.column_stack([cosines, np.sqrt(1 - cosines**2)]).astype(np.float32)

    def similarity(self, a: Any, b: Any) -> torch.Tensor:
        return torch.as_tensor(np.asarray(a)) @ torch.as_tensor(np.asarray(b)).T

    def similarity_pairwise(self, a: Any, b: Any) -> torch.Tensor:
        return (torch.as_tensor(np.asarray(a)) * torch.as_tensor(np.asarray(b))).sum(dim=1)


class TableCrossEncoder:
    """Scores documents by a table; `asked` has every pair it was given."""

    def __init__(self, **scores: float) -> None:
        self.scores = scores
        self.asked: list[tuple[str, str]] = []

    def predict(self, pairs: list[tuple[str, str]], **settings: Any) -> torch.Tensor:
        self.asked += pairs
        return torch.tensor([self.scores[document] for _, document in pairs])


MODEL = TableModel(p=0.9, a=0.8, b=0.7, c=0.6, d=0.5, e=0.4)
PAIR = Dataset.from_dict({"query": ["q"], "positive": ["p"]})
CORPUS = ["a", "b", "c", "d", "e"]


def negatives(mine: Any, model: Any = MODEL, dataset: Any = PAIR, **arguments: Any) -> list[str]:
    return list(mine(dataset, model, **{"corpus": CORPUS, "verbose": False} | arguments)["negative"])


def test_range_min_skips_the_nearest_whether_or_not_a_threshold_drops_them() -> None:
    kept: dict[str, Any] = {"range_min": 2, "range_max": 5, "max_score": 0.75, "num_negatives": 1}
    assert negatives(ours, **kept) == ["c"]  # a and b are skipped, and a is above 0.75 besides
    assert negatives(theirs, **kept) == ["d"]  # a is dropped, then b and c are skipped


def test_range_min_is_by_the_retriever_where_a_cross_encoder_scores() -> None:
    cross_encoder = TableCrossEncoder(p=0.9, a=0.1, b=0.2, c=0.3, d=0.4, e=0.5)
    kept: dict[str, Any] = {
        "range_min": 2,
        "range_max": 5,
        "max_score": 0.45,
        "num_negatives": 2,
        "cross_encoder": cross_encoder,
    }
    assert negatives(ours, **kept) == ["d", "c"]  # a and b, the nearest, are skipped
    assert {document for _, document in cross_encoder.asked} == {"c", "d", "e"}


def test_a_cross_encoder_without_a_threshold_scores_what_is_put_out() -> None:
    cross_encoder = TableCrossEncoder(p=5.0, a=1.0, b=3.0, c=2.0, d=0.0, e=0.0)
    kept: dict[str, Any] = {"num_negatives": 2, "output_format": "n-tuple", "output_scores": True, "verbose": False}
    found = ours(PAIR, MODEL, corpus=CORPUS, cross_encoder=cross_encoder, **kept)[0]
    assert (found["negative_1"], found["negative_2"]) == ("a", "b")  # the retriever chooses
    assert found["scores"] == [5.0, 1.0, 3.0]
    assert sorted(cross_encoder.asked) == [("q", "a"), ("q", "b"), ("q", "p")]


def test_a_cross_encoder_that_nobody_needs_is_said_to_be_idle(caplog: pytest.LogCaptureFixture) -> None:
    cross_encoder = TableCrossEncoder()
    with caplog.at_level(logging.WARNING):
        assert negatives(ours, cross_encoder=cross_encoder) == ["a", "b", "c"]
    assert "`cross_encoder` is not used" in caplog.text
    assert not cross_encoder.asked


def test_variants_of_a_positive_or_the_query_are_no_negatives() -> None:
    model = TableModel(p=0.9, q=1.0, a=0.8, b=0.7, c=0.6)
    corpus = [" P", "p\n", "Q", "a", "b", "c"]
    assert negatives(ours, model, corpus=corpus) == ["a", "b", "c"]
    assert set(negatives(theirs, model, corpus=corpus)) & {" P", "p\n", "Q"}


def test_variants_of_a_query_share_their_positives() -> None:
    model = TableModel(p=0.9, r=0.85, a=0.8, b=0.7)
    dataset = Dataset.from_dict({"query": ["q", "Q "], "positive": ["p", "r"]})
    found = ours(dataset, model, corpus=["a", "b"], num_negatives=2, output_format="n-tuple", verbose=False)
    assert [(row["negative_1"], row["negative_2"]) for row in found] == [("a", "b"), ("a", "b")]


def test_variants_do_not_shorten_a_query_of_other_candidates() -> None:
    copies = ["p" + " " * n for n in range(1, 40)]
    assert negatives(ours, corpus=[*copies, *CORPUS]) == ["a", "b", "c"]


def test_the_same_seed_draws_the_same_and_another_does_not(single: Any, retriever: Any) -> None:
    kept: dict[str, Any] = {"sampling_strategy": "random", "range_max": 30, "verbose": False}
    first, again, other = (ours(single, retriever, seed=seed, **kept) for seed in (1, 1, 2))
    assert first.to_list() == again.to_list()
    assert first.to_list() != other.to_list()


def test_without_a_seed_pythons_random_governs(single: Any, retriever: Any) -> None:
    kept: dict[str, Any] = {"sampling_strategy": "random", "range_max": 30, "verbose": False}
    found = []
    for seed in (7, 7, 8):
        random.seed(seed)
        found.append(ours(single, retriever, **kept).to_list())
    assert found[0] == found[1]
    assert found[0] != found[2]


def test_draws_do_not_depend_on_blocks_or_on_other_queries(single: Any, retriever: Any, texts: list[str]) -> None:
    kept: dict[str, Any] = {
        "sampling_strategy": "random",
        "seed": 3,
        "corpus": texts[40:],
        "range_max": 30,
        "verbose": False,
    }
    whole = ours(single, retriever, **kept).to_list()
    assert ours(single, retriever, faiss_batch_size=7, **kept).to_list() == whole
    assert ours(single.select(range(10)), retriever, **kept).to_list() == whole[:30]


def test_draws_are_uniform_over_the_ranks() -> None:
    model = TableModel(p=0.9, **{f"d{n}": 0.8 - n / 100 for n in range(12)})
    dataset = Dataset.from_dict({"query": [f"q{n}" for n in range(1200)], "positive": ["p"] * 1200})
    kept: dict[str, Any] = {"sampling_strategy": "random", "range_min": 2, "range_max": 8, "seed": 1}
    counts = Counter(negatives(ours, model, dataset, corpus=[f"d{n}" for n in range(12)], **kept))
    assert set(counts) == {f"d{n}" for n in range(2, 8)}
    # 1200 times 3 of 6: 600 each, with a standard deviation of 17
    assert all(530 < count < 670 for count in counts.values())


def test_a_drawn_candidate_is_scored_only_where_it_decides(single: Any, retriever: Any, cross_encoder: Any) -> None:
    asked: list[tuple[str, str]] = []

    class Counting:
        def predict(self, pairs: list[tuple[str, str]], **settings: Any) -> Any:
            asked.extend(pairs)
            return cross_encoder.predict(pairs, **settings)

    kept: dict[str, Any] = {
        "sampling_strategy": "random",
        "seed": 1,
        "max_score": 0.6,
        "num_negatives": 2,
        "range_max": 30,
        "output_scores": True,
    }
    found = ours(single, retriever, cross_encoder=Counting(), verbose=False, **kept)
    pairs = list(zip(found["question"], found["negative"], strict=True))
    assert set(pairs) < set(asked)
    assert len(asked) == len(set(asked))
    assert len(asked) - len(single) < 0.5 * 30 * len(single)
    # scoring everything, then drawing in the same order, takes the same
    scores = dict(zip(asked, cross_encoder.predict(asked), strict=True))
    assert all(scores[pair] <= 0.6 for pair in pairs)
    np.testing.assert_allclose([s[1] for s in found["scores"]], [scores[pair] for pair in pairs], atol=1e-5)


def test_min_score_counts_only_what_it_drops(capsys: pytest.CaptureFixture[str]) -> None:
    kept: dict[str, Any] = {"corpus": CORPUS, "range_max": 5, "min_score": 0.65}
    for mine in (ours, theirs):
        mine(PAIR, MODEL, **kept)
    assert "Skipped 3 potential negatives (50.00%) due to the min_score" in capsys.readouterr().out.split("Setting")[0]


def test_ragged_tuples_keep_the_negatives_there_are() -> None:
    kept: dict[str, Any] = {"corpus": CORPUS, "max_score": 0.55, "output_format": "n-tuple", "verbose": False}
    assert len(theirs(PAIR, MODEL, **kept)) == len(ours(PAIR, MODEL, **kept)) == 0
    found = ours(PAIR, MODEL, ragged=True, output_scores=True, **kept)
    assert found.column_names == ["query", "positive", "negative_1", "negative_2", "negative_3", "scores"]
    row = found[0]
    assert [row[f"negative_{i}"] for i in (1, 2, 3)] == ["d", "e", None]
    assert row["scores"] == [pytest.approx(0.9), pytest.approx(0.5), pytest.approx(0.4), None]
    assert len(ours(PAIR, MODEL, ragged=True, **kept | {"max_score": 0.1})) == 0


def test_faiss_and_a_distance_are_compared_on_one_scale(several: Any) -> None:
    pytest.importorskip("faiss")
    from table_student import static_student

    model = static_student()
    model.similarity_fn_name = "euclidean"
    kept: dict[str, Any] = {"absolute_margin": 0.1, "output_scores": True, "verbose": False}
    assert ours(several, model, use_faiss=True, **kept).to_list() == ours(several, model, **kept).to_list()


def test_empty_results_have_typed_columns() -> None:
    found = ours(PAIR, MODEL, corpus=CORPUS, max_score=-0.9, output_scores=True, verbose=False)
    assert [str(feature.dtype) for feature in list(found.features.values())[:3]] == ["string"] * 3


def test_a_ranking_has_the_labelled_spelling_of_a_positive_only() -> None:
    found = ours(PAIR, MODEL, corpus=["P ", "p\t", *CORPUS], include_positives=True, num_negatives=3, verbose=False)
    assert [found[0][f"negative_{i}"] for i in (1, 2, 3)] == ["p", "a", "b"]


def test_equal_scores_are_in_the_order_of_the_corpus() -> None:
    model = TableModel(p=0.9, a=0.5, b=0.5, c=0.5, d=0.5, e=0.5)
    assert negatives(ours, model, corpus=["d", "b", "e", "a", "c"]) == ["d", "b", "e"]
