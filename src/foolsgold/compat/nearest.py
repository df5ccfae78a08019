"""The nearest documents of queries, by the model's own `similarity`."""

from __future__ import annotations

from typing import Any

import numpy as np

from foolsgold.errors import SourceError
from foolsgold.progress import Progress
from foolsgold.records import FloatArray, IntArray
from foolsgold.search import top_k

_ASKED = 16  # documents whose similarity the model is asked for, to see what kind it is
_TOLERANCE = 1e-3  # what TF32 and other shortcuts of a GPU may cost
_PRODUCTS = 1 << 24  # similarities held at once where the model computes them
_PAIRS = 16_384


class Nearest:
    """Searches documents for a block of queries, by what the model calls similarity.

    Vectors have length 1, so cosine and dot are the inner product, and that is searched by `top_k`. Whether the model's
    similarity is the inner product is measured, on this block and a few documents, and not taken from a name:
    euclidean, manhattan and whatever a subclass computes are left to the model, in blocks of documents.

    documents: (n, d); queries: (q, d), any float type, arrays or memory maps.
    """

    def __init__(self, model: Any, documents: FloatArray, queries: FloatArray) -> None:
        self._model = model
        self._documents = documents
        self._queries = queries
        self._plain = self._is_inner_product()

    def search(self, k: int, progress: Progress) -> tuple[FloatArray, IntArray]:
        """Scores float32 and rows int32, (q, min(k, n)), as `top_k` gives them: descending, equal scores by row."""
        if self._plain:
            device = getattr(self._model, "device", None)
            on_gpu = str(device) if getattr(device, "type", None) == "cuda" else None
            return top_k(self._queries, self._documents, k, progress=progress, device=on_gpu)
        k = min(k, len(self._documents))
        scores = np.empty((len(self._queries), 0), dtype=np.float32)
        rows = np.empty((len(self._queries), 0), dtype=np.int32)
        size = max(1, _PRODUCTS // len(self._queries))
        with progress.stage("search dense", len(self._documents)) as advance:
            for start in range(0, len(self._documents), size):
                block = np.asarray(self._documents[start : start + size])
                found = array(self._model.similarity(self._queries, block))
                if np.isnan(found).any():
                    raise SourceError("the model's similarity of some texts is NaN; run it in float32")
                added = np.broadcast_to(np.arange(start, start + len(block), dtype=np.int32), found.shape)
                scores, rows = _best(np.hstack([scores, found]), np.hstack([rows, added]), k)
                advance(len(block))
        return scores, rows

    def pairs(self, query: IntArray, document: IntArray) -> FloatArray:
        """float32 (n): the similarity of queries (rows of the block) and documents, one by one."""
        scores = np.empty(len(query), dtype=np.float32)
        for start in range(0, len(query), _PAIRS):
            part = slice(start, start + _PAIRS)
            a, b = np.asarray(self._queries[query[part]]), np.asarray(self._documents[document[part]])
            if self._plain:  # summed as `top_k` sums, so that documents of equal vectors have equal scores
                scores[part] = np.einsum("ij,ij->i", a, b, dtype=np.float64)
            else:
                scores[part] = array(self._model.similarity_pairwise(a, b))
        return scores

    def _is_inner_product(self) -> bool:
        rows = np.unique(np.linspace(0, len(self._documents) - 1, _ASKED).astype(np.int64))
        some = np.asarray(self._documents[rows])
        said = self._model.similarity(self._queries, some)
        products = np.asarray(self._queries, dtype=np.float32) @ some.astype(np.float32).T
        near = max(_TOLERANCE, 8 * _spacing(said))
        return bool(np.allclose(array(said), products, rtol=0, atol=near, equal_nan=True))


def array(values: Any) -> FloatArray:
    """A tensor on any device and of any float type, or an array, as float32."""
    if hasattr(values, "detach"):
        values = values.detach().float().cpu().numpy()
    return np.asarray(values, dtype=np.float32)


def _spacing(values: Any) -> float:
    """Of the numbers at 1 that such a tensor or array holds."""
    if hasattr(values, "detach"):
        import torch

        return float(torch.finfo(values.dtype).eps)
    return float(np.finfo(values.dtype).eps)


def _best(scores: FloatArray, rows: IntArray, k: int) -> tuple[FloatArray, IntArray]:
    """The k best of each query, descending; of equal scores the first columns, which have the lower rows."""
    if scores.shape[1] > k:
        bar = -np.partition(-scores, k - 1, axis=1)[:, k - 1 : k]
        above, level = scores > bar, scores == bar
        kept = above | (level & (np.cumsum(level, axis=1) <= k - above.sum(axis=1, keepdims=True)))
        scores, rows = scores[kept].reshape(-1, k), rows[kept].reshape(-1, k)
    order = np.argsort(-scores, axis=1, kind="stable")
    return np.take_along_axis(scores, order, axis=1), np.take_along_axis(rows, order, axis=1)
