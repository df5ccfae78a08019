"""`foolsgold evaluate`, as a user meets it: in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

pytest.importorskip("sentence_transformers", reason="needs the torch extra")

import small_training as small

from foolsgold.commands.main import app
from foolsgold.errors import FoolsgoldError
from foolsgold.evaluation.evaluate import Evaluation, evaluate
from foolsgold.progress import SILENT


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BEIR folder, a student that knows nothing, one that knows the answers, and what both scored.

    Their vectors are in the store, so that the processes below load no model.
    """
    made: Path = tmp_path_factory.mktemp("evaluate")
    collection = small.collection()
    (made / "data" / "qrels").mkdir(parents=True)
    for name, texts in (("corpus", collection.documents), ("queries", collection.queries)):
        rows = zip(texts.ids.to_pylist(), texts.take(range(len(texts))), strict=True)
        lines = [json.dumps({"_id": key, "text": text}) for key, text in rows]
        (made / "data" / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    pairs = [f"{key}\t{key.replace('q', 'd', 1)}\t1" for key in collection.queries.ids.to_pylist()]
    (made / "data" / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *pairs]) + "\n")
    for name, knows in (("nothing", False), ("knows", True)):
        student = str(small.student(made / name, knows=knows))
        evaluate(student, f"beir:{made / 'data'}", out=made / f"{name}.parquet", cache=made / "cache")
    evaluate(str(made / "nothing"), f"beir:{made / 'data'}", query_prompt="one ", cache=made / "cache")
    return made


def _run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "foolsgold.commands.main", "evaluate", *arguments],
        cwd=folder,
        env=os.environ | {"COLUMNS": "200", "FOOLSGOLD_CACHE": str(folder / "cache")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_models_are_listed_and_compared_with_the_baseline(folder: Path) -> None:
    done = _run(
        folder, str(folder / "knows"), str(folder / "nothing"), "--collection", "beir:data",
        "--baseline", "nothing.parquet", "--quiet",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "data, test, 96 queries"
    assert lines[1].split() == ["model", "nDCG@10", "MRR@10", "recall@10", "recall@100", "MAP"]
    assert [Path(line.split()[0]).name for line in lines[2:5]] == ["knows", "nothing", "nothing"]
    assert sum(line.startswith(f"{folder / 'knows'} against {folder / 'nothing'}") for line in lines) == 1
    assert done.stderr == ""


def test_json_has_means_changes_intervals_and_p_values(folder: Path) -> None:
    done = _run(
        folder, str(folder / "knows"), "--collection", "beir:data", "--measures", "nDCG@10, MAP",
        "--baseline", str(folder / "nothing"), "--out", "written.parquet", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    (one,), baseline = told["models"], told["baseline"]
    assert (Path(one["model"]).name, Path(one["baseline"]).name, one["queries"]) == ("knows", "nothing", 96)
    change = one["changes"]["nDCG@10"]
    assert change["delta"] == pytest.approx(one["measures"]["nDCG@10"] - baseline["measures"]["nDCG@10"])
    assert change["interval"][0] < change["delta"] < change["interval"][1]
    assert change["p_value"] < 0.001
    assert list(one["measures"]) == ["nDCG@10", "MAP"]
    assert Evaluation.load(folder / "written.parquet").means == pytest.approx(one["measures"])


def test_a_significant_drop_exits_with_1_where_it_is_asked_for(folder: Path) -> None:
    done = _run(folder, "nothing.parquet", "--baseline", "knows.parquet", "--strict")  # files need no collection
    assert done.returncode == 1
    assert "error: nDCG@10 is significantly worse than" in done.stderr
    assert "(-" in done.stderr


def test_a_mistake_is_one_sentence_and_exits_with_2(folder: Path) -> None:
    done = _run(folder, str(folder / "nothing"))
    assert done.returncode == 2
    assert done.stderr == "error: nothing to evaluate on: name a collection, as in --collection beir:data/scifact\n"


class _Done(NamedTuple):
    stdout: str
    error: BaseException | None


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., _Done]:
    """Run the command in this process: what `main` makes of an error is tested above."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("FOOLSGOLD_CACHE", str(folder / "cache"))
    monkeypatch.setattr("foolsgold.commands.evaluate.log_to_stderr", lambda quiet: SILENT)

    def run(*arguments: str) -> _Done:
        absolute = [str(folder / one) if one in ("nothing", "knows") else one for one in arguments]
        done = CliRunner().invoke(app, ["evaluate", *absolute], terminal_width=200)
        return _Done(done.stdout, done.exception)

    return run


def test_a_drop_is_no_failure_unless_that_is_asked_for(here: Callable[..., _Done]) -> None:
    done = here("nothing.parquet", "--baseline", "knows.parquet")
    assert done.error is None
    assert "nDCG@10" in done.stdout
    assert here("nothing.parquet", "--baseline", "nothing.parquet", "--strict").error is None


def test_settings_of_a_retriever_are_taken(here: Callable[..., _Done], folder: Path) -> None:
    done = here("nothing", "--collection", "beir:data", "--set", "query_prompt='one '", "--json")
    (told,) = json.loads(done.stdout)["models"]
    assert told["query_prompt"] == "one "
    assert told["measures"] != Evaluation.load(folder / "nothing.parquet").means


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("none.parquet",), "none.parquet: no such file"),
        (("nothing", "--collection", "beir:data", "--measures", "nDCCG@10"), "did you mean ndcg"),
        (("nothing", "--collection", "beir:data", "--measures", ","), "measures: no name given"),
        (("nothing", "--collection", "beir:data", "--split", "dev"), "no split 'dev'"),
        (("nothing", "--collection", "beir:data", "--set", "max_lenght=3"), "did you mean max_length?"),
        (("nothing", "knows", "--collection", "beir:data", "--out", "x.parquet"), "evaluate them one by one"),
        (("nothing", "--collection", "beir:data", "--out", "x.txt"), "ends with .parquet"),
        (("nothing", "--collection", "beir:data", "--strict"), "name one with --baseline"),
        (("knows", "--collection", "beir:data", "--limit", "3", "--baseline", "nothing.parquet"), "evaluate both on"),
    ],
)
def test_mistakes_are_sentences(here: Callable[..., _Done], arguments: tuple[str, ...], said: str) -> None:
    error = here(*arguments).error
    assert isinstance(error, FoolsgoldError)
    assert error.exit_code == 2
    assert said in str(error)


def test_the_help_has_an_example(here: Callable[..., _Done]) -> None:
    assert "foolsgold evaluate org/model --collection beir:data/scifact" in " ".join(here("--help").stdout.split())


def test_a_model_of_a_run_is_measured_on_what_it_was_trained_on(folder: Path, tmp_path: Path) -> None:
    import shutil

    run = tmp_path / "run"
    model = run / "model"
    shutil.copytree(folder / "knows", model)
    collection = {"beir": str(folder / "data"), "split": "train", "part": "train", "held_out": 0.1}
    record = {"recipe": {"collection": collection}, "sets": [], "created": "2026-01-01"}
    (model / "foolsgold.json").write_text(json.dumps(record), encoding="utf-8")
    done = _run(folder, str(model), "--json", "--quiet")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["models"][0]["measures"] == Evaluation.load(folder / "knows.parquet").means
    (run / "run.json").write_text("{}", encoding="utf-8")
    done = _run(folder, str(run), "--collection", "beir:data")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"is a run of training; name the model in it, {model}" in done.stderr
    model.rename(run / "elsewhere")
    done = _run(folder, str(folder / "nothing"), str(model), "--collection", "beir:data")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{model}: is not there; the run in {run} has not finished" in done.stderr
