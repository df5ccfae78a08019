"""Spherical k-means of query embeddings against scikit-learn's KMeans (and faiss's Kmeans), in one process.

    python benchmarks/kmeans.py --vectors 400000 --clusters 2000

Prints one line of JSON: seconds an iteration (of those done: all stop when nothing changes), and the mean cosine
of the vectors to their centroids, so that speed is not bought with quality. Ours is run before and after each peer.
"""

from __future__ import annotations

import os

for _setting in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):  # before numpy loads: they decide which kernels BLAS runs
    os.environ.pop(_setting, None)

import argparse
import json
import resource
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from search_dense import _clustered, _spread

from foolsgold.progress import Advance
from foolsgold.search.clusters import spherical_kmeans

# vectors, n_clusters, iterations, seed -> labels, int (n), and the iterations that were done
_Clusters = Callable[[Any, int, int, int], tuple[Any, int]]


def main() -> None:
    options = _options()
    if options.file is not None:
        vectors = np.load(options.file, mmap_mode="r")[: options.vectors].astype(np.float32)
    else:
        # around one centre for 200 of `centred_on` vectors
        rng = np.random.default_rng(options.seed)
        _, vectors = _clustered(rng, options.centred_on or options.vectors, options.vectors, options.dim)
    contestants = {"foolsgold": _foolsgold, **{name: _PEERS[name] for name in options.peers}}
    warm_up = vectors[: min(len(vectors), 2048)]
    for cluster in contestants.values():
        cluster(warm_up, 20, 2, options.seed)
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    cosines: dict[str, float] = {}
    iterations: dict[str, int] = {}
    order = ["foolsgold"] + [name for peer in options.peers for name in (peer, "foolsgold")]
    for name in order * options.rounds:
        begun = time.perf_counter()
        labels, iterations[name] = contestants[name](vectors, options.clusters, options.iterations, options.seed)
        seconds[name].append((time.perf_counter() - begun) / iterations[name])
        cosines[name] = _mean_cosine(vectors, labels, options.clusters)
    medians = {name: float(np.median(values)) for name, values in seconds.items()}
    print(
        json.dumps(
            {
                "benchmark": "kmeans",
                "vectors": len(vectors),
                "dim": vectors.shape[1],
                "clusters": options.clusters,
                "iterations": iterations,
                "cores": len(os.sched_getaffinity(0)),
                "load": round(os.getloadavg()[0], 2),
                "seconds_per_iteration": {name: _spread(values) for name, values in seconds.items()},
                "times_faster_than": {
                    name: round(median / medians["foolsgold"], 2)
                    for name, median in medians.items()
                    if name != "foolsgold"
                },
                "mean_cosine": {name: round(cosine, 4) for name, cosine in cosines.items()},
                "inputs_mb": round(vectors.nbytes / 2**20),
                "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10),
            }
        )
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", type=int, default=400_000)
    parser.add_argument("--file", help="a .npy file of embeddings, in place of made-up ones")
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--centred-on", type=int, help="so many vectors have 200 to a centre; default: --vectors")
    parser.add_argument("--clusters", type=int, default=2000)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=13)
    parser.add_argument("--peers", nargs="*", choices=list(_PEERS), default=["sklearn"])
    return parser.parse_args()


class _Counting:
    """Counts the reports of progress: one an iteration."""

    def __init__(self) -> None:
        self.reports = 0

    @contextmanager
    def stage(self, name: str, total: int) -> Iterator[Advance]:
        del name, total

        def count(steps: int) -> None:
            del steps
            self.reports += 1

        yield count


def _foolsgold(vectors: Any, n_clusters: int, iterations: int, seed: int) -> tuple[Any, int]:
    counting = _Counting()
    _, labels = spherical_kmeans(vectors, n_clusters, iterations=iterations, seed=seed, progress=counting)
    return labels, counting.reports


def _sklearn(vectors: Any, n_clusters: int, iterations: int, seed: int) -> tuple[Any, int]:
    from sklearn.cluster import KMeans  # type: ignore[import-untyped]
    from sklearn.exceptions import ConvergenceWarning  # type: ignore[import-untyped]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        # tol=0: as many iterations as ours, unless nothing changes any more
        peer = KMeans(n_clusters, init="random", n_init=1, max_iter=iterations, tol=0, random_state=seed)
        peer.fit(vectors)
    return peer.labels_, peer.n_iter_


def _faiss(vectors: Any, n_clusters: int, iterations: int, seed: int) -> tuple[Any, int]:
    import faiss

    peer = faiss.Kmeans(vectors.shape[1], n_clusters, niter=iterations, spherical=True, seed=seed)
    peer.train(vectors)
    return peer.index.search(vectors, 1)[1][:, 0], iterations


_PEERS: dict[str, _Clusters] = {"sklearn": _sklearn, "faiss": _faiss}


def _mean_cosine(vectors: Any, labels: Any, n_clusters: int) -> float:
    """To the normalised mean of each cluster: the same measure for all, whatever a peer's centroids are."""
    sums = np.zeros((n_clusters, vectors.shape[1]))
    order = np.argsort(labels, kind="stable")
    filled, starts = np.unique(labels[order], return_index=True)
    for cluster, start, stop in zip(filled, starts, [*starts[1:], len(labels)], strict=True):
        sums[cluster] = vectors[order[start:stop]].sum(axis=0, dtype=np.float64)
    # the vectors are of length 1, so the cosines to the normalised sum of a cluster add up to the sum's length
    return float(np.linalg.norm(sums, axis=1).sum() / len(vectors))


if __name__ == "__main__":
    main()
