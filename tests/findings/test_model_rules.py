"""FG005, FG012 and FG018: what models are given, and which of two is stronger."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import foolsgold as fg

if TYPE_CHECKING:
    from conftest import Beir, Codes


def _model(folder: Path, prompts: dict[str, str] | None = None, max_length: int | None = None) -> str:
    """An embedding model's configuration, and a tokeniser for which every word is a token."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder.mkdir(parents=True)
    (folder / "modules.json").write_text("[]")
    if prompts is not None:
        (folder / "config_sentence_transformers.json").write_text(json.dumps({"prompts": prompts}))
    if max_length is not None:
        (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": max_length}))
    made = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.save(str(folder / "tokenizer.json"))
    return str(folder)


BOTH = {"query": "query: ", "passage": "passage: "}


@pytest.mark.parametrize(
    ("prompts", "spec", "at"),
    [
        (BOTH, {}, []),
        (BOTH, {"query_prompt": "ask: ", "document_prompt": "text: "}, []),
        (BOTH, {"query_prompt": ""}, ["query_prompt"]),
        (BOTH, {"query_prompt": "", "document_prompt": ""}, ["query_prompt", "document_prompt"]),
        ({"query": "", "document": ""}, {}, []),
        (None, {}, []),
        ({"web_search": "Find: "}, {}, ["query_prompt"]),
        ({"web_search": "Find: "}, {"query_prompt": "Find: "}, []),
    ],
)
def test_prompts_that_a_model_has_and_a_recipe_does_without(
    prompts: dict[str, str] | None, spec: dict[str, str], at: list[str], tmp_path: Path
) -> None:
    found = fg.check({"retriever": {"model": _model(tmp_path / "model", prompts), **spec}}, select=["FG012"])
    assert [finding.place for finding in found] == [f"recipe: retriever.{field}" for field in at]


def test_the_prompts_of_a_student_of_another_model_are_its_own(tmp_path: Path) -> None:
    student = {"model": _model(tmp_path / "student", BOTH), "query_prompt": ""}
    recipe = {"retriever": {"model": _model(tmp_path / "retriever", BOTH)}, "student": student}
    assert [finding.place for finding in fg.check(recipe, select=["FG012"])] == ["recipe: student.query_prompt"]


def test_a_hub_model_is_read_from_the_hubs_cache_and_never_fetched(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    recipe = {"retriever": {"model": "org/name", "query_prompt": ""}}
    found = fg.check(recipe, select=["FG012"])
    assert found == []
    assert found.unchecked[0].why == "org/name: is not on this machine, and a check downloads nothing"
    repository = tmp_path / "models--org--name"
    _model(repository / "snapshots" / "abc", BOTH)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("abc")
    assert [finding.place for finding in fg.check(recipe, select=["FG012"])] == ["recipe: retriever.query_prompt"]


def _documents(longer: int) -> dict[str, str]:
    """Twenty documents of five words, but for some that have six."""
    return {f"d{i}": " ".join(f"word{i}{j}" for j in range(6 if i < longer else 5)) for i in range(20)}


@pytest.mark.parametrize(("longer", "said"), [(2, []), (3, ["15% of the documents are longer (of 20)"])])
def test_documents_longer_than_a_model_reads(longer: int, said: list[str], beir: Beir, tmp_path: Path) -> None:
    folder = beir({"train": {"q": "d0"}}, {"q": "who"}, _documents(longer))
    recipe = {
        "collection": {"beir": str(folder)},
        "retriever": {"model": _model(tmp_path / "model", max_length=5)},
        "teacher": None,
    }
    found = fg.check(recipe, select=["FG018"])
    assert [finding.said.split(", and ")[1] for finding in found] == said
    assert found.unchecked == ()
    longest = {**recipe["retriever"], "max_length": 4}
    assert "reads 4 tokens, and 100%" in fg.check(recipe | {"retriever": longest}, select=["FG018"])[0].said


def test_a_cross_encoder_reads_query_and_document_together(beir: Beir, tmp_path: Path) -> None:
    folder = beir({"train": {"q": "d0"}}, {"q": "who is it"}, _documents(0))
    model = Path(_model(tmp_path / "teacher"))
    (model / "modules.json").unlink()
    recipe = {"collection": {"beir": str(folder)}, "retriever": None, "sources": {"bm25": {}}}
    recipe["student"] = {"model": _model(tmp_path / "student", max_length=5)}
    for length, faults in ((8, []), (7, ["recipe: teacher.max_length"])):
        found = fg.check(recipe | {"teacher": {"model": str(model), "max_length": length}}, select=["FG018"])
        assert [finding.place for finding in found] == faults
        assert found.unchecked == ()


def test_what_has_no_tokeniser_or_limit_is_said_to_be_unknown(beir: Beir, tmp_path: Path) -> None:
    folder = beir({"train": {"q": "d0"}}, {"q": "who"}, _documents(0))
    recipe = {"collection": {"beir": str(folder)}, "retriever": {"model": _model(tmp_path / "model")}, "teacher": None}
    assert fg.check(recipe, select=["FG018"]).unchecked[0].why.endswith("does not say how many tokens it reads")
    (tmp_path / "model" / "tokenizer.json").unlink()
    assert fg.check(recipe, select=["FG018"]).unchecked[0].why.endswith("has no tokenizer.json to count tokens with")


JUDGE = '''
def knows(pairs):
    """A query and its document have a number and a part in common: ask7 one, body7 one."""
    return [float(_of(query) == _of(document)) for query, document in pairs]


def errs(pairs):
    return [1 - score for score in knows(pairs)]


def _of(text):
    number, part, *_ = text.split()
    return number.lstrip("askbody"), part
'''


def test_a_teacher_is_held_against_the_student_on_held_out_queries(
    beir: Beir, tmp_path: Path, monkeypatch: Any, codes: Codes
) -> None:
    pytest.importorskip("sentence_transformers", reason="needs the torch extra")
    import small_training as small

    of = small.collection()
    documents, queries = (
        dict(zip(texts.ids.to_pylist(), texts.texts.to_pylist(), strict=True)) for texts in (of.documents, of.queries)
    )
    judged = {query: f"d{query[1:]}" for query in queries}
    folder = beir({"train": judged}, queries, documents)
    (tmp_path / "judge_of_tests.py").write_text(JUDGE)
    monkeypatch.syspath_prepend(tmp_path)
    recipe = {
        "collection": {"beir": str(folder)},
        "retriever": {"model": str(small.student(tmp_path / "student", knows=True)), "device": "cpu"},
        "evaluation": {"held_out": 0.25},
    }
    knowing, erring = (
        recipe | {"teacher": {"kind": "callable", "model": f"judge_of_tests:{name}"}} for name in ("knows", "errs")
    )
    assert fg.check(knowing, select=["FG005"]).unchecked[0].why.endswith("--measure does so")
    strong = fg.check(knowing, select=["FG005"], measure=True)
    assert strong == []
    assert strong.unchecked == ()
    weak = fg.check(erring, select=["FG005"], measure=True)
    assert [finding.place for finding in weak] == ["recipe: teacher.model"]
    assert weak[0].said.startswith("nDCG@10 0.")
    static = fg.check(knowing | {"student": {"static": True}}, select=["FG005"], measure=True)
    assert "check the run" in static.unchecked[0].why
