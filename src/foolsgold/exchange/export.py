"""export: a mined set in the form that a trainer reads. START HERE; one function a form, one literal dict of them."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from foolsgold.errors import MinedSetError
from foolsgold.exchange.rows import Passage, Row, rows_of
from foolsgold.files import written_whole
from foolsgold.mined.formats import Examples, Format, examples, to_dataset
from foolsgold.mined.mined_set import MinedSet
from foolsgold.records import BoolArray, Scale
from foolsgold.sources.run import write_run

if TYPE_CHECKING:
    from datasets import Dataset

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Options:
    """How a set is written.

    scores: the teacher's, too; negatives: at most so many a row (exactly so many where all rows must be alike);
    shape: of sentence-transformers' rows; weights: of the negatives, too; prompt: an instruction put before the query
    by trainers that read one from the data.
    """

    scores: bool = False
    negatives: int | None = None
    shape: Format = "triplet"
    weights: bool = False
    prompt: str | None = None


@dataclass(frozen=True)
class Exported:
    """What was written: the file or folder, how many rows, and what was left out, one sentence each."""

    path: Path
    rows: int
    notes: tuple[str, ...]


Target = Literal[
    "sentence-transformers", "flagembedding", "tevatron", "pylate", "swift", "swift-reranker", "beir-run", "jsonl"
]


def export(
    mined: MinedSet | str | Path,
    to: Target,
    out: str | Path,
    *,
    scores: bool = False,
    negatives: int | None = None,
    shape: Format = "triplet",
    weights: bool = False,
    prompt: str | None = None,
) -> Exported:
    """Write a mined set for a trainer.

    Scores are the teacher's as logits (cosines of a teacher that gives cosines): every distillation loss named here
    takes a softmax of them, or their difference.

    Args:
        mined: the set, its folder, or a folder of sets (its newest).
        to: the form, one of `FORMS`; docs/formats.md shows a row of each.
        out: the file, or for `pylate` and for `sentence-transformers` without a suffix, the folder.
        scores, negatives, shape, weights, prompt: see `Options`.

    Raises:
        MinedSetError: an unknown form; an option that it does not have; scores of a set without a teacher; no row.
    """
    mined = mined if isinstance(mined, MinedSet) else MinedSet(mined)
    options = Options(scores, negatives, shape, weights, prompt)
    form = _form(to)
    _check(mined, to, form, options)
    target = Path(out)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        written = form.write(mined, target, options)
    except OSError as error:
        raise MinedSetError(f"{target}: cannot be written ({error}); name another file") from None
    for note in written.notes:
        log.warning("%s: %s", to, note)
    return written


@dataclass(frozen=True)
class Form:
    """One form: what writes it, the suffix of its file ("" for a folder), and the options that it has."""

    write: Callable[[MinedSet, Path, Options], Exported]
    suffix: str
    has: tuple[str, ...] = ()


def _form(to: str) -> Form:
    if to not in FORMS:
        raise MinedSetError(f"unknown form {to!r}; one of {', '.join(FORMS)}")
    return FORMS[to]


def _check(mined: MinedSet, to: str, form: Form, options: Options) -> None:
    defaults = Options()
    extra = [
        name
        for name in ("scores", "shape", "weights", "prompt")
        if getattr(options, name) != getattr(defaults, name) and name not in form.has
    ]
    if extra:
        able = ", ".join(name for name, other in FORMS.items() if extra[0] in other.has)
        raise MinedSetError(f"{to} has no {extra[0]}; {able} {'have' if ',' in able else 'has'}")
    if options.negatives is not None and (type(options.negatives) is not int or options.negatives < 1):
        raise MinedSetError(f"negatives={options.negatives!r}: a whole number, at least 1")
    if mined.manifest.teacher is None and (options.scores or to == "pylate"):
        why = "PyLate distils from scores" if to == "pylate" else "scores were asked for"
        raise MinedSetError(
            f"{mined.path}: {why}, but this set was mined without a teacher; mine it with one"
            + (", or train PyLate on --to sentence-transformers" if to == "pylate" else "")
        )


def _sentence_transformers(mined: MinedSet, out: Path, options: Options) -> Exported:
    """The rows of `MinedSet.to_dataset`: a saved Dataset, or by its suffix a parquet or jsonl file."""
    if options.negatives is not None and options.shape != "n-tuple":
        raise MinedSetError(f"negatives={options.negatives}: only the shape n-tuple has a fixed number of them")
    dataset = to_dataset(
        mined, options.shape, scores=options.scores, weights=options.weights, n=options.negatives,
        scale=_scale(mined) if options.scores else None,
    )  # fmt: skip
    table = dataset.data.table
    match out.suffix:
        case ".parquet":
            with written_whole(out) as path:
                pq.write_table(table, path, compression="zstd")
        case ".jsonl":
            with written_whole(out) as path:
                _write_lines(path, (row for batch in table.to_batches() for row in batch.to_pylist()))
        case "":
            with _new_folder(out) as path:
                _save_quietly(dataset, path)
        case suffix:
            raise MinedSetError(f"{out}: no {suffix}; name a .parquet or .jsonl file, or a folder")
    return Exported(out, len(dataset), ())


def _flagembedding(mined: MinedSet, out: Path, options: Options) -> Exported:
    """{query, pos, neg, pos_scores, neg_scores, prompt, type} (FlagEmbedding, examples/finetune/embedder/README.md)."""

    def record(row: Row) -> Mapping[str, Any]:
        values: dict[str, Any] = {"query": row.query, "pos": _texts(row.positives), "neg": _texts(row.negatives)}
        if options.scores:
            values |= {"pos_scores": _scores(row.positives), "neg_scores": _scores(row.negatives)}
        if options.prompt is not None:
            values["prompt"] = options.prompt
        return values | {"type": "normal"}

    return _json_lines(mined, out, options, record)


def _tevatron(mined: MinedSet, out: Path, options: Options) -> Exported:
    """{query_id, query, positive_passages, negative_passages} (tevatron/retriever/dataset.py, TrainDataset).

    A passage has no `title`: Tevatron would put it before the text, where it is already. `score` is what
    DistilTrainDataset reads.
    """

    def passages(some: list[Passage]) -> list[dict[str, Any]]:
        scores = _scores(some) if options.scores else []
        told = [{"docid": passage.doc_id, "text": passage.text} for passage in some]
        return [passage | {"score": score} for passage, score in zip(told, scores, strict=True)] if scores else told

    def record(row: Row) -> Mapping[str, Any]:
        return {
            "query_id": row.query_id,
            "query": row.query,
            "positive_passages": passages(row.positives),
            "negative_passages": passages(row.negatives),
        }

    return _json_lines(mined, out, options, record)


def _swift(mined: MinedSet, out: Path, options: Options) -> Exported:
    """ms-swift's InfoNCE rows, one positive each (docs/source_en/BestPractices/Embedding.md)."""
    return _json_lines(mined, out, options, lambda row: _messages(row, options, "user"), one_positive=True)


def _swift_reranker(mined: MinedSet, out: Path, options: Options) -> Exported:
    """ms-swift's reranker rows (docs/source_en/BestPractices/Reranker.md)."""
    return _json_lines(mined, out, options, lambda row: _messages(row, options, "assistant"))


def _messages(row: Row, options: Options, role: str) -> Mapping[str, Any]:
    system = [] if options.prompt is None else [{"role": "system", "content": options.prompt}]
    return {
        "messages": [*system, {"role": "user", "content": row.query}],
        "positive_messages": [[{"role": role, "content": passage.text}] for passage in row.positives],
        "negative_messages": [[{"role": role, "content": passage.text}] for passage in row.negatives],
    }


def _jsonl(mined: MinedSet, out: Path, options: Options) -> Exported:
    """{query_id, query, positives, negatives}: ids, texts, the teacher's scores if it has one, and weights."""
    scored = mined.manifest.teacher is not None

    def passages(some: list[Passage]) -> list[dict[str, Any]]:
        return [
            {"doc_id": passage.doc_id, "text": passage.text}
            | ({"score": passage.score} if scored else {})
            | ({"weight": passage.weight} if passage.weight != 1.0 else {})
            for passage in some
        ]

    def record(row: Row) -> Mapping[str, Any]:
        return {
            "query_id": row.query_id,
            "query": row.query,
            "positives": passages(row.positives),
            "negatives": passages(row.negatives),
        }

    return _json_lines(mined, out, options, record, weighed=True)


def _pylate(mined: MinedSet, out: Path, options: Options) -> Exported:
    """train (query_id, document_ids, scores), queries and documents: what `pylate.utils.KDProcessing` joins.

    The positive is first; all rows have as many documents, since PyLate makes one tensor of a batch's scores.
    """
    collection, found = mined.collection, _examples(mined)
    width = int(mined.manifest.recipe.select.per_query) if options.negatives is None else options.negatives
    whole = found.counts >= width
    notes = _left_out(whole, f"fewer than {width} negatives (--negatives asks for fewer)")
    found = found.keep(whole)
    if not len(found.query):
        raise MinedSetError(f"{mined.path}: no query has {width} negatives; ask for fewer with --negatives")
    rows: list[tuple[str, list[str], list[float]]] = []
    queries: dict[str, str] = {}
    documents: dict[str, str] = {}
    for row in rows_of(found, collection, negatives=width, one_positive=True):
        passages = [*row.positives, *row.negatives]
        rows.append((row.query_id, [passage.doc_id for passage in passages], _scores(passages)))
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

    with _new_folder(out) as folder:
        folder.mkdir()
        for name, table in tables.items():
            pq.write_table(pa.table(table), folder / f"{name}.parquet", compression="zstd")
    return Exported(out, len(rows), notes)


def _beir_run(mined: MinedSet, out: Path, options: Options) -> Exported:
    """A TREC run of the negatives, by the teacher's logit, or without a teacher by the order of selection."""
    scored = mined.manifest.teacher is not None

    def lists() -> Iterator[tuple[str, list[tuple[str, float]]]]:
        found = _examples(mined)
        for row in rows_of(found.keep(found.first), mined.collection, negatives=options.negatives, one_positive=True):
            scores = _scores(row.negatives) if scored else [float(-place) for place in range(len(row.negatives))]
            yield row.query_id, [(passage.doc_id, score) for passage, score in zip(row.negatives, scores, strict=True)]

    if mined.manifest.recipe.decide.positive_reference == "each":
        raise MinedSetError(f"{mined.path}: mined for each positive apart, which a run, one list a query, cannot hold")
    return Exported(out, write_run(out, lists()), ())


FORMS: dict[str, Form] = {
    "sentence-transformers": Form(_sentence_transformers, ".parquet", ("scores", "shape", "weights")),
    "flagembedding": Form(_flagembedding, ".jsonl", ("scores", "prompt")),
    "tevatron": Form(_tevatron, ".jsonl", ("scores",)),
    "pylate": Form(_pylate, "", ("scores",)),
    "swift": Form(_swift, ".jsonl", ("prompt",)),
    "swift-reranker": Form(_swift_reranker, ".jsonl", ("prompt",)),
    "beir-run": Form(_beir_run, ".trec", ("scores",)),
    "jsonl": Form(_jsonl, ".jsonl", ("scores", "weights")),
}


def _json_lines(
    mined: MinedSet,
    out: Path,
    options: Options,
    record: Callable[[Row], Mapping[str, Any]],
    *,
    one_positive: bool = False,
    weighed: bool = False,
) -> Exported:
    """One line for each row that has a negative. weighed: whether the form can say what a negative weighs."""
    found = _examples(mined)
    starts = np.ones(len(found.query), dtype=np.bool_) if one_positive else found.first
    notes = _left_out((found.counts > 0)[starts], "no negative")
    found = found.keep(found.counts > 0)
    if not len(found.query):
        raise MinedSetError(f"{mined.path}: no query has a negative")
    if not weighed and (light := int((found.weight < 1.0).sum())):
        notes += (f"negatives with a weight below 1: {light:,}, written as any other; this form has no weights",)
    rows = rows_of(found, mined.collection, negatives=options.negatives, one_positive=one_positive)
    with written_whole(out) as path:
        _write_lines(path, map(record, rows))
    return Exported(out, len(found.query) if one_positive else int(found.first.sum()), notes)


def _write_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for record in records:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


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


def _examples(mined: MinedSet) -> Examples:
    """The set's rows, with scores as they are exported."""
    found, teacher = examples(mined, mined.collection), mined.manifest.teacher
    return found if teacher is None else found.on_scale(teacher.scale, _scale(mined))


def _scale(mined: MinedSet) -> Scale:
    """Logits, which distillation takes a softmax of; cosines cannot be made logits, and stay what they are."""
    return "cosine" if mined.manifest.teacher and mined.manifest.teacher.scale == "cosine" else "logit"


def _texts(passages: list[Passage]) -> list[str]:
    return [passage.text for passage in passages]


def _scores(passages: list[Passage]) -> list[float]:
    scores = [passage.score for passage in passages if passage.score is not None]
    if len(scores) < len(passages):
        lacking = next(passage.doc_id for passage in passages if passage.score is None)
        raise MinedSetError(f"the teacher has no score for document {lacking!r}; export without scores, or mine again")
    return scores


def _left_out(kept: BoolArray, why: str) -> tuple[str, ...]:
    lost = int(np.sum(~kept))
    return (f"rows with {why}: {lost:,} of {len(kept):,}, left out",) if lost else ()


def _new_folder(path: Path) -> AbstractContextManager[Path]:
    """`written_whole` for a folder, which must not be there yet: what else is in it would be lost."""
    if path.exists():
        raise MinedSetError(f"{path}: is there already; name another folder, or remove it first")
    return written_whole(path)
