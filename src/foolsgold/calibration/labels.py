"""Reads labelled pairs: query, document, and whether the document is relevant. The one parser of label files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

from foolsgold.collection.lines import Problems, json_lines, numbered_lines
from foolsgold.errors import CollectionError

Verdict = Literal["relevant", "unsure", "not"]
VERDICTS: tuple[Verdict, ...] = ("relevant", "unsure", "not")

_RELEVANT, _NOT = ("relevant", "true"), ("not", "not_relevant", "irrelevant", "false")
_GRADE = re.compile(r"[+-]?\d{1,9}")
_HEADER = ("label", "score", "grade", "relevance", "rel")
_FORM = 'a label is "relevant", "not" or "unsure", true or false, or a grade such as 0, 1, 2'


class Label(NamedTuple):
    """One labelled pair, and the line that says so."""

    query_id: str
    doc_id: str
    relevant: bool
    line: int


def read_labels(path: Path, relevant_from: int) -> tuple[list[Label], list[str]]:
    """The labelled pairs of a file, each pair once, and notes.

    A `.jsonl` holds objects with query_id, doc_id and label, as `foolsgold label` appends them: the last line of a pair
    counts, and a null label takes a pair back. Any other file is a table of query id, document id and label with tabs
    between, or a qrels file (query, 0, document, grade); its first line may be a header, and a pair that has two
    different labels is an error.

    Args:
        path: the file.
        relevant_from: the lowest grade that makes a document relevant.

    Raises:
        CollectionError: naming the file and every line that is no labelled pair.
    """
    problems = Problems(path, error=CollectionError)
    suffixes = [suffix.casefold() for suffix in path.suffixes]
    is_log = suffixes[-1:] == [".jsonl"] or suffixes[-2:] == [".jsonl", ".gz"]
    last: dict[tuple[str, str], tuple[Verdict | None, int]] = {}
    changed = 0
    for line, query_id, doc_id, label in _objects(path, problems) if is_log else _rows(path, problems):
        try:
            verdict = verdict_of(label, relevant_from)
        except ValueError as error:
            problems.add(line, str(error))
            continue
        before = last.get((query_id, doc_id))
        if before is not None and before[0] != verdict:
            if is_log:
                changed += 1
            else:
                problems.add(
                    line, f"query {query_id!r} and document {doc_id!r} have another label in line {before[1]}; keep one"
                )
        last[query_id, doc_id] = (verdict, line)
    problems.check()
    labels = [
        Label(*pair, verdict == "relevant", line)
        for pair, (verdict, line) in last.items()
        if verdict in ("relevant", "not")
    ]
    unsure = sum(verdict == "unsure" for verdict, _ in last.values())
    notes = [f"{path.name}: pairs labelled again or taken back: {changed:,}, the last line counts"] if changed else []
    notes += [f"{path.name}: pairs labelled unsure: {unsure:,}, left out"] if unsure else []
    if not labels:
        raise CollectionError(f"{path}: no labelled pair; each line names a query, a document and a label")
    return labels, notes


def fields_of(record: Any) -> tuple[str, str, Any]:
    """Query id, document id and label of one object of a .jsonl.

    Raises:
        ValueError: a sentence that says what is missing.
    """
    ids = [record.get(name) for name in ("query_id", "doc_id")] if isinstance(record, dict) else [None]
    if not all(isinstance(value, str | int) and not isinstance(value, bool) for value in ids):
        raise ValueError("a labelled pair has a query_id, a doc_id and a label")
    if "label" not in record:
        raise ValueError(f"no label; {_FORM}")
    return str(ids[0]), str(ids[1]), record["label"]


def verdict_of(label: Any, relevant_from: int) -> Verdict | None:
    """What a label says; None for null, which takes an earlier label back.

    Raises:
        ValueError: a sentence that says what is wrong with it.
    """
    if label is None:
        return None
    if isinstance(label, float) and not label.is_integer():
        raise ValueError(f"the label {label!r} is neither a word nor a whole number; {_FORM}")
    text = str(int(label) if isinstance(label, float) else label).strip().casefold()
    if text == "unsure":
        return "unsure"
    if text in _RELEVANT or text in _NOT:
        return "relevant" if text in _RELEVANT else "not"
    if _GRADE.fullmatch(text):
        return "relevant" if int(text) >= relevant_from else "not"
    raise ValueError(f"the label {label!r} is unknown; {_FORM}")


def _objects(path: Path, problems: Problems) -> Iterator[tuple[int, str, str, Any]]:
    for number, record in json_lines(path, problems):
        try:
            yield number, *fields_of(record)
        except ValueError as error:
            problems.add(number, str(error))


def _rows(path: Path, problems: Problems) -> Iterator[tuple[int, str, str, Any]]:
    for number, line in numbered_lines(path, error=CollectionError):
        by_tab = line.rstrip("\r\n").split("\t")
        fields = [field.strip() for field in by_tab] if len(by_tab) in (3, 4) else line.split()
        if not fields or (number == 1 and fields[-1].casefold() in _HEADER):
            continue
        if len(fields) in (3, 4):
            yield number, fields[0], fields[-2], fields[-1]
        else:
            problems.add(number, f"{len(fields)} columns; a labelled pair is query id, document id, label")
