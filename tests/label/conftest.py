"""A mined set whose scores are written down, and the command that labels it, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from toy import run_file

import foolsgold as fg

TEACHER = '''
def score(pairs):
    """The number at the end of each document."""
    return [float(document.split()[-1]) for _, document in pairs]
'''
QUERIES, EACH = 8, 5


def make_set(folder: Path) -> Path:
    """8 queries, each with one positive and 5 candidates scored 0.01 to 0.94; and one text that looks like HTML."""
    documents, queries, qrels, lists = [], [], [], {}
    for q in range(QUERIES):
        queries.append({"_id": f"q{q}", "text": f"where do the grey geese of lake {q} fly?"})
        documents.append({"_id": f"p{q}", "title": "", "text": f"The geese of lake {q} fly south 0.99"})
        qrels.append(f"q{q}\tp{q}\t1")
        lists[f"q{q}"] = [f"d{q}{c}" for c in range(EACH)]
        for c in range(EACH):
            score = round(0.01 + 0.2 * c + 0.019 * q, 3)
            text = f"<script>alert({q})</script> A goose on lake {q}, number {c}, flies & swims {score}"
            documents.append({"_id": f"d{q}{c}", "title": "", "text": text})
    beir = folder / "beir"
    (beir / "qrels").mkdir(parents=True)
    for name, rows in (("corpus", documents), ("queries", queries)):
        (beir / f"{name}.jsonl").write_text("\n".join(json.dumps(row) for row in rows) + "\n", encoding="utf-8")
    (beir / "qrels" / "train.tsv").write_text(
        "query-id\tcorpus-id\tscore\n" + "\n".join(qrels) + "\n", encoding="utf-8"
    )
    (folder / "label_teacher.py").write_text(TEACHER, encoding="utf-8")
    here = Path.cwd()
    os.chdir(folder)
    try:
        mined = fg.mine(
            f"beir:{beir}",
            retriever=None,
            teacher={"model": "label_teacher:score", "kind": "callable", "exhaustive": True},
            sources={"run": {"path": str(run_file(folder / "run.txt", lists))}},
            exclude={"near_duplicate": None},
            out=folder / "mined",
        )
    finally:
        os.chdir(here)
    return mined.path


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_set(tmp_path_factory.mktemp("label"))


class Served:
    """`foolsgold label SET --json ...` as a process; `url` and `answers` are what it printed."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "foolsgold.commands.main", "label", *arguments, "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            assert self.process.stderr is not None
            raise AssertionError(self.process.stderr.read())
        printed = json.loads(line)
        self.url: str = printed["url"]
        self.answers = Path(printed["answers"])

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """Starts servers, and ends those that still run."""
    running: list[Served] = []

    def start(*arguments: str) -> Served:
        running.append(Served(*arguments))
        return running[-1]

    yield start
    for served in running:
        served.kill()


@pytest.fixture(scope="session")
def command() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs `foolsgold label ...` to its end, in an interpreter that has run `before` first."""

    def run(*arguments: str, before: str = "") -> subprocess.CompletedProcess[str]:
        program = f"{before}\nfrom foolsgold.commands import main as cli\ncli.main()"
        return subprocess.run(
            [sys.executable, "-c", program, "label", *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run
