"""A collection, runs and a teacher small enough to work everything out by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from foolsgold.collection import Collection, Texts
from foolsgold.records import FloatArray, Scale

Judgements = Mapping[str, Mapping[str, int]]


def collection(documents: Mapping[str, str], queries: Mapping[str, str], judgements: Judgements) -> Collection:
    """From id -> text, id -> text, and query id -> document id -> grade."""
    return Collection.from_judgements(
        name="toy",
        split="train",
        documents=Texts.from_lists(documents, documents.values()),
        queries=Texts.from_lists(queries, queries.values()),
        judgements={(query, doc): grade for query, judged in judgements.items() for doc, grade in judged.items()},
    )


def run_file(path: Path, lists: Mapping[str, Sequence[str]]) -> Path:
    """A TREC run that proposes these documents in this order, with scores 100, 99, ..."""
    lines = [
        f"{query} Q0 {doc} {rank + 1} {100 - rank} toy"
        for query, docs in lists.items()
        for rank, doc in enumerate(docs)
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


class TableTeacher:
    """A teacher whose scores are written down: by document text, whatever the query, or by (query, document)."""

    def __init__(self, scores: Mapping[str | tuple[str, str], float], scale: Scale = "probability") -> None:
        self.scale: Scale = scale
        self.fingerprint = f"table of {sorted((str(key), value) for key, value in scores.items())}"
        self.read: list[tuple[str, str]] = []
        self._scores = scores

    def score(self, pairs: Sequence[tuple[str, str]], progress: object = None) -> FloatArray:
        self.read += pairs
        return np.array(
            [self._scores[pair] if pair in self._scores else self._scores[pair[1]] for pair in pairs], dtype=np.float32
        )
