"""Which column of a table of texts is which, and what its cells hold.

A column is found by the name that the user gives, or by the usual names; where two could be meant, that is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from foolsgold.collection.corpus import Layout
from foolsgold.collection.distinct import Entry
from foolsgold.collection.lines import type_word
from foolsgold.errors import CollectionError, nearest

ANCHORS = ("anchor", "query", "question", "sentence1", "query_text", "question_text", "user_input")
POSITIVES = (
    "positive", "positives", "pos", "positive_passages", "positive_passage", "positive_text", "answer", "answers",
    "passage", "passages", "document", "documents", "doc", "context", "contexts", "response", "sentence2", "text",
)  # fmt: skip
QUERY_IDS = ("query_id", "query-id", "qid", "queryid", "question_id", "anchor_id")
DOC_IDS = (
    "doc_id", "doc-id", "docid", "pid", "passage_id", "document_id", "corpus_id", "corpus-id", "positive_id",
)  # fmt: skip
LABEL = "label"
CORPUS_TEXTS = ("text", "contents", "content", "passage", "document", "body")
CORPUS_IDS = ("_id", "id", "doc_id", "docid", "pid", "passage_id", "document_id", "corpus_id")
NEGATIVE = re.compile(r"(hard_)?(neg|negatives?)(_passages?|_ctxs)?(_\d+)?")

CHOSEN = "columns"  # how the note about the columns used starts; all other notes say that something was left out


@dataclass(frozen=True)
class Columns:
    """The columns of one table of pairs; None where there is none. `negatives` only add documents to the corpus."""

    anchor: str
    positive: str
    query_id: str | None
    doc_id: str | None
    label: str | None
    negatives: tuple[str, ...]

    @property
    def used(self) -> list[str]:
        """All columns that are read."""
        named = (self.anchor, self.positive, self.query_id, self.doc_id, self.label, *self.negatives)
        return [column for column in named if column is not None]

    def query_of(self, record: Mapping[str, Any]) -> Entry | None:
        """The query of a row, None where it has no text."""
        text = text_of(record.get(self.anchor), self.anchor)
        query_id = None if self.query_id is None else id_of(record.get(self.query_id))
        return None if text is None else Entry(text, query_id)

    def doc_id_of(self, record: Mapping[str, Any]) -> str | None:
        """The id that a row gives its positive."""
        return None if self.doc_id is None else id_of(record.get(self.doc_id))

    def note(self, there: tuple[str, ...]) -> str:
        """What was chosen and what is not read, for the user to see."""
        chosen = [f"{self.anchor!r} is the query", f"{self.positive!r} the positive"]
        chosen += [f"{self.query_id!r} the query's id"] if self.query_id else []
        chosen += [f"{self.doc_id!r} the positive's id"] if self.doc_id else []
        chosen += [f"{self.label!r} 1 or 0 for a positive or not"] if self.label else []
        if self.negatives:
            chosen.append(f"{', '.join(map(repr, self.negatives))} more documents for the corpus")
        unread = [column for column in there if column not in self.used]
        return f"{CHOSEN}: {', '.join(chosen)}" + (f"; not read: {', '.join(map(repr, unread))}" if unread else "")


def choose_columns(name: str, there: tuple[str, ...], anchor: str | None, positive: str | None) -> Columns:
    """The columns of the table `name` that has the columns `there`; `anchor`, `positive`: as the user named them.

    Raises:
        CollectionError: a named column does not exist; no column, or several, have a usual name.
    """
    doubled = sorted({column for column in there if there.count(column) > 1})
    if doubled:
        raise CollectionError(f"{name}: two columns are called {doubled[0]!r}; rename one")
    query = _named(name, there, "anchor", anchor) or _usual(name, there, "anchor", ANCHORS, besides=(positive,))
    document = _named(name, there, "positive", positive) or _usual(name, there, "positive", POSITIVES, besides=(query,))
    if query == document:
        raise CollectionError(f"{name}: anchor and positive are both the column {query!r}; name two columns")
    taken = (query, document)
    return Columns(
        anchor=query,
        positive=document,
        query_id=_only(there, QUERY_IDS, taken),
        doc_id=_only(there, DOC_IDS, taken),
        label=_only(there, (LABEL,), taken),
        negatives=tuple(c for c in there if c not in taken and NEGATIVE.fullmatch(c.lower())),
    )


def choose_corpus_layout(name: str, there: tuple[str, ...]) -> Layout:
    """The columns of a corpus: its text, its id if it has one, its title if it has one.

    Raises:
        CollectionError: no column, or several, look like the text.
    """
    texts = ["text"] if "text" in there else [column for column in there if column in CORPUS_TEXTS]
    if len(texts) != 1:
        why = f"{_list(tuple(texts), ' and ')} could each be" if texts else "no column looks like"
        raise CollectionError(f"{name}: {why} the documents' text (columns: {_list(there)}); call that column 'text'")
    own_id = next((column for column in CORPUS_IDS if column in there), None)
    return Layout(id=own_id, title="title" if "title" in there else None, text=texts[0], number_ids=True)


class BadCell(Exception):
    """A cell with a wrong value; the reader adds the line."""


def text_of(value: Any, column: str) -> str | None:
    """A cell's text, stripped, or None where it has none.

    Raises:
        BadCell: it is no text.
    """
    if value is None:
        return None
    if not isinstance(value, str):
        raise BadCell(f"{column!r} is {shown(value)}; it must be a text. Name another column if this is not the one")
    return value.strip() or None


def documents_of(value: Any, column: str) -> Iterator[Entry]:
    """The documents of a cell: a text, a {text, id} object, or a list of either. Empty ones are left out.

    Raises:
        BadCell: an object without a text, or a value that is no text.
    """
    for item in value if isinstance(value, list) else [value]:
        own_id = None
        text = item
        if isinstance(item, dict):
            if "text" not in item:
                raise BadCell(
                    f"{column!r} is an object with {', '.join(map(repr, item)) or 'nothing'}; it needs 'text'"
                )
            text = item["text"]
            title = item.get("title")
            if isinstance(title, str) and isinstance(text, str):
                text = f"{title} {text}".strip()
            own_id = next((id_of(item[key]) for key in CORPUS_IDS if item.get(key) is not None), None)
        text = text_of(text, column)
        if text is not None:
            yield Entry(text, own_id)


def id_of(value: Any) -> str | None:
    """A cell's id; a number is written as text."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) and value else None


def shown(value: Any) -> str:
    """A value in a message: what it is, and its beginning."""
    return f"{type_word(value)} ({str(value)[:40]})"


def _named(name: str, there: tuple[str, ...], role: str, column: str | None) -> str | None:
    if column is None or column in there:
        return column
    near = nearest(column, there)
    hint = f"did you mean {near!r}? " if near else ""
    raise CollectionError(f"{name}: no column {column!r} for the {role}; {hint}(columns: {_list(there)})")


def _usual(
    name: str, there: tuple[str, ...], role: str, usual: tuple[str, ...], besides: tuple[str | None, ...]
) -> str:
    found = _matching(there, usual, besides)
    if len(found) == 1:
        return found[0]
    why = f"{_list(tuple(found), ' and ')} could each be the {role}" if found else f"no column looks like the {role}"
    raise CollectionError(
        f"{name}: {why} (columns: {_list(there)}); "
        f"name them: pairs: {{path: {name}, anchor: COLUMN, positive: COLUMN}} (in Python: anchor=, positive=)"
    )


def _only(there: tuple[str, ...], usual: tuple[str, ...], besides: tuple[str | None, ...]) -> str | None:
    """The one column with one of the usual names; with several, which one is meant is not for us to say."""
    found = _matching(there, usual, besides)
    return found[0] if len(found) == 1 else None


def _matching(there: tuple[str, ...], usual: tuple[str, ...], besides: tuple[str | None, ...]) -> list[str]:
    return [column for column in there if column.lower() in usual and column not in besides]


def _list(columns: tuple[str, ...], between: str = ", ") -> str:
    return between.join(map(repr, columns)) or "none"
