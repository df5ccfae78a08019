"""Reads what the ir_datasets package knows (MacAvaney et al. 2021, Simplified Data Wrangling with ir_datasets)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from foolsgold.collection.collection import Collection
from foolsgold.collection.corpus import empty_note, non_empty_rows
from foolsgold.collection.texts import Texts, strings
from foolsgold.errors import CollectionError, MissingExtra
from foolsgold.progress import SILENT, Progress

_BATCH = 16_384


def load_ir_datasets(
    name: str,
    *,
    split: str | None = None,
    relevant_from: int = 1,
    limit: int | None = None,
    spec: Mapping[str, Any] | None = None,
    progress: Progress = SILENT,
) -> Collection:
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
            f"ir_datasets:{full_name}: no such dataset; `ir_datasets list` prints those there are"
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
        notes.append(
            f"judgements that name a query or a document that is not there: {len(judgements) - len(known):,}, left out"
        )
    return Collection.from_judgements(
        name=name,
        split=split or name.rsplit("/", 1)[-1],
        documents=documents,
        queries=queries,
        judgements=known,
        relevant_from=relevant_from,
        limit=limit,
        spec=spec,
        notes=notes,
    )


def _texts(records: Iterable[Any], id_field: str, total: int, progress: Progress) -> Texts:
    """Documents or queries as Texts; each record's `default_text()` is what ir_datasets says stands for it."""
    ids: list[pa.Array] = []
    texts: list[pa.Array] = []
    batch: list[tuple[str, str]] = []

    def flush() -> None:
        ids.append(strings([own_id for own_id, _ in batch]))
        texts.append(strings([text for _, text in batch]))
        batch.clear()

    with progress.stage(f"read {id_field.removesuffix('_id')} texts", total) as advance:
        for record in records:
            batch.append((getattr(record, id_field), record.default_text().strip()))
            if len(batch) == _BATCH:
                advance(len(batch))
                flush()
        advance(len(batch))
        flush()
    return Texts(pa.chunked_array(ids, pa.large_string()), pa.chunked_array(texts, pa.large_string()))
