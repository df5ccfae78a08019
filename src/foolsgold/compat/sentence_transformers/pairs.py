"""A dataset of (anchor, positive) rows as distinct queries, distinct documents, and who is whose positive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from foolsgold.collection.texts import Texts, first_of_equal
from foolsgold.errors import CollectionError, nearest
from foolsgold.records import BoolArray, IntArray, LongArray, pair_keys
from foolsgold.rules.exclude import is_pair

if TYPE_CHECKING:
    from datasets import Dataset


@dataclass(frozen=True)
class Pairs:
    """Distinct texts, in the order in which they first occur; a query or a document is its row from here on.

    documents: the corpus, and after it the positives that it lacks.
    offsets: int64 (n_queries + 1); positives: int32 (n_pairs), document rows, a query's between its two offsets.
    """

    queries: list[str]
    documents: list[str]
    offsets: LongArray
    positives: IntArray

    @cached_property
    def owners(self) -> IntArray:
        """int32 (n_pairs): the query of each positive."""
        rows = np.arange(len(self.queries), dtype=np.int32)
        return np.repeat(rows, np.diff(self.offsets))

    def labelled(self, query: IntArray, document: IntArray) -> BoolArray:
        """bool (n): which documents are positives of the query, as the dataset says."""
        return is_pair(query, document, self.owners, self.positives)

    def same_text(self, query: IntArray, document: IntArray) -> BoolArray:
        """bool (n): which documents say what a positive of the query says, or what the query itself says.

        Texts are compared without case and white space, queries too: what answers one answers the other (rule 9).
        """
        asked, passage = self._asked[query], self._passage[document]
        same = is_pair(asked, passage, self._asked[self.owners], self._passage[self.positives])
        same |= asked == passage
        return same

    @cached_property
    def most_copies(self) -> int:
        """How many documents of `same_text` that are not labelled a query has at most."""
        size = np.bincount(self._passage, minlength=len(self.documents) + len(self.queries))
        known = np.unique(pair_keys(self._asked[self.owners], self._passage[self.positives]))
        of_asked = np.bincount(known >> 32, weights=size[known & 0xFFFFFFFF], minlength=len(size))
        copies = of_asked[self._asked] + size[self._asked] - np.diff(self.offsets)
        return int(copies.max())

    @cached_property
    def _passage(self) -> IntArray:
        """int32 (n_documents): one number for all documents of one text."""
        return self._first[: len(self.documents)]

    @cached_property
    def _asked(self) -> IntArray:
        """int32 (n_queries): one number for all queries of one text, that of the documents which have it."""
        return self._first[len(self.documents) :]

    @cached_property
    def _first(self) -> IntArray:
        texts = (Texts.from_lists(map(str, range(len(some))), some) for some in (self.documents, self.queries))
        return first_of_equal(np.concatenate([some.keys for some in texts]))


def pair_up(anchors: Sequence[str], positives: Sequence[str], corpus: Sequence[str] | None) -> Pairs:
    """The distinct texts of n rows of anchors and positives, and of a corpus."""
    documents = list(dict.fromkeys([*(corpus or ()), *positives]))
    row_of = {text: row for row, text in enumerate(documents)}
    own: dict[str, dict[int, None]] = {}
    for anchor, positive in zip(anchors, positives, strict=True):
        own.setdefault(anchor, {})[row_of[positive]] = None
    offsets = np.zeros(len(own) + 1, dtype=np.int64)
    np.cumsum([len(rows) for rows in own.values()], out=offsets[1:])
    flat = [row for rows in own.values() for row in rows]
    return Pairs(list(own), documents, offsets, np.array(flat, dtype=np.int32))


def columns_of(dataset: Dataset, anchor: str | None, positive: str | None) -> tuple[str, str]:
    """The names of the anchor's and the positive's column: as named, or else the first and the second."""
    there = list(dataset.column_names)
    for role, column in (("anchor", anchor), ("positive", positive)):
        if column and column not in there:
            near = nearest(column, there)
            hint = f"did you mean {near!r}? " if near else ""
            raise CollectionError(f"dataset: no column {column!r} for the {role}; {hint}(columns: {', '.join(there)})")
    if not positive and len(there) < 2:
        raise ValueError("Dataset must contain at least two columns to select the positive column automatically.")
    anchor, positive = anchor or there[0], positive or there[1]
    if anchor == positive:
        raise CollectionError(
            f"dataset: anchor and positive are both the column {anchor!r}; name both, anchor_column_name=... and "
            "positive_column_name=..."
        )
    return anchor, positive


def strings_of(values: Iterable[str], what: str) -> list[str]:
    """The values as a list, if each is a string.

    Raises:
        CollectionError: naming the first that is none.
    """
    if isinstance(values, str):
        raise CollectionError(f"{what}: one string, where a list of strings is needed")
    found = list(values)
    for row, value in enumerate(found):
        if not isinstance(value, str):
            raise CollectionError(
                f"{what}: row {row} holds {value!r}, which is no text; leave that row out, or give a column of texts"
            )
    return found


def rows_a_query(anchors: Sequence[str]) -> list[int]:
    """How many rows of the dataset each distinct query has."""
    return list(Counter(anchors).values())
