"""The command line, as a user meets it: in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from toy import run_file

import foolsgold as fg

TEACHER = '''
def words_in_common(pairs):
    """Share of the query's words that the document has."""
    return [len(set(q.split()) & set(d.split())) / max(1, len(set(q.split()))) for q, d in pairs]
'''
ROWS = [
    ("red apple pie", "how to bake a red apple pie"),
    ("green pear tart", "a green pear tart for two"),
    ("blue plum jam", "blue plum jam keeps for a year"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = [json.dumps({"query": query, "positive": positive}) for query, positive in ROWS]
    (tmp_path / "pairs.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "judge.py").write_text(TEACHER, encoding="utf-8")
    return tmp_path


def _run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "foolsgold.commands.main", *arguments],
        cwd=folder,
        env=os.environ | {"COLUMNS": "200", "FOOLSGOLD_CACHE": str(folder / "cache")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


MINE = (
    "mine", "--pairs", "pairs.jsonl", "--teacher", "judge:words_in_common", "--per-query", "2",
    "--set", "sources={bm25: {depth: 10}, random: {depth: 5, quota: 1}}", "--set", "teacher.kind=callable",
)  # fmt: skip


def test_pairs_are_mined_without_a_recipe_and_the_funnel_is_printed(folder: Path) -> None:
    done = _run(folder, *MINE)
    assert done.returncode == 0, done.stderr
    assert "candidates" in done.stdout
    assert "known positive" in done.stdout
    assert "written to mined/" in done.stdout
    assert "'query'" in done.stderr or "query" in done.stderr  # which columns were used
    mined = fg.MinedSet(folder / "mined")
    assert mined.manifest["counts"]["queries"] == 3


def test_json_output_is_one_object_on_stdout(folder: Path) -> None:
    done = _run(folder, *MINE, "--json", "--quiet")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["counts"]["queries"] == 3
    assert answer["collection"]["documents"] == 3
    assert Path(folder / answer["path"] / "negatives.parquet").exists()


def test_init_writes_a_recipe_that_mine_takes(folder: Path) -> None:
    assert _run(folder, "init", "r.yaml", "--pairs", "pairs.jsonl").returncode == 0
    assert _run(folder, "init", "s.yaml", "--schema").returncode == 0
    assert (folder / "s.yaml").read_text().startswith("# yaml-language-server: $schema=recipe.schema.json\n")
    assert json.loads((folder / "recipe.schema.json").read_text())["title"] == "foolsgold recipe"
    again = _run(folder, "init", "r.yaml")
    assert again.returncode == 2
    assert "r.yaml exists; --force" in again.stderr
    done = _run(folder, "mine", "r.yaml", *MINE[3:])
    assert done.returncode == 0, done.stderr


def test_explain_and_diff_read_what_mine_wrote(folder: Path) -> None:
    first = json.loads(_run(folder, *MINE, "--json").stdout)["path"]
    second = json.loads(_run(folder, *MINE, "--json", "--seed", "14").stdout)["path"]
    mined = fg.MinedSet(folder / first)
    row = mined.negatives.to_pylist()[0]
    story = _run(folder, "explain", "mined", row["query_id"], row["doc_id"])
    assert story.returncode == 0, story.stderr
    assert f"Query {row['query_id']}, document {row['doc_id']}: found by" in story.stdout
    texts = mined.collection.documents
    assert f"Document {row['doc_id']}: {texts.take([texts.find([row['doc_id']])[row['doc_id']]])[0]}" in story.stdout
    assert f"In the set before, {Path(first).name}: " in story.stdout
    change = _run(folder, "diff", first, second)
    assert not {"doc_id", "query_id"} & {line.partition(":")[0] for line in change.stdout.splitlines()}
    assert "\nadded: " in change.stdout
    assert "seed: 13 -> 14" in change.stdout
    assert change.stdout.splitlines()[0].endswith("kept")
    assert json.loads(_run(folder, "diff", first, second, "--json").stdout)["recipe"] == {"seed": [13, 14]}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["mine"], "nothing to mine"),
        (["mine", "none.yaml"], "none.yaml: no such recipe"),
        (["mine", "--pairs", "none.jsonl"], "none.jsonl"),
        (["mine", "--beir", "none"], "none"),
        (["mine", "--pairs", "pairs.jsonl", "--anchor", "qery"], "did you mean 'query'"),
        (["mine", "--beir", "x", "--anchor", "query"], "name that file too"),
        (["mine", "--pairs", "pairs.jsonl", "--set", "decide.negative_belw=1"], "did you mean negative_below"),
        (["mine", "--pairs", "pairs.jsonl", "--set", "seed"], "write FIELD=VALUE"),
        (["mine", "--pairs", "pairs.jsonl", "--per-query", "20"], "set cap: 20"),
        (["mine", "--pairs", "pairs.jsonl", "--retriever", "./no/such/folder"], "no/such/folder"),
        (["mine", "--pairs", "pairs.jsonl", "--retriever", "package:nothing_like_it/model"], "nothing_like_it"),
        ([*MINE, "--teacher", "judge:nothing"], "nothing"),
        (["explain", "none", "q", "d"], "no mined set here"),
        (["mine", "--no-such-option"], "No such option"),
        (["nonsense"], "No such command"),
    ],
)
def test_a_users_mistake_is_a_sentence_and_exit_code_2(folder: Path, arguments: list[str], sentence: str) -> None:
    done = _run(folder, *arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("error: ") or "\nerror: " in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    "command",
    [[], *([name] for name in ["demo", "init", "mine", "explain", "diff", "audit", "risk", "label", "calibrate"])],
)
def test_every_command_has_help_with_an_example(folder: Path, command: list[str]) -> None:
    done = _run(folder, *command, "--help")
    assert done.returncode == 0
    if command:
        assert "Example" in done.stdout


def test_a_run_file_with_an_unknown_document_is_refused_or_counted(folder: Path) -> None:
    run_file(folder / "run.txt", {"q0": ["nothing"]})
    done = _run(folder, *MINE[:7], "--set", "sources={run: {path: run.txt}}", "--set", "teacher.kind=callable")
    assert done.returncode == 2
    assert "run.txt" in done.stderr


def test_the_light_path_imports_neither_torch_nor_transformers(folder: Path) -> None:
    code = (
        "import sys, foolsgold.commands.main, foolsgold as fg; fg.mine; fg.Recipe; fg.search;"
        "import foolsgold.sources.dense;"
        "print(sorted({'torch', 'transformers', 'sentence_transformers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_strict_exits_with_1_on_a_failed_gate_and_leaves_the_set(folder: Path) -> None:
    gate = ("--set", "audit.min_mean_margin=1000")
    assert _run(folder, *MINE, *gate).returncode == 0
    done = _run(folder, *MINE, *gate, "--strict")
    assert done.returncode == 1
    assert "min_mean_margin failed" in done.stderr
    assert fg.MinedSet(folder / "mined").audit().passed is False


def test_a_set_opens_from_another_folder(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = json.loads(_run(folder, *MINE, "--json").stdout)["path"]
    code = f"import foolsgold as fg; print(fg.MinedSet({str(folder / path)!r}).to_dataset('labeled-pair').num_rows)"
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    done = subprocess.run([sys.executable, "-c", code], cwd=elsewhere, capture_output=True, text=True, check=True)
    assert int(done.stdout) >= 3


def test_an_interrupt_says_what_is_kept() -> None:
    code = """
from foolsgold.commands import main as cli

@cli.app.command()
def stop():
    raise KeyboardInterrupt

cli.main()
"""
    done = subprocess.run([sys.executable, "-c", code, "stop"], capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert done.stderr.splitlines()[-1].startswith("error: interrupted; embeddings and teacher scores made so far are")


def test_a_path_that_looks_like_markup_is_printed_as_it_is(folder: Path) -> None:
    done = _run(folder, "init", "o[v1][red].yaml")
    assert done.stdout == "written to o[v1][red].yaml; next: foolsgold mine o[v1][red].yaml\n"


def test_a_usage_error_names_the_commands_own_help(folder: Path) -> None:
    done = _run(folder, "mine", "--nothing")
    assert done.returncode == 2
    assert "mine --help)" in done.stderr


def test_help_loads_no_heavy_library_and_shows_no_type_of_a_flag(folder: Path) -> None:
    code = (
        "import sys\nfrom foolsgold.commands.main import app\n"
        "for command in ([], ['mine'], ['train'], ['risk']):\n"
        "    app([*command, '--help'], standalone_mode=False)\n"
        "heavy = ('numpy', 'pyarrow', 'numba', 'torch', 'onnxruntime', 'foolsgold.recipe')\n"
        "sys.exit(str([name for name in heavy if name in sys.modules] or ''))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""
    assert "--strict" in done.stdout
    assert "bool" not in done.stdout
