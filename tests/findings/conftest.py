"""Things with a fault and things without: sets mined from run files, BEIR folders, and what a rule says of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from toy import TableTeacher, collection, run_file

import foolsgold as fg
from foolsgold.mined.mined_set import MinedSet

DOCUMENTS = {"p": "a right answer", "a": "four", "b": "seventeen letters", "c": "nine more", "d": "eleven chars"}

Codes = Callable[..., list[str]]
Mine = Callable[..., MinedSet]
Beir = Callable[..., Path]


@pytest.fixture
def codes() -> Codes:
    """The codes that a check finds."""

    def found(thing: Any, **options: Any) -> list[str]:
        return [finding.code for finding in fg.check(thing, **options)]

    return found


@pytest.fixture
def mine(tmp_path: Path) -> Mine:
    """Mine lists (query -> documents, best first) with a teacher whose scores are written down by document id."""

    def mined(
        lists: Mapping[str, Sequence[str]],
        scores: Mapping[str, float] | None,
        *,
        documents: Mapping[str, str] = DOCUMENTS,
        scale: Any = "probability",
        **sections: Any,
    ) -> MinedSet:
        queries = {query: f"question {query}" for query in lists}
        texts = {documents[doc]: score for doc, score in (scores or {}).items()}
        sources = {"run": {"kind": "run", "path": str(run_file(tmp_path / "run.txt", lists))}}
        return fg.mine(
            collection(documents, queries, {query: {"p": 1} for query in queries}),
            {"teacher": {"scale": scale}},
            retriever=None,
            teacher=None if scores is None else TableTeacher(texts, scale),
            sources=sources | sections.pop("more_sources", {}),
            out=tmp_path / "mined",
            **sections,
        )

    return mined


@pytest.fixture
def beir(tmp_path: Path) -> Beir:
    """Write a BEIR folder; splits: split -> query -> its one positive."""

    def written(
        splits: Mapping[str, Mapping[str, str]],
        queries: Mapping[str, str],
        documents: Mapping[str, str] = DOCUMENTS,
        name: str = "beir",
    ) -> Path:
        folder = tmp_path / name
        (folder / "qrels").mkdir(parents=True)
        for file, texts in (("corpus", documents), ("queries", queries)):
            rows = [json.dumps({"_id": key, "text": text}) for key, text in texts.items()]
            (folder / f"{file}.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
        for split, judged in splits.items():
            rows = [f"{query}\t{doc}\t1" for query, doc in judged.items()]
            text = "\n".join(["query-id\tcorpus-id\tscore", *rows]) + "\n"
            (folder / "qrels" / f"{split}.tsv").write_text(text, encoding="utf-8")
        return folder

    return written
