"""What every encoder does, whatever runs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from foolsgold.progress import Advance
from foolsgold.records import FloatArray

Role = Literal["query", "document"]
Similarity = Literal["cosine", "dot"]


class Encoder(Protocol):
    """Turns texts into vectors.

    name: as the recipe names the model.
    fingerprint: changes whenever the vectors could: weights' contents, tokeniser, max length, pooling, dtype.
    similarity: how its vectors are meant to be compared.
    dtype: what it computes in: float32, bfloat16, float16, or int8.
    """

    name: str
    fingerprint: str
    dimension: int
    similarity: Similarity
    dtype: str

    def prompt(self, role: Role) -> str:
        """What is put before each text of that role ('' for nothing)."""
        ...

    def encode(self, texts: Sequence[str], role: Role, advance: Advance) -> FloatArray:
        """float32 (n, dimension), in the order of `texts`; of length 1 where the similarity is cosine.

        `advance` is called with the number of texts done, as they are done. A text without any known token may have a
        vector of zeros, which is similar to nothing.

        Raises:
            NotFinite: a vector has a value that is not a finite number.
        """
        ...
