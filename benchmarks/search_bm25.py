"""BM25 retrieval against bm25s's backends and rank_bm25, interleaved in one process.

    python benchmarks/search_bm25.py ../shared/data/debian --queries 4000
    python benchmarks/search_bm25.py --documents 1000000 --builds 1 --rounds 3 --slow-queries 0

Retrieval is measured from query texts to hits for everyone: tokenising the queries is part of it. Without that, which
both sides can do beforehand, the ratio is reported too: from token numbers to hits. Prints one line of JSON: seconds
(median, lowest, highest) of building and of retrieving, and our ratios.
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
from foolsgold.search.threads import Threads

_DEBIAN = Path(__file__).resolve().parents[1] / ".." / "shared" / "data" / "debian"


def main() -> None:
    options = _options()
    corpus = [f"{line.get('title', '')} {line['text']}".strip() for line in _lines(options.folder / "corpus.jsonl")]
    queries = [line["text"] for line in _lines(options.folder / "queries.jsonl")][: options.queries]
    if options.documents:
        corpus = _mixed(corpus, options.documents)
    cores = len(os.sched_getaffinity(0))

    _build_ours(corpus[:100]).top_k(queries[:10], 10)  # compiles, or loads what was compiled before
    building: dict[str, list[float]] = {"foolsgold": [], "bm25s": []}
    ours, theirs = _build_ours(corpus[:100]), _build_theirs(corpus[:100], "numba")
    for _ in range(options.builds):
        del ours, theirs
        seconds, ours = _timed(lambda: _build_ours(corpus))
        building["foolsgold"].append(seconds)
        seconds, theirs = _timed(lambda: _build_theirs(corpus, "numba"))
        building["bm25s"].append(seconds)

    numbers = [theirs.get_tokens_ids(words) for words in _tokens(queries, return_ids=False)]
    contestants: dict[str, Callable[[], Any]] = {
        "foolsgold": lambda: ours.top_k(queries, options.k),
        "bm25s numba, 1 thread": lambda: _retrieve(theirs, _tokens(queries), options.k, 1),
        f"bm25s numba, {cores} threads": lambda: _retrieve(theirs, _tokens(queries), options.k, cores),
    }
    parts: dict[str, Callable[[], Any]] = {
        "foolsgold from token numbers": _from_numbers(ours, queries, options.k),
        "bm25s numba from token numbers, 1 thread": lambda: _retrieve(theirs, numbers, options.k, 1),
        f"bm25s numba from token numbers, {cores} threads": lambda: _retrieve(theirs, numbers, options.k, cores),
    }
    measured = contestants | parts
    for search in measured.values():
        search()
    seconds_of: dict[str, list[float]] = {name: [] for name in measured}
    for _ in range(options.rounds):
        for name, search in measured.items():
            seconds_of[name].append(_timed(search)[0])

    # These two take minutes for all queries, so they are asked fewer, and their time is scaled up.
    if options.slow_queries:
        some = queries[: options.slow_queries]
        scale = len(queries) / len(some)
        plain, rank = _build_theirs(corpus, "numpy"), _build_rank_bm25(corpus)
        slow = {
            "bm25s numpy": lambda: _retrieve(plain, _tokens(some), options.k, 0),
            "rank_bm25": lambda: _retrieve_rank_bm25(rank, some, options.k),
        }
        seconds_of |= {name: [scale * _timed(search)[0]] for name, search in slow.items()}

    median = {name: statistics.median(values) for name, values in seconds_of.items()}
    times_faster = {
        name: round(value / median["foolsgold"], 1)
        for name, value in median.items()
        if name not in parts and name != "foolsgold"
    }
    times_faster_from_numbers = {
        name: round(value / median["foolsgold from token numbers"], 1)
        for name, value in median.items()
        if name.startswith("bm25s numba from token numbers")
    }
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
                "build_relative_to_bm25s": round(
                    statistics.median(building["foolsgold"]) / statistics.median(building["bm25s"]), 2
                ),
                "seconds": {name: _spread(values) for name, values in seconds_of.items()},
                "queries_per_second": round(len(queries) / median["foolsgold"]),
                "times_faster_from_texts_to_hits": times_faster,
                "times_faster_from_texts_to_hits_than_best_of_bm25s": min(
                    value for name, value in times_faster.items() if name.startswith("bm25s")
                ),
                "times_faster_from_token_numbers_to_hits": times_faster_from_numbers,
                "times_faster_from_token_numbers_to_hits_than_best_of_bm25s": min(times_faster_from_numbers.values()),
            }
        )
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=_DEBIAN, help="a BEIR folder")
    parser.add_argument("--documents", type=int, help="mix the folder's documents into as many; default: as they are")
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


def _mixed(corpus: list[str], n: int) -> list[str]:
    """n texts, each the beginning of one document and the end of another, drawn with a fixed seed."""
    words = [text.split() for text in corpus]
    rng = np.random.default_rng(13)
    texts = []
    for (first, second), cut in zip(rng.integers(0, len(words), (n, 2)).tolist(), rng.random(n).tolist(), strict=True):
        head, tail = words[first], words[second]
        texts.append(" ".join(head[: round(cut * len(head))] + tail[round(cut * len(tail)) :]))
    return texts


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    begun = time.perf_counter()
    result = work()
    return time.perf_counter() - begun, result


def _build_ours(corpus: list[str]) -> BM25:
    return BM25(corpus)


def _from_numbers(ours: BM25, queries: list[str], k: int) -> Callable[[], None]:
    read = [ours._read_queries(queries[start : start + 64]) for start in range(0, len(queries), 64)]
    scores, rows = np.empty((len(queries), k), np.float32), np.empty((len(queries), k), np.int32)

    def search(part: slice) -> None:
        tokens, offsets, floors = read[part.start // 64]
        ours._search(tokens, offsets, floors, scores[part], rows[part])

    def search_all() -> None:
        with Threads() as threads:
            threads.spread(search, len(queries), 64, lambda _: None)

    return search_all


def _build_theirs(corpus: list[str], backend: str) -> Any:
    index = bm25s.BM25(backend=backend)
    index.index(_tokens(corpus), show_progress=False)
    return index


def _tokens(texts: list[str], return_ids: bool = True) -> Any:
    stemmer = Stemmer.Stemmer("english")
    return bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, return_ids=return_ids, show_progress=False)


def _retrieve(index: Any, queries: Any, k: int, threads: int) -> Any:
    return index.retrieve(queries, k=k, n_threads=threads, show_progress=False)


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
    return float(np.abs(scores - _retrieve(theirs, _tokens(queries), k, 0).scores).max())


def _spread(values: list[float]) -> dict[str, float]:
    return {
        "median": round(statistics.median(values), 4),
        "min": round(min(values), 4),
        "max": round(max(values), 4),
    }


if __name__ == "__main__":
    main()
