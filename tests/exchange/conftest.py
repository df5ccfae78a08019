"""A set small enough to write out: two queries, three positives, a teacher whose scores are written down."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from toy import TableTeacher, collection, run_file

import foolsgold as fg
from foolsgold.mined.mined_set import MinedSet

DOCS = {"p1": "one", "p2": "two", "a": "three", "b": "four", "c": "five"}
SCORES = {"p1": 0.9, "p2": 0.8, "a": 0.1, "b": 0.2, "c": 0.25}
LISTS = {"q": ["a", "b"], "r": ["c"]}


@pytest.fixture
def mine(tmp_path: Path) -> Callable[..., MinedSet]:
    """Mine `LISTS`; sections, or another teacher, as in `fg.mine`."""

    def run(**sections: Any) -> MinedSet:
        teacher = TableTeacher({DOCS[doc]: score for doc, score in SCORES.items()})
        return fg.mine(
            collection(DOCS, {"q": "count", "r": "sum"}, {"q": {"p1": 1, "p2": 1}, "r": {"p1": 1}}),
            retriever=None,
            sources={"run": {"path": str(run_file(tmp_path / "run.txt", LISTS))}},
            out=tmp_path / "mined",
            **({"teacher": teacher, "select": {"strategy": "top", "per_query": 2}} | sections),
        )

    return run
