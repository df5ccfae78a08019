"""The signals of a calibration: numbers from a candidate's row in the ledger that tell how relevant it is.

Signals that compare the candidate with the query's positive mean the same for easy and hard queries. `LADDER` is the
order in which they are tried: those that helped on every collection come first, those that differ from collection to
collection last. BM25 differs: on trecdl21 a candidate with more of the query's words than the positive is *less* often
relevant (its other scores come from the words), on cran more often (benchmarks/calibration.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from foolsgold.errors import MinedSetError
from foolsgold.records import BoolArray, Column, DoubleArray, Scale
from foolsgold.teachers.scale import to_scale

Columns = Mapping[str, Column]
"""Columns of the ledger by name, n rows each."""


@dataclass(frozen=True)
class CandidateScores:
    """The scores, gaps and ranks of n candidates, and what they mean.

    columns: of the ledger; retriever, bm25: the names of the dense and the BM25 source, None without one;
    scale: the one that teacher scores are declared on.
    """

    columns: Columns
    retriever: str | None
    bm25: str | None
    scale: Scale

    def __len__(self) -> int:
        return len(self.columns["teacher_score"])

    def of(self, source: str | None, what: str) -> Column:
        """A source's score, gap or rank; unknown without that source."""
        name = f"{source}_{what}"
        return self.columns[name] if name in self.columns else Column.unknown(len(self))

    def logit(self, name: str) -> Column:
        """A teacher's scores as logits; cosines stay what they are."""
        column = self.columns[name]
        values = np.where(column.valid, column.values, 0).astype(np.float32)
        want: Scale = "cosine" if self.scale == "cosine" else "logit"
        return Column(to_scale(values, self.scale, want), column.valid)


def _teacher_gap(scores: CandidateScores) -> Column:
    own, positive = scores.logit("teacher_score"), scores.logit("positive_score")
    return Column(own.values.astype(np.float64) - positive.values, own.valid & positive.valid)


def _bm25_contrast(scores: CandidateScores) -> Column:
    """(own - positive's) / (own + positive's): from -1 to 1 whatever the query's length; 0 where both are 0."""
    own, gap = scores.of(scores.bm25, "score"), scores.of(scores.bm25, "gap")
    both = 2 * own.values.astype(np.float64) - gap.values
    contrast = np.divide(gap.values, both, out=np.zeros(len(own)), where=both > 0)
    return Column(np.clip(contrast, -1.0, 1.0), own.valid & gap.valid)


def _logged(column: Column) -> Column:
    return Column(np.log1p(np.maximum(column.values, 0.0).astype(np.float64)), column.valid)


def _reciprocal(rank: Column) -> Column:
    """1 / (61 + rank), as in reciprocal rank fusion (Cormack et al. 2009); 0 where the source did not find it."""
    return Column.known(np.where(rank.valid, 1.0 / (61.0 + rank.values), 0.0))


SIGNALS: dict[str, Callable[[CandidateScores], Column]] = {
    "teacher_gap": _teacher_gap,
    "positive_similarity": lambda s: s.columns.get("positive_similarity", Column.unknown(len(s))),
    "bm25_contrast": _bm25_contrast,
    "teacher_logit": lambda s: s.logit("teacher_score"),
    "retriever_score": lambda s: s.of(s.retriever, "score"),
    "retriever_gap": lambda s: s.of(s.retriever, "gap"),
    "retriever_rank": lambda s: _reciprocal(s.of(s.retriever, "rank")),
    "bm25_score": lambda s: _logged(s.of(s.bm25, "score")),
}
LADDER = (
    ("teacher_logit", "teacher_gap"),
    ("positive_similarity",),
    ("bm25_contrast",),
    ("retriever_score", "retriever_gap", "retriever_rank", "bm25_score"),
)
NEEDS_RETRIEVER = frozenset({"positive_similarity", "retriever_score", "retriever_gap", "retriever_rank"})
NEEDS_BM25 = frozenset({"bm25_contrast", "bm25_score"})


def matrix(scores: CandidateScores, signals: Iterable[str]) -> tuple[DoubleArray, BoolArray]:
    """float64 (n, n_signals), and bool (n): whether all of them are known."""
    columns = [SIGNALS[name](scores) for name in signals]
    values = np.column_stack([column.values.astype(np.float64) for column in columns])
    return values, np.logical_and.reduce([column.valid for column in columns])


def from_ledger(table: pa.Table) -> dict[str, Column]:
    """The numeric columns of a ledger.

    Raises:
        MinedSetError: the rows have no teacher's scores.
    """
    for name in ("teacher_score", "positive_score"):
        if name not in table.column_names:
            raise MinedSetError(f"a calibration reads the rows of a ledger, and these have no column {name}")
    return {
        name: _column(table[name])
        for name in table.column_names
        if pa.types.is_floating(table.schema.field(name).type) or pa.types.is_int32(table.schema.field(name).type)
    }


def _column(values: Any) -> Column:
    known = values.is_valid().to_numpy(zero_copy_only=False)
    return Column(values.fill_null(0).to_numpy(), known)
