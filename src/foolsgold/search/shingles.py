"""How alike two texts are: the Jaccard similarity of the sets of their character n-shingles.

Texts are compared normalised (design, rule 9). A text with fewer than n characters has no shingle; it is compared as a
whole, and is like nothing but itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from foolsgold.collection import Texts, normalise
from foolsgold.records import BoolArray, FloatArray

# Broder's resemblance (On the Resemblance and Containment of Documents, 1997), on characters: it needs no words.
SHINGLE = 5
_PAIRS = 16_384  # compared at once, so that memory does not grow with the number of pairs

_Rows = npt.NDArray[Any]


def jaccard(texts: Texts | Sequence[str], left: _Rows, right: _Rows, n: int = SHINGLE) -> FloatArray:
    """float32 (n_pairs): the similarity of texts[left[i]] and texts[right[i]], from 0 to 1 (the same set)."""
    similarity = np.empty(len(left), dtype=np.float32)
    for part in _parts(len(left)):
        similarity[part] = _similarity(*_distinct(texts, left[part], right[part]), n)
    return similarity


def jaccard_at_least(
    texts: Texts | Sequence[str], left: _Rows, right: _Rows, threshold: float, n: int = SHINGLE
) -> BoolArray:
    """bool (n_pairs): `jaccard(...) >= threshold`, for less work.

    Two sets share at most the smaller and cover at least the larger, so their similarity is at most the ratio of their
    sizes: most pairs are told apart by that, and only the others are compared. (The ratio of the texts' lengths is no
    such bound: "na" said a hundred times has the shingles of "na" said five times.)
    """
    alike = np.zeros(len(left), dtype=np.bool_)
    for part in _parts(len(left)):
        distinct, a, b = _distinct(texts, left[part], right[part])
        sizes = np.array([_n_shingles(text, n) for text in distinct])
        small, large = np.minimum(sizes[a], sizes[b]), np.maximum(sizes[a], sizes[b])
        close = np.flatnonzero((small / large).astype(np.float32) >= np.float32(threshold))
        used, place = np.unique(np.concatenate([a[close], b[close]]), return_inverse=True)
        kept = [distinct[row] for row in used.tolist()]
        found = _similarity(kept, place[: len(close)], place[len(close) :], n)
        alike[part.start + close] = found >= np.float32(threshold)
    return alike


def _parts(n_pairs: int) -> Iterator[slice]:
    for start in range(0, n_pairs, _PAIRS):
        yield slice(start, min(start + _PAIRS, n_pairs))


def _distinct(texts: Texts | Sequence[str], left: _Rows, right: _Rows) -> tuple[list[str], _Rows, _Rows]:
    """The normalised texts that the pairs are made of, each once, and the pairs as places among them."""
    rows, place = np.unique(np.concatenate([left, right]), return_inverse=True)
    taken = texts.take(rows) if isinstance(texts, Texts) else [texts[row] for row in rows.tolist()]
    return [normalise(text) for text in taken], place[: len(left)], place[len(left) :]


def _n_shingles(text: str, n: int) -> int:
    """How many different shingles; 1 for a text too short to have any, which then is its own."""
    return len({text[i : i + n] for i in range(len(text) - n + 1)}) or 1


def _similarity(texts: list[str], a: _Rows, b: _Rows, n: int) -> FloatArray:
    from sklearn.feature_extraction.text import CountVectorizer

    whole = np.array([len(text) < n for text in texts], dtype=np.bool_)
    similarity = np.zeros(len(a), dtype=np.float32)
    short = whole[a] | whole[b]
    similarity[short] = [texts[i] == texts[j] for i, j in zip(a[short].tolist(), b[short].tolist(), strict=True)]
    if short.all():
        return similarity
    counter = CountVectorizer(analyzer="char", ngram_range=(n, n), lowercase=False, binary=True, dtype=np.int32)
    shingles = counter.fit_transform(texts)
    sizes = shingles.getnnz(axis=1)
    both = np.asarray(shingles[a].multiply(shingles[b]).sum(axis=1)).ravel()
    either = sizes[a] + sizes[b] - both
    similarity[~short] = (both[~short] / either[~short]).astype(np.float32)
    return similarity
