"""Spherical k-means of embeddings: groups of vectors that point the same way, such as queries on one topic.

Lloyd's algorithm by cosine, but between the first assignment and the last a vector is only compared with the centroids
nearest to its own (k2-means: Agustsson, Timofte, Van Gool, AISTATS 2017), as it hardly ever belongs elsewhere: a small
matrix product a cluster. The first and the last assignment compare every vector with every centroid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg  # noqa: F401  # the products of compiled code are those of its BLAS, which must be there to be limited
from threadpoolctl import threadpool_limits

from foolsgold.errors import SourceError
from foolsgold.progress import SILENT, Progress
from foolsgold.records import FloatArray, IntArray, LongArray
from foolsgold.search import kernels
from foolsgold.search.dense import top_k
from foolsgold.search.kernels import compiled
from foolsgold.search.threads import Threads

_Matrix = npt.NDArray[Any]
_Sums = npt.NDArray[np.float64]

_NEAR = 64  # centroids a vector is compared with, its own among them: 32 cost up to 1 % of the mean cosine, 64 0.1 %
_ROWS = 4096  # vectors of a cluster in memory at once, for each thread
_BLOCK = 256  # centroids; all but the first block are compared in int8 where the CPU can, at half the cost
_PIECE = 8  # clusters a thread takes at a time
_FITS = 1 - 1e-6  # the cosine from which a vector is its own centroid, but for rounding

_TINY = float(np.finfo(np.float32).tiny)  # one over a smaller length is no float32


def spherical_kmeans(
    vectors: _Matrix, n_clusters: int, *, iterations: int = 20, seed: int = 13, progress: Progress = SILENT
) -> tuple[FloatArray, IntArray]:
    """Group vectors so that the mean cosine of each to the centroid of its cluster is high.

    vectors: (n, d), float32 or float16, an array or a memory map, of any length; little of it is copied at a time. A
    vector of zeros is like no other, and goes to cluster 0.
    iterations: how often the centroids move at most, like scikit-learn's max_iter; fewer where nothing changes more.
    seed: of the draw of the vectors that the centroids start from. The same seed gives the same answer on any number of
    threads.

    Returns:
        centroids: float32 (n_clusters, d), each of length 1.
        labels: int32 (n), the centroid with the highest cosine, the first of equal ones. A cluster may be empty: where
            fewer vectors differ than there are clusters, and now and then where the last assignment left none in it.

    Raises:
        SourceError: not a matrix, NaN or infinity (with its row), fewer vectors (without those of zeros) than clusters.
    """
    vectors = np.asanyarray(vectors)
    if vectors.ndim != 2:
        raise SourceError(f"the vectors have shape {vectors.shape}; a matrix with one vector a row is needed")
    for name, number in (("n_clusters", n_clusters), ("iterations", iterations)):
        if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 1:
            raise SourceError(f"{name} is {number!r}; a whole number of at least 1 is needed")
    clustering = _Clustering(vectors, n_clusters, np.random.default_rng(seed))
    with progress.stage("cluster", iterations) as advance:
        clustering.assign_to_all()
        for left in reversed(range(iterations)):
            has_moved = clustering.move_centroids()
            if has_moved and left:
                clustering.assign_to_near()
            elif not clustering.assign_to_all():
                advance(left + 1)
                break
            advance(1)
    return clustering.centroids, clustering.labels


class _Clustering:
    """Centroids, float32 (c, d) of length 1, and labels, int32 (n), as they are so far."""

    def __init__(self, vectors: _Matrix, n_clusters: int, rng: np.random.Generator) -> None:
        self._vectors = vectors
        self._scales = _scales(vectors)
        nonzero = np.flatnonzero(self._scales)
        if len(nonzero) < n_clusters:
            raise SourceError(
                f"{n_clusters} clusters of {len(nonzero)} vectors that are not zero; ask for at most {len(nonzero)}"
            )
        start = np.sort(rng.choice(nonzero, n_clusters, replace=False))
        self.centroids = _float32(vectors[start]) * self._scales[start, np.newaxis]
        self.labels = np.zeros(len(vectors), dtype=np.int32)
        self._sums: _Sums | None = None  # of each cluster's vectors, where the last assignment has made them

    def assign_to_all(self) -> bool:
        """Give each vector to the nearest centroid; whether any label changed."""
        found = top_k(self._vectors, self.centroids, 1, document_block=_BLOCK)[1][:, 0]
        has_changed = not np.array_equal(found, self.labels)
        self.labels, self._sums = found, None
        return has_changed

    def assign_to_near(self) -> None:
        """Give each vector to the nearest of those centroids that are near its own.

        Most vectors stay where they are. They are summed while they are at hand, for `move_centroids`.
        """
        near = np.sort(top_k(self.centroids, self.centroids, _NEAR)[1], axis=1)  # sorted: the first of equal ones wins
        found, sums = self.labels.copy(), np.zeros(self.centroids.shape, dtype=np.float64)

        def assign(rows: LongArray) -> None:
            vectors, own = _float32(self._vectors[rows]), self.labels[rows]
            found[rows] = nearest = _nearest_of(vectors, own, near, self.centroids)
            _add(vectors, np.where(nearest == own, self._scales[rows], 0), own, sums)

        self._by_cluster(np.arange(len(found)), assign)
        changed = np.flatnonzero(found != self.labels)
        self.labels, self._sums = found, sums
        self._sum(changed)

    def move_centroids(self) -> bool:
        """Put each centroid in the middle of its vectors, all taken as of length 1; whether any moved.

        One without vectors first gets one of those that fit their centroid worst. Where vectors cancel out, or none is
        left that does not fit, a centroid stays where it is.
        """
        if self._fill_empty_clusters() or self._sums is None:
            self._sums = np.zeros(self.centroids.shape, dtype=np.float64)
            self._sum(np.arange(len(self.labels)))
        lengths = np.linalg.norm(self._sums, axis=1, keepdims=True)
        moved = np.divide(self._sums, lengths, where=lengths > 0, out=self.centroids.astype(np.float64))
        before, self.centroids = self.centroids, moved.astype(np.float32)
        return not np.array_equal(before, self.centroids)

    def _fill_empty_clusters(self) -> bool:
        """Whether there were any."""
        empty = np.flatnonzero(np.bincount(self.labels, minlength=len(self.centroids)) == 0)
        if not len(empty):
            return False
        fit = np.ones(len(self.labels), dtype=np.float32)
        for part in _parts(len(fit)):
            products = np.einsum("ij,ij->i", _float32(self._vectors[part]), self.centroids[self.labels[part]])
            fit[part] = np.where(self._scales[part] > 0, products * self._scales[part], 1)
        worst = np.argsort(fit, kind="stable")[: len(empty)]
        worst = worst[fit[worst] < _FITS]
        self.labels[worst] = empty[: len(worst)]
        return True

    def _sum(self, rows: LongArray) -> None:
        """Add some vectors, as of length 1, to the sums of their clusters."""
        sums = self._sums

        def add(rows: LongArray) -> None:
            _add(_float32(self._vectors[rows]), self._scales[rows], self.labels[rows], sums)

        self._by_cluster(rows, add)

    def _by_cluster(self, rows: LongArray, work: Callable[[LongArray], None]) -> None:
        """Call `work` with all of `rows`, ordered by cluster, then row, at most `_ROWS` at once.

        The calls are the same for any number of threads, and those with vectors of one cluster are in one thread.
        """
        labels = self.labels[rows].astype(np.min_scalar_type(len(self.centroids)))  # 16 bits are sorted much faster
        rows = rows[np.argsort(labels, kind="stable")]
        ends = np.concatenate([[0], np.cumsum(np.bincount(labels, minlength=len(self.centroids)))])

        def take(clusters: slice) -> None:
            for start in range(ends[clusters.start], ends[clusters.stop], _ROWS):
                work(rows[start : min(start + _ROWS, ends[clusters.stop])])

        with _one_thread_a_product(), Threads() as threads:
            threads.spread(take, len(self.centroids), _PIECE, lambda _: None)


@compiled
def _nearest_of(vectors: Any, own: Any, near: Any, centroids: Any) -> Any:
    """int32 (n): of the centroids in near[own[i]], int32 (c, m), the one with the largest inner product, ties by place.

    vectors: float32 (n, d), ordered by `own`, the cluster of each. One product a cluster.
    """
    nearest = np.empty(len(own), np.int32)
    candidates = np.empty((near.shape[1], vectors.shape[1]), np.float32)
    end = 0
    while end < len(own):
        begin = end
        cluster = own[begin]
        while end < len(own) and own[end] == cluster:
            end += 1
        for place in range(len(candidates)):
            candidates[place] = centroids[near[cluster, place]]
        products = np.dot(vectors[begin:end], candidates.T)
        for i in range(end - begin):
            nearest[begin + i] = near[cluster, products[i].argmax()]
    return nearest


@compiled
def _add(vectors: Any, weights: Any, own: Any, sums: Any) -> None:
    """Add each vector, float32 (n, d), times its weight to the sum of its cluster, float64 (c, d)."""
    for i in range(len(own)):
        if weights[i] != 0:
            weight, total = np.float64(weights[i]), sums[own[i]]
            for j in range(len(total)):
                total[j] += weight * vectors[i, j]


def _scales(vectors: _Matrix) -> FloatArray:
    """float32 (n): what makes each vector one of length 1; 0 for a vector of zeros."""
    lengths = np.empty(len(vectors), dtype=np.float64)
    for part in _parts(len(vectors)):
        kernels.norms(_float32(vectors[part]), lengths[part])
    bad = np.flatnonzero(~np.isfinite(lengths))
    if len(bad):
        raise SourceError(f"the vector in row {bad[0]} holds NaN or infinity; encode that text again or leave it out")
    return np.divide(1, lengths, where=lengths > _TINY, out=np.zeros_like(lengths)).astype(np.float32)


def _one_thread_a_product() -> AbstractContextManager[Any]:
    limited: AbstractContextManager[Any] = threadpool_limits(limits=1, user_api="blas")
    return limited


def _parts(total: int) -> Iterator[slice]:
    for start in range(0, total, _ROWS):
        yield slice(start, min(start + _ROWS, total))


def _float32(vectors: _Matrix) -> FloatArray:
    return np.ascontiguousarray(vectors, dtype=np.float32)
