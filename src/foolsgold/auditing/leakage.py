"""Negatives that another split of the collection holds for positives."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from foolsgold.collection import Collection, normalise
from foolsgold.collection.beir import Judgement, read_qrels
from foolsgold.collection.corpus import BEIR_QUERIES, read_texts
from foolsgold.recipe import CollectionSpec

_EXAMPLES = 10
_SUFFIXES = (".tsv", ".txt", ".qrels")


@dataclass(frozen=True)
class Leakage:
    """What the qrels of other splits say of the negatives.

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
    others = {
        path.stem: path
        for path in sorted((folder / "qrels").iterdir())
        if path.suffix in _SUFFIXES and path.stem != collection.split
    }
    if not others:
        return None
    positives = [
        judgement
        for path in others.values()
        for judgement in read_qrels(path)[0]
        if judgement.grade >= collection.relevant_from
    ]
    answers = _answers(positives, folder, collection)
    tested = pc.is_in(negatives["doc_id"], pa.array(list({judgement.doc_id for judgement in positives}), pa.string()))
    asked = negatives.filter(pc.is_in(negatives["query_id"], pa.array(list(answers), pa.string())))
    pairs = list(zip(asked["query_id"].to_pylist(), asked["doc_id"].to_pylist(), strict=True))
    text_of = _texts(collection, {doc for _, doc in pairs}.union(*answers.values()))
    right = {query: {text_of.get(doc) for doc in docs} - {None} for query, docs in answers.items()}
    leaked = [pair for pair in pairs if pair[1] in answers[pair[0]] or text_of.get(pair[1]) in right[pair[0]]]
    size = max(1, len(negatives))
    return Leakage(
        share=len(leaked) / size,
        tested_share=(pc.sum(tested.cast(pa.int64())).as_py() or 0) / size,
        splits=tuple(others),
        examples=tuple(leaked[:_EXAMPLES]),
    )


def _answers(positives: list[Judgement], folder: Path, collection: Collection) -> dict[str, set[str]]:
    """Query id of this split -> document ids that another split holds for its positives, by the query's id or text."""
    queries, _ = read_texts(folder / "queries.jsonl", BEIR_QUERIES)
    theirs = queries.find(judgement.query_id for judgement in positives)
    text_of = dict(zip(theirs, map(normalise, queries.take(list(theirs.values()))), strict=True))
    ours: dict[str, list[str]] = {}
    for query_id, text in zip(collection.queries.ids.to_pylist(), collection.queries.texts.to_pylist(), strict=True):
        ours.setdefault(normalise(text), []).append(query_id)
    answers: dict[str, set[str]] = {}
    for judgement in positives:
        for query_id in ours.get(text_of.get(judgement.query_id, ""), ()):
            answers.setdefault(query_id, set()).add(judgement.doc_id)
    return answers


def _texts(collection: Collection, doc_ids: set[str]) -> dict[str, str]:
    """Document id -> normalised text, of those that are there: equal texts are one passage (design, rule 9)."""
    rows = collection.documents.find(doc_ids)
    return dict(zip(rows, map(normalise, collection.documents.take(list(rows.values()))), strict=True))
