"""A block's outcome as the tables of a mined set."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foolsgold.collection import Texts
from foolsgold.mining.comparisons import comparisons
from foolsgold.mining.exclusion import Candidates
from foolsgold.mining.run import Run
from foolsgold.mining.units import Units, positives_of
from foolsgold.mining.waves import Outcome
from foolsgold.records import (
    REASONS,
    BoolArray,
    Column,
    IntArray,
    Zone,
    ledger_schema,
    negatives_schema,
    positives_schema,
    queries_schema,
)


def tables(run: Run, queries: IntArray, units: Units, candidates: Candidates, outcome: Outcome) -> dict[str, pa.Table]:
    """The negatives, ledger, queries and positives of a block, each in its schema (`records`)."""
    score, verdicts, taken = outcome.score, outcome.verdicts, outcome.taken
    query_ids, doc_ids = run.collection.queries, run.collection.documents
    names = list(run.sources)
    unit, pairs = candidates.unit, candidates.pool
    chosen = np.array([candidate for picks in taken for candidate, _ in picks], dtype=np.int64)
    selected = np.zeros(len(candidates), dtype=np.bool_)
    selected[chosen] = True
    giver = Column.unknown(len(candidates), np.int32)
    giver.values[chosen] = [source for picks in taken for _, source in picks]
    giver.valid[chosen] = True
    by_teacher = score if run.signal.describe() is not None else Column.unknown(len(candidates))
    known = comparisons(run, pairs, unit, units, candidates.cosine)
    ledger = pa.table(
        {
            "query_id": query_ids.ids_of(pairs.query),
            "positive_id": _known_ids(doc_ids, units.positive.take(unit)),
            "doc_id": doc_ids.ids_of(pairs.doc),
            **{name: column.to_arrow() for name, column in known.items()},
            "teacher_score": by_teacher.to_arrow(),
            "judge_probability": outcome.judged.to_arrow(),
            "verdict": _words(Column.known(verdicts.zone), [zone.label for zone in Zone]),
            "reason": _words(Column.known(verdicts.reason), REASONS),
            "weight": verdicts.weight.to_arrow(),
            "source": _words(giver, names),
            "selected": pa.array(selected),
        }
    )
    columns = [field for field in ledger.column_names if field not in ("verdict", "reason", "selected")]
    eligible = verdicts.weight.valid & (verdicts.weight.values > 0)

    def count(mask: BoolArray) -> IntArray:
        return np.bincount(unit[mask], minlength=len(units)).astype(np.int32)

    inverted = selected & score.valid & units.score.valid[unit] & (score.values > units.score.values[unit])
    zones = {zone.label: count(verdicts.zone == zone) for zone in Zone}
    per_unit = pa.table(
        {
            "query_id": query_ids.ids_of(units.query),
            "positive_id": _known_ids(doc_ids, units.positive),
            "candidates": count(np.ones(len(candidates), dtype=np.bool_)),
            **zones,
            "eligible": count(eligible),
            "selected": count(selected),
            "over_budget": count(eligible & ~selected),
            "shortfall": run.quotas.budget - count(selected),
            "positive_score": units.score.to_arrow(),
            "positive_below_negative": pa.array(count(inverted) > 0),
        }
    )
    return {
        "ledger": _in_order(ledger, ledger_schema(names)),
        "negatives": _in_order(ledger.select(columns).take(pa.array(chosen)), negatives_schema(names)),
        "queries": _in_order(per_unit, queries_schema()),
        "positives": _positives(run, queries),
    }


def _positives(run: Run, queries: IntArray) -> pa.Table:
    collection, names = run.collection, list(run.sources)
    mine = positives_of(collection, queries)
    query, doc = collection.positive_query[mine], collection.positive_rows[mine]
    scores = {name: source.score(query, doc) for name, source in run.sources.items()}
    teacher = run.signal.positives if run.signal.describe() is not None else None
    table = {
        "query_id": collection.queries.ids_of(query),
        "doc_id": collection.documents.ids_of(doc),
        "grade": collection.positive_grade[mine],
        **{
            f"{name}_score": pa.nulls(len(query), pa.float32()) if score is None else pa.array(score)
            for name, score in scores.items()
        },
        "teacher_score": pa.nulls(len(query), pa.float32()) if teacher is None else teacher.take(mine).to_arrow(),
    }
    return _in_order(pa.table(table), positives_schema(names))


def _known_ids(texts: Texts, rows: Column) -> pa.Array:
    ids = texts.ids_of(np.where(rows.valid, rows.values, 0))
    return pc.if_else(pa.array(rows.valid), ids, pa.scalar(None, ids.type))


def _words(codes: Column, words: Sequence[str]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(Column(codes.values.astype(np.int32), codes.valid).to_arrow(), list(words))


def _in_order(table: pa.Table, schema: pa.Schema) -> pa.Table:
    return table.select(schema.names).cast(schema)
