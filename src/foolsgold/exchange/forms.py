"""Which form a file of mined negatives has: told from its columns and its first row, and said in one sentence."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from foolsgold.collection.cells import BadCell, documents_of, id_of, shown, text_of
from foolsgold.collection.columns import NEGATIVE, Columns, choose_columns
from foolsgold.collection.distinct import Entry
from foolsgold.collection.rows import Rows
from foolsgold.errors import CollectionError

KNOWN = """forms that are told by their columns:
  query, pos, neg                                          FlagEmbedding
  query, positive_passages, negative_passages              Tevatron, RLHN
  anchor, positive, negative (or negative_1, negative_2)   sentence-transformers triplets and n-tuples
  anchor, positive, label (or lists and labels)            sentence-transformers labeled pairs and lists
  question, positive_ctxs, hard_negative_ctxs              DPR
  messages, positive_messages, negative_messages           ms-swift
  query, positives, negatives                              foolsgold export --to jsonl
--anchor and --positive name columns that are called otherwise"""

_LABELS = ("label", "labels")
_PEEKED = 20  # rows looked at for the kind of a cell: the first ones may be empty


class Document(NamedTuple):
    """A document as a row lists it, with the score that it is given there, if any."""

    entry: Entry
    score: float | None = None


@dataclass(frozen=True)
class Example:
    """What one row says of one query. Empty documents are left out."""

    query: Entry
    positives: list[Document] = field(default_factory=list)
    negatives: list[Document] = field(default_factory=list)


@dataclass(frozen=True)
class Form:
    """How the rows of one table are read.

    name: whose form it is; used: the columns that are read; sentence: what was detected, for the user to see;
    read: one record as an Example, None where it has no query; raises BadCell.
    """

    name: str
    used: tuple[str, ...]
    sentence: str
    read: Callable[[Mapping[str, Any]], Example | None]


def detect(rows: Rows, anchor: str | None = None, positive: str | None = None) -> Form:
    """The form of a table.

    anchor, positive: the columns of queries and of positives, where their names are not the usual ones.

    Raises:
        CollectionError: no form that is known; no negatives in it; several columns that could each be the one.
    """
    there = rows.columns
    if {"messages", "positive_messages", "negative_messages"} <= set(there):
        return _swift(there)
    if positive is None:
        positive = _counterpart(there)
    negatives = tuple(column for column in there if NEGATIVE.fullmatch(column.lower()) and column != positive)
    label = next((column for column in there if column in _LABELS), None)
    if not negatives and label is None:
        raise CollectionError(_no_negatives(rows))
    try:
        columns = choose_columns(rows.name, there, anchor, positive)
    except CollectionError as problem:
        raise CollectionError(f"{str(problem).split('; name them')[0]}; {KNOWN}") from None
    first = [record for _, record in islice(rows.read(there, rows.problems()), _PEEKED)]
    if negatives:
        return _listed(columns, negatives, there, first)
    assert label is not None
    return _labeled(columns, label, there, first)


def _counterpart(there: tuple[str, ...]) -> str | None:
    """The column that is to the positives what another is to the negatives: pos to neg, positive_ctxs to ..."""
    for column in there:
        if NEGATIVE.fullmatch(column.lower()):
            stem = re.sub(r"^hard_|_\d+$", "", column).replace("negative", "positive").replace("neg", "pos")
            for name in (stem, stem.removesuffix("s"), f"{stem}s"):
                if name in there:
                    return name
    return None


def _no_negatives(rows: Rows) -> str:
    there = ", ".join(map(repr, rows.columns))
    scores = [column for column in rows.columns if column in ("score", "scores")]
    why = (
        f"{scores[0]!r} is no label: which documents are negatives cannot be told from a score; export labels instead"
        if scores
        else f"to mine negatives for pairs: foolsgold mine --pairs {rows.name}"
    )
    return f"{rows.name}: no negatives in its columns ({there}); {why}. {KNOWN}"


def _listed(columns: Columns, negatives: tuple[str, ...], there: tuple[str, ...], first: list[dict[str, Any]]) -> Form:
    """Rows that list a query's positives and its negatives."""
    name = _name_of(columns, negatives, there, first)
    scores = tuple(c for c in ("pos_scores", "neg_scores", "scores") if c in there)

    def read(record: Mapping[str, Any]) -> Example | None:
        query = text_of(record.get(columns.anchor), columns.anchor)
        if query is None:
            return None
        query_id = None if columns.query_id is None else id_of(record.get(columns.query_id))
        beside_positives, beside_negatives = _scores_of_row(record, scores, columns.positive, negatives)
        own_id = None if columns.doc_id is None else id_of(record.get(columns.doc_id))
        positives = list(_documents(record.get(columns.positive), columns.positive, beside_positives))
        if own_id is not None and len(positives) == 1 and positives[0].entry.id is None:
            positives = [Document(Entry(positives[0].entry.text, own_id), positives[0].score)]
        return Example(
            Entry(query, query_id),
            positives,
            [
                document
                for column, beside in zip(negatives, beside_negatives, strict=True)
                for document in _documents(record.get(column), column, beside)
            ],
        )

    listed = ", ".join(map(repr, negatives)) if len(negatives) < 4 else f"{negatives[0]!r} to {negatives[-1]!r}"
    used = (columns.anchor, columns.positive, columns.query_id, columns.doc_id, *negatives, *scores)
    return Form(
        name,
        tuple(column for column in used if column is not None),
        f"{name}: {columns.anchor!r} is the query, {columns.positive!r} the positives, {listed} the negatives"
        + _also(columns, scores, there, used),
        read,
    )


def _labeled(columns: Columns, label: str, there: tuple[str, ...], first: list[dict[str, Any]]) -> Form:
    """Rows of a query, one or more documents, and a label of 1 or 0 for each."""
    lists = any(isinstance(record.get(label), list) for record in first)
    name = f"sentence-transformers labeled {'lists' if lists else 'pairs'}"

    def read(record: Mapping[str, Any]) -> Example | None:
        query = text_of(record.get(columns.anchor), columns.anchor)
        if query is None:
            return None
        cell, labels = record.get(columns.positive), record.get(label)
        documents = cell if isinstance(cell, list) else [cell]
        labels = labels if isinstance(labels, list) else [labels]
        if len(documents) != len(labels):
            raise BadCell(f"{len(documents)} documents in {columns.positive!r}, but {len(labels)} labels in {label!r}")
        own_id = None if columns.doc_id is None or isinstance(cell, list) else id_of(record.get(columns.doc_id))
        example = Example(Entry(query, None if columns.query_id is None else id_of(record.get(columns.query_id))))
        for item, value in zip(documents, labels, strict=True):
            side = example.positives if _is_positive(value, label) else example.negatives
            side += [Document(Entry(entry.text, entry.id or own_id)) for entry in documents_of(item, columns.positive)]
        return example

    used = (columns.anchor, columns.positive, columns.query_id, columns.doc_id, label)
    return Form(
        name,
        tuple(column for column in used if column is not None),
        f"{name}: {columns.anchor!r} is the query, {columns.positive!r} its documents, {label!r} 1 for a positive "
        f"and 0 for a negative" + _also(columns, (), there, used),
        read,
    )


def _swift(there: tuple[str, ...]) -> Form:
    """ms-swift's rows: the query is the last user message, each document the last message of a list of its own."""
    used = ("messages", "positive_messages", "negative_messages")

    def read(record: Mapping[str, Any]) -> Example | None:
        query = _last_message(record.get("messages"), "messages")
        if query is None:
            return None
        sides = []
        for column in used[1:]:
            conversations = record.get(column) or []
            if not isinstance(conversations, list):
                raise BadCell(f"{column!r} is {shown(conversations)}; it must be a list of lists of messages")
            texts = (_last_message(conversation, column) for conversation in conversations)
            sides.append([Document(Entry(text, None)) for text in texts if text is not None])
        return Example(Entry(query, None), *sides)

    unread = [column for column in there if column not in used]
    return Form(
        "ms-swift",
        used,
        "ms-swift: the last message of 'messages' is the query, those of 'positive_messages' the positives, those of "
        "'negative_messages' the negatives" + _unread(unread),
        read,
    )


def _last_message(conversation: Any, column: str) -> str | None:
    if not conversation:
        return None
    last = conversation[-1] if isinstance(conversation, list) else conversation
    if not isinstance(last, dict) or "content" not in last:
        raise BadCell(f"{column!r} is {shown(conversation)}; it must be a list of messages with 'role' and 'content'")
    return text_of(last["content"], column)


def _documents(value: Any, column: str, scores: Any = None) -> Iterator[Document]:
    """The documents of a cell with their scores: those of a column beside it, or of the objects themselves."""
    items = value if isinstance(value, list) else [value]
    given = scores if isinstance(scores, list) else [scores] * len(items)
    if len(given) != len(items):
        raise BadCell(f"{len(items)} documents in {column!r}, but {len(given)} scores beside them")
    for item, score in zip(items, given, strict=True):
        if score is None and isinstance(item, dict):
            score = item.get("score")
        if score is not None and (isinstance(score, bool) or not isinstance(score, int | float)):
            raise BadCell(f"a score of {column!r} is {shown(score)}; it must be a number")
        for entry in documents_of(item, column):
            yield Document(entry, score)


def _scores_of_row(
    record: Mapping[str, Any], scores: tuple[str, ...], positive: str, negatives: tuple[str, ...]
) -> tuple[Any, list[Any]]:
    """What stands beside the positives, and beside each column of negatives.

    That is in pos_scores and neg_scores (FlagEmbedding), or in scores: [positive, negative, ...].
    """
    nothing: list[Any] = [None] * len(negatives)
    if "pos_scores" in scores or "neg_scores" in scores:
        return record.get("pos_scores"), [record.get("neg_scores")] if len(negatives) == 1 else nothing
    together = record.get("scores")
    if not isinstance(together, list):
        return None, nothing
    documents = record.get(positive)
    ahead = len(documents) if isinstance(documents, list) else 1
    behind = together[ahead:]
    if len(negatives) == 1:
        return together[:ahead], [behind]
    if len(behind) != len(negatives):
        raise BadCell(f"{len(together)} scores beside {ahead} positive and {len(negatives)} negatives")
    return together[:ahead], behind


def _is_positive(value: Any, label: str) -> bool:
    if value in (0, 1, "0", "1"):
        return bool(int(value))
    raise BadCell(f"{label!r} is {shown(value)}; a label is 1 for a positive and 0 for a negative")


def _name_of(columns: Columns, negatives: tuple[str, ...], there: tuple[str, ...], first: list[dict[str, Any]]) -> str:
    cell = next((record[c] for record in first for c in negatives if record.get(c)), None)
    if any(column.endswith("_ctxs") for column in negatives):
        return "DPR"
    if columns.positive == "pos" or "neg" in negatives:
        return "FlagEmbedding"
    if isinstance(cell, list):
        if any(column.endswith("_passages") for column in negatives):
            return "Tevatron" + (" (RLHN)" if "subset" in there else "")
        return "lists of positives and negatives"
    return "sentence-transformers " + ("triplets" if len(negatives) == 1 else f"tuples of {len(negatives)} negatives")


def _also(columns: Columns, scores: tuple[str, ...], there: tuple[str, ...], used: tuple[str | None, ...]) -> str:
    more = [f"{columns.query_id!r} the query's id"] if columns.query_id else []
    more += [f"{columns.doc_id!r} the positive's id"] if columns.doc_id else []
    more += [f"{', '.join(map(repr, scores))} scores"] if scores else []
    return "".join(f", {part}" for part in more) + _unread([column for column in there if column not in used])


def _unread(columns: list[str]) -> str:
    return f"; not read: {', '.join(map(repr, columns))}" if columns else ""
