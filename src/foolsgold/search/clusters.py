"""Spherical k-means of embeddings: groups of vectors that point the same way, such as queries on one topic.

Lloyd's algorithm by cosine, but between the first assignment and the last a vector is only compared with the centroids
nearest to its own (k2-means: Agustsson, Timofte, Van Gool, AISTATS 2017), as it hardly ever belongs elsewhere: a small
matrix product a cluster. The first and the last assignment compare every vector with every centroid.
"""

from __future__ import annotations

import threading
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
from foolsgold.search import kernels, screen
from foolsgold.search.dense import top_k
from foolsgold.search.kernels import compiled, dot
from foolsgold.search.threads import Threads

_Matrix = npt.NDArray[Any]
_Sums = npt.NDArray[np.float64]

_NEAR = 64  # centroids a vector is compared with, its own among them: 32 cost up to 1 % of the mean cosine, 64 0.1 %
_GUESSED_FROM = 128  # centroids that a first guess is made from
_ROWS = 4096  # vectors in memory at once, for each thread
_PIECE = 8  # clusters a thread takes at a time
_ROUNDING = 1e-5  # what cosines of float32 may be off by

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
    clustering = _Clustering(vectors, n_clusters, np.random.default_rng(seed))  # makes the first assignment
    with progress.stage("cluster", iterations) as advance:
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
    """Centroids, float32 (c, d) of length 1, and labels, int32 (n), as they are so far.

    margins: float32 (n), of each vector: how much higher its cosine to its own centroid is than to the others that were
    near then, less all that they have moved since. While it is positive, none of those can have become nearer.
    """

    def __init__(self, vectors: _Matrix, n_clusters: int, rng: np.random.Generator) -> None:
        self._vectors = vectors
        self._scales = _scales(vectors)
        self._scratch = threading.local()
        nonzero = np.flatnonzero(self._scales)
        if len(nonzero) < n_clusters:
            raise SourceError(
                f"{n_clusters} clusters of {len(nonzero)} vectors that are not zero; ask for at most {len(nonzero)}"
            )
        start = np.sort(rng.choice(nonzero, n_clusters, replace=False))
        self.centroids = _float32(vectors[start]) * self._scales[start, np.newaxis]
        self._moved = np.zeros(n_clusters)  # how far, in the last move
        self._moves = 0
        self._near = np.empty((0, 0), dtype=np.int32)
        self._margins = np.zeros(len(vectors), dtype=np.float32)
        self.labels = self._nearest()
        self._sums = np.zeros(self.centroids.shape, dtype=np.float64)  # of each cluster's vectors, as of length 1
        self._add(np.arange(len(vectors)), 1)

    def assign_to_all(self) -> bool:
        """Give each vector to the nearest centroid; whether any label changed."""
        return self._relabel(self._nearest(self.labels))

    def assign_to_near(self) -> None:
        """Give each vector to the nearest of those centroids that are near its own."""
        self._moves += 1
        if self._moves.bit_count() == 1:  # after 1, 2, 4, 8, ... moves, as they get smaller
            self._near = np.sort(
                top_k(self.centroids, self.centroids, _NEAR)[1], axis=1
            )  # the first of equal ones wins
        near = self._near
        of_others = np.where(near == np.arange(len(near))[:, np.newaxis], 0, self._moved[near])
        self._margins -= (self._moved + of_others.max(axis=1)).astype(np.float32)[self.labels]
        found = self.labels.copy()

        def assign(rows: LongArray) -> None:
            nearest, margins = _nearest_of(self._copied(rows), self.labels[rows], near, self.centroids)
            found[rows], self._margins[rows] = nearest, margins * self._scales[rows]

        self._by_cluster(np.flatnonzero(self._margins < _ROUNDING), assign)
        self._relabel(found)

    def move_centroids(self) -> bool:
        """Put each centroid in the middle of its vectors, all taken as of length 1; whether any moved.

        One without vectors first gets one of those that fit their centroid worst. Where vectors cancel out, or none is
        left that does not fit, a centroid stays where it is.
        """
        self._fill_empty_clusters()
        lengths = np.linalg.norm(self._sums, axis=1, keepdims=True)
        middles = np.divide(self._sums, lengths, where=lengths > _ROUNDING, out=self.centroids.astype(np.float64))
        before, self.centroids = self.centroids, middles.astype(np.float32)
        self._moved = np.linalg.norm((self.centroids - before).astype(np.float64), axis=1)
        return bool(self._moved.any())

    def _nearest(self, guess: IntArray | None = None) -> IntArray:
        """int32 (n): the nearest of all centroids to each vector; a good guess makes it faster.

        The same as `top_k` gives, which knows no guess: with one a vector's bar is high before the first centroid is
        seen, and one pass in int8 leaves few to be compared.
        """
        centroids = self.centroids
        if not screen.available(centroids.shape[1]):
            return top_k(self._vectors, centroids, 1)[1][:, 0]
        found = np.empty(len(self._vectors), dtype=np.int32)
        with _one_thread_a_product(), Threads() as threads:
            packed = screen.Screen(centroids[:1], np.ones(1), centroids).pack(centroids, threads)

            def look(part: slice) -> None:
                vectors = _float32(self._vectors[part])
                near = (vectors @ centroids[:_GUESSED_FROM].T).argmax(axis=1) if guess is None else guess[part]
                bars, lengths = np.empty(len(vectors), dtype=np.float32), np.empty(len(vectors), dtype=np.float64)
                kernels.norms(vectors, lengths)
                _products(vectors, centroids, near, bars)
                bars = np.nextafter(bars, np.float32(-np.inf))  # so that the guess itself passes
                passed = screen.Screen(vectors, lengths, centroids).passed(packed, slice(0, len(vectors)), bars)
                keys, counts = np.empty((len(vectors), 2), dtype=np.uint64), np.zeros(len(vectors), dtype=np.int64)
                kernels.select_passed(passed, vectors, centroids, 0, keys, counts, bars, 1)
                scores, rows = (
                    np.empty((len(vectors), 1), dtype=np.float32),
                    np.empty((len(vectors), 1), dtype=np.int32),
                )
                kernels.write_hits(keys, counts, scores, rows)
                found[part] = rows[:, 0]

            threads.spread(look, len(found), _ROWS, lambda _: None)
        return found

    def _fill_empty_clusters(self) -> None:
        empty = np.flatnonzero(np.bincount(self.labels, minlength=len(self.centroids)) == 0)
        if not len(empty):
            return
        fit = np.ones(len(self.labels), dtype=np.float32)
        for part in _parts(len(fit)):
            products = np.einsum("ij,ij->i", _float32(self._vectors[part]), self.centroids[self.labels[part]])
            fit[part] = np.where(self._scales[part] > 0, products * self._scales[part], 1)
        worst = np.argsort(fit, kind="stable")[: len(empty)]
        worst = worst[fit[worst] < 1 - _ROUNDING]
        found = self.labels.copy()
        found[worst] = empty[: len(worst)]
        self._relabel(found)

    def _relabel(self, labels: IntArray) -> bool:
        """Take these labels; whether any is another."""
        changed = np.flatnonzero(labels != self.labels)
        self._add(changed, -1)
        self.labels = labels
        self._add(changed, 1)
        self._margins[changed] = 0  # what is near the new centroid has not been compared with
        return bool(len(changed))

    def _add(self, rows: LongArray, sign: int) -> None:
        """Add some vectors to the sums of their clusters, or take them away."""

        def add(rows: LongArray) -> None:
            _add(self._copied(rows), sign * self._scales[rows], self.labels[rows], self._sums)

        self._by_cluster(rows, add)

    def _copied(self, rows: LongArray) -> FloatArray:
        """Some vectors, at most `_ROWS`, until the same thread asks for others: fresh memory costs page faults."""
        if self._vectors.dtype != np.float32:
            return _float32(self._vectors[rows])
        room: FloatArray | None = getattr(self._scratch, "room", None)
        if room is None:
            room = self._scratch.room = np.empty((_ROWS, self._vectors.shape[1]), dtype=np.float32)
        return np.take(self._vectors, rows, axis=0, out=room[: len(rows)], mode="clip")  # "raise" would copy first

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
    """Of the centroids in near[own[i]], int32 (c, m), the one with the largest inner product, the first of equal ones.

    vectors: float32 (n, d), ordered by `own`, the cluster of each. One product a cluster.
    Returns int32 (n), the centroid, and float32 (n), how much larger its product is than that of the second.
    """
    nearest, margins = np.empty(len(own), np.int32), np.empty(len(own), np.float32)
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
            first, second, best = products[i, 0], np.float32(-np.inf), 0
            for place in range(1, len(candidates)):
                if products[i, place] > first:
                    first, second, best = products[i, place], first, place
                elif products[i, place] > second:
                    second = products[i, place]
            nearest[begin + i] = near[cluster, best]
            margins[begin + i] = first - second
    return nearest, margins


@compiled
def _add(vectors: Any, weights: Any, own: Any, sums: Any) -> None:
    """Add each vector, float32 (n, d), times its weight to the sum of its cluster, float64 (c, d)."""
    for i in range(len(own)):
        weight, total = np.float64(weights[i]), sums[own[i]]
        for j in range(len(total)):
            total[j] += weight * vectors[i, j]


@compiled
def _products(vectors: Any, centroids: Any, own: Any, products: Any) -> None:
    """float32 (n): the inner product of each vector and its centroid, as `top_k` sums it."""
    for i in range(len(own)):
        products[i] = dot(vectors[i], centroids[own[i]])


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
