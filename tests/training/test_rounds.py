"""The loop: it learns, keeps the best, undoes what harms, and goes on where it was stopped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sentence_transformers", reason="needs the torch extra")
pytest.importorskip("accelerate", reason="needs the torch extra")

import small_training as small

from foolsgold.errors import CollectionError, FoolsgoldError, MissingExtra, ModelError, RecipeError, TrainingError
from foolsgold.progress import Advance
from foolsgold.training import Trained, train

SCHEDULE = [
    {"name": "warmup", "from": 0, "to": 2, "mode": "random", "n": 1},
    {"name": "hard", "from": 2, "to": 4, "mode": "bm25", "n": 2},
]
_OWN = {"sources": {"self": {"depth": 8}, "bm25": {"depth": 8}}}
AGAIN = [{"name": "own", "from": 0, "to": 3, "mode": _OWN, "n": 2}]


@pytest.fixture
def student(tmp_path: Path) -> Path:
    return small.student(tmp_path / "student")


def _weights(trained: Trained) -> Any:
    from safetensors.numpy import load_file

    return load_file(next(trained.model_path.rglob("*.safetensors")))["embedding.weight"]


def _train(folder: Path, out: Path, **sections: Any) -> Trained:
    return train(small.recipe(folder, **sections), out, collection=small.collection())


def test_a_curriculum_is_trained_regime_by_regime(student: Path, tmp_path: Path) -> None:
    trained = _train(student, tmp_path / "runs", schedule=SCHEDULE)
    assert [one.regime for one in trained.rounds] == ["start", "warmup", "hard"]
    assert [one.stop for one in trained.rounds][1] * 2 == trained.rounds[2].stop
    assert trained.state.best.measures["nDCG@10"] > trained.rounds[0].measures["nDCG@10"]
    assert trained.rounds[1].set_version != trained.rounds[2].set_version
    assert trained.rounds[1].delta == pytest.approx(
        trained.rounds[1].measures["nDCG@10"] - trained.rounds[0].measures["nDCG@10"]
    )


def test_another_training_seed_trains_otherwise_on_the_same_sets(student: Path, tmp_path: Path) -> None:
    mode = {"sources": {"random": {"depth": 20}}, "select": {"per_query": 4}}
    schedule = [{"name": "all", "from": 0, "to": 2, "mode": mode, "n": 2}]
    one, two, mined_anew = (
        _train(student, tmp_path / "runs", schedule=schedule, **more)
        for more in ({}, {"student": {"seed": 99}}, {"seed": 99})
    )
    assert two.state.set_versions == one.state.set_versions
    assert mined_anew.state.set_versions != one.state.set_versions
    assert not np.array_equal(_weights(two), _weights(one))


def test_a_regime_can_be_evaluated_more_often_than_it_is_mined(student: Path, tmp_path: Path) -> None:
    trained = _train(student, tmp_path / "runs", schedule=SCHEDULE, evaluation={"every": "1 epoch"})
    assert [one.regime for one in trained.rounds[1:]] == ["warmup", "warmup", "hard", "hard"]
    assert len({one.set_version for one in trained.rounds[1:]}) == 2


def test_the_model_is_the_best_one_and_says_what_it_was_trained_on(student: Path, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    from foolsgold.evaluation.evaluate import evaluate

    trained = _train(student, tmp_path / "runs", schedule=SCHEDULE)
    lineage = json.loads((trained.model_path / "foolsgold.json").read_text())
    assert lineage["sets"] == trained.state.set_versions
    assert lineage["recipe"]["schedule"][0]["name"] == "warmup"
    held_out = small.collection()
    held_out = held_out.with_queries(np.flatnonzero(held_out.held_out(0.25)))
    again = evaluate(SentenceTransformer(str(trained.model_path), device="cpu"), held_out, measures=("nDCG@10",))
    assert again.means["nDCG@10"] == pytest.approx(trained.state.best.measures["nDCG@10"], abs=1e-6)
    page = (trained.path / "report.html").read_text()
    assert "warmup" in page
    assert trained.state.set_versions[0] in page


def test_the_same_command_finds_the_finished_run(student: Path, tmp_path: Path) -> None:
    first = _train(student, tmp_path / "runs", schedule=SCHEDULE)
    written = (first.path / "run.json").stat().st_mtime_ns
    again = _train(student, tmp_path / "runs", schedule=SCHEDULE)
    assert again.state == first.state
    assert (again.path / "run.json").stat().st_mtime_ns == written


def test_another_seed_is_another_run(student: Path, tmp_path: Path) -> None:
    one, other = (_train(student, tmp_path / "runs", schedule=SCHEDULE, seed=seed) for seed in (1, 2))
    assert one.version != other.version
    assert not np.array_equal(_weights(one), _weights(other))


@pytest.mark.parametrize("schedule", [SCHEDULE, AGAIN], ids=["curriculum", "self-mining"])
@pytest.mark.parametrize("after", [1, 7, 13])
def test_a_run_that_was_killed_ends_as_one_that_was_not(
    student: Path, tmp_path: Path, schedule: Any, after: int
) -> None:
    sections: dict[str, Any] = {"schedule": schedule, "student": {"checkpoint_every": 2}}
    if schedule is AGAIN:
        sections["remine"] = {"every": "1 epoch", "overlap": 0.5}
    whole = _train(student, tmp_path / "whole", **sections)
    recipe = small.recipe(student, **{**sections, "student": {"checkpoint_every": 2}})
    with pytest.raises(KeyboardInterrupt):
        train(recipe, tmp_path / "killed", collection=small.collection(), progress=small.Killed(after))
    killed = train(recipe, tmp_path / "killed", collection=small.collection())
    assert [one.set_version for one in killed.rounds] == [one.set_version for one in whole.rounds]
    np.testing.assert_allclose(_weights(killed), _weights(whole), rtol=0, atol=1e-6)
    assert [one.measures for one in killed.rounds] == [one.measures for one in whole.rounds]


def test_a_round_that_harms_is_undone_and_the_schedule_goes_on_softer(tmp_path: Path) -> None:
    knows = small.student(tmp_path / "knows", knows=True)
    trained = _train(knows, tmp_path / "runs", schedule=SCHEDULE, student={"learning_rate": 50.0})
    assert [one.outcome for one in trained.rounds] == ["start", "rolled back", "rolled back"]
    assert trained.state.set_versions == []
    assert np.array_equal(_weights(trained), _weights_of(knows))


def test_on_regression_stop_ends_the_run(tmp_path: Path) -> None:
    knows = small.student(tmp_path / "knows", knows=True)
    trained = _train(
        knows,
        tmp_path / "runs",
        schedule=SCHEDULE,
        student={"learning_rate": 50.0},
        evaluation={"on_regression": "stop"},
    )
    assert [one.outcome for one in trained.rounds] == ["start", "stopped"]


def test_on_regression_continue_only_says_so_but_never_returns_the_worse_model(tmp_path: Path) -> None:
    knows = small.student(tmp_path / "knows", knows=True)
    trained = _train(
        knows, tmp_path / "runs", schedule=SCHEDULE, student={"learning_rate": 50.0},
        evaluation={"on_regression": "continue"},
    )  # fmt: skip
    assert [one.outcome for one in trained.rounds] == ["start", "worse", "worse"]
    assert np.array_equal(_weights(trained), _weights_of(knows))


@pytest.mark.parametrize(
    ("on_regression", "outcomes"),
    [("rollback", ["rolled back", "rolled back"]), ("stop", ["stopped"]), ("continue", ["stopped"])],
)
def test_a_student_that_is_no_number_any_more_is_undone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, on_regression: str, outcomes: list[str]
) -> None:
    knows = small.student(tmp_path / "knows", knows=True)
    trained = _train(
        knows, tmp_path / "runs", schedule=SCHEDULE, student={"learning_rate": 1e38},
        evaluation={"on_regression": on_regression},
    )  # fmt: skip
    assert "values that are not finite numbers; where it is being trained, lower the learning rate" in caplog.text
    assert [one.outcome for one in trained.rounds] == ["start", *outcomes]
    assert set(trained.rounds[1].measures.values()) == {0.0}
    assert np.array_equal(_weights(trained), _weights_of(knows))


class _Noted:
    """A progress that notes how long each stage of training is, and how many checkpoints there are after each step."""

    def __init__(self, runs: Path) -> None:
        self.steps: list[int] = []
        self.checkpoints: list[int] = []
        self._runs = runs

    @contextmanager
    def stage(self, name: str, total: int) -> Iterator[Advance]:
        if name == "train":
            self.steps.append(total)
        yield lambda _: self.checkpoints.append(len(list(self._runs.glob("*/checkpoints/checkpoint-*"))))


@pytest.mark.parametrize("loss", ["mnr", "memory_bank"])
def test_after_a_rollback_to_the_start_training_does_not_begin_anew(tmp_path: Path, loss: str) -> None:
    knows = small.student(tmp_path / "knows", knows=True)
    noted = _Noted(tmp_path / "runs")
    student = {"learning_rate": 50.0, "loss": loss, "bank_size": 32}
    recipe = small.recipe(knows, schedule=SCHEDULE, student=student)
    trained = train(recipe, tmp_path / "runs", collection=small.collection(), progress=noted)
    assert [one.outcome for one in trained.rounds] == ["start", "rolled back", "rolled back"]
    assert noted.steps == [one.stop - one.start for one in trained.rounds[1:]]


def test_old_checkpoints_go_as_new_ones_come(student: Path, tmp_path: Path) -> None:
    noted = _Noted(tmp_path / "runs")
    recipe = small.recipe(student, schedule=SCHEDULE, student={"checkpoint_every": 1})
    train(recipe, tmp_path / "runs", collection=small.collection(), progress=noted)
    assert max(noted.checkpoints) == 2  # where the regime began, which is the best, and the newest


def test_the_loss_curve_survives_a_kill_before_the_evaluation(
    student: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from foolsgold.training.rounds import _Loop

    whole = _train(student, tmp_path / "whole", schedule=SCHEDULE[:1])
    assert len(whole.state.curve) > 0

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(_Loop, "_keep_or_roll_back", killed)
        with pytest.raises(KeyboardInterrupt):
            _train(student, tmp_path / "killed", schedule=SCHEDULE[:1])
    gone_on = _train(student, tmp_path / "killed", schedule=SCHEDULE[:1])
    assert gone_on.state.curve == whole.state.curve


def test_mining_with_the_student_leaves_the_retrievers_vectors(student: Path, tmp_path: Path) -> None:
    from foolsgold.mining.mine import mine

    recipe = small.recipe(student, sources={"dense": {"depth": 8}})
    mine(small.collection(), {"retriever": recipe["retriever"], "teacher": None, "sources": recipe["sources"]},
         out=tmp_path / "mined", cache=tmp_path / "cache")  # fmt: skip
    stored = {path.name for path in (tmp_path / "cache" / "embeddings").iterdir()}
    sections = {"schedule": AGAIN, "remine": {"every": "1 epoch"}}
    train(small.recipe(student, **sections), tmp_path / "runs", collection=small.collection(), cache=tmp_path / "cache")
    assert {path.name for path in (tmp_path / "cache" / "embeddings").iterdir()} == stored
    assert not list((tmp_path / "runs").glob("*/kept-*"))


def test_a_mistake_that_only_a_later_mining_would_find_is_found_first(student: Path, tmp_path: Path) -> None:
    schedule = [{**AGAIN[0], "mode": {**_OWN, "select": {"strategy": "simans"}}}]
    with pytest.raises(RecipeError, match="simans"):
        _train(student, tmp_path / "runs", schedule=schedule, remine={"every": "1 epoch", "overlap": 0.5})
    assert not (tmp_path / "runs").exists()


def test_after_a_rollback_within_a_regime_its_set_is_not_mined_again(tmp_path: Path) -> None:
    knows = small.student(tmp_path / "knows", knows=True)
    trained = _train(
        knows, tmp_path / "runs", schedule=AGAIN, remine={"every": "1 epoch"}, student={"learning_rate": 50.0}
    )
    assert trained.rounds[1].set_version is not None
    assert [one.set_version for one in trained.rounds[2:]] == [None, None]


def test_mining_again_with_the_student_keeps_a_part_of_the_set_before(student: Path, tmp_path: Path) -> None:
    from foolsgold.mined.mined_set import MinedSet

    trained = _train(student, tmp_path / "runs", schedule=AGAIN, remine={"every": "1 epoch", "overlap": 0.5})
    versions = [one.set_version for one in trained.rounds[1:]]
    assert len(set(versions)) == 3
    collection = small.collection()
    train_part = collection.with_queries(np.flatnonzero(~collection.held_out(0.25)))
    before, after = (MinedSet(trained.path / "sets" / str(version), train_part) for version in versions[:2])
    change = before.diff(after)
    assert change.kept
    assert change.added
    assert "kept" in after.manifest["counts"]["selected_by"]


def test_the_embeddings_of_a_student_are_not_left_in_the_store(student: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    train(
        small.recipe(student, schedule=AGAIN, remine={"every": "1 epoch"}), tmp_path / "runs",
        collection=small.collection(), cache=cache,
    )  # fmt: skip
    assert not list(cache.glob("embeddings/*/*.npy"))


def test_a_schedule_that_cannot_be_mined_is_refused_before_anything_is_trained(student: Path, tmp_path: Path) -> None:
    schedule = [*SCHEDULE, {"name": "late", "from": 4, "to": 5, "mode": "bm25_ce_0.3"}]
    with pytest.raises(RecipeError, match=r"regime late: mode bm25_ce_0\.3 needs a teacher"):
        _train(student, tmp_path / "runs", schedule=schedule)
    assert not (tmp_path / "runs").exists()


def test_a_split_of_a_collection_in_memory_is_refused(student: Path, tmp_path: Path) -> None:
    with pytest.raises(CollectionError, match="has only one; leave split out"):
        _train(student, tmp_path / "runs", evaluation={"split": "dev"})


def _weights_of(folder: Path) -> Any:
    from safetensors.numpy import load_file

    return load_file(next(folder.rglob("*.safetensors")))["embedding.weight"]


def test_a_static_student_leaves_what_it_started_from(student: Path, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    trained = _train(student, tmp_path / "runs", schedule=SCHEDULE[:1], student={"static": True})
    assert trained.state.student == f"the token embeddings of {student}"
    start = SentenceTransformer(str(trained.path / "start"), device="cpu")
    before = SentenceTransformer(str(student), device="cpu")
    assert np.array_equal(start.encode(["ask1 one"]), before.encode(["ask1 one"]))
    plain = _train(student, tmp_path / "runs", schedule=SCHEDULE[:1])
    assert not (plain.path / "start").exists()


@pytest.mark.parametrize("on_regression", ["rollback", "stop"])
def test_a_kill_before_a_rollback_is_done_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_regression: str
) -> None:
    from foolsgold.training.trainer import SegmentTrainer

    knows = small.student(tmp_path / "knows", knows=True)
    harms: dict[str, Any] = {
        "schedule": SCHEDULE, "student": {"learning_rate": 50.0}, "evaluation": {"on_regression": on_regression}
    }  # fmt: skip
    whole = _train(knows, tmp_path / "whole", **harms)

    def killed(self: Any, step: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(SegmentTrainer, "roll_back", killed)
        with pytest.raises(KeyboardInterrupt):
            _train(knows, tmp_path / "killed", **harms)
    gone_on = _train(knows, tmp_path / "killed", **harms)
    assert [one.outcome for one in gone_on.rounds] == [one.outcome for one in whole.rounds]
    assert [one.measures for one in gone_on.rounds] == [one.measures for one in whole.rounds]
    assert np.array_equal(_weights(gone_on), _weights(whole))


def test_a_kill_while_a_checkpoint_is_put_in_place_loses_none(student: Path, tmp_path: Path) -> None:
    sections: dict[str, Any] = {"schedule": SCHEDULE}
    whole = _train(student, tmp_path / "whole", **sections)
    with pytest.raises(KeyboardInterrupt):
        train(
            small.recipe(student, schedule=SCHEDULE), tmp_path / "killed", collection=small.collection(),
            progress=small.Killed(whole.rounds[1].stop + 1),
        )  # fmt: skip
    (newest,) = (tmp_path / "killed").glob(f"*/checkpoints/checkpoint-{whole.rounds[1].stop}")
    newest.rename(newest.with_name(f".made-{newest.name}"))
    gone_on = _train(student, tmp_path / "killed", **sections)
    assert [one.measures for one in gone_on.rounds] == [one.measures for one in whole.rounds]


def test_a_run_that_was_killed_at_its_very_end_is_finished(
    student: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil

    from foolsgold.training.trainer import SegmentTrainer

    keep_only = SegmentTrainer.keep_only

    def killed(self: Any, steps: set[int]) -> None:
        keep_only(self, steps)
        if not steps:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(SegmentTrainer, "keep_only", killed)
        with pytest.raises(KeyboardInterrupt):
            _train(student, tmp_path / "runs", schedule=SCHEDULE)
    again = _train(student, tmp_path / "runs", schedule=SCHEDULE)
    assert again.model_path.is_dir()
    shutil.rmtree(again.model_path)
    with pytest.raises(TrainingError, match="this run is finished, but its model is gone; delete the folder"):
        _train(student, tmp_path / "runs", schedule=SCHEDULE)


def test_two_runs_in_one_folder_are_refused(student: Path, tmp_path: Path) -> None:
    from filelock import FileLock

    trained = _train(student, tmp_path / "runs", schedule=SCHEDULE[:1])
    with FileLock(trained.path / ".lock"), pytest.raises(TrainingError, match="another process is training this run"):
        _train(student, tmp_path / "runs", schedule=SCHEDULE[:1])
    (tmp_path / "file").write_text("")
    with pytest.raises(TrainingError, match=r"cannot write the run here .* name another --out"):
        _train(student, tmp_path / "file", schedule=SCHEDULE[:1])


def test_a_memory_bank_that_is_never_full_is_said(
    student: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    schedule = [{"name": "all", "from": 0, "to": 1, "mode": "random", "n": 1}]
    _train(student, tmp_path / "runs", schedule=schedule, student={"loss": "memory_bank"})
    assert "student.bank_size is 16,384, and the whole run has" in caplog.text
    caplog.clear()
    _train(student, tmp_path / "runs", schedule=schedule, student={"loss": "memory_bank", "bank_size": 32})
    assert "bank_size" not in caplog.text


def test_a_regime_shorter_than_a_step_is_refused(student: Path, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"regime brief: from epoch 0 to 0.0001 is less than a step"):
        _train(student, tmp_path / "runs", schedule=[{"name": "brief", "from": 0, "to": 0.0001, "mode": "bm25"}])


TEACHER = {"model": "small_training:teacher_score", "kind": "callable", "scale": "probability"}


@pytest.mark.parametrize(
    ("mode", "sentence"),
    [
        ({"sources": {"run": {"path": "no.trec"}}}, "no.trec: no such run file"),
        ({"sources": {"dense": {"model": {"model": "./nowhere"}}}}, "nowhere: no such folder"),
        ({"teacher": {"model": "small_training:nothing", "kind": "callable"}}, "small_training"),
        ({"teacher": {"model": "./nowhere"}}, "nowhere: no such folder"),
        ({"teacher": TEACHER, "decide": {"calibration": "no.json"}}, "no.json"),
        ({"sources": {"bm25": {"depht": 3}}}, r"schedule, regime late: sources\.bm25\.depht: unknown field"),
    ],
)
def test_what_a_later_regime_needs_is_looked_for_before_anything_is_trained(
    student: Path, tmp_path: Path, mode: dict[str, Any], sentence: str
) -> None:
    from foolsgold.training import plan

    schedule = [*SCHEDULE, {"name": "late", "from": 4, "to": 5, "mode": mode}]
    with pytest.raises(FoolsgoldError, match=sentence):
        _train(student, tmp_path / "runs", schedule=schedule)
    assert not list((tmp_path / "runs").glob("*/run.json"))
    with pytest.raises(FoolsgoldError, match=sentence):
        plan(small.recipe(student, schedule=schedule), collection=small.collection())


def test_without_torch_training_is_refused_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from importlib.metadata import PackageNotFoundError

    from foolsgold.training import launch, plan

    def version(name: str) -> str:
        if name == "torch":
            raise PackageNotFoundError(name)
        return "1"

    monkeypatch.setattr(launch, "version", version)
    nowhere = {"collection": {"beir": str(tmp_path / "nowhere")}}
    for run in (train, plan):
        with pytest.raises(MissingExtra, match=r"training needs the optional extra: .*torch"):
            run(nowhere)


def test_what_is_no_recipe_is_refused() -> None:
    with pytest.raises(RecipeError, match="NoneType is not a recipe; give a Recipe, its plain values or a YAML file"):
        train(None)  # type: ignore[arg-type]


def test_a_mining_that_finds_nothing_leaves_nothing_to_keep(student: Path, tmp_path: Path) -> None:
    schedule = [{"name": "own", "from": 0, "to": 2, "mode": "self_ce_0.01", "n": 2}]
    again = {"every": "1 epoch", "overlap": 0.5}
    trained = _train(student, tmp_path / "runs", schedule=schedule, remine=again, teacher=TEACHER)
    assert [one.negatives for one in trained.rounds[1:]] == [0, 0]


def test_a_loss_on_scored_negatives_alone_does_not_go_on_without_them(tmp_path: Path) -> None:
    knows = small.student(tmp_path / "knows", knows=True)
    harms: dict[str, Any] = {
        "schedule": [{"name": "all", "from": 0, "to": 2, "mode": "bm25_ce_0.5", "n": 2}],
        "evaluation": {"every": "1 epoch"},
        "teacher": TEACHER,
    }
    alone = {"loss": "kl", "learning_rate": 1e38}
    trained = _train(knows, tmp_path / "runs", student={**alone, "contrastive_weight": 0}, **harms)
    assert [one.outcome for one in trained.rounds] == ["start", "stopped"]
    trained = _train(knows, tmp_path / "runs", student=alone, **harms)
    assert [one.outcome for one in trained.rounds] == ["start", "rolled back", "rolled back"]


def test_a_run_whose_checkpoints_are_gone_does_not_begin_anew_in_silence(student: Path, tmp_path: Path) -> None:
    import shutil

    recipe = small.recipe(student, schedule=SCHEDULE)
    with pytest.raises(KeyboardInterrupt):
        train(recipe, tmp_path / "runs", collection=small.collection(), progress=small.Killed(10))
    (run,) = (tmp_path / "runs").iterdir()
    assert len(json.loads((run / "run.json").read_text())["rounds"]) == 2
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(TrainingError, match=r"the checkpoint of step \d+ is gone, .* delete the folder"):
        train(recipe, tmp_path / "runs", collection=small.collection())


def test_a_bare_transformer_is_pooled_as_is_said_and_mines_the_same_after_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tiny_models

    from foolsgold.training.remining import SegmentSets

    bert = tiny_models.bert(tmp_path / "bert", "BertModel")
    sections: dict[str, Any] = {
        "schedule": [
            {"name": "first", "from": 0, "to": 1, "mode": "random", "n": 1},
            {"name": "own", "from": 1, "to": 2, "mode": "self", "n": 1},
        ],
        "retriever": {"model": str(bert), "pooling": "cls", "device": "cpu"},
    }
    whole = _train(bert, tmp_path / "whole", **sections)
    pooling = json.loads((whole.model_path / "1_Pooling" / "config.json").read_text())
    assert pooling["pooling_mode"] == "cls"
    mine = SegmentSets._mine

    def killed_before_own(self: Any, segment: Any, earlier: Any) -> Any:
        if self._job.regimes[segment.regime].mines_with_student:
            raise KeyboardInterrupt
        return mine(self, segment, earlier)

    with monkeypatch.context() as patched:
        patched.setattr(SegmentSets, "_mine", killed_before_own)
        with pytest.raises(KeyboardInterrupt):
            _train(bert, tmp_path / "killed", **sections)
    killed = _train(bert, tmp_path / "killed", **sections)
    assert killed.state.set_versions == whole.state.set_versions
    assert [one.set_version for one in killed.rounds] == [one.set_version for one in whole.rounds]


def test_a_bare_transformer_that_does_not_say_how_it_pools_is_refused(tmp_path: Path) -> None:
    import tiny_models

    bert = tiny_models.bert(tmp_path / "bert", "BertModel")
    with pytest.raises(ModelError, match="set pooling: cls or pooling: mean"):
        _train(bert, tmp_path / "runs", schedule=SCHEDULE[:1])
    said = _train(bert, tmp_path / "runs", schedule=SCHEDULE[:1], student={"pooling": "mean"})
    assert json.loads((said.model_path / "1_Pooling" / "config.json").read_text())["pooling_mode"] == "mean"


def test_names_that_look_like_markup_are_shown_as_they_are(
    student: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from foolsgold.commands.train import print_trained

    schedule = [{**SCHEDULE[0], "name": "[red]a[/x]"}]
    trained = _train(student, tmp_path / "o[v1][/x]", schedule=schedule)
    print_trained(trained)
    printed = capsys.readouterr().out
    assert "[red]a[/x]" in printed
    assert str(trained.model_path) in printed


def test_a_log_that_is_not_on_a_terminal_keeps_whole_lines(
    student: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from foolsgold.commands.log import log

    names = ["a" * 90, "b" * 90]
    schedule = [{**regime, "name": name} for regime, name in zip(SCHEDULE, names, strict=True)]
    trained = _train(student, tmp_path / "runs", schedule=schedule)
    log(trained.path)
    printed = capsys.readouterr().out
    assert all(any(name in line and "negatives" in line for line in printed.splitlines()) for name in names)
