"""A dataset of (anchor, positive) rows as distinct queries, distinct documents, and who is whose positive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from foolsgold.collection.texts import Texts, first_of_equal
from foolsgold.records import BoolArray, IntArray, LongArray, pair_keys
from foolsgold.rules.exclude import is_pair


@dataclass(frozen=True)
class Pairs:
    """Distinct texts, in the order in which they first occur; a query or a document is its row from here on.

    documents: the corpus, and after it the positives that it lacks.
    offsets: int64 (n_queries + 1); positives: int32 (n_pairs), document rows, a query's between its two offsets.
    """

    queries: Texts
    documents: Texts
    offsets: LongArray
    positives: IntArray

    @cached_property
    def owners(self) -> IntArray:
        """int32 (n_pairs): the query of each positive."""
        return np.repeat(np.arange(len(self.queries), dtype=np.int32), np.diff(self.offsets))

    def texts(self, query: IntArray, document: IntArray) -> list[tuple[str, str]]:
        """The texts of queries and documents, pair by pair."""
        return list(zip(self.queries.take(query), self.documents.take(document), strict=True))

    def labelled(self, query: IntArray, document: IntArray) -> BoolArray:
        """bool (n): which documents are positives of the query, as the dataset says."""
        return is_pair(query, document, self.owners, self.positives)

    def same_text(self, query: IntArray, document: IntArray) -> BoolArray:
        """bool (n): which documents have the text of a positive of the query, or of the query itself.

        Texts are compared without case and white space, those of queries too: what answers one answers the other
        (rule 9).
        """
        asked, passage = self._asked[query], self._passage[document]
        same = is_pair(asked, passage, self._asked[self.owners], self._passage[self.positives])
        same |= asked == passage
        return same

    @cached_property
    def most_copies(self) -> int:
        """The most documents of `same_text` that are not labelled that a query has."""
        size = np.bincount(self._passage, minlength=len(self._first))
        known = np.unique(pair_keys(self._asked[self.owners], self._passage[self.positives]))
        of_asked = np.bincount(known >> 32, weights=size[known & 0xFFFFFFFF], minlength=len(size))
        return int((of_asked[self._asked] + size[self._asked] - np.diff(self.offsets)).max())

    @property
    def _passage(self) -> IntArray:
        """int32 (n_documents): one number for all documents of one text."""
        return self._first[: len(self.documents)]

    @property
    def _asked(self) -> IntArray:
        """int32 (n_queries): one number for all queries of one text, that of the documents which have it."""
        return self._first[len(self.documents) :]

    @cached_property
    def _first(self) -> IntArray:
        return first_of_equal(np.concatenate([self.documents.keys, self.queries.keys]))


def pair_up(anchors: Sequence[str], positives: Sequence[str], corpus: Sequence[str] | None) -> Pairs:
    """The distinct texts of n rows of anchors and positives, and of a corpus."""
    row_of = {text: row for row, text in enumerate(dict.fromkeys([*(corpus or ()), *positives]))}
    own: dict[str, dict[int, None]] = {}
    for anchor, positive in zip(anchors, positives, strict=True):
        own.setdefault(anchor, {})[row_of[positive]] = None
    offsets = np.zeros(len(own) + 1, dtype=np.int64)
    np.cumsum([len(rows) for rows in own.values()], out=offsets[1:])
    flat = np.array([row for rows in own.values() for row in rows], dtype=np.int32)
    queries, documents = (Texts.from_lists(map(str, range(len(some))), some) for some in (own, row_of))
    return Pairs(queries, documents, offsets, flat)
