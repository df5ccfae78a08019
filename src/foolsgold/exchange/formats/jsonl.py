"""foolsgold's own lines: query_id, query, positives, negatives, each document {doc_id, text, score, weight}."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from foolsgold.exchange.formats.reading import Reader, Table, TableFormat, listed
from foolsgold.exchange.formats.writing import Exported, Options, Writer, json_lines
from foolsgold.exchange.rows import Passage, Row
from foolsgold.mined.mined_set import MinedSet


def _read(table: Table) -> TableFormat | None:
    return listed(table, "lists of positives and negatives") if table.has_lists else None


def _write(mined: MinedSet, out: Path, options: Options) -> Exported:
    """{query_id, query, positives, negatives}: ids, texts, the teacher's scores if it has one, and weights."""
    scored = mined.manifest.teacher is not None

    def passages(some: list[Passage]) -> list[dict[str, Any]]:
        return [
            {"doc_id": passage.doc_id, "text": passage.text}
            | ({"score": passage.score} if scored else {})
            | ({"weight": passage.weight} if passage.weight != 1.0 else {})
            for passage in some
        ]

    def record(row: Row) -> Mapping[str, Any]:
        return {
            "query_id": row.query_id,
            "query": row.query,
            "positives": passages(row.positives),
            "negatives": passages(row.negatives),
        }

    return json_lines(mined, out, options, record, weighed=True)


READER = Reader((("query, positives, negatives", "foolsgold export --to jsonl"),), _read)
WRITER = Writer(_write, ".jsonl", "`foolsgold import`", ("scores", "weights"))
