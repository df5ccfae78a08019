"""Ids and texts of a corpus or of queries, held in Arrow so that millions of them need no Python objects."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from functools import cached_property
from hashlib import blake2b, sha256
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from foolsgold.records import IntArray

_BATCH = 65_536


class Texts:
    """n texts with their ids. A text is named by its row everywhere else.

    ids, texts: Arrow string arrays of n rows, in memory or mapped from a file.
    """

    def __init__(self, ids: pa.ChunkedArray, texts: pa.ChunkedArray) -> None:
        self.ids = ids
        self.texts = texts

    @classmethod
    def from_lists(cls, ids: Iterable[str], texts: Iterable[str]) -> Texts:
        """From Python strings, of the same number."""
        return cls(
            pa.chunked_array([pa.array(list(ids), pa.large_string())]),
            pa.chunked_array([pa.array(list(texts), pa.large_string())]),
        )

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: Sequence[int] | npt.NDArray[Any]) -> list[str]:
        """The texts of the given rows, in that order."""
        return list(self.texts.take(pa.array(rows, pa.int64())).to_pylist())

    def take_ids(self, rows: Sequence[int] | npt.NDArray[Any]) -> list[str]:
        """The ids of the given rows, in that order."""
        return list(self.ids.take(pa.array(rows, pa.int64())).to_pylist())

    def subset(self, rows: Sequence[int] | npt.NDArray[Any]) -> Texts:
        """A new Texts with the given rows, in that order."""
        chosen = pa.array(rows, pa.int64())
        return Texts(self.ids.take(chosen), self.texts.take(chosen))

    def batches(self, size: int = _BATCH) -> Iterable[list[str]]:
        """All texts in row order, `size` at a time, so that the whole corpus is never in Python memory."""
        for start in range(0, len(self), size):
            yield self.texts.slice(start, size).to_pylist()

    @cached_property
    def rows(self) -> dict[str, int]:
        """The row of each id."""
        return {key: row for row, key in enumerate(self.ids.to_pylist())}

    @cached_property
    def passage(self) -> IntArray:
        """int32 (n): the first row with the same normalised text. Rows of equal passage are one passage (rule 9)."""
        first: dict[bytes, int] = {}
        passage = np.empty(len(self), dtype=np.int32)
        row = 0
        for batch in self.batches():
            for text in batch:
                key = blake2b(normalise(text).encode("utf-8", "surrogatepass"), digest_size=16).digest()
                passage[row] = first.setdefault(key, row)
                row += 1
        return passage

    @cached_property
    def lengths(self) -> IntArray:
        """int32 (n): characters of each text."""
        import pyarrow.compute as pc

        return np.asarray(pc.utf8_length(self.texts)).astype(np.int32)

    @cached_property
    def digest(self) -> str:
        """A hash of all ids and texts, hexadecimal."""
        digest = sha256()
        for column in (self.ids, self.texts):
            for start in range(0, len(self), _BATCH):
                for text in column.slice(start, _BATCH).to_pylist():
                    encoded = text.encode("utf-8", "surrogatepass")
                    digest.update(len(encoded).to_bytes(8, "little"))
                    digest.update(encoded)
        return digest.hexdigest()


def normalise(text: str) -> str:
    """A text as compared for equality: NFKC, case folded, white space collapsed (design, rule 9)."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
