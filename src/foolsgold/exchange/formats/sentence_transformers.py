"""sentence-transformers: anchor, positive, negative (or negative_1, negative_2, ...), or anchor, positive, label."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from foolsgold.collection.columns import BadCell, documents_of, shown
from foolsgold.errors import MinedSetError
from foolsgold.exchange.formats.reading import Example, Reader, Table, TableFormat, listed, table_format
from foolsgold.exchange.formats.writing import Exported, Options, Writer, check_new, scale, write_lines
from foolsgold.files import written_whole
from foolsgold.mined.formats import to_dataset
from foolsgold.mined.mined_set import MinedSet

if TYPE_CHECKING:
    from datasets import Dataset


def _read(table: Table) -> TableFormat:
    """Rows of any other file: a label says what is a negative, or columns do."""
    _ = table.columns
    if not table.negatives:
        assert table.label is not None  # or `columns` would have been unclear
        return _labeled(table, table.label)
    many = len(table.negatives)
    return listed(table, "sentence-transformers " + ("triplets" if many == 1 else f"tuples of {many} negatives"))


def _labeled(table: Table, label: str) -> TableFormat:
    """Rows of a query, one or more documents, and a label of 1 or 0 for each."""
    columns = table.columns
    lists = any(isinstance(record.get(label), list) for record in table.first)
    name = f"sentence-transformers labeled {'lists' if lists else 'pairs'}"

    def read(record: Mapping[str, Any]) -> Example | None:
        query = columns.query_of(record)
        if query is None:
            return None
        cell, labels = record.get(columns.positive), record.get(label)
        documents = cell if isinstance(cell, list) else [cell]
        labels = labels if isinstance(labels, list) else [labels]
        if len(documents) != len(labels):
            raise BadCell(f"{len(documents)} documents in {columns.positive!r}, but {len(labels)} labels in {label!r}")
        own_id = None if isinstance(cell, list) else columns.doc_id_of(record)
        example = Example(query)
        for item, value in zip(documents, labels, strict=True):
            side = example.positives if _is_positive(value, label) else example.negatives
            side += [entry._replace(id=entry.id or own_id) for entry in documents_of(item, columns.positive)]
        return example

    said = f"{columns.positive!r} its documents, {label!r} 1 for a positive and 0 for a negative"
    return table_format(table, name, said, (label,), read)


def _is_positive(value: Any, label: str) -> bool:
    if value in (0, 1, "0", "1"):
        return bool(int(value))
    raise BadCell(f"{label!r} is {shown(value)}; a label is 1 for a positive and 0 for a negative")


def _write(mined: MinedSet, out: Path, options: Options) -> Exported:
    """The rows of `MinedSet.to_dataset`: a saved Dataset, or by its suffix a parquet or jsonl file."""
    if options.negatives is not None and options.shape != "n-tuple":
        raise MinedSetError(f"negatives={options.negatives}: only the shape n-tuple has a fixed number of them")
    dataset = to_dataset(
        mined, options.shape, scores=options.scores, weights=options.weights, n=options.negatives,
        scale=scale(mined) if options.scores else None,
    )  # fmt: skip
    table = dataset.data.table
    if out.suffix not in ("", ".parquet", ".jsonl"):
        raise MinedSetError(f"{out}: unknown formatat {out.suffix}; name a .parquet or .jsonl file, or a folder")
    if not out.suffix:
        check_new(out)
    with written_whole(out) as path:
        match out.suffix:
            case ".parquet":
                pq.write_table(table, path, compression="zstd")
            case ".jsonl":
                write_lines(path, (row for batch in table.to_batches() for row in batch.to_pylist()))
            case _:
                _save_quietly(dataset, path)
    return Exported(out, len(dataset), ())


def _save_quietly(dataset: Dataset, path: Path) -> None:
    """`save_to_disk` without its bar, which would stand among our own output."""
    import datasets

    shown = datasets.is_progress_bar_enabled()
    datasets.disable_progress_bars()
    try:
        dataset.save_to_disk(str(path))
    finally:
        if shown:
            datasets.enable_progress_bars()


READER = Reader(
    (
        ("anchor, positive, negative (or negative_1, negative_2)", "sentence-transformers triplets and n-tuples"),
        ("anchor, positive, label (or lists and labels)", "sentence-transformers labeled pairs and lists"),
    ),
    _read,
)
WRITER = Writer(
    _write, ".parquet", "sentence-transformers, as the columns of a training dataset", ("scores", "shape", "weights")
)
