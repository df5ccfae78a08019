"""How alike two texts are: the Jaccard similarity of the sets of their character n-shingles.

Texts are compared normalised (design, rule 9). A text with fewer than n characters has no shingle; it is compared as a
whole, and is like nothing but itself.

Our own code and not a library's: scikit-learn's vectoriser, which also can do this, took two thirds of a whole mining
run without a teacher.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foolsgold.collection import Texts, normalise
from foolsgold.records import BoolArray, FloatArray, LongArray, ranges

# Broder's resemblance (On the Resemblance and Containment of Documents, 1997), on characters: it needs no words.
SHINGLE = 5
_PAIRS = 8_192  # compared at once, so that memory does not grow with the number of pairs
# A shingle is held as (text, hash) in one uint64. Two shingles of a pair of texts share a 48-bit hash by accident with
# a chance of 1 in 280 million for texts of 1,000 characters, and then move the similarity by a thousandth.
_HASH_BITS = np.uint64(48)
_HASH = np.uint64((1 << 48) - 1)

_Rows = npt.NDArray[Any]


def jaccard(texts: Texts | Sequence[str], left: _Rows, right: _Rows, n: int = SHINGLE) -> FloatArray:
    """float32 (n_pairs): the similarity of texts[left[i]] and texts[right[i]], from 0 to 1 (the same set)."""
    similarity = np.empty(len(left), dtype=np.float32)
    for part in _parts(len(left)):
        sets, a, b = _sets(texts, left[part], right[part], n)
        similarity[part] = _similarity(sets, a, b)
    return similarity


def jaccard_at_least(
    texts: Texts | Sequence[str], left: _Rows, right: _Rows, threshold: float, n: int = SHINGLE
) -> BoolArray:
    """bool (n_pairs): `jaccard(...) >= threshold`, for less work.

    Two sets share at most the smaller and cover at least the larger, so their similarity is at most the ratio of their
    sizes. (The ratio of the texts' lengths is no such bound: "na" said a hundred times has the shingles of "na" said
    five times.) And sets that share t of the smaller share one of any part of it that is larger than 1 - t: most of the
    remaining pairs are told apart by a few shingles (the prefix filter of Chaudhuri, Ganti and Kaushik 2006).
    """
    alike = np.zeros(len(left), dtype=np.bool_)
    threshold = float(np.float32(threshold))  # similarities are float32
    for part in _parts(len(left)):
        sets, a, b = _sets(texts, left[part], right[part], n)
        small, large = np.where(sets.sizes[a] <= sets.sizes[b], (a, b), (b, a))
        ratio = (sets.sizes[small] / sets.sizes[large]).astype(np.float32)
        close = np.flatnonzero(ratio >= np.float32(threshold))
        if threshold > 0:
            sizes = sets.sizes[small[close]]
            more_than_may_be_missing = (sizes - np.floor(threshold * sizes) + 1).astype(np.int64)
            prefix = np.minimum(more_than_may_be_missing, sizes)
            close = close[sets.shared(small[close], large[close], prefix) > 0]
        found = _similarity(sets, a[close], b[close])
        alike[part.start + close] = found >= np.float32(threshold)
    return alike


@dataclass(frozen=True)
class _Sets:
    """The shingles of some texts.

    keys: uint64, sorted: (text, hash); those of text i are keys[starts[i] : starts[i] + sizes[i]].
    """

    keys: npt.NDArray[np.uint64]
    starts: LongArray
    sizes: LongArray

    def shared(self, some: _Rows, of: _Rows, counts: LongArray) -> LongArray:
        """How many of the first `counts` shingles of each text in `some` its partner in `of` has too."""
        pair = np.repeat(np.arange(len(some)), counts)
        place = ranges(self.starts[some], counts)
        wanted = (self.keys[place] & _HASH) | (of[pair].astype(np.uint64) << _HASH_BITS)
        found = np.searchsorted(self.keys, wanted)
        there = self.keys[np.minimum(found, len(self.keys) - 1)] == wanted
        return np.bincount(pair[there], minlength=len(some))


def _similarity(sets: _Sets, a: _Rows, b: _Rows) -> FloatArray:
    both = sets.shared(a, b, sets.sizes[a])
    return (both / (sets.sizes[a] + sets.sizes[b] - both)).astype(np.float32)


def _parts(n_pairs: int) -> Iterator[slice]:
    for start in range(0, n_pairs, _PAIRS):
        yield slice(start, min(start + _PAIRS, n_pairs))


def _sets(texts: Texts | Sequence[str], left: _Rows, right: _Rows, n: int) -> tuple[_Sets, _Rows, _Rows]:
    """The shingles of the texts that the pairs are made of, each text once, and the pairs as places among them."""
    rows, place = np.unique(np.concatenate([left, right]), return_inverse=True)
    taken = texts.take(rows) if isinstance(texts, Texts) else [texts[row] for row in rows.tolist()]
    normal = [normalise(text) for text in taken]
    lengths = np.array([len(text) for text in normal], dtype=np.int64)
    codes = np.frombuffer("".join(normal).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    keys = np.sort(_hashed(codes, lengths, n))
    keys = keys[np.concatenate([[True], keys[1:] != keys[:-1]])]  # np.unique is ten times slower, by a hash table
    starts = np.searchsorted(keys, np.arange(len(normal) + 1, dtype=np.uint64) << _HASH_BITS)
    sets = _Sets(keys, starts[:-1].astype(np.int64), np.diff(starts).astype(np.int64))
    return sets, place[: len(left)], place[len(left) :]


def _hashed(codes: npt.NDArray[np.uint32], lengths: LongArray, n: int) -> npt.NDArray[np.uint64]:
    """(text, hash) of every shingle of every text, which stand in `codes` one after the other."""
    # a text that is too short for a shingle is one itself, filled up with a code that no character has
    begins = np.cumsum(lengths) - lengths
    counts = np.maximum(lengths - n + 1, 1)
    text = np.repeat(np.arange(len(lengths), dtype=np.uint64), counts)
    start = ranges(begins, counts)
    width = np.repeat(np.minimum(lengths, n), counts)
    padded = np.concatenate([codes, np.zeros(n, dtype=np.uint32)])
    hashed = np.zeros(len(start), dtype=np.uint64)
    for i in range(n):
        code = np.where(i < width, padded[start + i].astype(np.uint64) + np.uint64(1), np.uint64(0))
        hashed = (hashed ^ code) * np.uint64(0x9E3779B97F4A7C15)
        hashed ^= hashed >> np.uint64(32)
    return (text << _HASH_BITS) | (hashed & _HASH)
