"""BM25: documents that share the query's rare words."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from foolsgold.collection import Collection
from foolsgold.progress import SILENT, Progress
from foolsgold.recipe import BM25Spec
from foolsgold.records import FloatArray, Hits, IntArray

if TYPE_CHECKING:
    from foolsgold.search.bm25 import BM25


class BM25Source:
    """Searches the collection's documents by BM25. The index is built when first needed, once."""

    def __init__(self, name: str, spec: BM25Spec, collection: Collection) -> None:
        self.name = name
        self._spec = spec
        self._collection = collection
        self._built: BM25 | None = None

    def retrieve(self, queries: IntArray, depth: int, progress: Progress = SILENT) -> Hits:
        """At most `depth` documents for each query; fewer where fewer share a token with it that tells them apart."""
        index = self._index(progress)
        texts = self._collection.queries.take(queries)
        scores, rows = index.top_k(texts, depth, progress=progress)
        return Hits.from_top_k(scores, rows, keep=scores > index.floors(texts)[:, np.newaxis])

    def score(self, queries: IntArray, docs: IntArray) -> FloatArray:
        """BM25 of any pairs, the same number `retrieve` gives."""
        distinct, place = np.unique(queries, return_inverse=True)
        return self._index(SILENT).scores(self._collection.queries.take(distinct), place, docs)

    def describe(self) -> dict[str, Any]:
        """Its settings, and the version of bm25s, which splits texts and weighs words."""
        settings = ("language", "tokenizer", "method", "k1", "b")
        return {
            "kind": "bm25",
            **{setting: getattr(self._spec, setting) for setting in settings},
            "bm25s": version("bm25s"),
            "PyStemmer": version("PyStemmer"),
        }

    def _index(self, progress: Progress) -> BM25:
        if self._built is None:
            from foolsgold.search.bm25 import BM25

            spec = self._spec
            self._built = BM25(
                self._collection.documents,
                language=spec.language,
                tokenizer=spec.tokenizer,
                method=spec.method,
                k1=spec.k1,
                b=spec.b,
                progress=progress,
            )
        return self._built
