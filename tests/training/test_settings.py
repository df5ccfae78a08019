"""Settings of a student that only show in its trainer: weight decay, accumulation, topics, the loss's own fields."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, get_args

import pytest

pytest.importorskip("sentence_transformers", reason="needs the torch extra")
pytest.importorskip("accelerate", reason="needs the torch extra")

import small_training as small

from foolsgold.evaluation.result import Change, Comparison
from foolsgold.recipe import Recipe
from foolsgold.recipe.losses import LOSSES, LossName
from foolsgold.training.build import LOSS_CLASSES, build_trainer
from foolsgold.training.outcomes import outcome_of
from foolsgold.training.run import Round


def _built(tmp_path: Path, **student: Any) -> Any:
    recipe = Recipe.build(small.recipe(small.student(tmp_path / "student"), student=student))
    return build_trainer(recipe, small.collection(), None, epochs=1, folder=tmp_path / "checkpoints")


def test_every_loss_has_a_class_that_takes_its_own_fields() -> None:
    assert set(LOSSES) == set(LOSS_CLASSES) == set(get_args(LossName))
    for name, kind in LOSSES.items():
        assert set(kind.arguments.values()) <= set(inspect.signature(LOSS_CLASSES[name]).parameters)


def test_accumulated_batches_make_one_step(tmp_path: Path) -> None:
    one, two = (_built(tmp_path / str(n), gradient_accumulation=n) for n in (1, 2))
    assert (one.steps_per_epoch, two.steps_per_epoch) == (6, 3)


def test_weight_decay_makes_weights_smaller(tmp_path: Path) -> None:
    norms = []
    for decay in (0.0, 1.0):
        trainer = _built(tmp_path / str(decay), weight_decay=decay)
        trainer.train_to(trainer.total_steps)
        norms.append(sum(float(weights.detach().norm()) for weights in trainer.model.parameters()))
    assert norms[1] < norms[0]


def test_a_batch_has_queries_of_as_many_topics_as_the_recipe_says(tmp_path: Path) -> None:
    trainer = _built(tmp_path, batches="topics", topics=6, topics_per_batch=2)
    sampler = trainer._trainer.get_train_dataloader().batch_sampler
    shares = [len({int(sampler._topic[row]) for row in batch}) for batch in sampler]
    one = _built(tmp_path / "one", batches="topics", topics=6, topics_per_batch=1)
    sampler = one._trainer.get_train_dataloader().batch_sampler
    assert sum(shares) > sum(len({int(sampler._topic[row]) for row in batch}) for batch in sampler)


@pytest.mark.parametrize(("significance", "outcome"), [(0.05, "rolled back"), (0.01, "kept")])
def test_a_drop_counts_where_its_p_value_is_below_significance(significance: float, outcome: str) -> None:
    change = Change(before=0.5, delta=-0.1, interval=(-0.2, -0.01), p_value=0.03)
    compared = Comparison("now", "before", {"nDCG@10": change})
    recipe = Recipe.build({"evaluation": {"significance": significance}})
    start = Round(regime="start", measures={"nDCG@10": 0.5}, outcome="start", seconds=0.0)
    assert outcome_of(compared, recipe, False, start) == outcome
