"""What is found in a run of training, its sets and its model; and the checklist of all three."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sentence_transformers", reason="needs the torch extra")
pytest.importorskip("accelerate", reason="needs the torch extra")

import small_training as small

import foolsgold as fg
from foolsgold.errors import MinedSetError
from foolsgold.findings import Answer, checklist
from foolsgold.training import Trained

SCHEDULE = [
    {"name": "warmup", "from": 0, "to": 1, "mode": "bm25_ce_0.5"},
    {"name": "harder", "from": 1, "to": 2, "mode": "random+bm25_ce_0.5"},
]
JUDGE = '''
def one_answer(pairs):
    """The document of a query has its number: ask7, body7."""
    return [0.95 if query.split()[0][3:] == document.split()[0][4:] else 0.05 for query, document in pairs]
'''


def _train(folder: Path, **student: Any) -> Trained:
    recipe = small.recipe(folder / "student", student=student, schedule=SCHEDULE)
    recipe["teacher"] = {"kind": "callable", "model": "judge_of_runs:one_answer"}
    return fg.train(recipe, folder / "runs", collection=small.collection())


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Trained]:
    """Two runs that differ in the size of their batches alone."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "judge_of_runs.py").write_text(JUDGE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOOLSGOLD_CACHE", str(folder / "cache"))
        patch.syspath_prepend(folder)
        small.student(folder / "student")
        return [_train(folder, batch_size=size) for size in (16, 32)]


@pytest.fixture
def run(runs: list[Trained], tmp_path: Path) -> Path:
    """A copy of the larger one alone, to break things in."""
    return Path(shutil.copytree(runs[1].path, tmp_path / "runs" / runs[1].path.name))


def _answers(thing: Any) -> dict[str, Answer]:
    answers = checklist(thing)
    names = ("teacher", "threshold", "mix", "curriculum", "margins", "batch", "evaluations", "versions")
    return dict(zip(names, answers, strict=True))


def test_a_run_is_checked_with_the_sets_its_model_was_trained_on(runs: list[Trained]) -> None:
    small_batches, large = (fg.check(one) for one in runs)
    assert "FG015" in {finding.code for finding in small_batches}
    assert "FG015" not in {finding.code for finding in large}
    places = {finding.place.split(": ")[0] for finding in large}
    sets = {str(runs[1].path / "sets" / version) for version in runs[1].state.set_versions}
    assert places <= {str(runs[1].path), *sets}


def test_a_recipes_fault_is_told_of_the_run_and_not_of_each_of_its_sets(runs: list[Trained]) -> None:
    found = [finding for finding in fg.check(runs[0]) if finding.code == "FG008"]
    assert [finding.place for finding in found] == [f"{runs[0].path}: decide.negative_below"]


def test_random_fill_of_one_regime_is_told_by_recipe_and_by_set(runs: list[Trained]) -> None:
    places = [finding.place for finding in fg.check(runs[1], select=["FG013"])]
    assert places[0] == f"{runs[1].path}: schedule.harder.mode"
    assert all(place.endswith(": negatives.parquet") for place in places[1:])


def test_the_model_in_a_run_is_the_run_and_of_a_folder_of_runs_the_newest(runs: list[Trained]) -> None:
    assert fg.check(runs[1].model_path) == fg.check(runs[1].path) == fg.check(runs[1].path.parent)


def test_a_model_taken_from_its_run_is_checked_by_its_own_record(runs: list[Trained], tmp_path: Path) -> None:
    model = Path(shutil.copytree(runs[0].model_path, tmp_path / "model"))
    found = fg.check(model)
    assert {"FG008", "FG015"} <= {finding.code for finding in found}
    assert {one.code for one in found.unchecked} >= {"FG014", "FG017"}
    facts = json.loads((model / "foolsgold.json").read_text())
    (model / "foolsgold.json").write_text(json.dumps(facts | {"evaluation": {}}))
    assert "FG016" in {finding.code for finding in fg.check(model)}


def test_every_question_of_a_finished_run_has_its_evidence(runs: list[Trained]) -> None:
    answers = _answers(runs[1])
    versions = runs[1].state.set_versions
    assert answers["teacher"].said == "yes"
    assert answers["teacher"].evidence[0].startswith(f"set {versions[0]}: judge_of_runs:one_answer, probability")
    assert answers["threshold"].said == "no"
    assert answers["threshold"].evidence == ("negative_below 0.3, positive_above 0.7", "no labelled pairs")
    assert answers["curriculum"].said == "yes"
    assert answers["curriculum"].evidence == ("2 epochs: warmup (bm25_ce_0.5), harder (random+bm25_ce_0.5)",)
    assert answers["margins"].said == "yes"
    assert answers["margins"].evidence[0].startswith(str(runs[1].path / "sets" / versions[0] / "margins.png"))
    assert answers["evaluations"].said == "yes"
    assert [line.split(":")[0] for line in answers["evaluations"].evidence[1:]] == ["start", "warmup", "harder"]
    assert all(Path(line.split(", ")[-1]).is_file() for line in answers["evaluations"].evidence[1:])
    assert answers["versions"].said == "yes"
    assert ", ".join(versions) in answers["versions"].evidence[0]


def test_batch_sizes_of_the_runs_beside_it_are_compared(runs: list[Trained]) -> None:
    best = max(runs, key=lambda one: one.state.best.measures["nDCG@10"])
    for one in runs:
        answer = _answers(one)["batch"]
        if one is runs[0]:
            assert answer.said == "no"
            assert "too small" in answer.evidence[0]
        else:
            assert answer.said == ("yes" if one is best else "no")
            assert [line.split(":")[0] for line in answer.evidence[1:]] == ["batch_size 16", "batch_size 32"]


def test_one_batch_size_alone_tells_nothing(run: Path) -> None:
    assert _answers(run)["batch"].said == "unknown"


def test_sets_that_are_gone_are_missed(run: Path) -> None:
    version = json.loads((run / "model" / "foolsgold.json").read_text())["sets"][0]
    shutil.rmtree(run / "sets" / version)
    answers = _answers(run)
    assert not any(" sets the best model" in line for line in answers["teacher"].evidence)  # it saw the lost one too
    answer = answers["versions"]
    assert answer.said == "no"
    assert answer.evidence[-1] == f"set {version} is not in {run / 'sets'}"


def test_a_run_that_was_stopped_lacks_evaluations_and_model(run: Path) -> None:
    facts = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(facts | {"rounds": facts["rounds"][:2], "is_finished": False}))
    shutil.rmtree(run / "model")
    answers = _answers(run)
    assert answers["evaluations"].said == "no"
    assert answers["evaluations"].evidence[-1] == "harder: not evaluated"
    assert answers["versions"].said == "no"


def test_plots_that_are_missing_are_named(run: Path) -> None:
    for plot in run.glob("sets/*/margins.png"):
        plot.unlink()
    answer = _answers(run)["margins"]
    assert answer.said == "no"
    assert "margins.png is missing: mean " in answer.evidence[0]


def test_a_set_alone_leaves_training_open(runs: list[Trained]) -> None:
    answers = _answers(runs[1].path / "sets" / runs[1].state.set_versions[0])
    assert {name: answer.said for name, answer in answers.items()} == {
        "teacher": "yes", "threshold": "no", "mix": "no", "curriculum": "unknown", "margins": "yes", "batch": "unknown",
        "evaluations": "unknown", "versions": "unknown",
    }  # fmt: skip
    assert answers["mix"].evidence[0].startswith("bm25 100% (")


def test_a_recipe_has_nothing_to_ask_about() -> None:
    with pytest.raises(MinedSetError, match="a recipe has made nothing yet"):
        checklist({"teacher": None})


def test_a_warm_up_without_a_teacher_is_told_from_a_run_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "judge_of_runs.py").write_text(JUDGE)
    monkeypatch.syspath_prepend(tmp_path)
    small.student(tmp_path / "student")
    schedule = [
        {"name": "warmup", "from": 0, "to": 1, "mode": "bm25"},
        {"name": "harms", "from": 1, "to": 2, "mode": "bm25_ce_0.5"},
    ]
    student = {"learning_rate": 0.5, "batch_size": 32}
    recipe = small.recipe(tmp_path / "student", student=student, schedule=schedule)
    recipe["teacher"] = {"kind": "callable", "model": "judge_of_runs:one_answer"}
    trained = fg.train(recipe, tmp_path / "runs", collection=small.collection())
    assert len({one.set_version for one in trained.rounds[1:]}) == 2
    assert not fg.check(trained, select=["FG019"])
    state = trained.state
    state.rounds[2] = replace(state.rounds[2], outcome="kept")  # as if the second regime had made nothing better
    state.save(trained.path)
    teacher = _answers(trained)["teacher"]
    assert teacher.said == "no"
    assert teacher.evidence[0] == (
        f"of the run's 2 sets the best model, warmup after step {state.rounds[1].stop}, saw 1"
    )
    assert teacher.to_do.startswith("see why no regime with a teacher made the model better")
