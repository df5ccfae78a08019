"""Three ways to know whether a mined negative is relevant: positives that were hidden, judgements, an estimate.

Each gives a `Truth`: the collection to mine and what is then known of each candidate. Mining never sees what the truth
knows: only one positive of a query is left in a collection whose other positives are to be found among the negatives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from foolsgold.collection import Collection
from foolsgold.records import BoolArray, Column, FloatArray, IntArray, LongArray, Scale, pair_keys
from foolsgold.rules.select import uniforms

Way = Literal["hidden", "judged", "estimated"]


@dataclass(frozen=True)
class Truth:
    """What to mine, and what is known of the candidates.

    relevance: of n ledger rows of a set mined from `collection`, float32 (n), how relevant each is: 1 or 0, or a
        probability; not known where nobody judged.
    every_candidate: whether `relevance` knows all candidates, or only those that a teacher has scored.
    """

    way: Way
    collection: Collection
    relevance: Callable[[pa.Table], Column]
    every_candidate: bool


class Probabilities(Protocol):
    """What gives calibrated probabilities, such as the calibration that `foolsgold.calibration.load` returns."""

    def probability(self, table: pa.Table, scale: Scale) -> FloatArray:
        """float32 (n): how probable it is that each of n ledger rows, with teacher scores on `scale`, is relevant."""
        ...


def by_hiding(collection: Collection, *, seed: int, queries: int | None = None) -> Truth | None:
    """Hide all but one positive of each query that has several; None where no query has.

    Which one stays is drawn, fixed by the seed. What comes back among the negatives is a false negative for certain;
    what is relevant and was never labelled is not seen, so rates are lower bounds. Queries with one positive (by text)
    are left out.
    """
    positives = np.flatnonzero(collection.grade >= collection.relevant_from)
    query, passage = collection.judged_query[positives], _passages(collection)[positives]
    asked = np.unique(pair_keys(query, passage)) >> 32
    several = np.bincount(asked, minlength=len(collection.queries)) > 1
    # by passage and by the query's text, so that of copies the same positive stays
    draw = uniforms(seed, crc32(b"hide positives"), collection.queries.passage[query], passage)
    order = np.lexsort((draw, query))
    preferred = positives[order[several[query[order]]]]
    if not len(preferred):
        return None
    return _with_one_positive("hidden", collection, preferred, positives, queries, complete=True)


def by_judgements(collection: Collection, *, queries: int | None = None) -> Truth | None:
    """Keep each query's best-graded passage alone, of equals the first in the corpus; None without negative judgements.

    A judged candidate is relevant from the collection's `relevant_from` on; what nobody judged is not known. Judgements
    that are all positive cannot tell a relevant candidate from another, hence the None.
    """
    if not (collection.grade < collection.relevant_from).any():
        return None
    positives = np.flatnonzero(collection.grade >= collection.relevant_from)
    best_first = np.lexsort((-collection.grade[positives], collection.judged_query[positives]))
    everything = np.arange(len(collection.grade))
    return _with_one_positive("judged", collection, positives[best_first], everything, queries, complete=False)


def by_estimate(
    collection: Collection, calibration: Probabilities, *, scale: Scale = "probability", queries: int | None = None
) -> Truth:
    """The collection as it is, and the calibrated probability for each candidate that a teacher has scored.

    scale: the one that the teacher's scores are declared on.
    """
    if queries is not None and queries < len(collection.queries):
        mine = np.flatnonzero(collection.judged_query < queries)
        collection = _restricted(collection, np.arange(queries), collection.judged_query[mine], mine)

    def relevance(rows: pa.Table) -> Column:
        scored = np.asarray(rows["teacher_score"].is_valid())
        probability = np.zeros(len(rows), dtype=np.float32)
        probability[scored] = calibration.probability(rows.filter(pa.array(scored)), scale)
        return Column(probability, scored)

    return Truth("estimated", collection, relevance, every_candidate=False)


def _with_one_positive(
    way: Way,
    collection: Collection,
    preferred: LongArray,
    judgements: LongArray,
    queries: int | None,
    *,
    complete: bool,
) -> Truth:
    """Mine with one positive per query, and know the rest.

    preferred: int64, places of positives among the judgements, by query, the one that stays first.
    judgements: int64, places of the judgements that the truth knows.
    complete: whether any other pair is not relevant, or not known.
    """
    asked, first = np.unique(collection.judged_query[preferred], return_index=True)
    asked, kept = asked[:queries], preferred[first][:queries]
    mined = _restricted(collection, asked, np.arange(len(asked)), kept)
    passage = _passages(collection)
    judgements = judgements[np.isin(collection.judged_query[judgements], asked)]
    keys = pair_keys(np.searchsorted(asked, collection.judged_query[judgements]), passage[judgements])
    relevant = collection.grade[judgements] >= collection.relevant_from
    best_first = np.lexsort((~relevant, keys))  # copies of a passage may be graded apart
    keys, place = np.unique(keys[best_first], return_index=True)
    hidden = ~np.isin(keys, pair_keys(np.arange(len(asked)), passage[kept]))
    known = _Judgements(mined, keys[hidden], relevant[best_first][place][hidden], complete)
    return Truth(way, mined, known, every_candidate=True)


@dataclass(frozen=True)
class _Judgements:
    """What is known of a (query, passage): keys int64 (n), ascending (`pair_keys` of rows); relevant: bool (n)."""

    collection: Collection
    keys: LongArray
    relevant: BoolArray
    complete: bool

    def __call__(self, rows: pa.Table) -> Column:
        doc = self.collection.documents.rows_of(rows["doc_id"])
        asked = pair_keys(
            self.collection.queries.rows_of(rows["query_id"], "query"), self.collection.documents.passage[doc]
        )
        place = np.searchsorted(self.keys, asked)
        inside = place < len(self.keys)
        listed = np.zeros(len(asked), dtype=np.bool_)
        listed[inside] = self.keys[place[inside]] == asked[inside]
        relevance = np.zeros(len(asked), dtype=np.float32)
        relevance[listed] = self.relevant[place[listed]]
        return Column(relevance, listed | self.complete)


def _restricted(
    collection: Collection, asked: npt.NDArray[Any], query: npt.NDArray[Any], judgements: npt.NDArray[Any]
) -> Collection:
    """A collection of the queries `asked` (rows) with some of the judgements (places); query: their new query rows."""
    return replace(
        collection,
        queries=collection.queries.subset(asked),
        judged_query=query.astype(np.int32),
        judged_doc=collection.judged_doc[judgements],
        grade=collection.grade[judgements],
        spec=None,
        notes=(),
    )


def _passages(collection: Collection) -> IntArray:
    """int32 (n_judgements): the passage of each judged document."""
    return collection.documents.passage[collection.judged_doc]
