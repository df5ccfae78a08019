"""The last step of every encoder: finite vectors, of length 1 where they are compared by cosine."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from foolsgold.errors import ModelError
from foolsgold.models.protocol import Encoder, Similarity
from foolsgold.progress import Advance
from foolsgold.records import FloatArray, LongArray


class NotFinite(ModelError):
    """A model gave NaN or infinity for `what`, the text at `position` of those it was given."""

    def __init__(self, model: str, what: str, position: int) -> None:
        super().__init__(
            f"{model}: the vector of {what} has values that are not finite numbers; "
            "set dtype: float32, or use another model"
        )
        self.model = model
        self.position = position


def gathered(parts: Iterable[tuple[LongArray, FloatArray]], n: int, encoder: Encoder, advance: Advance) -> FloatArray:
    """float32 (n, d): the vectors of n texts, finished, from those of some rows at a time.

    Raises:
        NotFinite: as `finished`.
    """
    vectors: FloatArray | None = None
    for rows, part in parts:
        if vectors is None:
            vectors = np.empty((n, part.shape[1]), dtype=np.float32)
        vectors[rows] = part
        advance(len(rows))
    if vectors is None:
        return np.empty((0, encoder.dimension), dtype=np.float32)
    return finished(vectors, encoder.similarity, encoder.name)


def finished(vectors: FloatArray, similarity: Similarity, model: str) -> FloatArray:
    """float32 (n, d) as an encoder returns them, changed in place.

    Raises:
        NotFinite: naming the first text whose vector is not finite.
    """
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(bad):
        raise NotFinite(model, f"text {bad[0]}", int(bad[0]))
    if similarity == "cosine":
        to_unit_length(vectors)
    return vectors


def to_unit_length(vectors: FloatArray) -> FloatArray:
    """Divide each row by its length, in place; a row of zeros stays as it is."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors /= np.where(lengths == 0, np.float32(1), lengths)
    return vectors
