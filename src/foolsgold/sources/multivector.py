"""Late interaction (ColBERT): exact search by MaxSim over the vectors of all tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from foolsgold.collection import Collection
from foolsgold.models.late_interaction import load_late_interaction, max_sim, one_thread_a_product
from foolsgold.progress import SILENT, Progress, no_steps
from foolsgold.recipe import MultiVectorSpec
from foolsgold.records import FloatArray, Hits, IntArray, LongArray
from foolsgold.search.threads import Threads
from foolsgold.stores.tokens import TokenVectors, encode_tokens

# A product of so many document tokens and query tokens takes 16 MB, for each thread.
_DOCUMENT_TOKENS = 8192
_QUERY_TOKENS = 512
_PAIRS_AT_ONCE = 256
# Blocks are compared in float32, rounded so that equal passages tie; so many more than asked for are then compared
# exactly.
_DECIMALS = 5
_SPARE = 16


class MultiVectorSource:
    """Implements `Source`. Scores are MaxSim divided by the query's tokens, in cosine range (see `max_sim`).

    The model is loaded, and all documents and queries are encoded into the store under `cache`, when they are first
    needed; the model is dropped after that. The search reads the whole corpus' token vectors a block at a time.
    """

    def __init__(self, name: str, spec: MultiVectorSpec, collection: Collection, cache: Path) -> None:
        self.name = name
        self._spec = spec
        self._collection = collection
        self._cache = cache
        self._vectors: _Vectors | None = None

    def retrieve(self, queries: IntArray, depth: int, progress: Progress = SILENT) -> Hits:
        """The `depth` nearest documents of each query; all of them where there are fewer."""
        vectors = self._encoded(progress)
        if not len(queries):
            return Hits(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32))
        k = min(depth, len(vectors.documents))
        near = _nearest(vectors, queries, k + _SPARE, progress)
        exact = self.score(np.repeat(queries, near.shape[1]), near.ravel()).reshape(near.shape)
        order = np.lexsort((near, -exact), axis=1)[:, :k]
        return Hits.from_top_k(np.take_along_axis(exact, order, axis=1), np.take_along_axis(near, order, axis=1))

    def score(self, queries: IntArray, docs: IntArray) -> FloatArray:
        """float32 (n): the same number that `retrieve` gives, of any pairs of rows."""
        vectors = self._encoded()
        scores = np.empty(len(queries), dtype=np.float32)
        by_query = np.argsort(queries, kind="stable")

        def compare(part: slice) -> None:
            last, query = -1, np.empty((0, 0), dtype=np.float32)
            for place in by_query[part]:
                if queries[place] != last:
                    last, query = int(queries[place]), vectors.queries.of(queries[place])
                scores[place] = max_sim(query, vectors.documents.of(docs[place]))

        with one_thread_a_product(), Threads() as threads:
            threads.spread(compare, len(queries), _PAIRS_AT_ONCE, no_steps)
        return scores

    def describe(self) -> dict[str, Any]:
        """What it is, for the manifest. Encodes what has not been encoded."""
        return dict(self._encoded().about)

    def _encoded(self, progress: Progress = SILENT) -> _Vectors:
        if self._vectors is None:
            model = load_late_interaction(self._spec.model)
            place: dict[str, Any] = {"cache": self._cache, "progress": progress}
            self._vectors = _Vectors(
                documents=encode_tokens(model, self._collection.documents, "document", **place),
                queries=encode_tokens(model, self._collection.queries, "query", **place),
                about={
                    "kind": "multivector",
                    "model": model.name,
                    "fingerprint": model.fingerprint,
                    "dimension": model.dimension,
                    "similarity": "mean MaxSim",
                },
            )
        return self._vectors


@dataclass(frozen=True)
class _Vectors:
    """about: of the model that made them."""

    documents: TokenVectors
    queries: TokenVectors
    about: dict[str, Any]


def _nearest(vectors: _Vectors, queries: IntArray, k: int, progress: Progress) -> IntArray:
    """int32 (q, up to k): the rows of each query's nearest documents except for rounding, in no order that matters."""
    groups = [_Group(vectors.queries, part, k) for part in _parts(vectors.queries, queries)]
    documents = vectors.documents
    with progress.stage("search multivector", len(documents)) as advance, one_thread_a_product(), Threads() as threads:
        for start, end in documents.blocks(_DOCUMENT_TOKENS):
            offsets = documents.offsets[start : end + 1]
            block = documents.vectors[offsets[0] : offsets[-1]].astype(np.float32)

            def compare(
                part: slice, start: int = start, block: FloatArray = block, offsets: LongArray = offsets
            ) -> None:
                for group in groups[part]:
                    group.add(start, block, offsets - offsets[0])

            threads.spread(compare, len(groups), 1, no_steps)
            advance(end - start)
    return np.concatenate([group.rows for group in groups])


def _parts(vectors: TokenVectors, queries: IntArray) -> Iterator[IntArray]:
    """The queries in their order, in parts of about `_QUERY_TOKENS` tokens."""
    tokens = np.cumsum(vectors.offsets[queries + 1] - vectors.offsets[queries])
    yield from np.split(queries, np.flatnonzero(np.diff(tokens // _QUERY_TOKENS)) + 1)


class _Group:
    """Some queries and the best documents for each so far. rows: int32 (q, up to k), the best first."""

    def __init__(self, vectors: TokenVectors, queries: IntArray, k: int) -> None:
        each = [vectors.of(query) for query in queries]
        lengths = np.array([len(tokens) for tokens in each])
        self._tokens = np.concatenate(each)
        self._starts = np.cumsum(lengths) - lengths
        self._lengths = lengths.astype(np.float32)
        self._k = k
        self._scores = np.empty((len(queries), 0), dtype=np.float32)
        self.rows = np.empty((len(queries), 0), dtype=np.int32)

    def add(self, first_row: int, block: FloatArray, offsets: LongArray) -> None:
        """Compare with documents: the tokens of the one in `first_row` + i are `block[offsets[i]:offsets[i + 1]]`."""
        cosines = block @ self._tokens.T
        # 30 times as fast as np.maximum.reduceat
        nearest = np.stack([cosines[start:end].max(axis=0) for start, end in pairwise(offsets)])
        means = (np.add.reduceat(nearest, self._starts, axis=1) / self._lengths).T.round(_DECIMALS)
        new = np.broadcast_to(np.arange(first_row, first_row + len(nearest), dtype=np.int32), means.shape)
        scores, rows = np.hstack([self._scores, means]), np.hstack([self.rows, new])
        best = np.argsort(-scores, axis=1, kind="stable")[:, : self._k]  # stable: equal scores stay in row order
        self._scores, self.rows = np.take_along_axis(scores, best, axis=1), np.take_along_axis(rows, best, axis=1)
