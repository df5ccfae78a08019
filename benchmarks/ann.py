"""Approximate search through faiss against exact search: what building, tuning and asking cost, and what is found.

    python benchmarks/ann.py --documents 500000 --indexes IVF4096,PQ48x4fsr IVF1024,SQ8

Prints one line of JSON: for each index the seconds to build it, to find the effort that reaches the recall on a sample,
and to ask all queries (median, lowest, highest; exact search in turn with them), and the recall on those queries.
"""

from __future__ import annotations

import os

for _setting in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):  # before numpy loads: they decide which kernels BLAS runs
    os.environ.pop(_setting, None)

import argparse
import json
import resource
import time
from dataclasses import asdict
from typing import Any

import numpy as np
from search_dense import _clustered, _spread

from foolsgold.search import top_k
from foolsgold.search.ann import AnnIndex, version

_SAMPLE = 200  # as a dense source takes


def main() -> None:
    options = _options()
    corpus, queries = _clustered(np.random.default_rng(options.seed), options.documents, options.queries, options.dim)
    top_k(queries[:64], corpus, options.k)
    rng = np.random.default_rng(options.seed)
    sample = queries[np.sort(rng.choice(len(queries), min(_SAMPLE, len(queries)), replace=False))]
    built: dict[str, Any] = {}
    about: dict[str, Any] = {}
    for factory in options.indexes:
        begun = time.perf_counter()
        index = AnnIndex.build(corpus, factory, seed=options.seed)
        indexed = time.perf_counter()
        effort = index.effort_for(options.recall, sample, options.k)
        built[factory] = index, effort
        about[factory] = {
            "build_seconds": round(indexed - begun, 2),
            "tune_seconds": round(time.perf_counter() - indexed, 2),
            "effort": asdict(effort),
        }
    seconds: dict[str, list[float]] = {name: [] for name in ("exact", *built)}
    found: dict[str, Any] = {}
    for _ in range(options.rounds):
        begun = time.perf_counter()
        scores, _rows = top_k(queries, corpus, options.k)
        seconds["exact"].append(time.perf_counter() - begun)
        for factory, (index, effort) in built.items():
            begun = time.perf_counter()
            found[factory] = index.top_k(queries, options.k, effort)
            seconds[factory].append(time.perf_counter() - begun)
    for factory, hits in found.items():
        last = np.repeat(scores[:, -1], np.diff(hits.offsets))
        spread = _spread(seconds[factory])
        about[factory] |= {
            "search_seconds": spread,
            "recall": round(float((hits.scores >= last).sum() / scores.size), 4),
            "times_faster_than_exact": round(float(np.median(seconds["exact"])) / spread["median"], 2),
        }
    print(
        json.dumps(
            {
                "benchmark": "ann",
                "documents": options.documents,
                "queries": options.queries,
                "dim": options.dim,
                "k": options.k,
                "cores": len(os.sched_getaffinity(0)),
                "load": round(os.getloadavg()[0], 2),
                "faiss": version(),
                "exact_seconds": _spread(seconds["exact"]),
                "indexes": about,
                "inputs_mb": round((corpus.nbytes + queries.nbytes) / 2**20),
                "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10),
            }
        )
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=500_000)
    parser.add_argument("--queries", type=int, default=4096)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--k", type=int, default=100)
    parser.add_argument("--indexes", nargs="+", default=["IVF4096,PQ48x4fsr", "IVF1024,SQ8"])
    parser.add_argument("--recall", type=float, default=0.95)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=13)
    return parser.parse_args()


if __name__ == "__main__":
    main()
