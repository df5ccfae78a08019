"""Learned sparse retrieval (SPLADE and its kin): exact search over an inverted index of weighted terms."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from foolsgold.collection import Collection
from foolsgold.models.sparse import SparseModel
from foolsgold.progress import SILENT, Progress
from foolsgold.recipe import SparseSpec
from foolsgold.records import FloatArray, Hits, IntArray
from foolsgold.stores.sparse import encode_sparse

_DOCUMENTS = 65_536  # a block of the inverted index: 150 MB at 150 terms a document
_QUERIES = 64
_PAIRS_AT_ONCE = 65_536


class SparseSource:
    """Implements `Source`. Scores are inner products of term weights, cosines where the model compares by cosine.

    A document that shares no term with the query is never proposed. The model is loaded, and all documents and queries
    are encoded into the store under `cache`, when they are first needed; the model is dropped after that.
    """

    def __init__(self, name: str, spec: SparseSpec, collection: Collection, cache: Path) -> None:
        self.name = name
        self._spec = spec
        self._collection = collection
        self._cache = cache
        self._vectors: _Vectors | None = None

    def retrieve(self, queries: IntArray, depth: int, progress: Progress = SILENT) -> Hits:
        """At most `depth` documents for each query; fewer where fewer share a term with it."""
        vectors = self._encoded(progress)
        best = [_Best(depth) for _ in queries]
        documents, asked = vectors.documents, vectors.queries[queries].astype(np.float64)
        with progress.stage("search sparse", documents.shape[0]) as advance:
            for start in range(0, documents.shape[0], _DOCUMENTS):
                inverted = documents[start : start + _DOCUMENTS].astype(np.float64).T.tocsr()
                for first in range(0, len(queries), _QUERIES):
                    products = (asked[first : first + _QUERIES] @ inverted).tocsr()
                    for place in range(products.shape[0]):
                        found = slice(products.indptr[place], products.indptr[place + 1])
                        best[first + place].add(products.data[found], products.indices[found] + start)
                advance(inverted.shape[1])
        return Hits(
            offsets=np.cumsum([0, *(len(each.rows) for each in best)]).astype(np.int64),
            rows=np.concatenate([np.empty(0, np.int32), *(each.rows for each in best)]),
            scores=np.concatenate([np.empty(0, np.float32), *(each.scores for each in best)]),
        )

    def score(self, queries: IntArray, docs: IntArray) -> FloatArray:
        """float32 (n): the inner product of any pairs of rows, 0 where they share no term."""
        vectors = self._encoded()
        scores = np.empty(len(queries), dtype=np.float32)
        for start in range(0, len(queries), _PAIRS_AT_ONCE):
            part = slice(start, start + _PAIRS_AT_ONCE)
            left = vectors.queries[queries[part]].astype(np.float64)
            right = vectors.documents[docs[part]].astype(np.float64)
            scores[part] = np.asarray(left.multiply(right).sum(axis=1)).ravel()
        return scores

    def describe(self) -> dict[str, Any]:
        """What it is, for the manifest. Encodes what has not been encoded."""
        return dict(self._encoded().about)

    def _encoded(self, progress: Progress = SILENT) -> _Vectors:
        if self._vectors is None:
            model = SparseModel(self._spec.model)
            place: dict[str, Any] = {"cache": self._cache, "progress": progress}
            self._vectors = _Vectors(
                documents=encode_sparse(model, self._collection.documents, "document", **place),
                queries=encode_sparse(model, self._collection.queries, "query", **place),
                about={
                    "kind": "sparse",
                    "model": model.name,
                    "fingerprint": model.fingerprint,
                    "similarity": model.similarity,
                    "terms": model.dimension,
                },
            )
        return self._vectors


@dataclass(frozen=True)
class _Vectors:
    """documents, queries: float32 scipy CSR (n, terms), term indices ascending; about: of the model that made them."""

    documents: Any
    queries: Any
    about: dict[str, Any]


class _Best:
    """The best documents of one query so far, by descending score, equal scores by row."""

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self.scores = np.empty(0, dtype=np.float32)
        self.rows = np.empty(0, dtype=np.int32)

    def add(self, products: Any, rows: Any) -> None:
        """products: float64, rounded once to float32 here, so that the order of adding terms does not matter."""
        scores = np.concatenate([self.scores, products.astype(np.float32)])
        rows = np.concatenate([self.rows, rows.astype(np.int32)])
        keep = scores > 0
        if keep.sum() > self._depth:
            keep &= scores >= np.partition(scores, -self._depth)[-self._depth]  # and all that tie with the last
        scores, rows = scores[keep], rows[keep]
        order = np.lexsort((rows, -scores))[: self._depth]
        self.scores, self.rows = scores[order], rows[order]
