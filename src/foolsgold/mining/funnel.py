"""What became of the candidates of a run, counted: the funnel that the command line prints and the manifest keeps."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foolsgold.records import QUERY_COUNTS


class Funnel:
    """Counts over all blocks of a run."""

    def __init__(self, sources: list[str]) -> None:
        self._queries = self._units = 0
        self._unknown_to: Counter[str] = Counter()
        self._totals: Counter[str] = Counter()
        self._reasons: dict[str, Counter[str]] = {}
        self._proposed: Counter[str] = Counter(dict.fromkeys(sources, 0))
        self._selected: Counter[str] = Counter(dict.fromkeys(sources, 0))
        self._full = self._short = self._empty = self._inverted = self._scored = self._judgeable = 0

    def add(self, *, ledger: pa.Table, queries: pa.Table, negatives: pa.Table, positives: pa.Table) -> None:
        """Count one block's tables."""
        del positives
        self._queries += pc.count_distinct(queries["query_id"]).as_py()
        self._units += len(queries)
        for name in QUERY_COUNTS:
            self._totals[name] += int(pc.sum(queries[name]).as_py() or 0)
        for verdict, reason, count in _counted(ledger, ["verdict", "reason"]):
            self._reasons.setdefault(verdict, Counter())[reason] += count
        for source in self._proposed:
            found = ledger.filter(pc.is_valid(ledger[f"{source}_rank"]))
            self._proposed[source] += _distinct_pairs(found)
            asked = pc.count_distinct(queries["query_id"]).as_py()
            self._unknown_to[source] += asked - pc.count_distinct(found["query_id"]).as_py()
        for source, count in _counted(negatives, ["source"]):
            self._selected[source] += count
        shortfall, selected = (queries[name].to_numpy() for name in ("shortfall", "selected"))
        self._full += int(np.sum(shortfall == 0))
        self._empty += int(np.sum(selected == 0))
        self._inverted += int(pc.sum(queries["positive_below_negative"].cast(pa.int64())).as_py() or 0)
        judged = ledger.filter(pc.not_equal(ledger["verdict"].cast(pa.string()), "excluded"))
        self._judgeable += _distinct_pairs(judged)
        self._scored += _distinct_pairs(judged.filter(pc.is_valid(judged["teacher_score"])))

    def counts(self) -> dict[str, Any]:
        """For the manifest. `teacher_saved` is the share of judgeable candidates that no teacher had to read."""
        return {
            "queries": self._queries,
            "units": self._units,  # what negatives were mined for, and what all further counts are counts of
            **{name: self._totals[name] for name in QUERY_COUNTS},
            "reasons": {verdict: dict(sorted(by.items())) for verdict, by in sorted(self._reasons.items())},
            "proposed_by": dict(self._proposed),
            "selected_by": dict(self._selected),
            "queries_at_budget": self._full,
            "queries_without_negatives": self._empty,
            "queries_with_positive_below_negative": self._inverted,
            "teacher_scored": self._scored,
            "teacher_judgeable": self._judgeable,
            "teacher_saved": 1 - self._scored / self._judgeable if self._judgeable and self._scored else None,
        }

    def warnings(self, *, asked_for_all: bool = False) -> list[str]:
        """What the user should look at, one sentence each.

        asked_for_all: the budget is all that the sources give, so that to be below it is no shortfall.
        """
        short = self._units - self._full
        sentences = [
            f"{source} proposed nothing for {number:,} of {self._queries:,} queries; for a bm25 source see language "
            "and tokenizer (bigram reads Chinese and Japanese), for a run whether its ids are those of the collection"
            for source, number in self._unknown_to.items()
            if number > self._queries / 2
        ]
        if short and not asked_for_all:
            sentences.append(
                f"{short:,} of {self._units:,} queries have fewer negatives than asked "
                f"({self._totals['shortfall']:,} missing, {self._empty:,} queries have none); "
                "a greater depth, another source or decide.ambiguous: weight finds more"
            )
        if self._inverted:
            sentences.append(
                f"{self._inverted:,} queries have a positive that scores below one of its negatives "
                "(positive_below_negative in queries.parquet): look whether these positives answer their queries"
            )
        return sentences


def _distinct_pairs(ledger: pa.Table) -> int:
    """With `positive_reference: each`, a pair stands in the ledger once a positive, but a teacher reads it once."""
    if ledger["positive_id"].null_count == len(ledger):
        return len(ledger)
    return len(_counted(ledger, ["query_id", "doc_id"]))


def _counted(table: pa.Table, keys: list[str]) -> list[tuple[Any, ...]]:
    plain = table.select(keys)
    for place, key in enumerate(keys):
        plain = plain.set_column(place, key, plain[key].cast(pa.string()))
    grouped = plain.group_by(keys, use_threads=False).aggregate([([], "count_all")])
    return list(zip(*(grouped[name].to_pylist() for name in (*keys, "count_all")), strict=True))
