"""Exact dense search against faiss, sentence-transformers and the bare matrix product, interleaved in one process.

    python benchmarks/search_dense.py --documents 200000 --queries 4096

Prints one line of JSON: seconds and matrix products' GFLOP/s (median, lowest, highest) and our ratios to each.
"""

from __future__ import annotations

import os

for _setting in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):  # before numpy loads: they decide which kernels BLAS runs
    os.environ.pop(_setting, None)

import argparse
import json
import resource
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from foolsgold.search import top_k


def main() -> None:
    options = _options()
    rng = np.random.default_rng(options.seed)
    corpus, queries = _clustered(rng, options.documents, options.queries, options.dim)
    contestants = _contestants(queries, corpus, options.k, options.peers)
    for search in contestants.values():
        search(queries[: min(len(queries), 64)])
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(options.rounds):
        for name, search in contestants.items():
            begun = time.perf_counter()
            search(queries)
            seconds[name].append(time.perf_counter() - begun)
    work = 2.0 * options.documents * options.queries * options.dim
    ours = statistics.median(seconds["foolsgold"])
    print(
        json.dumps(
            {
                "benchmark": "search_dense",
                "documents": options.documents,
                "queries": options.queries,
                "dim": options.dim,
                "k": options.k,
                "cores": len(os.sched_getaffinity(0)),
                "seconds": {name: _spread(values) for name, values in seconds.items()},
                "gflops": {name: round(work / statistics.median(v) / 1e9, 1) for name, v in seconds.items()},
                "times_faster_than": {
                    name: round(statistics.median(v) / ours, 2) for name, v in seconds.items() if name != "foolsgold"
                },
                "inputs_mb": round((corpus.nbytes + queries.nbytes) / 2**20),
                "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10),
            }
        )
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=200_000)
    parser.add_argument("--queries", type=int, default=4096)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--k", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=13)
    parser.add_argument(
        "--peers",
        nargs="*",
        default=["faiss", "sentence_transformers", "matmul"],
        help="whom to compare with; none of them to measure our own peak memory",
    )
    return parser.parse_args()


def _clustered(rng: np.random.Generator, n: int, q: int, dim: int) -> tuple[Any, Any]:
    """Unit vectors around centres, as embeddings of a corpus with topics are; made in parts to keep the peak low."""
    centres = rng.standard_normal((max(1, n // 200), dim), dtype=np.float32)

    def around(count: int) -> Any:
        vectors = np.empty((count, dim), dtype=np.float32)
        for start in range(0, count, 8192):
            part = vectors[start : start + 8192]
            part[:] = rng.standard_normal(part.shape, dtype=np.float32)
            part += centres[rng.integers(0, len(centres), len(part))]
            part /= np.linalg.norm(part, axis=1, keepdims=True)
        return vectors

    return around(n), around(q)


def _contestants(queries: Any, corpus: Any, k: int, peers: list[str]) -> dict[str, Callable[[Any], Any]]:
    contestants: dict[str, Callable[[Any], Any]] = {"foolsgold": lambda asked: top_k(asked, corpus, k)}
    if "faiss" in peers:
        import faiss

        index = faiss.IndexFlatIP(corpus.shape[1])
        index.add(corpus)
        contestants["faiss"] = lambda asked: index.search(asked, k)
    if "sentence_transformers" in peers:
        import torch
        from sentence_transformers.util import semantic_search

        there, here = torch.from_numpy(corpus), torch.from_numpy(queries)
        contestants["sentence_transformers"] = lambda asked: semantic_search(here[: len(asked)], there, top_k=k)
    if "matmul" in peers:
        # The product alone, 256 queries at a time, so that it needs no room for all scores.
        scores = np.empty((256, len(corpus)), dtype=np.float32)

        def product(asked: Any) -> None:
            for start in range(0, len(asked), 256):
                part = asked[start : start + 256]
                np.matmul(part, corpus.T, out=scores[: len(part)])

        contestants["matmul"] = product
    return contestants


def _spread(values: list[float]) -> dict[str, float]:
    return {
        "median": round(statistics.median(values), 4),
        "min": round(min(values), 4),
        "max": round(max(values), 4),
    }


if __name__ == "__main__":
    main()
