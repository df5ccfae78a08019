"""The last step of every encoder: finite vectors, of length 1 where they are compared by cosine."""

from __future__ import annotations

import numpy as np

from foolsgold.errors import ModelError
from foolsgold.models.protocol import Similarity
from foolsgold.records import FloatArray


class NotFinite(ModelError):
    """A model gave NaN or infinity for `what`, the text at `position` of those it was given."""

    def __init__(self, model: str, what: str, position: int) -> None:
        super().__init__(
            f"{model}: the vector of {what} has values that are not finite numbers; "
            "set dtype: float32, or use another model"
        )
        self.model = model
        self.position = position


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
