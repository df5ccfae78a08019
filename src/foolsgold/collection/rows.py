"""Rows with named columns: of a file (jsonl, json, csv, tsv, parquet, txt), of the hub, or of a Dataset."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from foolsgold.collection.lines import Problems, json_lines, numbered_lines, type_word
from foolsgold.errors import CollectionError
from foolsgold.progress import SILENT, Progress

PAIR_FORMATS = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")

Read = Callable[[Sequence[str], Problems], Iterator[tuple[int, dict[str, Any]]]]

_WITHOUT_THE_HUB = "what works without the hub: beir:FOLDER, pairs:FILE, demo"
_PEEKED = 100  # JSON records whose keys make the columns
_BATCH = 10_000


@dataclass(frozen=True)
class Rows:
    """A table read as a stream.

    columns: their names. unit: what a number counts, "line" or "row".
    read(columns, problems): each row's number from 1 and its values by column; a row that cannot be read is a problem.
    """

    name: str
    columns: tuple[str, ...]
    unit: str
    read: Read

    def problems(self) -> Problems:
        """An empty list of problems of these rows."""
        return Problems(self.name, self.unit)


def suffix_of(path: Path) -> str:
    """The suffix that says a file's format, in lower case: `.gz` is looked through."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] == [".gz"]:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def rows_of(table: Any, split: str | None = None, progress: Progress = SILENT) -> tuple[Rows, str, str]:
    """The rows of one split of a table, that split, and the table's name.

    table: `hf:NAME`, the path of a file or of a folder that `save_to_disk` wrote, a `Dataset` or a `DatasetDict`.

    Raises:
        CollectionError: it does not exist or cannot be read; no such split.
    """
    if is_dataset(table) or is_dataset_dict(table):
        return *_rows_of_loaded(table, "dataset", split, progress), "dataset"
    if str(table).startswith("hf:"):
        name = str(table).removeprefix("hf:")
        return _rows_of_hub(name, split or "train", progress), split or "train", name
    path = Path(table).expanduser()
    if path.is_dir():
        return *_rows_of_folder(path, split, progress), path.resolve().name
    return rows_of_file(path, progress), _the_only_split(str(table), split), path.name.split(".")[0]


def rows_of_file(path: Path, progress: Progress = SILENT) -> Rows:
    """The rows of one file, by its suffix.

    Raises:
        CollectionError: no such file, a suffix that is not known, a file without rows or without a header.
    """
    if not path.exists():
        raise CollectionError(f"{path}: no such file")
    if path.is_dir():
        raise CollectionError(f"{path}: a folder; name the file in it that is meant")
    match suffix_of(path):
        case ".jsonl" | ".ndjson":
            return _json_lines(path, progress)
        case ".json":
            return _json(path, progress)
        case ".csv":
            return _delimited(path, progress, delimiter=",", quoting=csv.QUOTE_MINIMAL)
        case ".tsv":
            # Tab-separated values have no quoting: a text that begins with a quotation mark is common and means itself.
            return _delimited(path, progress, delimiter="\t", quoting=csv.QUOTE_NONE)
        case ".parquet":
            return _parquet(path, progress)
        case ".txt":
            return _plain(path, progress)
        case suffix:
            raise CollectionError(
                f"{path}: unknown format {suffix!r}; it can be {', '.join(PAIR_FORMATS)}, for a corpus also .txt; "
                "each may be packed as .gz"
            )


def is_dataset(value: Any) -> bool:
    """Whether it is a `datasets.Dataset`. Whoever has one has imported that library, so it is not imported here."""
    module = sys.modules.get("datasets")
    return module is not None and isinstance(value, module.Dataset)


def is_dataset_dict(value: Any) -> bool:
    """Whether it is a `datasets.DatasetDict`, which has a Dataset for each split."""
    module = sys.modules.get("datasets")
    return module is not None and isinstance(value, module.DatasetDict)


def rows_of_dataset(dataset: Any, name: str, progress: Progress = SILENT) -> Rows:
    """The rows of a `datasets.Dataset`."""

    def read(columns: Sequence[str], _: Problems) -> Iterator[tuple[int, dict[str, Any]]]:
        tables = dataset.select_columns(list(columns)).with_format("arrow").iter(batch_size=_BATCH)
        return _numbered(tables, f"read {name} (rows)", len(dataset), progress)

    return Rows(name, tuple(dataset.column_names), "row", read)


def _rows_of_hub(name: str, split: str, progress: Progress = SILENT) -> Rows:
    """The rows of one split of a dataset on the hub. name: NAME, or NAME:CONFIG for one of several configurations.

    Raises:
        CollectionError: no such dataset, configuration or split, or no connection.
    """
    import datasets

    path, _, config = name.partition(":")
    try:
        dataset = datasets.load_dataset(path, config or None, split=split)
    except Exception as problem:  # whatever the hub, the network or the dataset's own files can raise
        reason = " ".join(str(problem).split())[:300]
        raise CollectionError(
            f"hf:{name}, split {split!r}: cannot be loaded ({type(problem).__name__}: {reason}). Check the name, the "
            f"configuration (hf:NAME:CONFIG), the split and the connection; {_WITHOUT_THE_HUB}"
        ) from problem
    return rows_of_dataset(dataset, f"hf:{name}", progress)


def _rows_of_folder(folder: Path, split: str | None, progress: Progress = SILENT) -> tuple[Rows, str]:
    """The rows of a folder that `Dataset.save_to_disk` or `DatasetDict.save_to_disk` wrote, and the split they are.

    Raises:
        CollectionError: no such folder, no such split.
    """
    import datasets

    try:
        loaded = datasets.load_from_disk(str(folder))
    except (ValueError, OSError) as problem:
        reason = " ".join(str(problem).split())[:200]
        raise CollectionError(
            f"{folder}: a folder, but not one that Dataset.save_to_disk wrote ({reason}). "
            "For a BEIR folder say beir:FOLDER; for a file of pairs name the file"
        ) from None
    return _rows_of_loaded(loaded, str(folder), split, progress)


def _rows_of_loaded(loaded: Any, name: str, split: str | None, progress: Progress = SILENT) -> tuple[Rows, str]:
    """The rows of a `Dataset`, or of one split of a `DatasetDict`, and the split they are."""
    if not is_dataset_dict(loaded):
        return rows_of_dataset(loaded, name, progress), _the_only_split(name, split)
    chosen = split or "train"
    if chosen not in loaded:
        raise CollectionError(f"{name}: no split {chosen!r}; it has {', '.join(loaded)}. Name one with split")
    return rows_of_dataset(loaded[chosen], name, progress), chosen


def _the_only_split(name: str, split: str | None) -> str:
    """`train`, the one split of what has no splits.

    Raises:
        CollectionError: another was asked for.
    """
    if split not in (None, "train"):
        raise CollectionError(
            f"{name}: it has no splits, so split {split!r} cannot be chosen; name what holds only those rows"
        )
    return "train"


def _json_lines(path: Path, progress: Progress) -> Rows:
    bad = Problems(path)
    columns = dict.fromkeys(key for _, record in islice(json_lines(path, bad), _PEEKED) for key in record)
    if not columns:
        bad.check()
        raise CollectionError(f"{path}: empty; it must have one JSON object per line")

    def read(_: Sequence[str], problems: Problems) -> Iterator[tuple[int, dict[str, Any]]]:
        return json_lines(path, problems, progress)

    return Rows(str(path), tuple(columns), "line", read)


def _json(path: Path, progress: Progress) -> Rows:
    """A .json file: one array of objects, or JSON lines under another name."""
    start = next((line.lstrip()[:1] for _, line in numbered_lines(path) if not line.isspace()), "")
    if start != "[":
        return _json_lines(path, progress)
    try:
        records = json.loads("".join(line for _, line in numbered_lines(path, progress)))
    except (ValueError, RecursionError) as problem:
        raise CollectionError(f"{path}: not JSON ({problem})") from None

    def read(_: Sequence[str], problems: Problems) -> Iterator[tuple[int, dict[str, Any]]]:
        for number, record in enumerate(records, 1):
            if isinstance(record, dict):
                yield number, record
            else:
                problems.add(number, f"holds {type_word(record)}; each must be one JSON object")

    columns = dict.fromkeys(key for record in records[:_PEEKED] if isinstance(record, dict) for key in record)
    if not columns:
        raise CollectionError(f"{path}: there is no JSON object among its first {_PEEKED} entries")
    return Rows(str(path), tuple(columns), "row", read)


def _delimited(path: Path, progress: Progress, *, delimiter: str, quoting: Any) -> Rows:
    csv.field_size_limit(sys.maxsize)  # the module's own limit is 128 kB a text

    def parsed(progress: Progress) -> Iterator[tuple[int, list[str]]]:
        lines = (line.rstrip("\r\n") + "\n" for _, line in numbered_lines(path, progress))
        reader = csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=True)
        try:
            for fields in reader:
                if fields:
                    yield reader.line_num, fields
        except csv.Error as problem:
            raise CollectionError(
                f"{path}, line {reader.line_num}: {problem}; is a quotation mark not closed?"
            ) from None

    header = next((fields for _, fields in parsed(SILENT)), None)
    if header is None:
        raise CollectionError(f"{path}: empty; the first line must name the columns")

    def read(_: Sequence[str], problems: Problems) -> Iterator[tuple[int, dict[str, Any]]]:
        for number, fields in islice(parsed(progress), 1, None):
            if len(fields) == len(header):
                yield number, dict(zip(header, fields, strict=True))
            else:
                problems.add(number, f"{len(fields)} fields where the first line names {len(header)} columns")

    return Rows(str(path), tuple(header), "line", read)


def _parquet(path: Path, progress: Progress) -> Rows:
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path, memory_map=True)
    except (pa.ArrowInvalid, OSError) as problem:
        raise CollectionError(f"{path}: not a parquet file that can be read ({problem})") from None

    def read(columns: Sequence[str], _: Problems) -> Iterator[tuple[int, dict[str, Any]]]:
        batches = file.iter_batches(_BATCH, columns=list(columns))
        return _numbered(batches, f"read {path.name} (rows)", file.metadata.num_rows, progress)

    return Rows(str(path), tuple(file.schema_arrow.names), "row", read)


def _plain(path: Path, progress: Progress) -> Rows:
    """One text per line, in the column `text`."""

    def read(_: Sequence[str], __: Problems) -> Iterator[tuple[int, dict[str, Any]]]:
        return ((number, {"text": line.rstrip("\r\n")}) for number, line in numbered_lines(path, progress))

    return Rows(str(path), ("text",), "line", read)


def _numbered(tables: Any, stage: str, total: int, progress: Progress) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of Arrow tables (or record batches), one after the other."""
    with progress.stage(stage, total) as advance:
        number = 0
        for table in tables:
            for record in table.to_pylist():
                number += 1
                yield number, record
            advance(table.num_rows)
