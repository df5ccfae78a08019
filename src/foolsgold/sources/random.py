"""Random documents: the negatives that nobody has to search for, and the floor that every other source must beat."""

from __future__ import annotations

from typing import Any

import numpy as np

from foolsgold.progress import SILENT, Progress
from foolsgold.records import FloatArray, Hits, IntArray


class RandomSource:
    """Draws documents uniformly, each at most once a query.

    A query's draw depends on the seed, its row and the depth alone, so that it is the same whichever other queries are
    asked, in whatever order. The score is the number drawn for the document, in [0, 1): it orders, and says nothing.
    """

    def __init__(self, name: str, n_documents: int, seed: int) -> None:
        self.name = name
        self.n_documents = n_documents
        self.seed = seed

    def retrieve(self, queries: IntArray, depth: int, progress: Progress = SILENT) -> Hits:
        """`depth` documents for each query, or all of them where there are fewer."""
        k = min(depth, self.n_documents)
        rows = np.empty((len(queries), k), dtype=np.int32)
        scores = np.empty((len(queries), k), dtype=np.float32)
        with progress.stage(f"draw {self.name}", len(queries)) as advance:
            for place, query in enumerate(queries.tolist()):
                rng = np.random.default_rng((self.seed, query))
                # For a k far below the corpus's size numpy draws by Floyd's method, in O(k).
                drawn = rng.choice(self.n_documents, size=k, replace=False, shuffle=False)
                numbers = rng.random(k, dtype=np.float32)
                order = np.lexsort((drawn, -numbers))
                rows[place] = drawn[order]
                scores[place] = numbers[order]
            advance(len(queries))
        return Hits.from_top_k(scores, rows)

    def score(self, queries: IntArray, docs: IntArray) -> FloatArray | None:
        """None: a random number is not a score of a pair."""
        del queries, docs
        return None

    def describe(self) -> dict[str, Any]:
        """Its kind and seed."""
        return {"kind": "random", "seed": self.seed}
