"""`foolsgold evaluate`, as a user meets it: in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sentence_transformers", reason="needs the torch extra")

import small_training as small

from foolsgold.measures.evaluation import Evaluation


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BEIR folder, a student that knows nothing, one that knows the answers, and the first one's evaluation."""
    made: Path = tmp_path_factory.mktemp("evaluate")
    collection = small.collection()
    (made / "data" / "qrels").mkdir(parents=True)
    for name, texts in (("corpus", collection.documents), ("queries", collection.queries)):
        rows = zip(texts.ids.to_pylist(), texts.take(range(len(texts))), strict=True)
        lines = [json.dumps({"_id": key, "text": text}) for key, text in rows]
        (made / "data" / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    pairs = [f"{key}\t{key.replace('q', 'd', 1)}\t1" for key in collection.queries.ids.to_pylist()]
    (made / "data" / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *pairs]) + "\n")
    small.student(made / "nothing")
    small.student(made / "knows", knows=True)
    done = _run(made, "nothing", "--collection", "beir:data", "--out", "nothing.parquet")
    assert done.returncode == 0, done.stderr
    assert "written to nothing.parquet" in done.stdout
    return made


def _run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "foolsgold.cli", "evaluate", *arguments],
        cwd=folder,
        env=os.environ | {"COLUMNS": "200", "FOOLSGOLD_CACHE": str(folder / "cache")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_models_are_listed_and_compared_with_the_baseline(folder: Path) -> None:
    done = _run(folder, "knows", "nothing", "--collection", "beir:data", "--baseline", "nothing.parquet", "--quiet")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split()[-5:] == ["nDCG@10", "MRR@10", "recall@10", "recall@100", "MAP"]
    assert [line.split()[0] for line in lines[1:4]] == ["knows", "nothing", "nothing"]
    assert "knows against nothing" in lines
    assert "nothing against nothing" in lines
    assert done.stderr == ""


def test_json_has_means_changes_intervals_and_p_values(folder: Path) -> None:
    done = _run(
        folder, "knows", "--collection", "beir:data", "--measures", "nDCG@10, MAP", "--baseline", "nothing", "--json",
        "--limit", "30",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    (one,), baseline = told["models"], told["baseline"]
    assert (one["model"], one["baseline"], one["queries"]) == ("knows", "nothing", 30)
    change = one["changes"]["nDCG@10"]
    assert change["delta"] == pytest.approx(one["measures"]["nDCG@10"] - baseline["measures"]["nDCG@10"])
    assert change["interval"][0] < change["delta"] < change["interval"][1]
    assert change["p_value"] < 0.001
    assert list(one["measures"]) == ["nDCG@10", "MAP"]


def test_saved_evaluations_are_compared_without_a_collection(folder: Path) -> None:
    done = _run(folder, "nothing.parquet", "--baseline", "nothing.parquet")
    assert done.returncode == 0, done.stderr
    assert "+0.0000" in done.stdout


def test_settings_of_a_retriever_are_taken(folder: Path) -> None:
    told = json.loads(
        _run(folder, "nothing", "--collection", "beir:data", "--set", "query_prompt='one '", "--json").stdout
    )
    assert told["models"][0]["query_prompt"] == "one "
    assert told["models"][0]["measures"] != Evaluation.load(folder / "nothing.parquet").means


def test_a_significant_drop_exits_with_1_where_it_is_asked_for(folder: Path) -> None:
    worse = ("nothing.parquet", "--collection", "beir:data", "--baseline", "knows")
    assert _run(folder, *worse).returncode == 0
    done = _run(folder, *worse, "--strict")
    assert done.returncode == 1
    assert "error: nDCG@10 is significantly worse than knows's: nothing (-" in done.stderr
    assert _run(folder, "nothing.parquet", "--baseline", "nothing.parquet", "--strict").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nothing",), "name a collection, as in --collection beir:"),
        (("none.parquet",), "none.parquet: no such file"),
        (("nothing", "--collection", "beir:data", "--measures", "nDCCG@10"), "did you mean ndcg"),
        (("nothing", "--collection", "beir:data", "--measures", ","), "measures: none is named"),
        (("nothing", "--collection", "beir:data", "--split", "dev"), "no split 'dev'"),
        (("nothing", "--collection", "beir:data", "--set", "max_lenght=3"), "did you mean max_length?"),
        (("nothing", "knows", "--collection", "beir:data", "--out", "x.parquet"), "evaluate them one by one"),
        (("nothing", "--collection", "beir:data", "--out", "x.txt"), "ends with .parquet"),
        (("nothing", "--collection", "beir:data", "--strict"), "name one with --baseline"),
        (("knows", "--collection", "beir:data", "--limit", "3", "--baseline", "nothing.parquet"), "evaluate both on"),
    ],
)
def test_mistakes_are_one_sentence_and_exit_with_2(folder: Path, arguments: tuple[str, ...], said: str) -> None:
    done = _run(folder, *arguments)
    assert done.returncode == 2, done.stdout
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_the_help_has_an_example(folder: Path) -> None:
    done = _run(folder, "--help")
    assert done.returncode == 0
    assert "foolsgold evaluate org/model --collection beir:data/scifact" in " ".join(done.stdout.split())
