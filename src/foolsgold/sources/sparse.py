"""Learned sparse retrieval (SPLADE and its kin): exact search over an inverted index of weighted terms."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from foolsgold.collection import Collection, Texts
from foolsgold.files import written_once
from foolsgold.models.protocol import Role
from foolsgold.models.sparse import SparseModel, stacked
from foolsgold.progress import SILENT, Progress
from foolsgold.recipe import SparseSpec
from foolsgold.records import FloatArray, Hits, IntArray

_DOCUMENTS = 65_536  # a block of the inverted index: 150 MB at 150 terms a document
_QUERIES = 64
_TEXTS_AT_ONCE = 1024
_PAIRS_AT_ONCE = 65_536
_ARRAYS = ("data", "indices", "indptr")
_PLURAL: dict[Role, str] = {"query": "queries", "document": "documents"}
_log = logging.getLogger(__name__)


class SparseSource:
    """Implements `Source`. Scores are inner products of term weights, cosines where the model compares by cosine.

    A document that shares no term with the query is never proposed. The model is loaded, and all documents and queries
    are encoded into the store under `cache`, when they are first needed; the model is let go after that.
    """

    def __init__(
        self, name: str, spec: SparseSpec, collection: Collection, cache: Path, progress: Progress = SILENT
    ) -> None:
        self.name = name
        self._spec = spec
        self._collection = collection
        self._cache = cache
        self._progress = progress

    def retrieve(self, queries: IntArray, depth: int, progress: Progress = SILENT) -> Hits:
        """At most `depth` documents for each query; fewer where fewer share a term with it."""
        self._report_to(progress)
        best = [_Best(depth) for _ in queries]
        documents, asked = self._vectors.documents, self._vectors.queries[queries].astype(np.float64)
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
        scores = np.empty(len(queries), dtype=np.float32)
        for start in range(0, len(queries), _PAIRS_AT_ONCE):
            part = slice(start, start + _PAIRS_AT_ONCE)
            left = self._vectors.queries[queries[part]].astype(np.float64)
            right = self._vectors.documents[docs[part]].astype(np.float64)
            scores[part] = np.asarray(left.multiply(right).sum(axis=1)).ravel()
        return scores

    def describe(self) -> dict[str, Any]:
        """What it is, for the manifest. Encodes what has not been encoded."""
        return dict(self._vectors.about)

    def _report_to(self, progress: Progress) -> None:
        if self._progress is SILENT:
            self._progress = progress

    @cached_property
    def _vectors(self) -> _Vectors:
        model = SparseModel(self._spec.model)
        return _Vectors(
            documents=_encode_all(model, self._collection.documents, "document", self._cache, self._progress),
            queries=_encode_all(model, self._collection.queries, "query", self._cache, self._progress),
            about={
                "kind": "sparse",
                "model": model.name,
                "fingerprint": model.fingerprint,
                "similarity": model.similarity,
                "terms": model.dimension,
            },
        )


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
        """products: float64, rounded once to float32 here, so that the order in which terms were added is not seen."""
        scores = np.concatenate([self.scores, products.astype(np.float32)])
        rows = np.concatenate([self.rows, rows.astype(np.int32)])
        keep = scores > 0
        if keep.sum() > self._depth:
            keep &= scores >= np.partition(scores, -self._depth)[-self._depth]  # and all that tie with the last
        scores, rows = scores[keep], rows[keep]
        order = np.lexsort((rows, -scores))[: self._depth]
        self.scores, self.rows = scores[order], rows[order]


def _encode_all(model: SparseModel, texts: Texts, role: Role, cache: Path, progress: Progress) -> Any:
    """float32 CSR (n, terms), encoded once for all runs; where `cache` cannot be written, in memory and a warning."""
    key = sha256(f"{model.fingerprint}\0{role}\0{texts.digest}".encode()).hexdigest()[:32]

    def write(folder: Path) -> None:
        vectors = _encoded(model, texts, role, progress)
        for name in _ARRAYS:
            np.save(folder / f"{name}.npy", getattr(vectors, name))

    try:
        folder = written_once(cache / "sparse_vectors" / key, write, checked=True)
        arrays: Any = tuple(np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in _ARRAYS)
        return sparse.csr_matrix(arrays, shape=(len(texts), model.dimension), copy=False)
    except OSError as error:
        _log.warning("%s cannot be written (%s); sparse vectors are kept in memory and lost at the end", cache, error)
    return _encoded(model, texts, role, progress)


def _encoded(model: SparseModel, texts: Texts, role: Role, progress: Progress) -> Any:
    with progress.stage(f"encode {_PLURAL[role]}", len(texts)) as advance:
        return stacked([model.encode(batch, role, advance) for batch in texts.batches(_TEXTS_AT_ONCE)], model.dimension)
