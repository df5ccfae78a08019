"""Negatives that another split of the collection judges positive."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foolsgold.collection import Collection
from foolsgold.collection.beir import Judgement, qrels_files, read_qrels
from foolsgold.collection.collection import judgement_arrays
from foolsgold.collection.corpus import BEIR_QUERIES, read_texts
from foolsgold.collection.leakage import known_answers
from foolsgold.recipe import CollectionSpec

_EXAMPLES = 10


@dataclass(frozen=True)
class Leakage:
    """Negatives that the qrels of other splits judge positive.

    share: of negatives that another split judges relevant for the same query (or one of the same text): each of them is
    a false negative. tested_share: of negatives that answer any query of another split, which is no error: where
    splits share a corpus, some of the answers of one are hard negatives of another.
    splits: whose qrels were read; examples: the first leaked (query id, document id).
    """

    share: float
    tested_share: float
    splits: tuple[str, ...]
    examples: tuple[tuple[str, str], ...]


def leakage_of(negatives: pa.Table, collection: Collection, spec: CollectionSpec | None) -> Leakage | None:
    """Look the negatives up in the other splits of a BEIR folder; None for any other collection, or one split.

    spec: the recipe's `collection` section.

    Raises:
        CollectionError: the qrels of another split, or the queries, cannot be read.
    """
    if spec is None or spec.beir is None:
        return None
    folder = Path(spec.beir).expanduser()
    others = {split: path for split, path in qrels_files(folder).items() if split != collection.split}
    if not others:
        return None
    positives = [
        judgement
        for path in others.values()
        for judgement in read_qrels(path)[0]
        if judgement.grade >= collection.relevant_from
    ]
    query = collection.queries.rows_of(negatives["query_id"], "query")
    doc = collection.documents.rows_of(negatives["doc_id"])
    elsewhere = _judged_elsewhere(positives, folder, collection)
    leaked = np.flatnonzero(known_answers(collection.queries, collection.documents, query, doc, elsewhere))
    tested = pc.is_in(negatives["doc_id"], pa.array(list({judgement.doc_id for judgement in positives}), pa.string()))
    size = max(1, len(negatives))
    first = negatives.take(leaked[:_EXAMPLES])
    return Leakage(
        share=len(leaked) / size,
        tested_share=(pc.sum(tested.cast(pa.int64())).as_py() or 0) / size,
        splits=tuple(others),
        examples=tuple(zip(first["query_id"].to_pylist(), first["doc_id"].to_pylist(), strict=True)),
    )


def _judged_elsewhere(positives: list[Judgement], folder: Path, collection: Collection) -> Collection:
    """The same documents with the queries and positives of the other splits."""
    queries, _ = read_texts(folder / "queries.jsonl", BEIR_QUERIES)
    query_row = queries.find(judgement.query_id for judgement in positives)
    doc_row = collection.documents.find(judgement.doc_id for judgement in positives)
    grades = {
        (query_row[judgement.query_id], doc_row[judgement.doc_id]): judgement.grade
        for judgement in positives
        if judgement.query_id in query_row and judgement.doc_id in doc_row
    }
    query, doc, grade = judgement_arrays(grades)
    whole = replace(collection, queries=queries, judged_query=query, judged_doc=doc, grade=grade)
    return whole.with_queries(np.unique(query))
