"""Folders and files to read, small enough to see through."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

CORPUS = [
    {"_id": "d1", "title": "Pyrite", "text": "looks like gold"},
    {"_id": "d2", "title": "", "text": " a hard negative \n"},
    {"_id": "d3", "text": "real gold"},
]
QUERIES = [{"_id": "q1", "text": "what is fool's gold"}, {"_id": "q2", "text": "what is gold"}]
QRELS = "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t1\nq2\td3\t1\n"

Lines = Iterable[Mapping[str, Any] | str]


@pytest.fixture
def beir(tmp_path: Path) -> Callable[..., Path]:
    """Writes a BEIR folder; each part may be replaced."""

    def write(corpus: Lines | bytes = CORPUS, queries: Lines | bytes = QUERIES, **qrels: str) -> Path:
        folder = tmp_path / "gold"
        (folder / "qrels").mkdir(parents=True)
        for name, lines in (("corpus", corpus), ("queries", queries)):
            content = lines if isinstance(lines, bytes) else jsonl(lines).encode()
            (folder / f"{name}.jsonl").write_bytes(content)
        for split, text in (qrels or {"train": QRELS}).items():
            (folder / "qrels" / f"{split}.tsv").write_text(text, encoding="utf-8")
        return folder

    return write


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., Path]:
    """Writes one file: of text, or of records as JSON lines."""

    def write(name: str, content: Lines | str) -> Path:
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else jsonl(content), encoding="utf-8")
        return path

    return write


def jsonl(lines: Lines) -> str:
    return "".join((line if isinstance(line, str) else json.dumps(line, ensure_ascii=False)) + "\n" for line in lines)
