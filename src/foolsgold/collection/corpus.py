"""Reads corpora and query files into Texts: small ones into memory, large ones once into a mapped Arrow file.

A corpus of 10 million documents is parsed once, as a stream. The second time its Arrow file is only mapped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foolsgold.collection.lines import type_word
from foolsgold.collection.rows import Rows, rows_of_file
from foolsgold.collection.texts import Texts, strings
from foolsgold.errors import CollectionError
from foolsgold.files import cache_folder, written_whole
from foolsgold.progress import SILENT, Progress
from foolsgold.records import LongArray

# Bytes of a file; below, parsing takes less than a second and a copy is not worth its place.
MAP_FROM = 32 * 1024 * 1024

_FORMAT = 1  # of the Arrow files; a change of this leaves the files of older versions unused
_BATCH = 16_384
_SCHEMA = pa.schema([("id", pa.large_string()), ("text", pa.large_string())])


@dataclass(frozen=True)
class Layout:
    """Which column holds what. The text is `title + " " + text`, stripped, where there is a title.

    id: None where ids are made from the row, d0, d1, ...
    number_ids: whether an id may be a number, as in a parquet file; it is written as text then.
    """

    id: str | None = "_id"
    title: str | None = "title"
    text: str = "text"
    number_ids: bool = False

    @property
    def columns(self) -> list[str]:
        """The columns that are read."""
        return [column for column in (self.id, self.title, self.text) if column is not None]


BEIR_CORPUS = Layout()
BEIR_QUERIES = Layout(title=None)


def read_texts(path: Path, layout: Layout, progress: Progress = SILENT) -> tuple[Texts, list[str]]:
    """The texts of one file, and notes on where they are kept.

    Raises:
        CollectionError: with every line that has no id or text of the right type, or an id that was there before.
    """
    if not path.exists():
        raise CollectionError(f"{path}: no such file")
    if path.stat().st_size < MAP_FROM:
        return texts_of_rows(rows_of_file(path, progress), layout), []
    folder = cache_folder() / "collections"
    mapped = folder / f"{_key(path, layout)}.arrow"
    with suppress(OSError, pa.ArrowException):  # not there yet, or damaged: written again
        return _map(mapped), []
    try:
        with written_whole(mapped) as unfinished:
            _write(rows_of_file(path, progress), layout, unfinished)
        return _map(mapped), []
    except OSError as problem:
        note = f"{folder} cannot be written to ({problem.strerror or problem}), so {path.name} is held in memory"
        return texts_of_rows(rows_of_file(path, progress), layout), [note]


def texts_of_rows(rows: Rows, layout: Layout) -> Texts:
    """The texts of rows, in memory."""
    table = pa.Table.from_batches(_batches(rows, layout), _SCHEMA)
    _check_ids(table["id"], rows, layout)
    return Texts(table["id"], table["text"])


def _write(rows: Rows, layout: Layout, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, _SCHEMA) as writer:
        for batch in _batches(rows, layout):
            writer.write_batch(batch)
    _check_ids(_map(path).ids, rows, layout)


def _map(path: Path) -> Texts:
    table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    return Texts(table["id"], table["text"])


def _key(path: Path, layout: Layout) -> str:
    """Names the Arrow file of one state of one file."""
    state = path.stat()
    parts = [_FORMAT, str(path.resolve()), state.st_size, state.st_mtime_ns, asdict(layout)]
    return blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


def _batches(rows: Rows, layout: Layout) -> Iterator[pa.RecordBatch]:
    problems = rows.problems()
    ids: list[str] = []
    texts: list[str] = []
    for row, (number, record) in enumerate(rows.read(layout.columns, problems)):
        title = record.get(layout.title) if layout.title else None
        text = record.get(layout.text)
        name = record.get(layout.id) if layout.id else f"d{row}"
        if type(name) is int and layout.number_ids:
            name = str(name)
        if type(name) is str and name and type(text) is str and (title is None or type(title) is str):
            ids.append(name)
            texts.append(f"{title} {text}".strip() if title else text.strip())
        else:
            problems.add(number, _what_is_wrong(record, layout))
        if len(ids) == _BATCH:
            yield _batch(ids, texts)
            ids, texts = [], []
    problems.check()
    if ids:
        yield _batch(ids, texts)


def _batch(ids: list[str], texts: list[str]) -> pa.RecordBatch:
    return pa.record_batch([strings(ids), strings(texts)], schema=_SCHEMA)


def _what_is_wrong(record: dict[str, Any], layout: Layout) -> str:
    for column in (layout.id, layout.text):
        if column is not None and column not in record:
            there = ", ".join(map(repr, list(record)[:8]))
            return f"no {column!r} (there is {there or 'nothing'}); every record needs one"
    for column in layout.columns:
        value = record.get(column)
        if not isinstance(value, str) and not (column == layout.title and value is None):
            quotes = ', such as "17"' if isinstance(value, int) else ""
            return f"{column!r} is {type_word(value)}; it must be a text{quotes}"
    return f"{layout.id!r} is empty; every record needs a name of its own"


def _check_ids(ids: pa.ChunkedArray, rows: Rows, layout: Layout) -> None:
    if not len(ids):
        raise CollectionError(f"{rows.name}: empty; there must be at least one record")
    if layout.id is None or pc.count_distinct(ids).as_py() == len(ids):
        return
    counts = pc.value_counts(pc.cast(ids, pa.large_string()))
    twice = set(counts.field("values").filter(pc.greater(counts.field("counts"), 1)).to_pylist())
    problems, first = rows.problems(), dict[str, int]()
    for number, record in rows.read(layout.columns, problems):
        name = str(record.get(layout.id))
        if name in first:
            problems.add(number, f"{layout.id} {name!r} was {rows.unit} {first[name]}'s already; ids must differ")
        elif name in twice:
            first[name] = number
    problems.check()


def non_empty_rows(texts: Texts) -> LongArray:
    """int64: the rows that have a text."""
    return np.flatnonzero(np.asarray(pc.binary_length(texts.texts)))


def empty_note(documents: Texts) -> list[str]:
    """A note on documents without a text, if there are any."""
    n_empty = len(documents) - len(non_empty_rows(documents))
    return [f"documents with an empty text: {n_empty:,}, never taken as negatives"] if n_empty else []
