"""Reads (query, positive) pairs: a Dataset, or a file of rows, with an optional corpus of more documents.

Positives are repeated rows or a list; documents are the distinct positives (and, after FlagEmbedding's and Tevatron's
formats, the listed negatives), and the corpus before them where one is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from foolsgold.collection.collection import Contents
from foolsgold.collection.columns import (
    BadCell,
    Columns,
    choose_columns,
    choose_corpus_layout,
    documents_of,
    shown,
)
from foolsgold.collection.corpus import empty_note, read_texts, texts_of_rows
from foolsgold.collection.distinct import Entry, distinct, joined, made_ids
from foolsgold.collection.lines import type_word
from foolsgold.collection.rows import Rows, is_dataset, rows_of, rows_of_dataset, rows_of_file
from foolsgold.collection.texts import Texts
from foolsgold.errors import CollectionError
from foolsgold.progress import SILENT, Progress


def read_pairs(
    table: Any,
    split: str | None = None,
    *,
    anchor: str | None = None,
    positive: str | None = None,
    corpus: Any = None,
    progress: Progress = SILENT,
) -> Contents:
    """The pairs of a table, given as `rows_of` takes it.

    corpus: more documents, as a path, a Dataset, or a list of strings. A positive that the corpus has, by its id if
    both sides have ids and else by its exact text, is the corpus's document.

    Raises:
        CollectionError: columns that could be several things, cells that are not texts, no row with both texts.
    """
    rows, split, name = rows_of(table, split, progress)
    columns = choose_columns(rows.name, rows.columns, anchor, positive)
    pairs = _read(rows, columns)
    notes = [columns.note(rows.columns)]
    if pairs.skipped:
        notes.append(
            f"{rows.unit}s without a text in {columns.anchor!r} or {columns.positive!r}: {pairs.skipped:,}, left out "
            f"(first: {rows.unit} {pairs.first_skipped})"
        )

    queries, query_notes = distinct(pairs.queries, columns.query_id)
    documents, doc_notes = distinct(pairs.documents, columns.doc_id)
    query_texts = Texts.from_lists(made_ids(queries, "q"), queries.texts)
    if corpus is None:
        doc_texts = Texts.from_lists(made_ids(documents, "d"), documents.texts)
        row_in = list(range(len(doc_texts)))
        corpus_notes: list[str] = []
    else:
        extra, has_ids, corpus_notes = _read_corpus(corpus, progress)
        doc_texts, row_in, more = joined(extra, has_ids, documents)
        corpus_notes += [*more, *empty_note(doc_texts)]
    query_ids, doc_ids = query_texts.ids.to_pylist(), doc_texts.take_ids(row_in)
    judgements: dict[tuple[str, str], int] = {}
    for query, document, grade in pairs.judged:
        pair = query_ids[queries.row_of[query]], doc_ids[documents.row_of[document]]
        judgements[pair] = max(grade, judgements.get(pair, grade))
    notes += [*query_notes, *doc_notes, *corpus_notes]
    return Contents(name, split, doc_texts, query_texts, judgements, notes)


@dataclass
class _Pairs:
    """What the rows hold, one entry each time a query or a document occurs.

    judged: (index in queries, index in documents, grade).
    """

    queries: list[Entry] = field(default_factory=list)
    documents: list[Entry] = field(default_factory=list)
    judged: list[tuple[int, int, int]] = field(default_factory=list)
    skipped: int = 0
    first_skipped: int = 0


def _read(rows: Rows, columns: Columns) -> _Pairs:
    pairs = _Pairs()
    problems = rows.problems()
    for number, record in rows.read(columns.used, problems):
        try:
            _add(pairs, number, record, columns)
        except BadCell as bad:
            problems.add(number, str(bad))
    problems.check()
    if not pairs.judged:
        raise CollectionError(
            f"{rows.name}: no row has both a query in {columns.anchor!r} and a positive in {columns.positive!r}"
        )
    return pairs


def _add(pairs: _Pairs, number: int, record: Mapping[str, Any], columns: Columns) -> None:
    query = columns.query_of(record)
    positives = list(documents_of(record.get(columns.positive), columns.positive))
    if query is None or not positives:
        pairs.skipped += 1
        pairs.first_skipped = pairs.first_skipped or number
        return
    grade = 1 if columns.label is None else _grade(record.get(columns.label), columns.label)
    doc_id = None if isinstance(record[columns.positive], list) else columns.doc_id_of(record)
    for entry in positives:
        pairs.judged.append((len(pairs.queries), len(pairs.documents), grade))
        pairs.documents.append(entry._replace(id=entry.id or doc_id))
    for column in columns.negatives:
        pairs.documents += documents_of(record.get(column), column)
    pairs.queries.append(query)


def _grade(value: Any, column: str) -> int:
    if value in (0, 1, "0", "1"):
        return int(value)
    raise BadCell(
        f"{column!r} is {shown(value)}; it must be 1 (a positive) or 0 (judged, not a positive). "
        "Rename the column if it means something else"
    )


def _read_corpus(corpus: Any, progress: Progress) -> tuple[Texts, bool, list[str]]:
    """The extra corpus, whether it has ids of its own, and notes."""
    if isinstance(corpus, (list, tuple)):
        wrong = next((row for row, text in enumerate(corpus, 1) if not isinstance(text, str)), None)
        if wrong is not None or not corpus:
            what = f"item {wrong} is {type_word(corpus[wrong - 1])}" if wrong else "it is empty"
            raise CollectionError(f"corpus: {what}; a list must have one text per document")
        texts = [text.strip() for text in corpus]
        return Texts.from_lists((f"d{row}" for row in range(len(texts))), texts), False, []
    if is_dataset(corpus):
        rows = rows_of_dataset(corpus, "corpus", progress)
        layout = choose_corpus_layout(rows.name, rows.columns)
        return texts_of_rows(rows, layout), layout.id is not None, []
    if not isinstance(corpus, (str, Path)):
        raise CollectionError(f"corpus: a path, a Dataset or a list of texts, not {type(corpus).__name__}")
    path = Path(corpus)
    layout = choose_corpus_layout(str(path), rows_of_file(path).columns)
    texts_read, notes = read_texts(path, layout, progress)
    return texts_read, layout.id is not None, notes
