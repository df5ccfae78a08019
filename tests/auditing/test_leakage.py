"""Negatives that another split of a BEIR folder holds for positives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from toy import TableTeacher, run_file

import foolsgold as fg

DOCS = {"p": "right", "a": "one", "b": "two", "c": "three", "d": "four", "copy": "TWO "}
QUERIES = {"q": "what is it", "r": "who was it", "same": "What  is it", "t": "anything"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    def lines(texts: dict[str, str]) -> str:
        return "".join(json.dumps({"_id": key, "text": text}) + "\n" for key, text in texts.items())

    (tmp_path / "corpus.jsonl").write_text(lines(DOCS), encoding="utf-8")
    (tmp_path / "queries.jsonl").write_text(lines(QUERIES), encoding="utf-8")
    (tmp_path / "qrels").mkdir()
    _qrels(tmp_path, "train", ("q", "p", 1), ("r", "p", 1))
    return tmp_path


def _qrels(folder: Path, split: str, *judged: tuple[str, str, int]) -> None:
    rows = "".join(f"{query}\t{doc}\t{grade}\n" for query, doc, grade in judged)
    (folder / "qrels" / f"{split}.tsv").write_text("query-id\tcorpus-id\tscore\n" + rows, encoding="utf-8")


def _mine(folder: Path, **collection: Any) -> fg.MinedSet:
    return fg.mine(
        fg.load_collection(f"beir:{folder}", split="train", **collection),
        retriever=None,
        teacher=TableTeacher(dict.fromkeys(DOCS.values(), 0.1) | {"right": 0.9, "TWO": 0.1}),
        sources={"run": {"path": str(run_file(folder / "run.txt", {"q": ["a", "b"], "r": ["c", "d"]}))}},
        select={"strategy": "top", "per_query": 2},
        out=folder / "mined",
    )


def test_a_positive_of_the_same_query_in_another_split_is_leaked(folder: Path) -> None:
    _qrels(folder, "test", ("q", "a", 1), ("t", "c", 1), ("q", "d", 0))
    audit = _mine(folder).audit()
    assert audit.leakage is not None
    # negatives: q a, q b, r c, r d. Leaked is q a; a and c answer some query of test
    assert (audit.leakage.share, audit.leakage.tested_share) == (0.25, 0.5)
    assert (audit.leakage.splits, audit.leakage.examples) == (("test",), (("q", "a"),))
    assert "max_leaked" in audit.failed


def test_a_query_of_the_same_text_is_the_same_query_and_so_is_a_document(folder: Path) -> None:
    _qrels(folder, "dev", ("same", "copy", 1))  # "What  is it" and "TWO": query q and document b
    leakage = _mine(folder).audit().leakage
    assert leakage is not None
    assert leakage.examples == (("q", "b"),)
    assert leakage.tested_share == 0.0  # b is not judged by its own id


def test_grades_below_relevant_from_do_not_leak(folder: Path) -> None:
    _qrels(folder, "train", ("q", "p", 2), ("r", "p", 2))
    _qrels(folder, "test", ("q", "a", 1))
    leakage = _mine(folder, relevant_from=2).audit().leakage
    assert leakage is not None
    assert leakage.share == 0.0


def test_without_another_split_leakage_is_unknown(folder: Path) -> None:
    audit = _mine(folder).audit()
    assert audit.leakage is None
    assert {gate.name: gate.verdict for gate in audit.gates}["max_leaked"] == "unknown"


def test_a_broken_split_does_not_cost_the_set(folder: Path) -> None:
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\ta\tyes\n", encoding="utf-8")
    mined = _mine(folder)
    assert (mined.path / "audit.json").exists()
    (note,) = [note for note in mined.audit().notes if "leakage" in note]
    assert "test.tsv" in note
    assert "line 2" in note or "'yes'" in note


def test_the_collection_is_found_again_from_the_set(folder: Path) -> None:
    _qrels(folder, "test", ("q", "a", 1))
    mined = _mine(folder)
    assert fg.MinedSet(mined.path).audit().leakage == mined.audit().leakage
