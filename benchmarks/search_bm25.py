"""BM25 retrieval against bm25s's backends and rank_bm25, interleaved in one process.

    python benchmarks/search_bm25.py ../shared/data/debian --queries 4000

Retrieval is measured from query texts to hits for everyone: tokenising the queries is part of it. Prints one line of
JSON: seconds (median, lowest, highest) of building and of retrieving, and our ratios.
"""

from __future__ import annotations

import os

for _setting in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):  # before numpy loads, as in search_dense.py
    os.environ.pop(_setting, None)

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
import Stemmer

from foolsgold.search import BM25

_DEBIAN = Path(__file__).resolve().parents[1] / ".." / "shared" / "data" / "debian"


def main() -> None:
    options = _options()
    corpus = [f"{line.get('title', '')} {line['text']}".strip() for line in _lines(options.folder / "corpus.jsonl")]
    queries = [line["text"] for line in _lines(options.folder / "queries.jsonl")][: options.queries]
    cores = len(os.sched_getaffinity(0))

    _build_ours(corpus[:100]).top_k(queries[:10], 10)  # compiles, or loads what was compiled before
    building: dict[str, list[float]] = {"foolsgold": [], "bm25s": []}
    for _ in range(options.builds):
        building["foolsgold"].append(_seconds(lambda: _build_ours(corpus)))
        building["bm25s"].append(_seconds(lambda: _build_theirs(corpus, "numba")))

    ours, theirs = _build_ours(corpus), _build_theirs(corpus, "numba")
    contestants: dict[str, Callable[[], Any]] = {
        "foolsgold": lambda: ours.top_k(queries, options.k),
        "bm25s numba": lambda: _retrieve(theirs, queries, options.k, 0),
        f"bm25s numba, {cores} threads": lambda: _retrieve(theirs, queries, options.k, cores),
    }
    for search in contestants.values():
        search()
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(options.rounds):
        for name, search in contestants.items():
            seconds[name].append(_seconds(search))

    # These two take minutes for all queries, so they are asked fewer, and their time is scaled up.
    if options.slow_queries:
        some = queries[: options.slow_queries]
        scale = len(queries) / len(some)
        plain, rank = _build_theirs(corpus, "numpy"), _build_rank_bm25(corpus)
        seconds["bm25s numpy"] = [scale * _seconds(lambda: _retrieve(plain, some, options.k, 0))]
        seconds["rank_bm25"] = [scale * _seconds(lambda: _retrieve_rank_bm25(rank, some, options.k))]

    median = statistics.median(seconds["foolsgold"])
    print(
        json.dumps(
            {
                "benchmark": "search_bm25",
                "documents": len(corpus),
                "queries": len(queries),
                "k": options.k,
                "cores": cores,
                "largest_score_difference": _difference(ours, theirs, queries[:200], options.k),
                "build_seconds": {name: _spread(values) for name, values in building.items()},
                "seconds": {name: _spread(values) for name, values in seconds.items()},
                "times_faster_than": {
                    name: round(statistics.median(v) / median, 1) for name, v in seconds.items() if name != "foolsgold"
                },
                "build_relative_to_bm25s": round(
                    statistics.median(building["foolsgold"]) / statistics.median(building["bm25s"]), 2
                ),
            }
        )
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=_DEBIAN, help="a BEIR folder")
    parser.add_argument("--queries", type=int, default=4000)
    parser.add_argument("--k", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--builds", type=int, default=3)
    parser.add_argument("--slow-queries", type=int, default=50, help="for rank_bm25 and bm25s numpy; 0 leaves them out")
    return parser.parse_args()


def _lines(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        sys.exit(f"{path}: no such file; name a BEIR folder, with corpus.jsonl and queries.jsonl")
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def _seconds(work: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def _build_ours(corpus: list[str]) -> BM25:
    return BM25(corpus)


def _build_theirs(corpus: list[str], backend: str) -> Any:
    index = bm25s.BM25(backend=backend)
    index.index(_tokens(corpus), show_progress=False)
    return index


def _tokens(texts: list[str]) -> Any:
    return bm25s.tokenize(texts, stopwords="en", stemmer=Stemmer.Stemmer("english"), show_progress=False)


def _retrieve(index: Any, queries: list[str], k: int, threads: int) -> Any:
    return index.retrieve(_tokens(queries), k=k, n_threads=threads, show_progress=False)


def _build_rank_bm25(corpus: list[str]) -> Any:
    from rank_bm25 import BM25Okapi

    return BM25Okapi([text.lower().split() for text in corpus])


def _retrieve_rank_bm25(index: Any, queries: list[str], k: int) -> None:
    for query in queries:
        scores = index.get_scores(query.lower().split())
        best = np.argpartition(-scores, k)[:k]
        best[np.argsort(-scores[best])]


def _difference(ours: BM25, theirs: Any, queries: list[str], k: int) -> float:
    scores, _ = ours.top_k(queries, k)
    return float(np.abs(scores - _retrieve(theirs, queries, k, 0).scores).max())


def _spread(values: list[float]) -> dict[str, float]:
    return {
        "median": round(statistics.median(values), 4),
        "min": round(min(values), 4),
        "max": round(max(values), 4),
    }


if __name__ == "__main__":
    main()
