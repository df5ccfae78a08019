"""What a file of mined negatives lists: queries, documents, and whose positives and negatives they are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from foolsgold.collection import Texts
from foolsgold.collection.columns import BadCell
from foolsgold.collection.distinct import Entry, distinct
from foolsgold.collection.rows import Rows
from foolsgold.errors import CollectionError
from foolsgold.exchange.formats.reading import Example, TableFormat
from foolsgold.records import IntArray, text_key


@dataclass(frozen=True)
class Pairs:
    """(query, document) pairs, each once, in the order in which they are first listed.

    query, doc: int32 (n), rows; score: float or None for each, as the file gives it.
    """

    query: IntArray
    doc: IntArray
    score: list[float | None]

    def __len__(self) -> int:
        return len(self.query)

    def of(self, queries: IntArray) -> Pairs:
        """The pairs of some queries, renumbered: a query's row becomes its place in `queries` (int32, ascending)."""
        kept = np.flatnonzero(np.isin(self.query, queries))
        return Pairs(
            np.searchsorted(queries, self.query[kept]).astype(np.int32),
            self.doc[kept],
            [self.score[place] for place in kept],
        )


@dataclass(frozen=True)
class Listed:
    """A file's content. Queries without a positive are left out.

    rows: read; repeated: negatives that a row lists again, or that a row of the same query and positives repeats;
    asked: how many negatives most of the queries have, which is what they were probably mined for.
    notes: what was left out, one sentence each.
    """

    format: TableFormat
    queries: Texts
    documents: Texts
    positives: Pairs
    negatives: Pairs
    rows: int
    repeated: int
    notes: tuple[str, ...]

    @property
    def per_query(self) -> IntArray:
        """int32 (n_queries): how many negatives each has."""
        return np.bincount(self.negatives.query, minlength=len(self.queries)).astype(np.int32)

    @property
    def asked(self) -> int:
        """How many negatives most of the queries have; of two numbers as frequent, the larger."""
        counts: Counter[int] = Counter(self.per_query.tolist())
        return max(counts, key=lambda n: (counts[n], n))


def read_listed(rows: Rows, format: TableFormat) -> Listed:
    """Read a table of a known format.

    Ids are the file's own where it has them, and else a hash of the text, so that the same text has the same id in any
    file.

    Raises:
        CollectionError: cells that are not what they must be, each with its row; no query with a positive; no negative.
    """
    examples, skipped, notes = _examples(rows, format)
    query_entries = [example.query for example in examples]
    documents = [document for example in examples for document in (*example.positives, *example.negatives)]
    queries, query_notes = distinct(query_entries, "the queries' ids")
    passages, doc_notes = distinct(documents, "the documents' ids")
    query_ids, more = _ids(queries.ids, queries.texts, "queries")
    doc_ids, still_more = _ids(passages.ids, passages.texts, "documents")
    notes += [*query_notes, *doc_notes, *more, *still_more]

    positives: dict[tuple[int, int], float | None] = {}
    negatives: dict[tuple[int, int], float | None] = {}
    seen: set[tuple[int, frozenset[int], int]] = set()
    rows_in_turn = iter(passages.row_of)
    for query, example in zip(queries.row_of, examples, strict=True):
        own = list(islice(rows_in_turn, len(example.positives)))
        others = list(islice(rows_in_turn, len(example.negatives)))
        for row, document in zip(own, example.positives, strict=True):
            _keep(positives, (query, row), document.score)
        for row, document in zip(others, example.negatives, strict=True):
            _keep(negatives, (query, row), document.score)
        beside = frozenset(own)
        seen.update((query, beside, row) for row in others)
    if skipped:
        notes.append(f"{rows.unit}s without a query or any document: {skipped:,}, left out")
    whole = Listed(
        format=format,
        queries=Texts.from_lists(query_ids, queries.texts),
        documents=Texts.from_lists(doc_ids, passages.texts),
        positives=_pairs(positives),
        negatives=_pairs(negatives),
        rows=len(examples) + skipped,
        repeated=sum(len(example.negatives) for example in examples) - len(seen),
        notes=tuple(notes),
    )
    return _with_positives(whole, rows.name)


def _examples(rows: Rows, format: TableFormat) -> tuple[list[Example], int, list[str]]:
    """Every row that has a query and a document, how many have not, and notes. Equal texts are held once."""
    held: dict[str, str] = {}
    examples: list[Example] = []
    skipped = empty = 0
    problems = rows.problems()

    def hold(entry: Entry) -> Entry:
        return entry._replace(text=held.setdefault(entry.text, entry.text))

    for number, record in rows.read(format.used, problems):
        try:
            example = format.read(record)
        except BadCell as bad:
            problems.add(number, str(bad))
            continue
        if example is None or not (example.positives or example.negatives):
            skipped += 1
            continue
        empty += sum(map(_blanks, record.values()))
        sides = ([hold(entry) for entry in side] for side in (example.positives, example.negatives))
        examples.append(Example(hold(example.query), *sides))
    problems.check()
    return examples, skipped, [f"empty texts: {empty:,}, left out"] if empty else []


def _blanks(cell: Any) -> int:
    """How many texts of a cell hold nothing but white space; a null that is no part of a list is no text."""
    texts = [
        item.get("text", item) if isinstance(item, dict) else item
        for item in (cell if isinstance(cell, list) else [cell])
    ]
    nulls = texts.count(None) if isinstance(cell, list) else 0
    return nulls + sum(isinstance(text, str) and not text.strip() for text in texts)


def _ids(own: Sequence[str | None], texts: Sequence[str], what: str) -> tuple[list[str], list[str]]:
    """Each text's own id or else a hash of it, and a note where ids cannot be used."""
    bad = next((given for given in own if given is not None and re.search(r"\s", given)), None)
    if bad is not None:  # a run and a qrels file part their columns by white space
        own = [None] * len(texts)
    notes = [] if bad is None else [f"the ids of {what} have white space, as {bad!r}; hashes of the texts are used"]
    return [
        text_key(text).hex()[:16] if given is None else given for given, text in zip(own, texts, strict=True)
    ], notes


def _keep(scores: dict[tuple[int, int], float | None], pair: tuple[int, int], score: float | None) -> None:
    """The first score of a pair counts."""
    if scores.get(pair) is None:
        scores[pair] = score


def _pairs(scores: dict[tuple[int, int], float | None]) -> Pairs:
    rows = np.array(list(scores), dtype=np.int32).reshape(-1, 2)
    return Pairs(rows[:, 0], rows[:, 1], list(scores.values()))


def _with_positives(listed: Listed, name: str) -> Listed:
    """The same without the queries that have no positive.

    Raises:
        CollectionError: no query has one; no negative is left.
    """
    kept = np.unique(listed.positives.query).astype(np.int32)
    if not len(kept):
        raise CollectionError(f"{name}: no query has a positive; was the right column taken? {listed.format.sentence}")
    notes = listed.notes
    if len(kept) < len(listed.queries):
        notes += (f"queries without a positive: {len(listed.queries) - len(kept):,}, left out",)
    negatives = listed.negatives.of(kept)
    if not len(negatives):
        raise CollectionError(f"{name}: no query with a positive has a negative; was the right column taken?")
    return replace(
        listed,
        queries=listed.queries.subset(kept),
        positives=listed.positives.of(kept),
        negatives=negatives,
        notes=notes,
    )
