"""From a recipe to a trainer: prompts, scales, batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sentence_transformers", reason="needs the torch extra")
pytest.importorskip("accelerate", reason="needs the torch extra")

import small_training as small
import toy

from foolsgold.collection import Collection
from foolsgold.recipe import Recipe
from foolsgold.training.build import build_trainer


def _built(tmp_path: Path, collection: Collection | None = None, prompts: Any = None, **student: Any) -> Any:
    """The trainer of sentence-transformers in it."""
    from sentence_transformers import SentenceTransformer

    folder = small.student(tmp_path / "student")
    if prompts:
        model = SentenceTransformer(str(folder), device="cpu")
        model.prompts = prompts
        model.save(str(folder))
    recipe = Recipe.build(small.recipe(folder, student=student))
    return build_trainer(
        recipe, collection or small.collection(), None, epochs=1, folder=tmp_path / "checkpoints"
    )._trainer


def test_documents_are_trained_with_the_prompt_that_they_are_mined_with(tmp_path: Path) -> None:
    prompts = {"query": "query: ", "passage": "passage: "}  # sentence-transformers takes passage for documents too
    trainer = _built(tmp_path, prompts=prompts)
    named = trainer.args.prompts
    assert (named["anchor"], named["positive"], named["negative_1"]) == ("query: ", "passage: ", "passage: ")


@pytest.mark.parametrize("loss", ["mnr", "memory_bank", "margin_mse", "kl"])
@pytest.mark.parametrize(
    ("student", "scale"),
    [({}, 20.0), ({"similarity": "dot"}, 1.0), ({"similarity": "dot", "temperature": 0.5}, 2.0)],
)
def test_dot_products_are_not_scaled_as_cosines_are(
    tmp_path: Path, loss: str, student: dict[str, Any], scale: float
) -> None:
    trained = _built(tmp_path, loss=loss, **student).loss
    assert trained.scale == pytest.approx(scale)
    if loss in ("margin_mse", "kl"):
        assert trained.contrastive.scale == pytest.approx(scale)


def test_a_positive_of_many_queries_is_said_to_make_small_batches(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    documents = {f"d{i}": f"body{i} one" for i in range(20)}
    queries = {f"q{i}": f"ask{i} one" for i in range(40)}
    popular = toy.collection(documents, queries, {f"q{i}": {f"d{i if i < 20 else 7}": 1} for i in range(40)})
    trainer = _built(tmp_path, popular, batch_size=16)
    assert len(trainer.get_train_dataloader()) == 21  # the document is the positive of 21 queries
    assert "an epoch has 21 batches of about 2 rows instead of 3 of 16" in caplog.text
    assert "21 have document d7; with student.batches: random" in caplog.text
    caplog.clear()
    trainer = _built(tmp_path / "other", popular, batch_size=16, batches="random")
    assert (len(trainer.get_train_dataloader()), caplog.text) == (3, "")
