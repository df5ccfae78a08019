"""Exact dense search on a torch device against torch and sentence-transformers in float32 on the same device.

    python benchmarks/search_gpu.py --device cuda --documents 1000000 --queries 16384

All begin with float32 arrays in main memory and end with hits there. Prints one line of JSON: seconds (median, lowest,
highest), our ratios, the share of each one's hits that are ours (which are exact), and the device's peak memory.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from search_dense import _clustered, _spread
from sentence_transformers.util import semantic_search

from foolsgold.search.on_device import top_k_on_device


def main() -> None:
    options = _options()
    corpus, queries = _clustered(np.random.default_rng(options.seed), options.documents, options.queries, options.dim)
    contestants = _contestants(queries, corpus, options.k, options.device)
    rows = {name: search() for name, search in contestants.items()}
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    peaks: dict[str, int] = {}
    for _ in range(options.rounds):
        for name, search in contestants.items():
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
            begun = time.perf_counter()
            search()
            seconds[name].append(time.perf_counter() - begun)
            if torch.cuda.is_available():
                peaks[name] = round(torch.cuda.max_memory_allocated() / 2**20)
    ours = statistics.median(seconds["foolsgold"])
    print(
        json.dumps(
            {
                "benchmark": "search_gpu",
                "device": torch.cuda.get_device_name() if options.device.startswith("cuda") else options.device,
                "documents": options.documents,
                "queries": options.queries,
                "dim": options.dim,
                "k": options.k,
                "seconds": {name: _spread(values) for name, values in seconds.items()},
                "times_faster_than": {
                    name: round(statistics.median(v) / ours, 2) for name, v in seconds.items() if name != "foolsgold"
                },
                "rows_as_foolsgold": {
                    name: round(float((found == rows["foolsgold"]).mean()), 6) for name, found in rows.items()
                },
                "device_peak_mb": peaks,
            }
        )
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=16_384)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--k", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=13)
    return parser.parse_args()


def _contestants(queries: Any, corpus: Any, k: int, device: str) -> dict[str, Callable[[], Any]]:
    """Searches that return the rows found, int (q, k)."""

    def torch_topk() -> Any:
        asked, there = torch.from_numpy(queries).to(device), torch.from_numpy(corpus).to(device)
        # 256 queries at a time, so that it needs no room for all scores
        parts = [
            torch.topk(asked[start : start + 256] @ there.T, k, dim=1).indices.cpu()
            for start in range(0, len(asked), 256)
        ]
        return torch.cat(parts).numpy()

    def sentence_transformers() -> Any:
        hits = semantic_search(torch.from_numpy(queries).to(device), torch.from_numpy(corpus).to(device), top_k=k)
        return np.array([[hit["corpus_id"] for hit in of_query] for of_query in hits])

    return {
        "foolsgold": lambda: top_k_on_device(queries, corpus, k, device=device)[1],
        "torch_topk": torch_topk,
        "sentence_transformers": sentence_transformers,
    }


if __name__ == "__main__":
    main()
