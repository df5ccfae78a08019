"""How long the audit and the report of a large mined set take.

    python benchmarks/audit.py [--queries 5000] [--candidates 200]

The set is made up: random ranks and scores, texts of 200 words. Prints one JSON line on stdout.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from foolsgold.auditing import audit
from foolsgold.collection import Collection, Texts
from foolsgold.mined.mined_set import MinedSet
from foolsgold.mining.writer import SetWriter
from foolsgold.recipe import Recipe
from foolsgold.recipe.manifest import Manifest
from foolsgold.records import ledger_schema, negatives_schema, positives_schema, queries_schema

SOURCES = ["bm25", "dense"]
PER_QUERY = 7
DOCUMENTS = 50_000
ROUNDS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=5000)
    parser.add_argument("--candidates", type=int, default=200, help="a query")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as out:
        folder, collection = make_set(Path(out), arguments.queries, arguments.candidates)
        seconds: dict[str, list[float]] = {"audit": [], "report": []}
        for _ in range(ROUNDS):
            mined = MinedSet(folder, collection)
            for name, work in (("audit", mined.audit), ("report", mined.report)):
                started = time.perf_counter()
                work()
                seconds[name].append(time.perf_counter() - started)
    print(
        json.dumps(
            {
                "benchmark": "audit",
                "ledger_rows": arguments.queries * arguments.candidates,
                "negatives": arguments.queries * PER_QUERY,
                **{
                    name: {"median": statistics.median(taken), "min": min(taken), "max": max(taken)}
                    for name, taken in seconds.items()
                },
            }
        )
    )


def make_set(out: Path, n_queries: int, n_candidates: int) -> tuple[Path, Collection]:
    """A set of that many queries and candidates a query, and its collection."""
    draw = np.random.default_rng(0)
    words = np.array([f"word{number}" for number in range(5000)])
    collection = Collection.from_judgements(
        name="made",
        split="train",
        documents=Texts.from_lists(
            [f"d{row}" for row in range(DOCUMENTS)],
            [" ".join(words[draw.integers(0, len(words), 200)]) for _ in range(DOCUMENTS)],
        ),
        queries=Texts.from_lists(
            [f"q{row}" for row in range(n_queries)], [f"what is {row}" for row in range(n_queries)]
        ),
        judgements={(f"q{row}", f"d{row % DOCUMENTS}"): 1 for row in range(n_queries)},
    )
    n = n_queries * n_candidates
    query = np.repeat(np.arange(n_queries), n_candidates)
    place = np.tile(np.arange(n_candidates), n_queries)
    scored, chosen = place < 3 * PER_QUERY, place < PER_QUERY
    positive = draw.uniform(0.4, 1.0, n_queries).astype(np.float32)
    verdict = np.where(place < 2 * PER_QUERY, "negative", np.where(scored, "false_negative", "unscored"))
    score = np.where(verdict == "negative", draw.random(n) * 0.3, 0.7 + draw.random(n) * 0.3).astype(np.float32)
    score = score.astype(np.float32)
    ledger = pa.table(
        {
            "query_id": np.char.add("q", query.astype(str)),
            "positive_id": pa.nulls(n, pa.string()),
            "doc_id": np.char.add("d", draw.integers(0, DOCUMENTS, n).astype(str)),
            "bm25_rank": pa.array(place.astype(np.int32), mask=place % 2 == 1),
            "bm25_score": draw.random(n).astype(np.float32),
            "dense_rank": place.astype(np.int32),
            "dense_score": draw.random(n).astype(np.float32),
            "teacher_score": pa.array(score, mask=~scored),
            "positive_score": positive[query],
            "verdict": verdict,
            "reason": verdict,
            "weight": pa.array(np.ones(n, np.float32), mask=verdict != "negative"),
            "source": pa.array(np.where(place % 2 == 0, "bm25", "dense"), mask=~chosen),
            "selected": chosen,
        }
    )
    counts = {
        "candidates": n_candidates, "excluded": 0, "negative": 2 * PER_QUERY, "ambiguous": 0,
        "false_negative": PER_QUERY, "unscored": n_candidates - 3 * PER_QUERY, "eligible": 2 * PER_QUERY,
        "selected": PER_QUERY, "over_budget": PER_QUERY, "shortfall": 0,
    }  # fmt: skip
    ids = collection.queries.take_ids(range(n_queries))
    queries = pa.table(
        {"query_id": ids, "positive_id": pa.nulls(n_queries, pa.string())}
        | {name: np.full(n_queries, count, np.int32) for name, count in counts.items()}
        | {"positive_score": positive, "positive_below_negative": np.zeros(n_queries, np.bool_)}
    )
    positives = pa.table(
        {
            "query_id": ids,
            "doc_id": [f"d{row % DOCUMENTS}" for row in range(n_queries)],
            "grade": np.ones(n_queries, np.int32),
            **{f"{source}_score": positive for source in SOURCES},
            "teacher_score": positive,
        }
    )
    ledger, queries, positives = (
        complete(table, schema)
        for table, schema in (
            (ledger, ledger_schema(SOURCES)),
            (queries, queries_schema()),
            (positives, positives_schema(SOURCES)),
        )
    )
    negatives = ledger.filter(ledger["selected"]).select(negatives_schema(SOURCES).names)
    facts = {
        "version": "", "created": "", "seed": 0, "calls": {}, "notes": [],
        "collection": {
            "name": "made", "split": "train", "digest": collection.digest, "documents": DOCUMENTS,
            "queries": n_queries, "positives": n_queries,
        },
        "sources": {source: {} for source in SOURCES},
        "teacher": {"model": "made", "fingerprint": "made", "scale": "probability"},
        "counts": {name: count * n_queries for name, count in counts.items()}
        | {"queries": n_queries, "reasons": {}, "selected_by": dict.fromkeys(SOURCES, 0)},
        "warnings": [],
        "recipe": Recipe().recorded(),
    }  # fmt: skip
    manifest = Manifest.model_validate(facts)
    with SetWriter(out, SOURCES) as writer:
        writer.add(ledger=ledger, negatives=negatives, queries=queries, positives=positives)
        written = writer.write(manifest, collection)
        return writer.publish(written, audit(written)), collection


def complete(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with the columns of its schema that it lacks, all null."""
    for field in schema:
        if field.name not in table.column_names:
            table = table.append_column(field.name, pa.nulls(len(table), field.type))
    return table.select(schema.names)


if __name__ == "__main__":
    main()
