"""A collection: corpus, queries and relevance judgements of one split, as every later stage reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from foolsgold.collection.texts import Texts
from foolsgold.errors import CollectionError
from foolsgold.records import BoolArray, IntArray, LongArray, pair_keys, ranges


class Contents(NamedTuple):
    """What a reader found of one split: texts, and judgements by id, (query id, document id) -> grade."""

    name: str
    split: str
    documents: Texts
    queries: Texts
    judgements: Mapping[tuple[str, str], int]
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Collection:
    """Documents, the queries of one split that have a positive, and all their judgements.

    judged_query, judged_doc: int32 (n_judgements), rows, sorted by (query, doc), each pair once;
    grade: int32 (n_judgements). A judgement is a positive when its grade is at least `relevant_from`.
    spec: how to load this collection again (the recipe's `collection` section, with absolute paths), None when made in
    memory.
    notes: what the reader chose or left out, one sentence each, for the user to see.
    """

    name: str
    split: str
    documents: Texts
    queries: Texts
    judged_query: IntArray
    judged_doc: IntArray
    grade: IntArray
    relevant_from: int = 1
    spec: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = field(default=())

    def __repr__(self) -> str:
        return (
            f"Collection({self.name!r}, split={self.split!r}: {len(self.documents):,} documents, "
            f"{len(self.queries):,} queries, {len(self.positive_rows):,} positives)"
        )

    @cached_property
    def positive_offsets(self) -> LongArray:
        """int64 (n_queries + 1): the positives of query q are `positive_rows[offsets[q]:offsets[q + 1]]`."""
        counts = np.bincount(self.judged_query[self._relevant], minlength=len(self.queries))
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    @cached_property
    def positive_rows(self) -> IntArray:
        """int32 (n_positives): document rows, by query, then row."""
        return self.judged_doc[self._relevant]

    @cached_property
    def positive_query(self) -> IntArray:
        """int32 (n_positives): the query row of each of `positive_rows`."""
        return self.judged_query[self._relevant]

    @cached_property
    def answers(self) -> tuple[LongArray, IntArray]:
        """Offsets, int64 (n_queries + 1), and document rows: a query's positives and those of queries of its text."""
        asked = self.queries.passage
        if len(np.unique(asked)) == len(asked):
            return self.positive_offsets, self.positive_rows
        pairs = np.unique(pair_keys(asked[self.positive_query], self.positive_rows))
        texts = (pairs >> 32).astype(np.int32)
        begins, ends = np.searchsorted(texts, asked), np.searchsorted(texts, asked, side="right")
        counts = ends - begins
        place = ranges(begins, counts)
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return offsets, (pairs[place] & 0xFFFFFFFF).astype(np.int32)

    @cached_property
    def positive_grade(self) -> IntArray:
        """int32 (n_positives): the grade of each of `positive_rows`."""
        return self.grade[self._relevant]

    @cached_property
    def _relevant(self) -> BoolArray:
        return np.asarray(self.grade >= self.relevant_from)

    def positives(self, query: int) -> IntArray:
        """The document rows of one query's positives."""
        return self.positive_rows[self.positive_offsets[query] : self.positive_offsets[query + 1]]

    @cached_property
    def digest(self) -> str:
        """A hash of everything that mining reads: ids, texts, judgements. Hexadecimal."""
        digest = sha256(self.documents.digest.encode() + self.queries.digest.encode())
        for part in (self.judged_query, self.judged_doc, self.grade, np.asarray([self.relevant_from], np.int32)):
            digest.update(np.ascontiguousarray(part, dtype=np.int32).tobytes())
        return digest.hexdigest()

    def with_extra_positives(self, query: IntArray, doc: IntArray) -> Collection:
        """A new collection in which the given pairs (rows) are positives too; this one stays as it is.

        A pair judged already keeps the higher of its grade and `relevant_from`.
        """
        grades: dict[tuple[int, int], int] = {
            (int(q), int(d)): int(g) for q, d, g in zip(self.judged_query, self.judged_doc, self.grade, strict=True)
        }
        for q, d in zip(query.tolist(), doc.tolist(), strict=True):
            grades[q, d] = max(grades.get((q, d), self.relevant_from), self.relevant_from)
        judged_query, judged_doc, grade = judgement_arrays(grades)
        return replace(self, judged_query=judged_query, judged_doc=judged_doc, grade=grade, spec=None)

    def with_queries(self, rows: npt.NDArray[Any], spec: Mapping[str, Any] | None = None) -> Collection:
        """A new collection of the queries in the given rows, int (n), ascending; `spec`: how to load that one again."""
        place = np.full(len(self.queries), -1, dtype=np.int32)
        place[rows] = np.arange(len(rows))
        kept = place[self.judged_query] >= 0
        return replace(
            self,
            queries=self.queries.subset(rows),
            judged_query=place[self.judged_query[kept]],
            judged_doc=self.judged_doc[kept],
            grade=self.grade[kept],
            spec=spec,
        )

    def held_out(self, share: float) -> BoolArray:
        """bool (n_queries): the queries to set aside for evaluation, about so large a share of them.

        A hash of the normalised text decides, so that queries of one text stay together, whatever is added to the
        collection later.
        """
        return np.asarray(self.queries.keys[:, 0] >> np.uint64(1) < np.uint64(share * 2.0**63))

    @classmethod
    def from_judgements(
        cls,
        *,
        name: str,
        split: str,
        documents: Texts,
        queries: Texts,
        judgements: Mapping[tuple[str, str], int],
        relevant_from: int = 1,
        limit: int | None = None,
        spec: Mapping[str, Any] | None = None,
        notes: Iterable[str] = (),
    ) -> Collection:
        """From judgements by id, (query id, document id) -> grade.

        Keeps the queries that have a positive, in the order of `queries`, the first `limit` of them; says in the notes
        how many of the others were judged without a positive.

        Raises:
            CollectionError: an id that is not in the corpus or among the queries; no query with a positive.
        """
        notes = list(notes)
        if len(documents) == 0:
            raise CollectionError(f"{name}: the corpus is empty; mining needs documents to choose from")
        query_rows = queries.find(query_id for query_id, _ in judgements)
        doc_rows = documents.find(doc_id for _, doc_id in judgements)
        by_query: dict[int, list[tuple[int, int]]] = {}
        for (query_id, doc_id), grade in judgements.items():
            query, doc = query_rows.get(query_id), doc_rows.get(doc_id)
            if query is None or doc is None:
                what, missing = ("query", query_id) if query is None else ("document", doc_id)
                raise CollectionError(
                    f"{name}, split {split}: a judgement names {what} {missing!r}, which is not there"
                )
            by_query.setdefault(query, []).append((doc, grade))
        useful = sorted(q for q, judged in by_query.items() if any(grade >= relevant_from for _, grade in judged))
        if not useful:
            raise CollectionError(
                f"{name}, split {split}: no query has a positive (a grade of at least {relevant_from}); "
                "name another split or set relevant_from lower"
            )
        if len(useful) < len(by_query):
            notes.append(f"judged queries without a positive: {len(by_query) - len(useful):,}, left out")
        kept = useful[:limit]
        grades = {(row, doc): grade for row, query in enumerate(kept) for doc, grade in by_query[query]}
        judged_query, judged_doc, grade_of = judgement_arrays(grades)
        return cls(
            name=name,
            split=split,
            documents=documents,
            queries=queries.subset(kept),
            judged_query=judged_query,
            judged_doc=judged_doc,
            grade=grade_of,
            relevant_from=relevant_from,
            spec=spec,
            notes=tuple(notes),
        )


def judgement_arrays(grades: Mapping[tuple[int, int], int]) -> tuple[IntArray, IntArray, IntArray]:
    """(query row, document row) -> grade as the three sorted arrays of a Collection."""
    pairs = sorted(grades)
    return (
        np.array([q for q, _ in pairs], dtype=np.int32),
        np.array([d for _, d in pairs], dtype=np.int32),
        np.array([grades[pair] for pair in pairs], dtype=np.int32),
    )
