"""evaluate(model, collection) -> Evaluation: how good a retriever is, query by query.

encode -> search the whole corpus, exactly -> leave out what is the query itself -> measure by the judgements
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from foolsgold.collection import Collection, Texts, load_collection, normalise
from foolsgold.errors import EvaluationError
from foolsgold.evaluation.measures import MEASURES, Measures
from foolsgold.evaluation.result import Change, Comparison, Evaluation
from foolsgold.files import cache_folder
from foolsgold.models.describe import own_prompt, own_similarity
from foolsgold.models.protocol import Role
from foolsgold.models.vectors import NotFinite, finished
from foolsgold.progress import SILENT, Progress
from foolsgold.recipe import CollectionSpec, ModelSpec, Recipe
from foolsgold.records import FloatArray, Hits, LongArray, pair_keys
from foolsgold.sources.encoded import EncodedCollection, encode_collection
from foolsgold.stores.encoders import described_encoder

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

__all__ = ["MEASURES", "Change", "Comparison", "Evaluation", "evaluate"]

_ABOUT = ("query_prompt", "document_prompt", "similarity", "dtype", "fingerprint")  # of the model, in the result
_TEXTS = 4_096  # given to a loaded model between two reports of progress
_BATCH = 64  # of which it runs so many together,
_STATIC_BATCH = 2_048  # or so many, where a batch costs little but its tokenisation


def evaluate(
    model: Any,
    collection: Any,
    *,
    split: str | None = None,
    measures: Iterable[Any] = MEASURES,
    query_prompt: str | None = None,
    document_prompt: str | None = None,
    out: str | Path | None = None,
    progress: Progress = SILENT,
    cache: str | Path | None = None,
) -> Evaluation:
    """Search the whole corpus for each query, exactly, and measure what is found by the collection's judgements.

    Equal scores are in the order of the documents. What is the query itself (`itself`) and was not judged is left out.

    Args:
        model: a hub id, folder or package:NAME/SUBPATH; a `ModelSpec` or its values; or a SentenceTransformer, which
            is run as it is now, past the store of embeddings, and keeps its mode (training or not).
        collection: a Collection, or anything that `load_collection` reads.
        split: which judgements to load; null: what a `CollectionSpec` says, else test.
        measures: names of ir-measures (nDCG@10, MRR@10, recall@100, MAP, P@5, ...) or its objects. A measure of grades,
            as nDCG, takes the grades that were given, and others every document of at least `relevant_from`.
        query_prompt, document_prompt: put before each text; null: the model's own.
        out: a file to save the result to.
        progress: where encoding and searching report to.
        cache: the folder of the store of embeddings.

    Raises:
        EvaluationError: an unknown measure, or a model that cannot be evaluated.
        FoolsgoldError: other bad input, one sentence.
    """
    loaded = _loaded(collection, split, progress)
    wanted = Measures([measures] if isinstance(measures, str) else measures, loaded.relevant_from)
    prompts = {"query_prompt": query_prompt, "document_prompt": document_prompt}
    if _is_sentence_transformer(model):
        encoded = _encoded_as_it_is(model, loaded, prompts, progress)
    else:
        spec, store = _spec(model, prompts), cache_folder(cache)
        encoded = encode_collection(described_encoder(spec, store), loaded, store, progress, spec.device)
    own = itself(loaded)
    most = int(np.bincount(own >> 32).max(initial=0))  # so that as many are left as the measures look at
    scores, rows = encoded.nearest(wanted.depth + most, progress=progress)
    query = np.repeat(np.arange(len(rows)), rows.shape[1])
    keep = ~np.isin(pair_keys(query, rows.ravel()), own).reshape(rows.shape)
    keep &= np.cumsum(keep, axis=1) <= wanted.depth
    evaluation = Evaluation(
        model=encoded.about["model"],
        collection=f"{loaded.name}, {loaded.split}",
        digest=loaded.digest,
        query_ids=tuple(loaded.queries.ids.to_pylist()),
        values=wanted.score(Hits.from_top_k(scores, rows, keep), loaded),
        about={
            **{fact: encoded.about[fact] for fact in _ABOUT if fact in encoded.about},
            "documents": len(loaded.documents),
        },
    )
    if out is not None:
        evaluation.save(out)
    return evaluation


class Diverged(EvaluationError):
    """A model in training whose vectors are not finite numbers any more."""


def itself(collection: Collection) -> LongArray:
    """int64 (n), keys of (query, document), sorted: the documents that are a query itself, except those judged.

    Such a document says the same as the query, or has its id and ends with its text. BEIR leaves out what has the
    query's id, since in some of its collections the queries are documents; elsewhere ids of both kinds are numbers, and
    an id that is the same means nothing. In ArguAna a document has a title before the query's text.
    """
    queries, documents = collection.queries, collection.documents
    found: set[tuple[int, int]] = set()
    asked: dict[bytes, list[int]] = {}
    for row, key in enumerate(queries.keys):
        asked.setdefault(key.tobytes(), []).append(row)
    for doc in np.flatnonzero(np.isin(documents.keys[:, 0], queries.keys[:, 0])).tolist():
        found.update((query, doc) for query in asked.get(documents.keys[doc].tobytes(), ()))
    ids = queries.ids.to_pylist()
    there = documents.find(ids)
    shared = [(query, there[key]) for query, key in enumerate(ids) if key in there]
    asking, said = queries.take([query for query, _ in shared]), documents.take([doc for _, doc in shared])
    found.update(
        pair for pair, question, text in zip(shared, asking, said, strict=True)
        if normalise(text).endswith(f" {normalise(question)}")
    )  # fmt: skip
    pairs = np.array(sorted(found), dtype=np.int64).reshape(-1, 2)
    return np.setdiff1d(pair_keys(pairs[:, 0], pairs[:, 1]), pair_keys(collection.judged_query, collection.judged_doc))


def _loaded(collection: Any, split: str | None, progress: Progress) -> Collection:
    if isinstance(collection, Collection):
        return load_collection(collection, split=split)
    own = collection.split if isinstance(collection, CollectionSpec) else None
    return load_collection(collection, split=split or own or "test", progress=progress)


def _spec(model: Any, prompts: Mapping[str, str | None]) -> ModelSpec:
    given = {name: prompt for name, prompt in prompts.items() if prompt is not None}
    if isinstance(model, str | Path):
        model = {"model": str(model)}
    elif isinstance(model, ModelSpec):
        model = model.model_dump()
    elif not isinstance(model, Mapping):
        raise EvaluationError(
            f"{type(model).__name__} cannot be evaluated; give a model's name, its settings, or a SentenceTransformer"
        )
    spec = Recipe.build({"retriever": {**model, **given}}).retriever
    assert spec is not None
    return spec


def _is_sentence_transformer(model: Any) -> bool:
    library = sys.modules.get("sentence_transformers")  # whoever has such a model has imported it
    return library is not None and isinstance(model, library.SentenceTransformer)


def _encoded_as_it_is(
    model: SentenceTransformer, collection: Collection, prompts: Mapping[str, str | None], progress: Progress
) -> EncodedCollection:
    """By the weights that the model has now, which no name stands for."""
    name = model.model_card_data.base_model or "the model in memory"
    similarity = own_similarity(model.similarity_fn_name, name)
    about: dict[str, Any] = {"model": name, "similarity": similarity, "dtype": str(model.dtype).removeprefix("torch.")}
    modes = [(module, module.training) for module in model.modules()]
    parts: tuple[tuple[Role, Texts], ...] = (("query", collection.queries), ("document", collection.documents))
    vectors = {}
    try:
        for role, texts in parts:
            given = prompts[f"{role}_prompt"]
            prompt = own_prompt(model.prompts, role) if given is None else given  # the one that mining takes
            about[f"{role}_prompt"] = prompt
            vectors[role] = _encoded(model, texts, role, prompt, progress)
            try:
                finished(vectors[role], similarity, name)
            except NotFinite as error:
                raise Diverged(
                    f"{name}: the vector of {role} {texts.take_ids([error.position])[0]!r} has values that are not "
                    "finite numbers; where it is being trained, lower the learning rate"
                ) from None
    finally:
        for module, mode in modes:
            module.training = mode
    return EncodedCollection(vectors["document"], vectors["query"], about, str(model.device))


def _encoded(
    model: SentenceTransformer, texts: Texts, role: Role, prompt: str | None, progress: Progress
) -> FloatArray:
    """float32 (n, d), as sentence-transformers encodes, before they are brought to length 1."""
    encode: Any = model.encode_query if role == "query" else model.encode_document
    size = _STATIC_BATCH if model.transformers_model is None else _BATCH
    vectors: FloatArray | None = None
    done = 0
    with progress.stage(f"encode {'queries' if role == 'query' else 'documents'}", len(texts)) as advance:
        for batch in texts.batches(_TEXTS):
            part = encode(batch, prompt=prompt, batch_size=size, show_progress_bar=False, convert_to_numpy=True)
            if vectors is None:
                vectors = np.empty((len(texts), part.shape[1]), dtype=np.float32)
            vectors[done : done + len(batch)] = part
            done += len(batch)
            advance(len(batch))
    assert vectors is not None  # a collection has queries and documents
    return vectors
