"""Sets mined from run files by a teacher whose scores are written down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from toy import TableTeacher, collection, run_file

import foolsgold as fg
from foolsgold.mined.mined_set import MinedSet

DOCS = {"p": "a right answer", "a": "four", "b": "seventeen letters", "c": "nine more", "d": "eleven chars", "e": "x"}


class Mining:
    """Mine `DOCS` (or others) for queries whose only positive is p."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(
        self,
        lists: Mapping[str, Mapping[str, Sequence[str]]],
        scores: Mapping[Any, float] | None,
        *,
        documents: Mapping[str, str] = DOCS,
        queries: Mapping[str, str] | None = None,
        positives: Mapping[str, Mapping[str, int]] | None = None,
        scale: Any = "probability",
        out: str = "mined",
        **sections: Any,
    ) -> MinedSet:
        """lists: source -> query -> documents; scores: by document id, or by (query id, document id)."""
        asked = queries or {query: f"question {query}" for some in lists.values() for query in some}
        texts = {
            (asked[key[0]], documents[key[1]]) if isinstance(key, tuple) else documents[key]: score
            for key, score in (scores or {}).items()
        }
        mined = fg.mine(
            collection(documents, asked, positives or {query: {"p": 1} for query in asked}),
            {"teacher": {"scale": scale}},
            retriever=None,
            teacher=TableTeacher(texts, scale) if scores is not None else None,
            sources={
                name: {"kind": "run", "path": str(run_file(self.folder / f"{name}.txt", ranked))}
                for name, ranked in lists.items()
            },
            out=self.folder / out,
            **sections,
        )
        mined.report()
        return mined


@pytest.fixture
def mining(tmp_path: Path) -> Mining:
    return Mining(tmp_path)
