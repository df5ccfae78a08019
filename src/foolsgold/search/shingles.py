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
from foolsgold.records import BoolArray, FloatArray, LongArray
from foolsgold.search.kernels import compiled, select
from foolsgold.search.threads import Threads

# Broder's resemblance (On the Resemblance and Containment of Documents, 1997), on characters: it needs no words.
SHINGLE = 5
_PAIRS = 8_192  # compared at once, so that memory does not grow with the number of pairs
_TEXTS = 4_096  # read at once
_ALL = 0.0  # the threshold below which no shingle may be left out

_Rows = npt.NDArray[Any]
_Hashes = npt.NDArray[np.uint64]


def jaccard(texts: Texts | Sequence[str], left: _Rows, right: _Rows, n: int = SHINGLE) -> FloatArray:
    """float32 (n_pairs): the similarity of texts[left[i]] and texts[right[i]], from 0 to 1 (the same set)."""
    similarity = np.empty(len(left), dtype=np.float32)
    for start in range(0, len(left), _PAIRS):
        part = slice(start, start + _PAIRS)
        rows, a, b = _distinct(left[part], right[part])
        sets = _Sets.of(texts, rows, n, _ALL)
        both = sets.shared(a, b, int(sets.sizes.max()))
        similarity[part] = both / (sets.sizes[a] + sets.sizes[b] - both)
    return similarity


def jaccard_at_least(
    texts: Texts | Sequence[str], left: _Rows, right: _Rows, threshold: float, n: int = SHINGLE
) -> BoolArray:
    """bool (n_pairs): `jaccard(...) >= threshold`, for less work: nearly all pairs are told apart by a few shingles.

    Two sets share at most the smaller and cover at least the larger, so their similarity is at most the ratio of their
    sizes. (The ratio of the texts' lengths is no such bound: "na" said a hundred times has the shingles of "na" said
    five times.) And of two sets as similar as t, neither misses more than 1 - t of its own shingles in the other: so
    in any order of all shingles, the first that they share is among the first 1 - t, and one more, of both (the prefix
    filter of Chaudhuri, Ganti and Kaushik, A Primitive Operator for Similarity Joins, 2006).
    """
    threshold = float(np.float32(threshold))  # similarities are float32
    if threshold <= 0 or not len(left):
        return np.ones(len(left), dtype=np.bool_)
    rows, a, b = _distinct(left, right)
    prefixes = _Sets.of(texts, rows, n, threshold)
    sizes = prefixes.sizes[a], prefixes.sizes[b]
    ratio = (np.minimum(*sizes) / np.maximum(*sizes)).astype(np.float32)
    alike: BoolArray = ratio >= np.float32(threshold)
    close = np.flatnonzero(alike)
    alike[close] = prefixes.shared(a[close], b[close], 1) > 0
    close = np.flatnonzero(alike)
    alike[close] = jaccard(texts, left[close], right[close], n) >= np.float32(threshold)
    return alike


def _distinct(left: _Rows, right: _Rows) -> tuple[_Rows, LongArray, LongArray]:
    """The rows that the pairs are made of, each once, and the pairs as places among them."""
    rows = np.sort(np.concatenate([left, right]))
    rows = rows[np.concatenate([[True], rows[1:] != rows[:-1]])]  # np.unique is ten times slower, by a hash table
    return rows, np.searchsorted(rows, left), np.searchsorted(rows, right)


@dataclass(frozen=True)
class _Sets:
    """The shingles of some texts, or the first few of them in the order of their hashes.

    sizes: int64 (n), how many different shingles each text has; hashes[starts[i] : starts[i] + kept[i]]: those of text
    i that are kept, ascending. Two shingles share a hash with a chance of 1 in 10^19.
    """

    sizes: LongArray
    starts: LongArray
    kept: LongArray
    hashes: _Hashes

    @classmethod
    def of(cls, texts: Texts | Sequence[str], rows: _Rows, n: int, threshold: float) -> _Sets:
        """Keep as many shingles as sets that are as similar as `threshold` need to be told apart."""
        parts = []
        with Threads() as threads:
            for codes, lengths in _read(texts, rows):
                parts.append(_hashed(codes, lengths, n, threshold, threads))
        sizes, kept, hashes = (np.concatenate(column) for column in zip(*parts, strict=True))
        return cls(sizes, np.cumsum(kept) - kept, kept, hashes)

    def shared(self, a: LongArray, b: LongArray, enough: int) -> LongArray:
        """How many kept shingles the texts of each pair share; counted up to `enough`."""
        counts = np.empty(len(a), dtype=np.int64)
        _count_shared(self.hashes, self.starts, self.kept, a, b, enough, counts)
        return counts


def _read(texts: Texts | Sequence[str], rows: _Rows) -> Iterator[tuple[npt.NDArray[np.uint32], LongArray]]:
    """The normalised texts, one after the other as Unicode code points, and how long each is."""
    for start in range(0, max(1, len(rows)), _TEXTS):
        part = rows[start : start + _TEXTS]
        taken = texts.take(part) if isinstance(texts, Texts) else [texts[row] for row in part.tolist()]
        normal = [normalise(text) for text in taken]
        codes = np.frombuffer("".join(normal).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        yield codes, np.array([len(text) for text in normal], dtype=np.int64)


def _hashed(
    codes: npt.NDArray[np.uint32], lengths: LongArray, n: int, threshold: float, threads: Threads
) -> tuple[LongArray, LongArray, _Hashes]:
    """Sizes, how many shingles are kept, and the hashes of those, text after text."""
    begins = np.cumsum(lengths) - lengths
    counts = np.maximum(lengths - n + 1, 1)  # a text that is too short for a shingle is one itself
    starts = np.cumsum(counts) - counts
    sizes, kept = np.empty(len(lengths), dtype=np.int64), np.empty(len(lengths), dtype=np.int64)
    hashes = np.empty(int(counts.sum()), dtype=np.uint64)

    def work(part: slice) -> None:
        _hash_sets(codes, begins[part], lengths[part], n, threshold, starts[part], sizes[part], kept[part], hashes)

    threads.spread(work, len(lengths), max(1, -(-len(lengths) // threads.count)))
    return sizes, kept, hashes[np.repeat(starts - np.cumsum(kept) + kept, kept) + np.arange(kept.sum())]


@compiled
def _hash_sets(
    codes: Any, begins: Any, lengths: Any, n: Any, threshold: Any, starts: Any, sizes: Any, kept: Any, hashes: Any
) -> None:
    room = 2
    while room < 2 * lengths.max():
        room *= 2
    table = np.zeros(room, np.uint64)  # of the hashes seen, each where its last bits point or after that; 0 is free
    slots = np.empty(room, np.int64)
    for text in range(len(lengths)):
        begin, length = begins[text], lengths[text]
        width = min(n, length)
        own = hashes[starts[text] : starts[text] + max(length - n + 1, 1)]
        size: Any = 0
        for first in range(begin, begin + len(own)):
            hashed = np.uint64(0)
            for i in range(first, first + width):
                hashed = hashed * np.uint64(0x9E3779B97F4A7C15) + np.uint64(codes[i]) + np.uint64(1)
            hashed ^= hashed >> np.uint64(32)
            hashed *= np.uint64(0xD6E8FEB86659FD93)
            hashed ^= hashed >> np.uint64(32)
            hashed |= np.uint64(hashed == 0)
            slot = np.int64(hashed & np.uint64(room - 1))
            while table[slot] != 0 and table[slot] != hashed:
                slot = (slot + 1) & (room - 1)
            if table[slot] == 0:
                table[slot] = hashed
                slots[size] = slot
                own[size] = hashed
                size += 1
        table[slots[:size]] = 0
        keep = min(size, size - np.int64(np.floor(threshold * size)) + 1)
        if keep < size:
            select(own[:size], keep)  # the largest come first: in the order of the prefix filter, larger is earlier
        own[:keep] = np.sort(own[:keep])
        sizes[text] = size
        kept[text] = keep


@compiled
def _count_shared(hashes: Any, starts: Any, kept: Any, a: Any, b: Any, enough: Any, counts: Any) -> None:
    for pair in range(len(a)):
        i, j = starts[a[pair]], starts[b[pair]]
        i_end, j_end = i + kept[a[pair]], j + kept[b[pair]]
        shared = 0
        while i < i_end and j < j_end and shared < enough:
            left, right = hashes[i], hashes[j]
            shared += left == right
            i += left <= right
            j += right <= left
        counts[pair] = shared
