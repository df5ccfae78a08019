"""Tevatron and RLHN: query_id, query, positive_passages, negative_passages, each passage {docid, text, score}."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from foolsgold.exchange.formats.reading import Reader, Table, TableFormat, listed
from foolsgold.exchange.formats.writing import Exported, Options, Writer, json_lines, scores_of
from foolsgold.exchange.rows import Passage, Row
from foolsgold.mined.mined_set import MinedSet


def _read(table: Table) -> TableFormat | None:
    if table.has_lists and any(column.endswith("_passages") for column in table.negatives):
        return listed(table, "Tevatron (RLHN)" if "subset" in table.there else "Tevatron")
    return None


def _write(mined: MinedSet, out: Path, options: Options) -> Exported:
    """{query_id, query, positive_passages, negative_passages} (tevatron/retriever/dataset.py, TrainDataset).

    A passage has no `title`: Tevatron would put it before the text, where it is already. `score` is what
    DistilTrainDataset reads.
    """

    def passages(some: list[Passage]) -> list[dict[str, Any]]:
        scores = scores_of(some) if options.scores else []
        records = [{"docid": passage.doc_id, "text": passage.text} for passage in some]
        return [one | {"score": score} for one, score in zip(records, scores, strict=True)] if scores else records

    def record(row: Row) -> Mapping[str, Any]:
        return {
            "query_id": row.query_id,
            "query": row.query,
            "positive_passages": passages(row.positives),
            "negative_passages": passages(row.negatives),
        }

    return json_lines(mined, out, options, record)


READER = Reader((("query, positive_passages, negative_passages", "Tevatron, RLHN"),), _read)
WRITER = Writer(_write, ".jsonl", "Tevatron, as `--dataset_name`", ("scores",))
