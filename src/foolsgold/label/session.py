"""One labelling session: which pair each tab shows, and what happens to an answer. No HTTP here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foolsgold.calibration.labels import VERDICTS, Verdict
from foolsgold.errors import CollectionError
from foolsgold.label.answers import Answers, Key
from foolsgold.label.choose import Pair
from foolsgold.label.estimate import estimate
from foolsgold.label.words import marked
from foolsgold.mined.mined_set import MinedSet
from foolsgold.recipe import BM25Spec
from foolsgold.search.tokens import TokenizerName


class UnknownPair(ValueError):
    """An answer to a pair that is not one of this session's."""


class Session:
    """Asks for the pairs in order, each from one tab at a time, and keeps every answer.

    A pair without an answer is shown to the tab that has it already, or else the first that no tab has. A tab that was
    closed keeps its pair; when nothing else is left, that pair goes to whoever asks.
    """

    def __init__(self, mined: MinedSet, pairs: Sequence[Pair], answers: Answers) -> None:
        """Read the texts of the pairs.

        Raises:
            CollectionError: the answers are of another collection.
            MinedSetError: the collection cannot be read, or has changed.
        """
        self._answers = answers
        self._pairs = {(pair.query_id, pair.doc_id): pair for pair in pairs}
        self._has_teacher = mined.manifest.teacher is not None
        self._language, self._tokenizer = _words_of(mined)
        self._positives = _positives(mined, pairs)
        collection = mined.collection
        documents = {pair.doc_id for pair in pairs}.union(*self._positives.values())
        self._queries = _texts(collection.queries, [pair.query_id for pair in pairs])
        self._documents = _texts(collection.documents, list(documents))
        strangers = {query for query, _ in answers.current()} - self._queries.keys()
        if strangers and (missing := strangers - collection.queries.find(strangers).keys()):
            raise CollectionError(
                f"{answers.path}: has an answer for query {min(missing)!r}, which {collection.name} does not have; "
                "name another file with --out"
            )
        self._shown: dict[str, Key] = {}  # by tab
        self._given: dict[Key, str] = {}  # the tab of each answer since the server started

    @property
    def done(self) -> int:
        """How many of the pairs have an answer."""
        return len(self._labels())

    def ask(self, tab: str) -> dict[str, Any]:
        """What a tab shows now: its pair (None when all are labelled), the progress and the estimate."""
        labels = self._labels()
        key = self._next(tab, labels)
        if key is not None:
            self._shown[tab] = key
        return {"pair": None if key is None else self._page(key), **self._state(labels)}

    def answer(self, tab: str, key: Key, label: Verdict) -> dict[str, Any]:
        """Keep an answer and go on. The same answer said twice is written once.

        Raises:
            UnknownPair: the pair is not one of this session's.
            OSError: the answer could not be written.
        """
        if key not in self._pairs:
            raise UnknownPair(f"query {key[0]!r} with document {key[1]!r} is not among the pairs to label")
        if self._answers.current().get(key) != label:
            self._answers.append(*key, label, self._pairs[key].teacher_score)
        self._given[key] = tab
        return self.ask(tab)

    def undo(self, tab: str) -> dict[str, Any]:
        """Take back this tab's last answer, or one from before this session, and show its pair again.

        Raises:
            OSError: it could not be written.
        """
        labels = self._labels()
        mine = [key for key in labels if self._given.get(key) == tab] or [
            key for key in labels if key not in self._given
        ]
        if not mine:
            return self.ask(tab)
        key = mine[-1]
        self._answers.append(*key, None, self._pairs[key].teacher_score)
        self._given.pop(key, None)
        self._shown[tab] = key
        return self.ask(tab) | {"undone": labels[key]}

    def _labels(self) -> dict[Key, Verdict]:
        """Of this session's pairs those that have an answer, the latest last."""
        return {key: label for key, label in self._answers.current().items() if key in self._pairs}

    def _next(self, tab: str, labels: dict[Key, Verdict]) -> Key | None:
        if (mine := self._shown.get(tab)) is not None and mine not in labels:
            return mine
        left = [key for key in self._pairs if key not in labels]
        elsewhere = {key for other, key in self._shown.items() if other != tab}
        return next((key for key in left if key not in elsewhere), left[0] if left else None)

    def _page(self, key: Key) -> dict[str, Any]:
        query = self._queries[key[0]]

        def document(doc_id: str) -> dict[str, Any]:
            text = self._documents[doc_id]
            return {"id": doc_id, "pieces": marked(query, text, self._language, self._tokenizer)}

        return {
            "query_id": key[0],
            "query": query,
            "positives": [document(doc_id) for doc_id in self._positives[key[0]]],
            "candidate": document(key[1]),
        }

    def _state(self, labels: dict[Key, Verdict]) -> dict[str, Any]:
        counts = Counter(labels.values())
        said = [key for key, label in labels.items() if label != "unsure"]
        if self._has_teacher:
            scores = np.array([self._pairs[key].teacher_score for key in said], dtype=np.float64)
            relevant = np.array([labels[key] == "relevant" for key in said], dtype=np.bool_)
            found = str(estimate(scores, relevant))
        else:
            found = "This set has no teacher, so there is no score to put a threshold on."
        return {"total": len(self._pairs), "counts": {label: counts[label] for label in VERDICTS}, "estimate": found}


def _words_of(mined: MinedSet) -> tuple[str, TokenizerName]:
    """The language and tokenizer that a bm25 source of the recipe names, or else the defaults."""
    for spec in mined.manifest.recipe.sources.values():
        if isinstance(spec, BM25Spec):
            return spec.language, spec.tokenizer
    return "english", "word"


def _positives(mined: MinedSet, pairs: Sequence[Pair]) -> dict[str, list[str]]:
    """The known positives of each pair's query, the teacher's best first."""
    asked = pa.array(list(dict.fromkeys(pair.query_id for pair in pairs)), pa.string())
    table = mined.positives.filter(pc.is_in(mined.positives["query_id"], value_set=asked))
    table = table.take(pc.sort_indices(table, [("teacher_score", "descending")]))
    found: dict[str, list[str]] = {query_id: [] for query_id in asked.to_pylist()}
    for query_id, doc_id in zip(table["query_id"].to_pylist(), table["doc_id"].to_pylist(), strict=True):
        found[query_id].append(doc_id)
    return found


def _texts(texts: Any, ids: Sequence[str]) -> dict[str, str]:
    rows = texts.find(ids)
    return dict(zip(rows, texts.take(list(rows.values())), strict=True))
