"""Random documents: the negatives that nobody has to search for, and the level that every other source must beat."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from foolsgold.progress import SILENT, Progress
from foolsgold.records import FloatArray, Hits, IntArray

_SMALL = 4096  # documents that are put in order whole, which is as quick, and right for any depth


class RandomSource:
    """Draws documents uniformly, each at most once per query.

    A query's draw depends on the seed, the source's name and the query's row alone: a greater depth (of up to a quarter
    of a large corpus) only adds to it, and documents put at the end of the corpus move few of the others. The score is
    one over the place in the draw: it only orders.
    """

    def __init__(self, name: str, n_documents: int, seed: int) -> None:
        self.name = name
        self.n_documents = n_documents
        self.seed = seed

    def retrieve(self, queries: IntArray, depth: int, progress: Progress = SILENT) -> Hits:
        """`depth` documents for each query, or all of them where there are fewer."""
        k = min(depth, self.n_documents)
        rows = np.empty((len(queries), k), dtype=np.int32)
        with progress.stage(f"draw {self.name}", len(queries)) as advance:
            for place, query in enumerate(queries.tolist()):
                rows[place] = self._draw(np.random.default_rng((self.seed, crc32(self.name.encode()), query)), k)
            advance(len(queries))
        scores = np.tile((1 / np.arange(1, k + 1)).astype(np.float32), (len(queries), 1))
        return Hits.from_top_k(scores, rows)

    def _draw(self, rng: np.random.Generator, k: int) -> npt.ArrayLike:
        """The first k documents of the query's own order of all documents."""
        if self.n_documents <= _SMALL or 4 * k > self.n_documents:
            return np.argsort(rng.random(self.n_documents), kind="stable")[:k]
        # Rows below the next power of two, those that do not exist are skipped: O(k), and mostly the same rows for a
        # corpus a little larger.
        mask = np.uint64((1 << (self.n_documents - 1).bit_length()) - 1)
        drawn: dict[int, None] = {}
        while len(drawn) < k:
            for row in (rng.bit_generator.random_raw(k) & mask).tolist():
                if row < self.n_documents and len(drawn) < k:
                    drawn[row] = None
        return list(drawn)

    def score(self, queries: IntArray, docs: IntArray) -> FloatArray | None:
        """None: a random number is not a score of a pair."""
        del queries, docs
        return None

    def describe(self) -> dict[str, Any]:
        """Its kind and seed."""
        return {"kind": "random", "seed": self.seed}
