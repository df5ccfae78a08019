"""The store of token vectors: CACHE/token_vectors/KEY/{vectors.f16, offsets.npy, dimension.npy}, encoded once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from foolsgold.collection.texts import Texts
from foolsgold.models.late_interaction import LateInteraction
from foolsgold.models.protocol import Role
from foolsgold.progress import SILENT, Progress
from foolsgold.records import FloatArray, LongArray
from foolsgold.stores.kept import encoded_parts, folder_of, kept


@dataclass(frozen=True)
class TokenVectors:
    """The vectors of the tokens of n texts, one text after the other.

    vectors: float16 (n_tokens, d), of length 1 except for float16's rounding (1e-3); mostly a memory map.
    offsets: int64 (n + 1): the tokens of text i are `vectors[offsets[i]:offsets[i + 1]]`, at least one.
    """

    vectors: npt.NDArray[np.float16]
    offsets: LongArray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def of(self, row: int) -> FloatArray:
        """One text's, float32 (tokens, d)."""
        return self.vectors[self.offsets[row] : self.offsets[row + 1]].astype(np.float32)

    def blocks(self, tokens: int) -> Iterator[tuple[int, int]]:
        """All texts as runs [from, to) of at most so many tokens; a longer text is a run of its own."""
        start = 0
        while start < len(self):
            end = int(np.searchsorted(self.offsets, self.offsets[start] + tokens, side="right")) - 1
            end = max(end, start + 1)
            yield start, end
            start = end


def encode_tokens(
    model: LateInteraction, texts: Texts, role: Role, *, cache: Path, progress: Progress = SILENT
) -> TokenVectors:
    """The token vectors of all texts, encoded once for all runs. Where `cache` cannot be written, in memory.

    They take 2 bytes a number: 25 kB for a passage of 100 tokens with 128 numbers each.

    Raises:
        NotFinite: naming the text one of whose vectors has NaN or infinity.
    """

    def write(folder: Path) -> None:
        _write(folder, parts(), model)

    def make() -> TokenVectors:
        made = list(parts())
        empty = np.empty((0, model.dimension), dtype=np.float16)
        lengths = np.concatenate([np.empty(0, dtype=np.int64), *(lengths for _, lengths in made)])
        return TokenVectors(np.concatenate([empty, *(vectors for vectors, _ in made)]), _offsets(lengths))

    def parts() -> Iterator[_Part]:
        for vectors in encoded_parts(model, texts, role, progress):
            yield np.concatenate(vectors).astype(np.float16), np.array([len(each) for each in vectors], dtype=np.int64)

    return kept(folder_of(cache, "token_vectors", model, role, texts), "token vectors are", write, _opened, make)


# The vectors of some texts, float16, and how many each text has.
_Part = tuple[npt.NDArray[np.float16], LongArray]


def _write(folder: Path, parts: Iterator[_Part], model: LateInteraction) -> None:
    lengths = [np.empty(0, dtype=np.int64)]
    with (folder / "vectors.f16").open("wb") as file:
        for vectors, counts in parts:
            file.write(vectors.tobytes())
            lengths.append(counts)
    np.save(folder / "offsets.npy", _offsets(np.concatenate(lengths)))
    np.save(folder / "dimension.npy", np.array(model.dimension))


def _opened(folder: Path) -> TokenVectors:
    offsets: Any = np.load(folder / "offsets.npy", allow_pickle=False)
    shape = int(offsets[-1]), int(np.load(folder / "dimension.npy", allow_pickle=False))
    if not shape[0]:
        return TokenVectors(np.empty(shape, dtype=np.float16), offsets)
    return TokenVectors(np.memmap(folder / "vectors.f16", dtype=np.float16, mode="r", shape=shape), offsets)


def _offsets(lengths: LongArray) -> LongArray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
