"""Each form against the rows that its trainer's own documentation or loader asks for."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import log
from pathlib import Path
from typing import Any

import datasets
import pyarrow.parquet as pq
import pytest
from toy import TableTeacher

import foolsgold as fg
from foolsgold.collection import load_collection
from foolsgold.errors import MinedSetError
from foolsgold.exchange.formats import WRITERS
from foolsgold.mined.mined_set import MinedSet
from foolsgold.sources.run import RunSource

Mine = Callable[..., MinedSet]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def logit(probability: float) -> float:
    return log(probability / (1 - probability))


def test_flagembedding_rows_hold_all_positives_of_a_query(mine: Mine, tmp_path: Path) -> None:
    # FlagEmbedding, examples/finetune/embedder/README.md, "Data format"
    done = fg.export(mine(), "flagembedding", tmp_path / "train.jsonl")
    assert (done.path, done.rows, done.notes) == (tmp_path / "train.jsonl", 2, ())
    assert lines(done.path) == [
        {"query": "count", "pos": ["one", "two"], "neg": ["three", "four"], "type": "normal"},
        {"query": "sum", "pos": ["one"], "neg": ["five"], "type": "normal"},
    ]


def test_scores_are_logits_beside_their_texts(mine: Mine, tmp_path: Path) -> None:
    # AbsEmbedderModel.forward takes a softmax of them
    fg.export(mine(), "flagembedding", tmp_path / "kd.jsonl", scores=True, prompt="Find: ")
    first = lines(tmp_path / "kd.jsonl")[0]
    assert first["pos_scores"] == pytest.approx([logit(0.9), logit(0.8)], abs=1e-4)
    assert first["neg_scores"] == pytest.approx([logit(0.1), logit(0.2)], abs=1e-4)
    assert first["prompt"] == "Find: "


def test_scores_of_a_teacher_of_cosines_stay_cosines(mine: Mine, tmp_path: Path) -> None:
    scores = {"one": 0.9, "two": 0.8, "three": 0.1, "four": -0.2, "five": 0.25}
    mined = mine(teacher=TableTeacher(scores, "cosine"), recipe={"teacher": {"scale": "cosine"}})
    fg.export(mined, "flagembedding", tmp_path / "kd.jsonl", scores=True)
    assert lines(tmp_path / "kd.jsonl")[0]["neg_scores"] == pytest.approx([0.1, -0.2])


def test_tevatron_passages_have_ids_texts_and_scores_but_no_title(mine: Mine, tmp_path: Path) -> None:
    # tevatron/retriever/dataset.py puts `title` and a space before the text where a passage has one; a passage's
    # `score` is what its DistilTrainDataset reads
    fg.export(mine(), "tevatron", tmp_path / "train.jsonl")
    assert lines(tmp_path / "train.jsonl")[1] == {
        "query_id": "r",
        "query": "sum",
        "positive_passages": [{"docid": "p1", "text": "one"}],
        "negative_passages": [{"docid": "c", "text": "five"}],
    }
    fg.export(mine(), "tevatron", tmp_path / "kd.jsonl", scores=True)
    passage = lines(tmp_path / "kd.jsonl")[1]["negative_passages"][0]
    assert passage["score"] == pytest.approx(logit(0.25), abs=1e-4)


def test_swift_rows_of_an_embedding_model_have_one_positive(mine: Mine, tmp_path: Path) -> None:
    # ms-swift, docs/source_en/BestPractices/Embedding.md, "Format for InfoNCE" and constraint 5
    done = fg.export(mine(), "swift", tmp_path / "train.jsonl", prompt="Find:")
    assert done.rows == 3
    assert lines(done.path)[1] == {
        "messages": [{"role": "system", "content": "Find:"}, {"role": "user", "content": "count"}],
        "positive_messages": [[{"role": "user", "content": "two"}]],
        "negative_messages": [[{"role": "user", "content": "three"}], [{"role": "user", "content": "four"}]],
    }


def test_swift_rows_of_a_reranker_have_all_positives_as_answers(mine: Mine, tmp_path: Path) -> None:
    # ms-swift, docs/source_en/BestPractices/Reranker.md, "Dataset Format"
    fg.export(mine(), "swift-reranker", tmp_path / "train.jsonl")
    first = lines(tmp_path / "train.jsonl")[0]
    assert first["messages"] == [{"role": "user", "content": "count"}]
    assert first["positive_messages"] == [
        [{"role": "assistant", "content": "one"}],
        [{"role": "assistant", "content": "two"}],
    ]


def test_pylate_tables_join_into_rows_of_one_width(mine: Mine, tmp_path: Path) -> None:
    # pylate/utils/processing.py, KDProcessing: queries by query_id, documents by document_id, texts in `text`
    done = fg.export(mine(), "pylate", tmp_path / "kd")
    train, queries, documents = (
        pq.read_table(tmp_path / "kd" / f"{name}.parquet").to_pylist() for name in ("train", "queries", "documents")
    )
    assert done.rows == 2
    assert done.notes == ("rows with fewer than 2 negatives (--negatives asks for fewer): 1 of 3, left out",)
    assert [row["document_ids"] for row in train] == [["p1", "a", "b"], ["p2", "a", "b"]]
    assert train[0]["scores"] == pytest.approx([logit(0.9), logit(0.1), logit(0.2)], abs=1e-4)
    assert queries == [{"query_id": "q", "text": "count"}]
    assert {row["document_id"]: row["text"] for row in documents} == {
        "p1": "one", "p2": "two", "a": "three", "b": "four",
    }  # fmt: skip
    assert fg.export(mine(), "pylate", tmp_path / "one", negatives=1).rows == 3


def test_pylates_own_loader_reads_them(mine: Mine, tmp_path: Path) -> None:
    utils = pytest.importorskip("pylate.utils", reason="needs pylate, which wants an older sentence-transformers")
    fg.export(mine(), "pylate", tmp_path / "kd")
    train, queries, documents = (
        datasets.Dataset.from_parquet(str(tmp_path / "kd" / f"{name}.parquet"), cache_dir=str(tmp_path / "cache"))
        for name in ("train", "queries", "documents")
    )
    train.set_transform(utils.KDProcessing(queries=queries, documents=documents).transform)
    assert train[0]["documents"] == ["one", "three", "four"]


@pytest.mark.parametrize("name", ["train.parquet", "train.jsonl", "train"])
def test_sentence_transformers_rows_are_those_of_to_dataset(mine: Mine, tmp_path: Path, name: str) -> None:
    mined, out = mine(), tmp_path / name
    done = fg.export(mined, "sentence-transformers", out, shape="n-tuple", negatives=1, weights=True)
    match out.suffix:
        case ".parquet":
            rows = pq.read_table(out).to_pylist()
        case ".jsonl":
            rows = lines(out)
        case _:
            rows = datasets.load_from_disk(str(out)).to_list()
    assert rows == mined.to_dataset("n-tuple", n=1, weights=True).to_list()
    assert done.rows == 3


def test_sentence_transformers_scores_are_logits(mine: Mine, tmp_path: Path) -> None:
    fg.export(mine(), "sentence-transformers", tmp_path / "t.parquet", scores=True)
    assert pq.read_table(tmp_path / "t.parquet")["scores"].to_pylist()[0] == pytest.approx(
        [logit(0.9), logit(0.1)], abs=1e-4
    )


def test_a_run_is_read_back_by_our_own_reader(mine: Mine, tmp_path: Path) -> None:
    mined = mine()
    done = fg.export(mined, "beir-run", tmp_path / "negatives.trec")
    assert done.rows == 3
    first = (tmp_path / "negatives.trec").read_text(encoding="utf-8").splitlines()[0].split()
    assert first[:4] == ["q", "Q0", "b", "1"]  # 0.2 is above 0.1
    source = RunSource("run", done.path, mined.collection)
    assert source.notes == ()


def test_jsonl_is_imported_again_as_the_same_negatives(mine: Mine, tmp_path: Path) -> None:
    mined = mine()
    fg.export(mined, "jsonl", tmp_path / "set.jsonl")
    assert lines(tmp_path / "set.jsonl")[1]["negatives"] == [
        {"doc_id": "c", "text": "five", "score": pytest.approx(logit(0.25), abs=1e-4)}
    ]
    again = fg.import_set(tmp_path / "set.jsonl", scores="logit", out=tmp_path / "again")
    pairs = [
        list(zip(one.negatives["query_id"].to_pylist(), one.negatives["doc_id"].to_pylist(), strict=True))
        for one in (mined, again)
    ]
    assert pairs[0] == pairs[1]


def test_a_set_mined_for_each_positive_has_a_row_for_each(mine: Mine, tmp_path: Path) -> None:
    mined = mine(decide={"positive_reference": "each"})
    assert [row["pos"] for row in lines(fg.export(mined, "flagembedding", tmp_path / "f.jsonl").path)] == [
        ["one"], ["two"], ["one"],
    ]  # fmt: skip
    with pytest.raises(MinedSetError, match="each positive apart"):
        fg.export(mined, "beir-run", tmp_path / "run.trec")


def test_queries_without_negatives_are_left_out_and_weights_lost_are_told(mine: Mine, tmp_path: Path) -> None:
    mined = mine(decide={"negative_below": 0.15, "positive_above": 0.22, "ambiguous": "weight"})  # c is thrown back
    done = fg.export(mined, "tevatron", tmp_path / "t.jsonl")
    assert done.rows == 1
    assert done.notes == (
        "rows with no negative: 1 of 2, left out",
        "negatives with a weight below 1: 1, written as any other; this format has no weights",
    )
    negatives = lines(fg.export(mined, "jsonl", tmp_path / "j.jsonl").path)[0]["negatives"]
    assert [negative.get("weight") for negative in negatives] == [None, pytest.approx(2 / 7, abs=1e-3)]


def test_negatives_are_at_most_so_many(mine: Mine, tmp_path: Path) -> None:
    rows = lines(fg.export(mine(), "flagembedding", tmp_path / "f.jsonl", negatives=1).path)
    assert [row["neg"] for row in rows] == [["three"], ["five"]]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"to": "flagembeding"}, "unknown format 'flagembeding'; one of sentence-transformers"),
        ({"to": "tevatron", "prompt": "x"}, "tevatron has no prompt; flagembedding, swift, swift-reranker have"),
        ({"to": "swift", "scores": True}, "swift has no scores"),
        ({"to": "flagembedding", "negatives": 0}, "at least 1"),
        ({"to": "sentence-transformers", "negatives": 2}, "only the shape n-tuple"),
        ({"to": "pylate", "negatives": 9}, "no query has 9 negatives"),
        ({"to": "sentence-transformers", "out": "train.csv"}, "name a .parquet or .jsonl file"),
    ],
)
def test_what_cannot_be_is_one_sentence(mine: Mine, tmp_path: Path, options: dict[str, Any], said: str) -> None:
    out = tmp_path / options.pop("out", "out.jsonl" if options["to"] != "pylate" else "out")
    with pytest.raises(MinedSetError, match=said):
        fg.export(mine(), out=out, **options)
    assert not out.exists()


def test_scores_of_a_set_without_a_teacher_cannot_be_exported(mine: Mine, tmp_path: Path) -> None:
    mined = mine(teacher=None)
    with pytest.raises(MinedSetError, match="without a teacher"):
        fg.export(mined, "flagembedding", tmp_path / "f.jsonl", scores=True)
    with pytest.raises(MinedSetError, match="PyLate distils from scores"):
        fg.export(mined, "pylate", tmp_path / "p")


def test_a_folder_that_is_there_is_not_written_over(mine: Mine, tmp_path: Path) -> None:
    (tmp_path / "kd").mkdir()
    with pytest.raises(MinedSetError, match="is there already"):
        fg.export(mine(), "pylate", tmp_path / "kd")


@pytest.mark.parametrize("to", ["flagembedding", "tevatron", "swift", "jsonl"])
def test_every_form_with_negatives_comes_in_again(mine: Mine, tmp_path: Path, to: Any) -> None:
    done = fg.export(mine(), to, tmp_path / f"set{WRITERS[to].suffix}")
    again = fg.import_set(done.path, out=tmp_path / "again")
    assert again.manifest["counts"]["selected"] == 3
    texts = load_collection(again.collection).documents
    negatives = texts.take([texts.rows[doc] for doc in again.negatives["doc_id"].to_pylist()])
    assert negatives == ["three", "four", "five"]
