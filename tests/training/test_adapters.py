"""Adapters: a student with them is trained, kept, mined with and evaluated as any other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sentence_transformers", reason="needs the torch extra")
pytest.importorskip("peft", reason="needs the lora extra")

import small_training as small
import tiny_models
import toy

from foolsgold.collection import Collection
from foolsgold.errors import ModelError
from foolsgold.evaluation.evaluate import evaluate
from foolsgold.training import Trained, train

SCHEDULE = [
    {"name": "first", "from": 0, "to": 2, "mode": "bm25", "n": 2},
    {"name": "own", "from": 2, "to": 4, "mode": {"sources": {"self": {"depth": 6}}}, "n": 2},
]


@pytest.fixture
def student(tmp_path: Path) -> Path:
    """A transformer as sentence-transformers saves it."""
    from sentence_transformers import SentenceTransformer

    tiny_models.bert(tmp_path / "bert", "BertModel")
    SentenceTransformer(str(tmp_path / "bert"), device="cpu").save(str(tmp_path / "student"))
    return tmp_path / "student"


def _collection() -> Collection:
    words = tiny_models.WORDS
    documents = {f"d{i}": f"{words[i]} {words[(i * 5 + 3) % 14]} make" for i in range(14)}
    queries = {f"q{i}": f"{words[i]} of" for i in range(14)}
    return toy.collection(documents, queries, {f"q{i}": {f"d{i}": 1} for i in range(14)})


def _recipe(student: Path, **more: Any) -> dict[str, Any]:
    settings = {"batch_size": 4, "learning_rate": 0.01, "lora": {"r": 4}, "checkpoint_every": 1, **more}
    return small.recipe(student, schedule=SCHEDULE, student=settings)


def _vectors(folder: Path) -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(folder), device="cpu").encode(list(tiny_models.WORDS))


def _train(student: Path, out: Path, **more: Any) -> Trained:
    return train(_recipe(student, **more), out, collection=_collection())


def test_a_student_with_adapters_becomes_a_plain_model(student: Path, tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    trained = _train(student, tmp_path / "runs")
    assert trained.state.best.stop > 0
    before, after = (load_file(next(folder.rglob("*.safetensors"))) for folder in (student, trained.model_path))
    assert before.keys() == after.keys()
    changed = {name for name in before if not np.array_equal(before[name], after[name])}
    assert changed == {name for name in before if name.endswith(("query.weight", "value.weight"))}  # peft's choice
    held_out = _collection()
    held_out = held_out.with_queries(np.flatnonzero(held_out.held_out(0.25)))
    again = evaluate(str(trained.model_path), held_out, measures=("nDCG@10",), cache=tmp_path / "cache")
    assert again.means["nDCG@10"] == pytest.approx(trained.state.best.measures["nDCG@10"], abs=1e-6)


@pytest.mark.parametrize("after", [3, 8])
def test_a_killed_run_goes_on_with_its_adapters(student: Path, tmp_path: Path, after: int) -> None:
    whole = _train(student, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(_recipe(student), tmp_path / "killed", collection=_collection(), progress=small.Killed(after))
    (one,) = (tmp_path / "killed").glob(f"*/checkpoints/checkpoint-{after}")
    assert not list(one.rglob("model.safetensors"))  # what is frozen is not in every checkpoint
    gone_on = _train(student, tmp_path / "killed")
    assert [one.set_version for one in gone_on.rounds] == [one.set_version for one in whole.rounds]
    np.testing.assert_allclose(_vectors(gone_on.model_path), _vectors(whole.model_path), rtol=0, atol=1e-6)


def test_adapters_begin_as_the_seed_of_training_says(student: Path, tmp_path: Path) -> None:
    one, same, other = (
        _vectors(_train(student, tmp_path / name, seed=seed).model_path)
        for name, seed in (("one", 1), ("same", 1), ("other", 2))
    )
    assert np.array_equal(one, same)
    assert not np.allclose(one, other, atol=1e-4)


def test_layers_that_are_not_there_are_named(student: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"student.lora: .*name the layers in student.lora.target_modules"):
        _train(student, tmp_path / "runs", lora={"target_modules": ["no_such_layer"]})


def test_a_student_that_is_no_transformer_has_none(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="adapters are for transformers"):
        _train(small.student(tmp_path / "static"), tmp_path / "runs")
