"""What every teacher does, whatever it scores with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from foolsgold.progress import SILENT, Progress
from foolsgold.records import FloatArray, Scale

Pair = tuple[str, str]


class Teacher(Protocol):
    """Says how well a document answers a query.

    scale: what `score` returns: raw logits (never a sigmoid of them), probabilities, or cosines.
    fingerprint: changes whenever the scores could: weights' contents, tokeniser, max length, prompt.
    """

    scale: Scale
    fingerprint: str

    def score(self, pairs: Sequence[Pair], progress: Progress = SILENT) -> FloatArray:
        """float32 (n), finite: one score for each (query, document) text pair, on `scale`, higher is more relevant."""
        ...
