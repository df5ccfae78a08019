"""How good a retriever is on a collection, query by query, and whether one is better than another."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from foolsgold.cache import cache_folder
from foolsgold.collection import Collection, load_collection
from foolsgold.encoding.described import described_encoder
from foolsgold.encoding.store import encode_all
from foolsgold.errors import EvaluationError
from foolsgold.progress import SILENT, Progress
from foolsgold.recipe import ModelSpec
from foolsgold.records import BoolArray, FloatArray, IntArray
from foolsgold.search import top_k

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

MEASURES = ("nDCG@10", "MRR@10", "recall@10", "recall@100", "MAP")
_SPELLED = {"recall": "R", "MRR": "RR", "MAP": "AP"}  # as ir_measures has them
_DEPTH = 1000  # documents of a query, for measures without a cut-off, as TREC has it
_RESAMPLES = 10_000
_EXACT = 13  # differences of so few queries have all their signs tried
_BATCH = 64  # texts a loaded model encodes at once

_Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Evaluation:
    """What each query scored. values: by measure, float64 (n_queries)."""

    model: str
    collection: str
    query_ids: tuple[str, ...]
    values: dict[str, _Numbers]

    @property
    def means(self) -> dict[str, float]:
        """The mean of each measure over the queries."""
        return {name: float(values.mean()) for name, values in self.values.items()}

    def __str__(self) -> str:
        lines = [f"{self.model} on {self.collection}, {len(self.query_ids):,} queries"]
        return "\n".join([*lines, *(f"  {name:<12} {mean:.4f}" for name, mean in self.means.items())])

    def compare(self, before: Evaluation, *, seed: int = 13) -> Comparison:
        """This one less another, query by query.

        Raises:
            EvaluationError: they are of other queries, or have no measure in common.
        """
        if self.query_ids != before.query_ids:
            raise EvaluationError(
                f"{self.model} was evaluated on {len(self.query_ids):,} queries of {self.collection}, {before.model} "
                f"on {len(before.query_ids):,} of {before.collection}, and not the same; evaluate both on one split"
            )
        names = [name for name in self.values if name in before.values]
        if not names:
            raise EvaluationError(f"{self.model} and {before.model} have no measure in common; evaluate both with one")
        return Comparison({name: Change.of(self.values[name] - before.values[name], seed) for name in names})

    def save(self, path: str | Path) -> None:
        """Write a Parquet file: query_id and a column a measure."""
        about = json.dumps({"model": self.model, "collection": self.collection})
        table = pa.table({"query_id": pa.array(self.query_ids, pa.string()), **self.values})
        try:
            pq.write_table(table.replace_schema_metadata({"foolsgold": about}), path)
        except OSError as error:
            raise EvaluationError(f"{path}: cannot be written ({error})") from None

    @classmethod
    def load(cls, path: str | Path) -> Evaluation:
        """Read one that `save` wrote.

        Raises:
            EvaluationError: no such file, or none of ours.
        """
        try:
            table = pq.read_table(path)
            about = json.loads(table.schema.metadata[b"foolsgold"])
            names = [name for name in table.column_names if name != "query_id"]
            return cls(
                about["model"],
                about["collection"],
                tuple(table["query_id"].to_pylist()),
                {name: table[name].to_numpy() for name in names},
            )
        except (OSError, pa.ArrowInvalid, KeyError, TypeError, ValueError) as error:
            raise EvaluationError(f"{path}: not an evaluation that foolsgold saved ({error})") from None


@dataclass(frozen=True)
class Change:
    """The mean of paired differences.

    interval: its 95 % bootstrap percentile interval. p_value: two-sided, of the paired randomisation test: how often
    random signs give a mean as far from 0 (Smucker, Allan, Carterette, CIKM 2007, section 3.1).
    """

    delta: float
    interval: tuple[float, float]
    p_value: float

    @classmethod
    def of(cls, differences: _Numbers, seed: int) -> Change:
        """From float64 (n), n at least 1."""
        return cls(float(differences.mean()), _interval(differences, seed), _p_value(differences, seed))


@dataclass(frozen=True)
class Comparison:
    """What changed from one evaluation to another, by measure."""

    changes: dict[str, Change]

    def of(self, measure: str) -> Change:
        """The change of one measure.

        Raises:
            EvaluationError: it was not measured in both.
        """
        if measure not in self.changes:
            raise EvaluationError(f"{measure} was not measured in both; there are {', '.join(self.changes)}")
        return self.changes[measure]

    def is_significant_drop(self, measure: str, alpha: float = 0.05) -> bool:
        """Whether it fell, and by more than chance explains."""
        change = self.of(measure)
        return change.delta < 0 and change.p_value < alpha


def evaluate(
    model: Any,
    collection: Any,
    *,
    measures: Sequence[str] = MEASURES,
    split: str | None = None,
    query_prompt: str | None = None,
    document_prompt: str | None = None,
    progress: Progress = SILENT,
    cache: str | Path | None = None,
) -> Evaluation:
    """Search the whole corpus for each query, exactly, and score what is found by the collection's judgements.

    A document that says the same as the query, and is not judged, is no answer and left out, as BEIR leaves out the
    document with the query's id. Equal scores are in the order of documents.

    Args:
        model: a name, a folder, a `ModelSpec`, or a SentenceTransformer, which is encoded with as it is now and left in
            the mode it was in.
        collection: a Collection or anything `load_collection` reads. split: which judgements; null: test.
        measures: names of ir_measures; recall, MRR and MAP are its R, RR and AP. Those of grades take the collection's,
            the others what has at least `relevant_from`.
        query_prompt, document_prompt: null: the model's own.
        progress: where encoding and searching report to. cache: the folder of the store of embeddings.

    Raises:
        FoolsgoldError: bad input, one sentence.
    """
    if not isinstance(collection, Collection):
        collection = load_collection(collection, split=split or "test", progress=progress)
    parsed = _parsed(measures, collection.relevant_from)
    if isinstance(model, str | Path | ModelSpec):
        spec = model if isinstance(model, ModelSpec) else ModelSpec(model=str(model))
        prompts = {"query_prompt": query_prompt, "document_prompt": document_prompt}
        spec = spec.model_copy(update={name: prompt for name, prompt in prompts.items() if prompt is not None})
        name, store = spec.model, Path(cache) if cache is not None else cache_folder()
        encoder = described_encoder(spec, store)
        documents = encode_all(encoder, collection.documents, "document", cache=store, progress=progress)
        queries = encode_all(encoder, collection.queries, "query", cache=store, progress=progress)
    else:
        name = getattr(model, "name_or_path", None) or type(model).__name__
        queries, documents = _encoded(model, collection, query_prompt, document_prompt, progress)
    depth = max(measure.params.get("cutoff") or _DEPTH for measure in parsed.values())
    k = min(depth + 1, len(documents))  # one more, for a document that is the query itself
    with progress.stage("search", len(queries)) as advance:
        _, rows = top_k(queries, documents, k)
        advance(len(queries))
    values = _scored(collection, rows, parsed, depth)
    return Evaluation(name, f"{collection.name}, {collection.split}", tuple(_ids(collection)), values)


def _parsed(names: Sequence[str], relevant_from: int) -> dict[str, Any]:
    """ir_measures' measure of each name."""
    import ir_measures

    parsed = {}
    for name in [names] if isinstance(names, str) else names:
        base, at, cutoff = name.partition("@")
        try:
            measure = ir_measures.parse_measure(f"{_SPELLED.get(base, base)}{at}{cutoff}")
        except (NameError, ValueError, SyntaxError, AttributeError, AssertionError):
            near = difflib.get_close_matches(name, [*MEASURES, "P@10", "ERR@10"], n=1, cutoff=0.3)
            hint = f"did you mean {near[0]}?" if near else f"such as {', '.join(MEASURES)}"
            raise EvaluationError(f"{name!r} is no measure of ir_measures; {hint}") from None
        if "rel" in measure.SUPPORTED_PARAMS and "rel" not in measure.params:
            measure = measure(rel=relevant_from)
        parsed[name] = measure
    if not parsed:
        raise EvaluationError(f"no measure is named; such as {', '.join(MEASURES)}")
    return parsed


def _encoded(
    model: SentenceTransformer,
    collection: Collection,
    query_prompt: str | None,
    document_prompt: str | None,
    progress: Progress,
) -> tuple[FloatArray, FloatArray]:
    """The vectors of queries and documents by a model as it is, float32 (n, d)."""
    was_training = model.training
    unit = model.similarity_fn_name not in ("dot", "dot_score")
    try:
        vectors = []
        for texts, encode, prompt, what in (
            (collection.queries, model.encode_query, query_prompt, "queries"),
            (collection.documents, model.encode_document, document_prompt, "documents"),
        ):
            parts: list[FloatArray] = []
            with progress.stage(f"encode {what}", len(texts)) as advance:
                for batch in texts.batches():
                    parts.append(
                        encode(
                            batch, prompt=prompt, batch_size=_BATCH, normalize_embeddings=unit, show_progress_bar=False
                        )
                    )
                    advance(len(batch))
            vectors.append(np.concatenate(parts).astype(np.float32))
        return vectors[0], vectors[1]
    finally:
        model.train(was_training)


def _scored(collection: Collection, rows: IntArray, measures: dict[str, Any], depth: int) -> dict[str, _Numbers]:
    import ir_measures

    ids = _ids(collection)
    judged: dict[str, dict[str, int]] = {query: {} for query in ids}
    for query, document, grade in zip(
        collection.judged_query.tolist(), collection.judged_doc.tolist(), collection.grade.tolist(), strict=True
    ):
        judged[ids[query]][str(document)] = grade
    itself = _asks_itself(collection, rows)
    run = {}
    for place, query in enumerate(ids):
        own = judged[query]
        kept = [
            str(row)
            for row, same in zip(rows[place].tolist(), itself[place].tolist(), strict=True)
            if not same or str(row) in own
        ][:depth]
        run[query] = {row: float(-rank) for rank, row in enumerate(kept)}
    place_of = {query: place for place, query in enumerate(ids)}
    name_of = {measure: name for name, measure in measures.items()}
    values = {name: np.zeros(len(ids)) for name in measures}
    for metric in ir_measures.iter_calc(list(name_of), judged, run):
        values[name_of[metric.measure]][place_of[metric.query_id]] = metric.value
    return values


def _asks_itself(collection: Collection, rows: IntArray) -> BoolArray:
    """bool (n_queries, k): which of the documents found say the same as the query."""
    asked = collection.queries.keys[:, np.newaxis]
    return np.asarray((collection.documents.keys[rows] == asked).all(axis=2))


def _ids(collection: Collection) -> list[str]:
    return collection.queries.take_ids(np.arange(len(collection.queries)))


def _interval(differences: _Numbers, seed: int) -> tuple[float, float]:
    rng = np.random.default_rng(seed)
    n = len(differences)
    means = np.concatenate([differences[rng.integers(0, n, (size, n))].mean(axis=1) for size in _pieces(n)])
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


def _p_value(differences: _Numbers, seed: int) -> float:
    found = differences[differences != 0]  # a sign of 0 changes nothing
    n, seen = len(found), abs(found.sum()) * (1 - 1e-12)
    if n <= _EXACT:
        signs = 1 - 2 * (np.arange(2**n)[:, np.newaxis] >> np.arange(n) & 1)
        return float((np.abs(signs @ found) >= seen).mean())
    rng = np.random.default_rng(seed)
    beyond = sum(
        int((np.abs((1 - 2.0 * rng.integers(0, 2, (size, n), dtype=np.int8)) @ found) >= seen).sum())
        for size in _pieces(n)
    )
    return (beyond + 1) / (_RESAMPLES + 1)


def _pieces(n: int) -> Iterable[int]:
    """`_RESAMPLES` in pieces that make arrays of about 4 million numbers."""
    size = max(1, min(_RESAMPLES, 4_000_000 // max(n, 1)))
    return [min(size, _RESAMPLES - start) for start in range(0, _RESAMPLES, size)]
