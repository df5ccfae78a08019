"""`foolsgold risk`, as a user meets it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

WORDS = ("apple", "bridge", "candle", "desert", "engine", "forest", "garden", "hammer", "island", "jacket")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    (data / "qrels").mkdir(parents=True)
    corpus = [{"_id": word[0], "text": f"{word} {word[::-1]} fruit"} for word in WORDS]
    queries = [{"_id": "q", "text": "fruit apple"}, {"_id": "r", "text": "fruit bridge"}]
    for name, rows in (("corpus", corpus), ("queries", queries)):
        (data / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    qrels = {
        "several": [("q", "a", 1), ("q", "b", 1), ("r", "b", 1)],
        "one": [("q", "a", 1), ("r", "b", 1)],
        "graded": [("q", "a", 1), ("q", "c", 0), ("r", "b", 1)],
    }
    for split, rows in qrels.items():
        lines = ["query-id\tcorpus-id\tscore", *("\t".join(map(str, row)) for row in rows)]
        (data / "qrels" / f"{split}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "recipe.yaml").write_text(
        "retriever: null\nteacher: null\nsources: {bm25: {depth: 10}}\n", encoding="utf-8"
    )
    return tmp_path


def _run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "foolsgold.commands.main", "risk", *arguments],
        cwd=folder,
        env=os.environ | {"FOOLSGOLD_CACHE": str(folder / "cache")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_table_fits_a_narrow_terminal_and_says_what_was_not_measured(folder: Path) -> None:
    done = _run(folder, "recipe.yaml", "--beir", "data", "--split", "graded", "--quiet")
    assert done.returncode == 0, done.stderr
    head, *table = done.stdout.splitlines()[:8]
    assert head == "judged, 2 queries"
    assert table[0].split() == ["method", "negatives", "judged", "relevant", "rate", "95", "%", "back", "literature"]
    named = ["random", "bm25 top-50", "dense top-50", "nearest-1", "self top-50", "this recipe"]
    assert [name for name, line in zip(named, table[1:], strict=True) if line.startswith(name)] == named
    assert ["not measured" in line for line in table[1:]] == [False, False, True, True, True, False]
    assert max(map(len, table)) <= 80
    assert "not measured: needs the model that is trained: --student MODEL" in done.stdout
    assert "hidden: not measured: needs a second positive" in done.stdout
    assert (folder / "risk" / "risk.svg").exists()
    assert (folder / "risk" / "risk.png").exists()


def test_json_is_one_object(folder: Path) -> None:
    done = _run(folder, "recipe.yaml", "--beir", "data", "--split", "several", "--json", "--quiet", "--out", "plots")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["plots"] == ["plots/risk.svg", "plots/risk.png"]
    random = answer["rows"][0]
    assert (random["way"], random["method"], random["queries"], random["negatives"]) == ("hidden", "random", 1, 7)
    assert random["few"] is True


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["recipe.yaml"], "nothing to measure on"),
        (["recipe.yaml", "--beir", "data", "--split", "one"], "needed is one of: a second positive"),
        (["recipe.yaml", "--beir", "data", "--pairs", "x.jsonl"], "two collections"),
        (["recipe.yaml", "--beir", "data", "--split", "several", "--depth", "3"], "depth is 3"),
        (
            ["recipe.yaml", "--beir", "data", "--split", "several", "--out", "recipe.yaml"],
            "--out recipe.yaml: cannot be written",
        ),
    ],
)
def test_a_users_mistake_is_a_sentence_and_exit_code_2(folder: Path, arguments: list[str], sentence: str) -> None:
    done = _run(folder, *arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_help_has_an_example(folder: Path) -> None:
    assert "Example: foolsgold risk" in _run(folder, "--help").stdout
