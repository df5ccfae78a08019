"""What happens to a block of queries: search, candidates, thresholds, choice."""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np

from foolsgold.compat.sentence_transformers.choose import Candidates, candidates_of, choose
from foolsgold.compat.sentence_transformers.nearest import Nearest
from foolsgold.compat.sentence_transformers.pairs import Pairs
from foolsgold.compat.sentence_transformers.rescore import Rescorer
from foolsgold.compat.sentence_transformers.rows import Mined
from foolsgold.compat.sentence_transformers.settings import Range, Sampling, Thresholds
from foolsgold.progress import Advance, Progress
from foolsgold.records import FloatArray, LongArray

_CANDIDATES = 1 << 20  # decided on at once


@dataclass(frozen=True)
class Rules:
    """How negatives are chosen, and whether somebody looks at scores (of positives too) that decide nothing."""

    ranks: Range
    thresholds: Thresholds
    n: int
    sampling: Sampling
    seed: int
    include_positives: bool
    wants_scores: bool
    wants_statistics: bool


class Blocks:
    """Gathers the negatives of all queries, block by block.

    skipped: candidates that each threshold dropped; looked_at: candidates in all, as sentence-transformers counts them:
    with known positives and, for queries of a small corpus, with the places that stay empty. Where a cross-encoder is
    asked for some only: those.
    """

    def __init__(self, pairs: Pairs, rules: Rules, rescorer: Rescorer | None) -> None:
        self.skipped: Counter[str] = Counter()
        self.looked_at = 0
        self._pairs = pairs
        self._rules = rules
        self._rescorer = rescorer
        self._parts: list[Mined] = []

    @property
    def mined(self) -> Mined:
        """Everything gathered."""
        scored = [part.positive_score for part in self._parts if part.positive_score is not None]
        return Mined(
            self._pairs,
            np.concatenate([part.counts for part in self._parts]),
            np.concatenate([part.document for part in self._parts]),
            np.concatenate([part.score for part in self._parts]),
            np.concatenate(scored) if scored else None,
        )

    def add(self, first: int, nearest: Nearest, progress: Progress, bar: str) -> None:
        """Mine for the queries from row `first` on, which `nearest` searches for; `bar` is what progress is called."""
        rules = self._rules
        k = rules.ranks.retrieved + self._pairs.most_copies
        scores, documents = nearest.search(k, _Named(progress, bar))
        size = max(1, _CANDIDATES // documents.shape[1])
        for start in range(0, len(documents), size):
            part = slice(start, start + size)
            found = candidates_of(
                self._pairs,
                first + start,
                scores[part],
                documents[part],
                rules.ranks,
                include_positives=rules.include_positives,
            )
            positive_score = self._positive_scores(first, first + start, found.n_units, nearest)
            self._parts.append(self._chosen(found, first + start, positive_score))

    def _positive_scores(self, block: int, first: int, n: int, nearest: Nearest) -> FloatArray | None:
        """float32: the scores of all positives of the n queries from `first` on; `block` is the first in `nearest`."""
        rules, pairs = self._rules, self._pairs
        if not (rules.thresholds.margins or rules.wants_scores or rules.wants_statistics):
            return None
        part = slice(pairs.offsets[first], pairs.offsets[first + n])
        owners, positives = pairs.owners[part], pairs.positives[part]
        if self._rescorer is not None:
            return self._rescorer.score(owners, positives)
        return nearest.pairs(owners - np.int32(block), positives)

    def _chosen(self, found: Candidates, first: int, positive_score: FloatArray | None) -> Mined:
        """The negatives of the queries from `first` on."""
        rules, pairs, rescorer = self._rules, self._pairs, self._rescorer
        lowest = None
        if rules.thresholds.margins:
            assert positive_score is not None
            begins = pairs.offsets[first : first + found.n_units]
            lowest = np.minimum.reduceat(positive_score, begins - begins[0])

        def by_cross_encoder(rows: LongArray) -> FloatArray:
            assert rescorer is not None
            return rescorer.score(found.query[rows], found.document[rows])

        decides = rescorer is not None and rules.thresholds.any
        taken = choose(
            found,
            rules.ranks,
            rules.thresholds,
            n=rules.n,
            sampling=rules.sampling,
            seed=rules.seed,
            lowest_positive=lowest,
            score=by_cross_encoder if decides else None,
        )
        score = taken.score.values[taken.candidate]
        if rescorer is not None and not decides:
            score = by_cross_encoder(taken.candidate)
        lazy = decides and rules.sampling == "random"
        self.looked_at += int(taken.score.valid.sum()) if lazy else found.n_units * rules.ranks.retrieved
        self.skipped += taken.skipped
        return Mined(pairs, taken.counts, found.document[taken.candidate], score, positive_score)


class _Named:
    """Reports under a name of its own, whatever the stage is called."""

    def __init__(self, progress: Progress, name: str) -> None:
        self._progress = progress
        self._name = name

    def stage(self, name: str, total: int) -> AbstractContextManager[Advance]:
        """Open a stage under that name."""
        del name
        return self._progress.stage(self._name, total)
