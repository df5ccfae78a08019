"""What a recipe says of training, worked out; and what cannot be trained, said before anything is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import toy

from foolsgold.errors import CollectionError, RecipeError
from foolsgold.progress import SILENT
from foolsgold.recipe import ModelSpec, Recipe
from foolsgold.training.job import held_out_parts
from foolsgold.training.regimes import mining_recipe, regimes_of, segments_of

STUDENT = ModelSpec(model="student")


def _recipe(mode: Any = "dense_ce_0.3", **values: Any) -> Recipe:
    regime = {"name": "only", "from": 0, "to": 1, "mode": mode, **values.pop("regime", {})}
    return Recipe.build({"schedule": [regime], **values})


def _mining(recipe: Recipe, kept: Path | None = None) -> Recipe:
    return mining_recipe(recipe, regimes_of(recipe)[0], STUDENT, kept)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"schedule": [{"name": "a", "from": 1, "to": 2, "mode": "bm25"}]}, "starts at epoch 1, but the one before"),
        (
            {
                "schedule": [
                    {"name": "a", "from": 0, "to": 1, "mode": "bm25"},
                    {"name": "a", "from": 1, "to": 2, "mode": "dense"},
                ]
            },
            "two regimes have the same name",
        ),
        ({"schedule": [{"name": "a", "from": 0, "to": 0, "mode": "bm25"}]}, "greater than 0"),
        ({"schedule": [{"name": "a", "from": 0, "to": 1, "mode": "dense_ce_1.3"}]}, "unknown mode 'dense_ce_1.3'"),
        ({"schedule": [{"name": "a", "from": 0, "to": 1, "mode": "dense_ce_0.0"}]}, "unknown mode 'dense_ce_0.0'"),
        ({"schedule": [{"name": "start", "from": 0, "to": 1, "mode": "bm25"}]}, "give the regime another name"),
        ({"schedule": [{"name": "a", "from": 0, "to": 1, "mode": "bm25", "n": 65}]}, "less than or equal to 64"),
        ({"student": {"negatives": 65}}, "less than or equal to 64"),
        ({"remine": {"every": "1 epoch"}}, "no regime of a schedule mines with the student"),
        ({"schedule": [{"name": "a", "from": 0, "to": 1, "mode": {"sorces": {}}}]}, "sorces: a mode has only"),
        (
            {"schedule": [{"name": "a", "from": 0, "to": 1, "mode": {"sources": {"self": {"model": "a/b"}}}}]},
            "sources.self.model: self is the student in training; leave it out",
        ),
        ({"schedule": [{"name": "a", "from": 0, "to": 1, "mode": 5}]}, r"schedule\.0\.mode: unknown mode 5"),
        (
            {"schedule": [{"name": "a", "from": 0, "to": 1, "mode": {"sources": None}}]},
            "sources is None; write each with its settings",
        ),
        (
            {"schedule": [{"name": "a", "from": 0, "to": 1, "mode": {"sources": ["bm25"]}}]},
            "write each with its settings",
        ),
        (
            {"schedule": [{"name": "a", "from": 0, "to": 1, "mode": {"sources": {"self": 5}}}]},
            "write each with its set",
        ),
        ({"schedule": [{"name": "a", "from": 0, "to": 1, "mode": "bm25"}], "student": {"epochs": 3}}, "leave epochs"),
        ({"schedule": [{"name": "a", "from": 0, "to": 1, "mode": "bm25"}], "remine": {}}, "name self among"),
        ({"remine": {"every": "often"}}, "write 1 epoch or 500 steps"),
        ({"student": {"static": True, "lora": True}}, "lora is for transformers"),
        ({"student": {"loss": "kl", "negatives": 0}}, "negatives must be at least 1"),
        ({"evaluation": {"decisive": "MAP"}}, "not among the measures"),
    ],
)
def test_a_recipe_that_cannot_be_trained_is_refused(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(RecipeError, match=sentence):
        Recipe.build(values)


def test_without_a_schedule_the_recipe_mines_once_for_all_epochs() -> None:
    recipe = Recipe.build({"student": {"epochs": 2.5}})
    regime = regimes_of(recipe)[0]
    assert (regime.from_, regime.to) == (0, 2.5)
    assert mining_recipe(recipe, regime, STUDENT, None).sources == recipe.sources


def test_mining_does_not_depend_on_how_the_student_is_trained() -> None:
    one, other = (_mining(_recipe(student={"learning_rate": rate})) for rate in (1e-5, 1e-4))
    assert one == other


def test_a_set_holds_at_least_what_a_row_draws() -> None:
    assert _mining(_recipe(regime={"n": 12})).select.per_query == 12
    assert _mining(_recipe(regime={"n": 3})).select.per_query == 7


def test_self_is_mined_with_the_student() -> None:
    source = _mining(_recipe("self_ce_0.3")).sources["self"]
    assert source.kind == "dense"
    assert source.model is not None
    assert source.model.model == "student"


def test_what_is_kept_of_the_set_before_is_a_source_with_a_quota(tmp_path: Path) -> None:
    recipe = _recipe("self_ce_0.3", remine={"overlap": 0.5}, select={"per_query": 6})
    kept = _mining(recipe, tmp_path / "kept.parquet").sources["kept"]
    assert (kept.kind, kept.quota) == ("run", 3)


def test_quotas_leave_room_for_what_is_kept(tmp_path: Path) -> None:
    mode = {"sources": {"self": {"quota": 4}, "bm25": {"quota": 3}, "random": {}}}
    recipe = _recipe(mode, remine={"overlap": 0.5}, select={"per_query": 7})
    sources = _mining(recipe, tmp_path / "kept.parquet").sources
    # 4 of 7 are kept, and of the 3 that are left 4/7 and 3/7, to the nearest, are 2 and 1
    assert {name: source.quota for name, source in sources.items()} == {"self": 2, "bm25": 1, "random": None, "kept": 4}


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"mode": "dense_ce_0.3", "teacher": None, "sources": {"bm25": {}}}, "needs a teacher"),
        ({"mode": "bm25", "student": {"loss": "kl"}}, "loss kl needs negatives with teacher scores"),
        ({"mode": "in_batch", "student": {"loss": "margin_mse"}}, "loss margin_mse needs negatives"),
        ({"mode": "bm25", "student": {"draw": "balanced"}}, "draw: balanced needs negatives with teacher scores"),
        ({"mode": "dense_ce_0.3", "teacher": {"scale": "cosine"}}, "teacher gives cosines"),
        (
            {"mode": "dense_ce_0.3", "decide": {"calibration": "c.json", "max_false_negative_rate": 0.02}},
            "regime only: mode dense_ce_0.3 has a threshold of its own",
        ),
    ],
)
def test_a_regime_that_the_loss_cannot_use_is_refused(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(RecipeError, match=sentence):
        _mining(_recipe(**values))


def test_a_regime_is_cut_only_where_it_mines_with_the_student() -> None:
    again = {"every": "0.5 epochs"}
    assert len(segments_of(_recipe("self_ce_0.3", remine=again), 10)) == 2
    two = Recipe.build(
        {
            "schedule": [
                {"name": "a", "from": 0, "to": 1, "mode": "bm25"},
                {"name": "b", "from": 1, "to": 2, "mode": "bm25+self"},
            ],
            "remine": {"every": "4 steps"},
        }
    )
    assert [(one.start, one.stop) for one in segments_of(two, 10)] == [(0, 10), (10, 14), (14, 18), (18, 20)]


def _many(n: int = 200) -> Any:
    return toy.collection(
        {f"d{i}": f"document {i}" for i in range(n)},
        {f"q{i}": f"query {i // 2}" for i in range(n)},  # every text twice
        {f"q{i}": {f"d{i}": 1} for i in range(n)},
    )


def test_held_out_queries_are_not_trained_on_by_any_id() -> None:
    train, held_out = held_out_parts(Recipe.build({"evaluation": {"held_out": 0.3}}), _many(), SILENT)
    texts = [set(part.queries.take(np.arange(len(part.queries)))) for part in (train, held_out)]
    assert not texts[0] & texts[1]
    assert len(train.queries) + len(held_out.queries) == 200
    assert 30 <= len(held_out.queries) <= 90


def test_the_held_out_queries_keep_their_judgements() -> None:
    _, held_out = held_out_parts(Recipe.build({"evaluation": {"held_out": 0.3}}), _many(), SILENT)
    for row in range(len(held_out.queries)):
        query = held_out.queries.take_ids([row])[0]
        assert held_out.documents.take_ids(held_out.positives(row)) == [f"d{query[1:]}"]


def test_a_share_that_holds_out_nothing_is_refused() -> None:
    with pytest.raises(CollectionError, match="leaves none to evaluate on"):
        held_out_parts(Recipe.build({"evaluation": {"held_out": 0.0}}), _many(), SILENT)
    with pytest.raises(CollectionError, match="leaves none to train on"):
        held_out_parts(Recipe.build({"evaluation": {"held_out": 1.0}}), _many(), SILENT)


def test_a_part_can_be_loaded_again_by_its_spec(tmp_path: Path) -> None:
    from foolsgold.collection import load_collection
    from foolsgold.recipe import CollectionSpec

    rows = "".join(f'{{"anchor": "question {i}", "positive": "answer {i}"}}\n' for i in range(80))
    (tmp_path / "pairs.jsonl").write_text(rows)
    recipe = Recipe.build({"collection": {"pairs": str(tmp_path / "pairs.jsonl")}, "evaluation": {"held_out": 0.25}})
    for part in held_out_parts(recipe, None, SILENT):
        again = load_collection(CollectionSpec.model_validate(part.spec))
        assert again.digest == part.digest


def test_a_split_to_evaluate_on_must_not_be_what_is_trained_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "qrels").mkdir()
    (tmp_path / "corpus.jsonl").write_text('{"_id": "d", "text": "body"}\n')
    queries = {"q": "ask", "r": "ask more", "s": " ASK "}  # s is q's text
    lines = [json.dumps({"_id": name, "text": text}) for name, text in queries.items()]
    (tmp_path / "queries.jsonl").write_text("\n".join(lines) + "\n")
    for split, names in (("train", "q"), ("dev", "rs"), ("same", "s")):
        rows = "".join(f"{name}\td\t1\n" for name in names)
        (tmp_path / "qrels" / f"{split}.tsv").write_text("query-id\tcorpus-id\tscore\n" + rows)
    recipe = {"collection": {"beir": str(tmp_path), "split": "train"}}
    with pytest.raises(CollectionError, match="every query of same is trained on"):
        held_out_parts(Recipe.build(recipe | {"evaluation": {"split": "same"}}), None, SILENT)
    train, held_out = held_out_parts(Recipe.build(recipe | {"evaluation": {"split": "dev"}}), None, SILENT)
    assert (len(train.queries), len(held_out.queries)) == (1, 2)
    assert "1 of 2 queries of dev are also trained on" in caplog.text
