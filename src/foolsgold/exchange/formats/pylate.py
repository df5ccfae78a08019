"""PyLate: the tables train (query_id, document_ids, scores), queries and documents. Only written."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from foolsgold.errors import MinedSetError
from foolsgold.exchange.formats.writing import (
    Exported,
    Options,
    Writer,
    check_new,
    left_out,
    scaled_examples,
    scores_of,
)
from foolsgold.exchange.rows import rows_of
from foolsgold.files import written_whole
from foolsgold.mined.mined_set import MinedSet


def _write(mined: MinedSet, out: Path, options: Options) -> Exported:
    """train (query_id, document_ids, scores), queries and documents: what `pylate.utils.KDProcessing` joins.

    The positive is first; all rows have as many documents, since PyLate makes one tensor of a batch's scores.
    """
    collection, found = mined.collection, scaled_examples(mined)
    width = int(mined.manifest.recipe.select.per_query) if options.negatives is None else options.negatives
    whole = found.counts >= width
    notes = left_out(whole, f"fewer than {width} negatives (--negatives asks for fewer)")
    found = found.keep(whole)
    if not len(found.query):
        raise MinedSetError(f"{mined.path}: no query has {width} negatives; ask for fewer with --negatives")
    rows: list[tuple[str, list[str], list[float]]] = []
    queries: dict[str, str] = {}
    documents: dict[str, str] = {}
    for row in rows_of(found, collection, negatives=width, one_positive=True):
        passages = [*row.positives, *row.negatives]
        rows.append((row.query_id, [passage.doc_id for passage in passages], scores_of(passages)))
        queries[row.query_id] = row.query
        documents |= {passage.doc_id: passage.text for passage in passages}
    columns = list(zip(*rows, strict=True))
    tables = {
        "train": {
            "query_id": pa.array(columns[0], pa.string()),
            "document_ids": pa.array(columns[1], pa.list_(pa.string())),
            "scores": pa.array(columns[2], pa.list_(pa.float32())),
        },
        "queries": {"query_id": list(queries), "text": list(queries.values())},
        "documents": {"document_id": list(documents), "text": list(documents.values())},
    }

    check_new(out)
    with written_whole(out) as folder:
        folder.mkdir()
        for name, table in tables.items():
            pq.write_table(pa.table(table), folder / f"{name}.parquet", compression="zstd")
    return Exported(out, len(rows), notes)


WRITER = Writer(_write, "", "PyLate, joined by `pylate.utils.KDProcessing`", ("scores",))
