"""What the readers of all formats share: a table before it is read, and rows that list documents."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any

from foolsgold.collection.columns import NEGATIVE, BadCell, Columns, choose_columns, documents_of, shown
from foolsgold.collection.distinct import Entry
from foolsgold.collection.rows import Rows
from foolsgold.errors import CollectionError

_LABELS = ("label", "labels")
_SCORES = ("pos_scores", "neg_scores", "scores")
_PEEKED = 20  # rows looked at for the kind of a cell: the first ones may be empty


@dataclass(frozen=True)
class Example:
    """What one row says of one query. Empty documents are left out."""

    query: Entry
    positives: list[Entry] = field(default_factory=list)
    negatives: list[Entry] = field(default_factory=list)


@dataclass(frozen=True)
class TableFormat:
    """How the rows of one table are read.

    name: whose format it is; used: the columns that are read; sentence: what was detected, for the user to see;
    read: one record as an Example, None where it has no query; raises BadCell.
    """

    name: str
    used: tuple[str, ...]
    sentence: str
    read: Callable[[Mapping[str, Any]], Example | None]


class Unclear(CollectionError):
    """Columns that do not say which format it is; the message ends where the list of known formats follows."""


@dataclass(frozen=True)
class Table:
    """A table before it is read. anchor, positive: the columns that the user named."""

    rows: Rows
    anchor: str | None = None
    positive: str | None = None

    @property
    def there(self) -> tuple[str, ...]:
        """The names of all columns."""
        return self.rows.columns

    @cached_property
    def negatives(self) -> tuple[str, ...]:
        """The columns that are called like negatives."""
        return tuple(c for c in self.there if NEGATIVE.fullmatch(c.lower()) and c != self._positive)

    @cached_property
    def label(self) -> str | None:
        """The column of labels."""
        return next((column for column in self.there if column in _LABELS), None)

    @cached_property
    def columns(self) -> Columns:
        """Which column is the query, and which the positives.

        Raises:
            Unclear: no column says what is a negative; no column, or several, could be the one.
        """
        if not self.negatives and self.label is None:
            raise Unclear(_no_negatives(self.rows))
        try:
            return choose_columns(self.rows.name, self.there, self.anchor, self._positive)
        except CollectionError as problem:
            raise Unclear(f"{str(problem).split('; name them')[0]}; ") from None

    @cached_property
    def first(self) -> list[dict[str, Any]]:
        """The first rows."""
        return [record for _, record in islice(self.rows.read(self.there, self.rows.problems()), _PEEKED)]

    @cached_property
    def has_lists(self) -> bool:
        """Whether a cell of negatives is a list."""
        if not self.negatives:
            return False
        _ = self.columns  # columns that are unclear are an error before rows that cannot be read
        cell = next((record[c] for record in self.first for c in self.negatives if record.get(c)), None)
        return isinstance(cell, list)

    @cached_property
    def _positive(self) -> str | None:
        return _counterpart(self.there) if self.positive is None else self.positive


@dataclass(frozen=True)
class Reader:
    """How the files of one trainer are recognised and read.

    columns: what their columns are called, and whose they are, for the user to see, one pair per layout.
    read: the format of a table, None where it is not this format.
    """

    columns: tuple[tuple[str, str], ...]
    read: Callable[[Table], TableFormat | None]


def listed(table: Table, name: str) -> TableFormat:
    """Rows that list a query's positives and its negatives."""
    columns, negatives = table.columns, table.negatives
    scores = tuple(column for column in _SCORES if column in table.there)

    def read(record: Mapping[str, Any]) -> Example | None:
        query = columns.query_of(record)
        if query is None:
            return None
        beside_positives, beside_negatives = _scores_of_row(record, scores, columns.positive, negatives)
        positives = list(_documents(record.get(columns.positive), columns.positive, beside_positives))
        if len(positives) == 1 and positives[0].id is None:
            positives = [positives[0]._replace(id=columns.doc_id_of(record))]
        return Example(
            query,
            positives,
            [
                document
                for column, beside in zip(negatives, beside_negatives, strict=True)
                for document in _documents(record.get(column), column, beside)
            ],
        )

    names = ", ".join(map(repr, negatives)) if len(negatives) < 4 else f"{negatives[0]!r} to {negatives[-1]!r}"
    said = f"{columns.positive!r} the positives, {names} the negatives"
    return table_format(table, name, said, (*negatives, *scores), read)


def table_format(
    table: Table, name: str, said: str, extra: tuple[str, ...], read: Callable[[Mapping[str, Any]], Example | None]
) -> TableFormat:
    """The format of a table with a column of queries and one of documents.

    said: what the other columns are, for the sentence; extra: those that are read besides `table.columns`.
    """
    columns = table.columns
    used = (columns.anchor, columns.positive, columns.query_id, columns.doc_id, *extra)
    scores = [repr(column) for column in extra if column in _SCORES]
    parts = [f"{columns.anchor!r} is the query", said]
    parts += [f"{columns.query_id!r} the query's id"] if columns.query_id else []
    parts += [f"{columns.doc_id!r} the positive's id"] if columns.doc_id else []
    parts += [f"{', '.join(scores)} scores"] if scores else []
    unread = [column for column in table.there if column not in used]
    sentence = f"{name}: {', '.join(parts)}{not_read(unread)}"
    return TableFormat(name, tuple(column for column in used if column is not None), sentence, read)


def not_read(columns: list[str]) -> str:
    """Names the columns that are not read."""
    return f"; not read: {', '.join(map(repr, columns))}" if columns else ""


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
        f"{scores[0]!r} is not a label: a score does not say which documents are negatives; export labels instead"
        if scores
        else f"to mine negatives for pairs: foolsgold mine --pairs {rows.name}"
    )
    return f"{rows.name}: no negatives in its columns ({there}); {why}. "


def _documents(value: Any, column: str, scores: Any = None) -> Iterator[Entry]:
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
            yield entry._replace(score=score)


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
