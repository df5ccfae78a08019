"""Spherical k-means by faiss: groups of vectors that point the same way, such as queries on one topic."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from foolsgold.errors import SourceError
from foolsgold.progress import SILENT, Progress
from foolsgold.records import FloatArray, IntArray
from foolsgold.search.ann import require_faiss
from foolsgold.search.dense import top_k


def spherical_kmeans(
    vectors: npt.NDArray[Any], n_clusters: int, *, iterations: int = 20, seed: int = 13, progress: Progress = SILENT
) -> tuple[FloatArray, IntArray]:
    """Group vectors so that the mean cosine of each to the centroid of its cluster is high.

    vectors: (n, d), float32 or float16, an array or a memory map, of any length. A vector of zeros is like no other,
    and goes to cluster 0.
    iterations: how often the centroids move. seed: of the vectors that the centroids start from; the same seed gives
    the same answer on any number of threads.

    Returns:
        centroids: float32 (n_clusters, d), each of length 1.
        labels: int32 (n), the centroid with the highest cosine, the first of equal ones. A cluster may be empty.

    Raises:
        SourceError: not a matrix, NaN or infinity (with its row), fewer vectors (without those of zeros) than clusters.
        MissingExtra: faiss is not installed.
    """
    faiss = require_faiss("clusters of queries")
    vectors = np.asanyarray(vectors)
    if vectors.ndim != 2:
        raise SourceError(f"the vectors have shape {vectors.shape}; a matrix with one vector per row is needed")
    for name, number in (("n_clusters", n_clusters), ("iterations", iterations)):
        if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 1:
            raise SourceError(f"{name} is {number!r}; a whole number of at least 1 is needed")
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    bad = np.flatnonzero(~np.isfinite(lengths))
    if len(bad):
        raise SourceError(f"the vector in row {bad[0]} holds NaN or infinity; encode that text again or leave it out")
    directions = np.divide(vectors, lengths, where=lengths > 0, out=np.zeros(vectors.shape)).astype(np.float32)
    nonzero = directions[lengths[:, 0] > 0]
    if len(nonzero) < n_clusters:
        raise SourceError(
            f"{n_clusters} clusters of {len(nonzero)} vectors that are not zero; ask for at most {len(nonzero)}"
        )
    # equal vectors would start several clusters, all but one of which would stay empty
    distinct, first, counts = np.unique(nonzero, axis=0, return_index=True, return_counts=True)
    order = np.argsort(first)
    distinct, counts = distinct[order], counts[order]
    with progress.stage("cluster", iterations) as advance:
        if len(distinct) <= n_clusters:
            centroids: FloatArray = np.resize(distinct, (n_clusters, vectors.shape[1]))
        else:
            kmeans = faiss.Kmeans(
                vectors.shape[1], int(n_clusters), niter=int(iterations), seed=seed, spherical=True,
                min_points_per_centroid=1, max_points_per_centroid=len(distinct),
            )  # fmt: skip
            kmeans.train(distinct, weights=counts.astype(np.float32))
            centroids = np.asarray(kmeans.centroids, dtype=np.float32)
            centroids[~centroids.any(axis=1)] = distinct[0]  # of vectors that cancel out
        advance(iterations)
    return centroids, top_k(directions, centroids, 1)[1][:, 0]
