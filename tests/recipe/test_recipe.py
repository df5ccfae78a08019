"""Recipes: what is refused, and that the refusal says where and what to do."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from foolsgold.errors import RecipeError
from foolsgold.recipe import Recipe, recipe_schema
from foolsgold.recipe.template import commented_recipe


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"decide": {"negative_belw": 0.2}}, "decide.negative_belw: unknown field; did you mean negative_below?"),
        ({"sources": {"dense": {"qota": 3}}}, "sources.dense.qota: unknown field; did you mean quota?"),
        ({"sources": {"bm52": {}}}, "sources.bm52: unknown source; did you mean bm25?"),
        ({"sources": {}}, "sources is empty"),
        ({"sources": {"dense": {"k1": 1.2}}}, "sources.dense.k1: only a bm25 source has this field"),
        ({"sources": {"dense": {"window": [5, 5]}}}, "needs 0 <= from < to"),
        ({"sources": {"run": {}}}, "a run source needs its path"),
        ({"sources": {"sparse": {}}}, "a sparse source needs its model"),
        ({"retriever": None}, "a dense source needs a model here or a retriever"),
        ({"select": {"per_query": 9}}, "per_query is 9 but the cap is 8; set cap: 9"),
        ({"decide": {"negative_below": 0.8}}, "must not be above positive_above"),
        ({"decide": {"negative_below": -2.0}}, "set teacher.scale: logit"),
        ({"decide": {"ambiguous": "weight", "positive_above": None}}, "needs both"),
        ({"collection": {"beir": "a", "pairs": "b"}}, "name one of beir, pairs"),
        ({"collection": {"split": "train"}}, "got none"),
        ({"sed": 1}, "sed: unknown field; did you mean seed?"),
        ({"teacher": "name"}, "teacher"),
        ({"seed": 2**64}, "seed"),
        ({"decide": {"negative_below": float("nan")}}, "decide.negative_below: Input should be a finite number"),
        ({"decide": {"positive_above": float("inf")}}, "decide.positive_above: Input should be a finite number"),
        ({"sources": {"teacher": {"kind": "bm25"}}}, "this name is taken"),
        ({"sources": {"run": {"path": "x"}}, "select": {"strategy": "simans"}}, "simans needs the score"),
    ],
)
def test_a_recipe_that_cannot_be_is_refused_with_its_place(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(RecipeError) as refusal:
        Recipe.build(values)
    assert sentence in str(refusal.value)


def test_every_problem_of_a_recipe_is_reported_at_once() -> None:
    with pytest.raises(RecipeError) as refusal:
        Recipe.build({"decide": {"x": 1}, "select": {"y": 2}})
    assert len(str(refusal.value).splitlines()) == 2


def test_a_threshold_in_logits_is_fine_on_the_logit_scale() -> None:
    recipe = Recipe.build({"teacher": {"scale": "logit"}, "decide": {"negative_below": -2.0, "positive_above": 3.0}})
    assert recipe.decide.negative_below == -2.0


def test_two_sources_of_one_kind_have_names_of_their_own() -> None:
    recipe = Recipe.build({"sources": {"small": {"kind": "dense", "model": "a/b"}, "dense": None}})
    assert [recipe.sources[name].kind for name in recipe.sources] == ["dense", "dense"]


def test_overrides_reach_any_field_and_keep_the_rest() -> None:
    recipe = Recipe().with_values({"decide.negative_below": 0.2, "sources.random.quota": 1, "teacher": None})
    assert recipe.decide.negative_below == 0.2
    assert recipe.decide.positive_above == 0.7
    assert list(recipe.sources) == ["bm25", "dense", "random"]
    assert recipe.teacher is None


def test_an_override_with_null_leaves_a_source_out() -> None:
    assert list(Recipe().with_values({"sources.dense": None}).sources) == ["bm25"]


def test_an_override_of_an_unknown_field_is_refused() -> None:
    with pytest.raises(RecipeError, match=r"decide\.negative_belo: unknown field; did you mean negative_below"):
        Recipe().with_values({"decide.negative_belo": 0.2})


def test_an_override_through_a_value_that_is_no_section_is_refused() -> None:
    with pytest.raises(RecipeError, match="seed is not a section"):
        Recipe().with_values({"seed.x": 1})


def test_yaml_round_trip_keeps_the_recipe(tmp_path: Path) -> None:
    recipe = Recipe.build({"collection": {"beir": "x"}, "sources": {"bm25": {"language": "german", "window": [2, 9]}}})
    (tmp_path / "r.yaml").write_text(recipe.to_yaml(), encoding="utf-8")
    assert Recipe.from_yaml(tmp_path / "r.yaml") == recipe


def test_a_recorded_recipe_has_every_field_of_every_kind_and_is_read_back() -> None:
    # versions of sets and runs are hashes of it: what is recorded of a recipe must stay what it was
    recipe = Recipe.build({"sources": {"bm25": {"k1": 1.2}, "near": {"kind": "dense", "model": "m"}}})
    sources = recipe.recorded()["sources"]
    assert sources["bm25"] == {
        "kind": None, "depth": 100, "quota": None, "window": None, "model": None, "index": None, "recall": 0.95,
        "language": "english", "tokenizer": "word", "method": "lucene", "k1": 1.2, "b": 0.75, "path": None,
    }  # fmt: skip
    assert (sources["near"]["kind"], sources["near"]["k1"]) == ("dense", 1.5)
    assert Recipe.build(recipe.recorded()) == recipe


def test_the_commented_recipe_names_every_field() -> None:
    text = commented_recipe({"beir": "data/x"})
    sections = [
        spec
        for name, spec in recipe_schema()["$defs"].items()
        if name not in ("CollectionSpec", "JudgeSpec", "LoraSpec")
    ]
    missing = {field for spec in sections for field in spec["properties"] if not re.search(rf"\b{field}\b", text)}
    assert not missing


def test_the_commented_recipe_is_the_default_recipe() -> None:
    text = commented_recipe({"beir": "data/x", "split": "train"})
    assert Recipe.build(yaml.safe_load(text)) == Recipe.build({"collection": {"beir": "data/x", "split": "train"}})


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"- a\n- b\n", "a recipe is a mapping of sections, not list"),
        (b"a: [1\n", "not valid YAML"),
        (b"seed: 1\nseed: 2\n", "seed stands twice, again in line 2"),
        (b"\xff\xfe\x00", "cannot be read"),
    ],
)
def test_a_file_that_is_no_recipe_is_refused(tmp_path: Path, content: bytes, sentence: str) -> None:
    (tmp_path / "r.yaml").write_bytes(content)
    with pytest.raises(RecipeError, match=sentence):
        Recipe.from_yaml(tmp_path / "r.yaml")


def test_a_missing_recipe_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="foolsgold init"):
        Recipe.from_yaml(tmp_path / "none.yaml")


def test_an_empty_recipe_is_the_default_recipe(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("", encoding="utf-8")
    assert Recipe.from_yaml(tmp_path / "r.yaml") == Recipe()


def test_a_batch_size_may_be_left_open_by_name() -> None:
    assert Recipe.build({"teacher": {"batch_size": "auto"}}).teacher == Recipe().teacher
    with pytest.raises(RecipeError, match=r"teacher\.batch_size"):
        Recipe.build({"teacher": {"batch_size": 0}})


def test_the_schema_takes_what_a_recipe_takes_and_names_what_it_does_not() -> None:
    schema = recipe_schema()
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    short = {
        "collection": {"pairs": "rows.csv"},
        "retriever": {"model": "m", "batch_size": "auto"},
        "sources": {"bm25": None, "dense": {"model": "m", "window": [0, 50]}},
        "teacher": None,
        "student": {"lora": True},
        "schedule": [{"name": "hard", "from": 0, "to": 2, "mode": "dense_ce_0.3"}],
    }
    Recipe.build(short)
    for recipe in (short, yaml.safe_load(Recipe().to_yaml()), yaml.safe_load(commented_recipe({"beir": "data"}))):
        assert [error.message for error in validator.iter_errors(recipe)] == []
    for wrong in ({"decide": {"negativ_below": 0.1}}, {"select": {"strategy": "best"}}, {"schedule": [{"name": "x"}]}):
        assert list(validator.iter_errors(wrong))
        with pytest.raises(RecipeError):
            Recipe.build(wrong)


def test_the_published_schema_is_the_recipes() -> None:
    published = Path(__file__).parents[2] / "docs" / "recipe.schema.json"
    assert json.loads(published.read_text(encoding="utf-8")) == recipe_schema(), "make schema writes it anew"


@pytest.mark.parametrize(
    ("index", "sentence"),
    [
        ("IVF0,Flat", "'IVF0' has IVF0, a number of at least 1 is needed there"),
        ("HNSW0", "'HNSW0' has HNSW0, a number of at least 2 is needed there"),
        ("HNSW1", "'HNSW1' has HNSW1, a number of at least 2 is needed there"),
        ("IVF16_HNSW0,Flat", "'IVF16_HNSW0' has HNSW0, a number of at least 2 is needed there"),
        ("IVF16(HNSW1),Flat", "has HNSW1, a number of at least 2"),
        ("RQ0x8", "'RQ0x8' has RQ0, a number of at least 1"),
        ("IVF16,PQ48x0", "'PQ48x0' has x0, a number of at least 1"),
        ("RR0,Flat", "'RR0' has RR0,"),
        ("OPQ4_0,Flat", "'OPQ4_0' has 0,"),
        ("PCAR0,Flat", "has PCAR0,"),
        ("IVF16,PQ4x4fs_0", "has 0,"),
        ("LSQ2x0", "has x0,"),
        ("PRQ2x0x4", "has x0,"),
        ("HNSW16_SQ0", "has SQ0,"),
        ("PQ4,Refine(SQ00)", "has SQ00,"),
    ],
)
def test_an_index_on_which_faiss_would_end_the_process_is_refused(index: str, sentence: str) -> None:
    with pytest.raises(RecipeError) as refusal:
        Recipe.build({"sources": {"dense": {"index": index}}})
    assert str(refusal.value).startswith("sources.dense.index: ")
    assert sentence in str(refusal.value)


@pytest.mark.parametrize(
    "index",
    ["IVF4096,PQ48x4fsr", "HNSW2", "HNSW", "IVF65536_HNSW32,SQ8", "OPQ16_64,IVF64k,PQ16", "IVF10,SQfp16", "PQ8,RFlat"],
)
def test_an_index_with_all_its_numbers_is_taken(index: str) -> None:
    assert Recipe.build({"sources": {"dense": {"index": index}}}).sources["dense"].index == index


@pytest.mark.parametrize("k1", [-1, 1001, 1e308, float("inf"), float("nan")])
def test_a_k1_that_scores_nothing_is_refused(k1: float) -> None:
    with pytest.raises(RecipeError, match=r"sources\.bm25\.k1"):
        Recipe.build({"sources": {"bm25": {"k1": k1}}})


def test_an_override_into_a_list_says_that_lists_are_set_whole() -> None:
    recipe = Recipe.build({"schedule": [{"name": "a", "from": 0, "to": 1, "mode": "bm25"}]})
    with pytest.raises(RecipeError, match=r"schedule\.0\.mode: schedule is not a section; a list is set whole"):
        recipe.with_values({"schedule.0.mode": "dense"})


def test_a_folder_is_no_recipe(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="is a folder; name the recipe's file"):
        Recipe.from_yaml(tmp_path)


@pytest.mark.parametrize(("short", "field"), [("lr", "learning_rate"), ("bs", "batch_size")])
def test_a_field_that_is_called_by_its_initials_is_named(short: str, field: str) -> None:
    with pytest.raises(RecipeError, match=f"student.{short}: unknown field; did you mean {field}"):
        Recipe().with_values({f"student.{short}": 1})
