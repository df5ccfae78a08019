"""Nearest neighbours in an embedding model's space."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from foolsgold.collection.collection import Collection
from foolsgold.encoding.encoders import load_encoder
from foolsgold.encoding.store import encode_all
from foolsgold.progress import SILENT, Progress
from foolsgold.recipe import ModelSpec, SourceSpec
from foolsgold.records import FloatArray, Hits, IntArray
from foolsgold.search import top_k

_PAIRS_AT_ONCE = 16_384


class DenseSource:
    """Implements `Source`: exact search by inner product, which is the cosine where the model compares by cosine.

    The model is loaded, and all documents and queries are encoded into the store under `cache`, when they are first
    needed; the model is let go after that, so that its memory is free for the teacher.
    """

    def __init__(
        self,
        name: str,
        spec: SourceSpec,
        model: ModelSpec,
        collection: Collection,
        cache: Path,
        progress: Progress = SILENT,
    ) -> None:
        del spec  # depth, quota and window are the caller's
        self.name = name
        self._model = model
        self._collection = collection
        self._cache = cache
        self._progress = progress
        self._vectors: _Vectors | None = None

    def retrieve(self, queries: IntArray, depth: int, progress: Progress = SILENT) -> Hits:
        """The `depth` nearest documents of each query; all of them where there are fewer."""
        vectors = self._encoded(progress)
        scores, rows = top_k(vectors.queries[queries], vectors.documents, depth, progress=progress)
        return Hits.from_top_k(scores, rows)

    def score(self, queries: IntArray, docs: IntArray) -> FloatArray:
        """float32 (n): the inner product (the cosine, where the model compares by it) of any pairs of rows."""
        vectors = self._encoded(self._progress)
        return _products(vectors.queries, queries, vectors.documents, docs)

    def similarity(self, docs_a: IntArray, docs_b: IntArray) -> FloatArray:
        """float32 (n): the cosine of pairs of documents, whatever the model compares by."""
        vectors = self._encoded(self._progress)
        documents = vectors.documents
        products = _products(documents, docs_a, documents, docs_b)
        if vectors.about["similarity"] == "cosine":
            return products
        lengths = np.sqrt(_products(documents, docs_a, documents, docs_a))
        lengths *= np.sqrt(_products(documents, docs_b, documents, docs_b))
        return np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)

    def describe(self) -> dict[str, Any]:
        """What it is, for the manifest. Encodes what has not been encoded."""
        return dict(self._encoded(self._progress).about)

    def _encoded(self, progress: Progress) -> _Vectors:
        if self._vectors is None:
            encoder = load_encoder(self._model)
            documents, queries = self._collection.documents, self._collection.queries
            self._vectors = _Vectors(
                documents=encode_all(encoder, documents, "document", cache=self._cache, progress=progress),
                queries=encode_all(encoder, queries, "query", cache=self._cache, progress=progress),
                about={
                    "kind": "dense",
                    "model": encoder.name,
                    "fingerprint": encoder.fingerprint,
                    "dtype": encoder.dtype,
                    "query_prompt": encoder.prompt("query"),
                    "document_prompt": encoder.prompt("document"),
                    "similarity": encoder.similarity,
                    "dimension": encoder.dimension,
                },
            )
        return self._vectors


@dataclass(frozen=True)
class _Vectors:
    """documents: float32 (n_documents, d); queries: float32 (n_queries, d); about: of the model that made them."""

    documents: FloatArray
    queries: FloatArray
    about: dict[str, Any]


def _products(left: FloatArray, left_rows: IntArray, right: FloatArray, right_rows: IntArray) -> FloatArray:
    """float32 (n): inner products of pairs of rows, summed in float64 as `top_k` does; few rows are read at a time."""
    products = np.empty(len(left_rows), dtype=np.float32)
    for start in range(0, len(products), _PAIRS_AT_ONCE):
        part = slice(start, start + _PAIRS_AT_ONCE)
        a, b = left[left_rows[part]], right[right_rows[part]]
        products[part] = np.einsum("ij,ij->i", a, b, dtype=np.float64)
    return products
