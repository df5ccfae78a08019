"""Reads what the ir_datasets package knows (MacAvaney et al. 2021, Simplified Data Wrangling with ir_datasets)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import islice
from typing import Any

from foolsgold.collection.collection import Contents
from foolsgold.collection.corpus import empty_note, non_empty_rows
from foolsgold.collection.texts import Texts
from foolsgold.errors import CollectionError, MissingExtra
from foolsgold.progress import SILENT, Progress

_BATCH = 16_384


def read_ir_datasets(name: str, split: str | None = None, progress: Progress = SILENT) -> Contents:
    """One dataset of ir_datasets, such as `beir/scifact/train`; with `split`, the dataset `name/split`.

    Raises:
        MissingExtra: the package is not installed.
        CollectionError: no such dataset, one without documents, queries or qrels, or one that cannot be downloaded.
    """
    try:
        import ir_datasets
    except ImportError:
        raise MissingExtra("ir-datasets", f"reading ir_datasets:{name}") from None
    full_name = f"{name}/{split}" if split else name
    try:
        dataset = ir_datasets.load(full_name)
    except KeyError:
        raise CollectionError(
            f"ir_datasets:{full_name}: no such dataset; `ir_datasets list` lists all of them"
        ) from None
    lacking = [part for part in ("docs", "queries", "qrels") if not getattr(dataset, f"has_{part}")()]
    if lacking:
        raise CollectionError(
            f"ir_datasets:{full_name}: it has no {', '.join(lacking)}; name one of its parts, such as {full_name}/train"
        )
    try:
        documents = _texts(dataset.docs_iter(), "doc_id", dataset.docs_count() or 0, progress)
        queries = _texts(dataset.queries_iter(), "query_id", dataset.queries_count() or 0, progress)
        judgements = {(qrel.query_id, qrel.doc_id): int(qrel.relevance) for qrel in dataset.qrels_iter()}
    except (OSError, RuntimeError) as problem:  # what ir_datasets raises when a download fails or is not allowed
        raise CollectionError(f"ir_datasets:{full_name}: cannot be read ({problem})") from problem
    queries = queries.subset(non_empty_rows(queries))
    query_rows, doc_rows = queries.find(q for q, _ in judgements), documents.find(d for _, d in judgements)
    known = {pair: grade for pair, grade in judgements.items() if pair[0] in query_rows and pair[1] in doc_rows}
    notes = empty_note(documents)
    if len(known) < len(judgements):
        notes.append(f"judgements that name an unknown query or document: {len(judgements) - len(known):,}, left out")
    return Contents(name, split or name.rsplit("/", 1)[-1], documents, queries, known, notes)


def _texts(records: Iterator[Any], id_field: str, total: int, progress: Progress) -> Texts:
    """Documents or queries as Texts; each record's `default_text()` is what ir_datasets says stands for it."""
    parts: list[Texts] = []
    with progress.stage(f"read {id_field.removesuffix('_id')} texts", total) as advance:
        while batch := list(islice(records, _BATCH)):
            ids = [getattr(record, id_field) for record in batch]
            parts.append(Texts.from_lists(ids, [record.default_text().strip() for record in batch]))
            advance(len(batch))
    return reduce(Texts.followed_by, parts, Texts.from_lists([], []))
