"""Reads BEIR folders: corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv (Thakur et al. 2021, BEIR, section 3)."""

from __future__ import annotations

import re
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from foolsgold.collection.collection import Contents
from foolsgold.collection.corpus import BEIR_CORPUS, BEIR_QUERIES, empty_note, non_empty_rows, read_texts
from foolsgold.collection.lines import Problems, numbered_lines
from foolsgold.collection.texts import Texts
from foolsgold.errors import CollectionError
from foolsgold.progress import SILENT, Progress

_QRELS_SUFFIXES = (".tsv", ".txt", ".qrels")

_HEADER_WORDS = ("score", "grade", "relevance", "rel", "label", "relevancy")


class Judgement(NamedTuple):
    """One line of a qrels file."""

    query_id: str
    doc_id: str
    grade: int
    line: int


def is_beir_folder(path: Path) -> bool:
    """Whether a path looks like a BEIR folder."""
    return (path / "corpus.jsonl").is_file() and (path / "queries.jsonl").is_file()


def qrels_files(folder: Path) -> dict[str, Path]:
    """The qrels file of each split of a BEIR folder, by the split's name."""
    return {path.stem: path for path in sorted((folder / "qrels").glob("*")) if path.suffix in _QRELS_SUFFIXES}


def read_beir(folder: Path, split: str | None = None, progress: Progress = SILENT) -> Contents:
    """One split of a BEIR folder. A document's text is its title and text, stripped.

    Judgements of ids that are not there and queries without a text are left out and counted in the notes.

    Raises:
        CollectionError: not a BEIR folder, no such split, broken lines, no judgement of a known query and document.
    """
    _check_folder(folder)
    qrels = _qrels_path(folder, split or "train")
    judged, notes = read_qrels(qrels)
    documents, corpus_notes = read_texts(folder / "corpus.jsonl", BEIR_CORPUS, progress)
    queries, query_notes = read_texts(folder / "queries.jsonl", BEIR_QUERIES, progress)
    notes += [*corpus_notes, *query_notes, *empty_note(documents)]

    for what, texts in (("query", queries), ("document", documents)):
        judged, unknown = _known(judged, what, texts, qrels)
        notes += unknown
    with_text = non_empty_rows(queries)
    if len(with_text) < len(queries):
        notes.append(f"queries with an empty text: {len(queries) - len(with_text):,}, left out")
        queries = queries.subset(with_text)
        there = queries.find(j.query_id for j in judged)
        judged = [j for j in judged if j.query_id in there]
    grades = {(j.query_id, j.doc_id): j.grade for j in sorted(judged, key=lambda j: j.grade)}
    return Contents(folder.resolve().name, split or "train", documents, queries, grades, notes)


def read_qrels(path: Path) -> tuple[list[Judgement], list[str]]:
    """The judgements of a qrels file, and notes.

    A line is `query-id, document-id, grade` (BEIR, tabs) or `query-id, 0, document-id, grade` (TREC, tabs or spaces);
    the first line may be a header.

    Raises:
        CollectionError: with every line that is not a judgement, or has a grade that is not an integer; an empty file.
    """
    problems = Problems(path)
    judged: list[Judgement] = []
    for number, line in numbered_lines(path):
        fields = _fields(line)
        if not fields or (number == 1 and _is_header(fields)):
            continue
        if len(fields) not in (3, 4):
            problems.add(number, f"{len(fields)} columns; a judgement is query-id, corpus-id, score, with tabs between")
            continue
        try:
            judged.append(Judgement(fields[0], fields[-2], _grade(fields[-1]), number))
        except ValueError:
            problems.add(number, f"the grade {fields[-1]!r} is not an integer; write grades as 0, 1, 2, ...")
    problems.check()
    if not judged:
        raise CollectionError(f"{path}: empty; it must have one judgement per line: query-id, corpus-id, score")
    grades: dict[tuple[str, str], set[int]] = {}
    for judgement in judged:
        grades.setdefault((judgement.query_id, judgement.doc_id), set()).add(judgement.grade)
    torn = sum(len(several) > 1 for several in grades.values())
    notes = [f"{path.name}: pairs judged with different grades: {torn:,}, the highest counts"] if torn else []
    return judged, notes


def _fields(line: str) -> list[str]:
    by_tab = line.rstrip("\r\n").split("\t")
    return [field.strip() for field in by_tab] if len(by_tab) in (3, 4) else line.split()


def _is_header(fields: list[str]) -> bool:
    first, last = fields[0].casefold(), fields[-1].casefold()
    return last in _HEADER_WORDS and re.fullmatch(r"(query|topic|q)?[\W_]?(id|no|number)?", first) is not None


def _grade(text: str) -> int:
    if not re.fullmatch(r"[+-]?\d{1,9}", text):
        raise ValueError(text)
    return int(text)


def _check_folder(folder: Path) -> None:
    shape = "a BEIR folder holds corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv"
    if not folder.exists():
        raise CollectionError(f"{folder}: no such folder; {shape}")
    if not folder.is_dir():
        raise CollectionError(f"{folder}: a file, not a folder; {shape}. For a file of pairs say pairs:{folder}")
    missing = [name for name in ("corpus.jsonl", "queries.jsonl") if not (folder / name).is_file()]
    missing += [] if (folder / "qrels").is_dir() else ["qrels"]
    if missing:
        raise CollectionError(f"{folder}: not a BEIR folder, it has no {', '.join(missing)}; {shape}")


def _qrels_path(folder: Path, split: str) -> Path:
    there = qrels_files(folder)
    if split not in there:
        splits = f"it has {', '.join(sorted(there))}" if there else "its folder qrels is empty"
        raise CollectionError(f"{folder}: no split {split!r}; {splits}. Name one with split")
    return there[split]


def _known(judged: list[Judgement], what: str, texts: Texts, qrels: Path) -> tuple[list[Judgement], list[str]]:
    """The judgements whose query (or document) is among the texts, and a note that counts the others."""
    id_of = attrgetter("query_id" if what == "query" else "doc_id")
    there = texts.find(map(id_of, judged))
    unknown = [judgement for judgement in judged if id_of(judgement) not in there]
    if not unknown:
        return judged, []
    first = f"line {unknown[0].line}, {id_of(unknown[0])!r}"
    if not there:
        like = ", ".join(map(repr, texts.take_ids(range(min(3, len(texts))))))
        raise CollectionError(f"{qrels}: no judgement names a known {what} ({first}); the {what} ids look like {like}")
    note = f"{qrels.name}: judgements that name an unknown {what}: {len(unknown):,}, left out (first: {first})"
    return [judgement for judgement in judged if id_of(judgement) in there], [note]
