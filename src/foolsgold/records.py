"""The data that flows through foolsgold: small value objects and the Arrow schemas. Read this second, after mine.py.

Inside, a query or a document is its int32 row in the collection; ids and texts are fetched at the edges. Per-query
lists are ragged and stored flat: `offsets` (n + 1) says where each query's part begins and ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from hashlib import blake2b
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

IntArray = npt.NDArray[np.int32]
LongArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float32]
DoubleArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

Scale = Literal["logit", "probability", "cosine"]


class Zone(IntEnum):
    """What the decision says of a candidate; `EXCLUDED` never reached a teacher, `UNSCORED` was never needed."""

    EXCLUDED = 0
    NEGATIVE = 1
    AMBIGUOUS = 2
    FALSE_NEGATIVE = 3
    UNSCORED = 4

    @property
    def label(self) -> str:
        """The word used in the ledger."""
        return self.name.lower()


@dataclass(frozen=True)
class Column:
    """Values some of which are not known. `values` where `valid` is False mean nothing and are never read."""

    values: npt.NDArray[Any]
    valid: BoolArray

    def __post_init__(self) -> None:
        if self.values.shape != self.valid.shape:
            raise ValueError(f"{self.values.shape} values but {self.valid.shape} flags")

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: npt.NDArray[Any] | slice) -> Column:
        """The given rows (int indices, a bool mask or a slice), in that order."""
        return Column(self.values[rows], self.valid[rows])

    def to_arrow(self) -> pa.Array:
        """An Arrow array with nulls where a value is not known."""
        return pa.array(self.values, mask=~self.valid)

    @classmethod
    def known(cls, values: npt.NDArray[Any]) -> Column:
        """A column in which every value is known."""
        return cls(values, np.ones(len(values), dtype=np.bool_))

    @classmethod
    def unknown(cls, n: int, dtype: npt.DTypeLike = np.float32) -> Column:
        """A column of n values none of which is known."""
        return cls(np.zeros(n, dtype=dtype), np.zeros(n, dtype=np.bool_))


@dataclass(frozen=True)
class Hits:
    """What one source found for a run of queries.

    offsets: int64 (n_queries + 1); rows: int32 (n_hits), document rows; scores: float32 (n_hits), higher is closer.
    Within a query scores descend and equal scores are in ascending row order; no row is found twice.
    """

    offsets: LongArray
    rows: IntArray
    scores: FloatArray

    @classmethod
    def from_top_k(cls, scores: FloatArray, rows: IntArray, keep: BoolArray | None = None) -> Hits:
        """From the rectangular arrays of `search.top_k`, (n_queries, k) each; `keep` drops hits (a zero BM25 score)."""
        if keep is None:
            keep = np.ones(rows.shape, dtype=np.bool_)
        offsets = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(keep.sum(axis=1), out=offsets[1:])
        return cls(offsets, rows[keep].astype(np.int32), scores[keep].astype(np.float32))


@dataclass(frozen=True)
class Pool:
    """The candidates of a run of queries, each once, with every source's rank and score. Sorted by (query, doc).

    query, doc: int32 (n), rows in the collection.
    ranks: per source, int32 (n), 0 is the best; known only where that source proposed the candidate.
    scores: per source, float32 (n); known where the source proposed the candidate, and elsewhere too where the source
    can score any pair (a dense source knows the cosine of a document that only BM25 found).
    """

    query: IntArray
    doc: IntArray
    ranks: dict[str, Column]
    scores: dict[str, Column]

    def __len__(self) -> int:
        return len(self.query)

    def take(self, rows: npt.NDArray[Any]) -> Pool:
        """The candidates of the given rows (int indices or a bool mask), in that order."""
        return Pool(
            query=self.query[rows],
            doc=self.doc[rows],
            ranks={source: rank.take(rows) for source, rank in self.ranks.items()},
            scores={source: score.take(rows) for source, score in self.scores.items()},
        )


@dataclass(frozen=True)
class Verdicts:
    """What was decided of each of n candidates.

    zone: int8 (n), a `Zone`; reason: int16 (n), an index into `REASONS`;
    weight: float32, how much a candidate may count in training (1 for a negative, known only where it may be selected).
    """

    zone: npt.NDArray[np.int8]
    reason: npt.NDArray[np.int16]
    weight: Column


REASONS: tuple[str, ...] = (
    # exclusions, in the order in which they are tried
    "known_positive",
    "duplicate_of_positive",
    "near_duplicate_of_positive",
    "query_itself",
    "empty_text",
    "duplicate_of_candidate",
    "outside_window",
    # zones
    "below_negative_threshold",
    "between_thresholds",
    "judge_says_negative",
    "judge_says_positive",
    "above_positive_threshold",
    "above_positive_percentile",
    "within_absolute_margin",
    "within_relative_margin",
    "passed_every_rule",
    "no_filter",
    "not_needed",
)
REASON = {name: code for code, name in enumerate(REASONS)}

_ID = pa.string()
_WORD = pa.dictionary(pa.int32(), pa.string())


def ledger_schema(sources: list[str]) -> pa.Schema:
    """One row for every candidate of every query, selected or not.

    {source}_gap: the source's score less its score of the positive that margins are measured from.
    positive_similarity: to the nearest known positive, by the dense source: 0 as any two passages, 1 the same.
    judge_probability: that the candidate is relevant, by the calibration, where the recipe names one.
    """
    return pa.schema(
        [
            pa.field("query_id", _ID, nullable=False),
            pa.field("positive_id", _ID),  # only with `positive_reference: each`, where each positive is mined for
            pa.field("doc_id", _ID, nullable=False),
            *_source_fields(sources),
            *(pa.field(f"{source}_gap", pa.float32()) for source in sources),
            pa.field("positive_similarity", pa.float32()),
            pa.field("teacher_score", pa.float32()),
            pa.field("positive_score", pa.float32()),
            pa.field("judge_probability", pa.float32()),
            pa.field("verdict", _WORD, nullable=False),
            pa.field("reason", _WORD, nullable=False),
            pa.field("weight", pa.float32()),
            pa.field("source", _WORD),  # whose quota it fills; null when not selected
            pa.field("selected", pa.bool_(), nullable=False),
        ]
    )


def negatives_schema(sources: list[str]) -> pa.Schema:
    """One row for every selected (query, document), in the order in which they were selected."""
    return pa.schema(
        [
            pa.field("query_id", _ID, nullable=False),
            pa.field("positive_id", _ID),
            pa.field("doc_id", _ID, nullable=False),
            pa.field("source", _WORD, nullable=False),
            *_source_fields(sources),
            pa.field("teacher_score", pa.float32()),
            pa.field("positive_score", pa.float32()),
            pa.field("judge_probability", pa.float32()),
            pa.field("weight", pa.float32(), nullable=False),
        ]
    )


QUERY_COUNTS = (
    "candidates",
    "excluded",
    "negative",
    "ambiguous",
    "false_negative",
    "unscored",
    "eligible",  # negatives, and ambiguous ones that have a weight
    "selected",
    "over_budget",
    "shortfall",
)


def queries_schema() -> pa.Schema:
    """One row for every query (with `positive_reference: each`, every query and positive): its counts and flags.

    positive_below_negative: a selected negative scores above the positive, so one of the two is mislabelled.
    """
    return pa.schema(
        [
            pa.field("query_id", _ID, nullable=False),
            pa.field("positive_id", _ID),
            *(pa.field(name, pa.int32(), nullable=False) for name in QUERY_COUNTS),
            pa.field("positive_score", pa.float32()),
            pa.field("positive_below_negative", pa.bool_(), nullable=False),
        ]
    )


def positives_schema(sources: list[str]) -> pa.Schema:
    """One row for every known positive: its grade, and what each source and the teacher that can score it say."""
    return pa.schema(
        [
            pa.field("query_id", _ID, nullable=False),
            pa.field("doc_id", _ID, nullable=False),
            pa.field("grade", pa.int32(), nullable=False),
            *(pa.field(f"{source}_score", pa.float32()) for source in sources),
            pa.field("teacher_score", pa.float32()),
        ]
    )


def _source_fields(sources: list[str]) -> list[pa.Field]:
    return [
        field
        for source in sources
        for field in (pa.field(f"{source}_rank", pa.int32()), pa.field(f"{source}_score", pa.float32()))
    ]


def ranges(begins: npt.NDArray[Any], counts: npt.NDArray[Any]) -> LongArray:
    """int64 (sum of counts): begins[i], begins[i] + 1, ... (`counts[i]` of them) for each i, one after the other."""
    flat: LongArray = np.arange(counts.sum()) + np.repeat(begins - (np.cumsum(counts) - counts), counts)
    return flat


def pair_keys(query: npt.NDArray[Any], doc: npt.NDArray[Any]) -> LongArray:
    """int64 (n): one number for each (query row, document row), ordered by query, then document."""
    return (query.astype(np.int64) << 32) | doc.astype(np.int64)


def text_key(text: str) -> bytes:
    """16 bytes that stand for a text, exactly as it is, in the stores of embeddings and teacher scores."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def sigmoid(logits: FloatArray) -> FloatArray:
    """Logits to probabilities, float32, without overflow on either side."""
    positive = logits >= 0
    small = np.exp(np.where(positive, -logits, logits))
    return np.where(positive, 1 / (1 + small), small / (1 + small)).astype(np.float32)
