"""Each rule that reads a mined set: a set with the fault and one without, mined from run files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import foolsgold as fg
from foolsgold.errors import MinedSetError
from foolsgold.mined.mined_set import MinedSet

if TYPE_CHECKING:
    from conftest import Beir, Codes, Mine

GOOD = {"p": 0.95, "a": 0.01, "b": 0.02, "c": 0.05, "d": 0.1}
LISTS = {"q": ["a", "b"], "r": ["a", "c"]}


def _said(thing: Any, code: str) -> list[str]:
    return [f"{finding.place.split(': ')[-1]}: {finding.said}" for finding in fg.check(thing) if finding.code == code]


def _unchecked(thing: Any, code: str) -> list[str]:
    return [one.why for one in fg.check(thing).unchecked if one.code == code]


def _rewrite(mined: MinedSet, **facts: Any) -> MinedSet:
    """The set with other facts in its manifest."""
    file = mined.path / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | facts))
    return MinedSet(mined.path, mined.collection)


def test_a_good_set_has_no_error_and_lacks_labels_only(mine: Mine) -> None:
    found = fg.check(mine(LISTS, GOOD))
    assert [finding.code for finding in found] == ["FG008"]


def test_places_name_the_set_and_the_file_or_field(mine: Mine) -> None:
    mined = mine(LISTS, None)
    places = {finding.code: finding.place for finding in fg.check(mined)}
    assert places == {"FG001": f"{mined.path}: teacher", "FG019": f"{mined.path}: negatives.parquet"}


def test_training_rules_are_not_asked_of_a_set(mine: Mine, codes: Codes) -> None:
    student = {"batch_size": 8, "masks": False, "batches": "random", "epochs": 5}
    assert "FG015" in codes({"student": student})
    assert codes(mine(LISTS, GOOD, student=student)) == ["FG008"]


def test_more_than_eight_negatives_of_a_query_are_counted(mine: Mine) -> None:
    documents = {"p": "right"} | {f"d{i}": f"text {i} {'x' * i * 7}" for i in range(9)}
    scores = {"p": 0.95} | {f"d{i}": 0.01 for i in range(9)}
    lists = {"q": [f"d{i}" for i in range(9)], "r": [f"d{i}" for i in range(8)]}
    wide = mine(lists, scores, documents=documents, select={"per_query": 9, "cap": 9})
    assert _said(wide, "FG006") == ["negatives.parquet: 1 queries have more than 8 negatives, up to 9"]
    assert _said(mine(lists, scores, documents=documents, select={"per_query": 8}), "FG006") == []


def test_logits_that_are_said_to_be_probabilities(mine: Mine) -> None:
    logits = {"p": 6.0, "a": -4.0, "b": -3.0, "c": -2.0, "d": -5.0}
    decide = {"negative_below": -1.0, "positive_above": 2.0}
    mined = mine(LISTS, logits, scale="logit", decide=decide)
    assert _said(mined, "FG009") == []
    recipe = mined.manifest["recipe"] | {
        "decide": mined.manifest["recipe"]["decide"] | {"negative_below": 0.3, "positive_above": 0.7}
    }
    recipe["teacher"] = recipe["teacher"] | {"scale": "probability"}
    wrong = _rewrite(mined, recipe=recipe, teacher=mined.manifest["teacher"] | {"scale": "probability"})
    assert _said(wrong, "FG009") == [
        "positives.parquet: teacher scores from 6 to 6 are said to be probabilities; they look like logits"
    ]


def test_probabilities_that_are_said_to_be_logits(mine: Mine) -> None:
    decide = {"negative_below": -0.5, "positive_above": 2.0, "ambiguous": "weight"}
    lists = {f"q{i}": ["a", "b"] for i in range(50)}
    mined = mine(lists, GOOD, scale="logit", decide=decide)
    assert "50 teacher scores, all from 0.95 to 0.95, are said to be logits" in _said(mined, "FG009")[0]
    few = mine({f"q{i}": ["a"] for i in range(20)}, GOOD, scale="logit", decide=decide)
    assert _said(few, "FG009") == []


def test_random_fill_is_measured_by_what_was_selected(mine: Mine) -> None:
    documents = {"p": "right"} | {f"d{i}": f"text {i} {'x' * i * 7}" for i in range(12)}
    scores = {"p": 0.95} | {f"d{i}": 0.01 for i in range(12)}
    lists = {"q": [f"d{i}" for i in range(6)]}
    drawn = {"random": {"depth": 12, "quota": 2}}
    mined = mine(lists, scores, documents=documents, more_sources=drawn, select={"per_query": 4})
    assert _said(mined, "FG013") == ["negatives.parquet: 50% of the negatives are from random"]
    assert _said(mine(lists, scores, documents=documents, select={"per_query": 4}), "FG013") == []


def test_a_document_that_is_everyones_negative_is_a_hub(mine: Mine) -> None:
    documents = {"p": "right", "hub": "sign up {now}"}
    documents |= {f"d{i}": f"text {i} {'x' * i}" for i in range(90)}
    scores = {"p": 0.95} | {doc: 0.01 for doc in documents if doc != "p"}
    lists = {f"q{i}": ["hub", *(f"d{3 * i + j}" for j in range(3))] for i in range(30)}
    mined = mine(lists, scores, documents=documents)
    # 30 of 120 negatives; the mean document is a negative of 120 / 91 queries
    assert _said(mined, "FG014") == [
        "negatives.parquet: 25.0% of the negatives are hubs, first of all hub (30 queries) (limit 5%)"
    ]
    assert _said(mine(LISTS, GOOD), "FG014") == []
    assert _unchecked(mine(LISTS, GOOD, audit={"max_hubs": None}), "FG014") == [
        "audit.max_hubs is null, so that its gate is off"
    ]


def test_positives_that_the_teacher_would_call_negatives(mine: Mine) -> None:
    assert _said(mine(LISTS, GOOD | {"p": 0.2}), "FG017") == [
        "positives.parquet: 100.0% of the queries have a positive that the teacher would call a negative (limit 10%)"
    ]
    assert _said(mine(LISTS, GOOD), "FG017") == []
    assert _said(mine(LISTS, None), "FG017") == []


def test_margins_that_fail_their_gates_are_errors(mine: Mine) -> None:
    assert [one.split(":")[1] for one in _said(mine(LISTS, GOOD | {"p": 0.02}), "FG021")] == [
        " mean of the positive's teacher score minus the negative's, in logits",
        " share of negatives that the teacher scores above their positive",
    ]
    assert _said(mine(LISTS, GOOD), "FG021") == []


def test_a_set_that_no_teacher_scored_has_no_margins(mine: Mine) -> None:
    assert _said(mine(LISTS, None), "FG019") == ["negatives.parquet: none of the 4 negatives has a margin"]
    assert _said(mine(LISTS, GOOD), "FG019") == []


@pytest.mark.parametrize(("labels", "enough"), [(99, False), (100, True)])
def test_answers_in_the_sets_folder_validate_its_threshold(labels: int, enough: bool, mine: Mine) -> None:
    lists = {f"q{i:03}": ["a"] for i in range(100)}
    mined = mine(lists, GOOD)
    rows = [{"query_id": f"q{i:03}", "doc_id": "a", "label": "relevant" if i < 3 else "not"} for i in range(labels)]
    (mined.path / "labels.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    expected = (
        [] if enough else ["labels.jsonl: 99 labelled pairs in labels.jsonl; of 99 below the threshold 3 are relevant"]
    )
    assert [said.split(" (")[0] for said in _said(mined, "FG008")] == expected


def test_labels_that_cannot_be_read_are_said_to_be_unreadable(mine: Mine) -> None:
    mined = mine(LISTS, GOOD)
    (mined.path / "labels.jsonl").write_text('{"query_id": "q", "doc_id": "a", "label": "perhaps"}\n')
    assert "line 1" in _unchecked(mined, "FG008")[0]


QUERIES = {"t1": "who", "t2": "what", "e1": "where", "e2": "What", "e3": "when"}


@pytest.mark.parametrize(
    ("test", "said"),
    [
        ({"e1": "a"}, []),
        ({"e1": "a", "t1": "p"}, ["collection.split: of the 2 queries of test 1 are in train by id and 1 by text"]),
        ({"e1": "a", "e2": "p"}, ["collection.split: of the 2 queries of test 0 are in train by id and 1 by text"]),
    ],
)
def test_queries_of_train_and_test_by_id_and_by_text(test: dict[str, str], said: list[str], beir: Beir) -> None:
    folder = beir({"train": {"t1": "p", "t2": "p"}, "test": test}, QUERIES)
    assert _said({"collection": {"beir": str(folder)}}, "FG011") == said


def test_any_split_that_the_recipe_evaluates_on_must_be_apart_and_no_other(beir: Beir) -> None:
    folder = beir({"train": {"t1": "p", "t2": "p"}, "small": {"t1": "p"}}, QUERIES)
    recipe = {"collection": {"beir": str(folder)}}
    assert _said(recipe, "FG011") == []
    assert len(_said(recipe | {"evaluation": {"split": "small"}}, "FG011")) == 1
    assert "no split 'gone'" in _unchecked(recipe | {"evaluation": {"split": "gone"}}, "FG011")[0]


def test_negatives_that_another_split_holds_for_answers_leak(beir: Beir, tmp_path: Path) -> None:
    folder = beir({"train": {"t1": "p", "t2": "p"}, "test": {"t1": "a"}}, QUERIES)
    sources = {"random": {"depth": 5}}
    mined = fg.mine(f"beir:{folder}", teacher=None, retriever=None, sources=sources, out=tmp_path / "mined")
    # t1 and t2 each have a, b, c and d: one of eight
    assert _said(mined, "FG011") == [
        "negatives.parquet: 12.50% of the negatives are positives of their query in test, such as a of t1",
        "collection.split: of the 1 queries of test 1 are in train by id and 1 by text",
    ]


def test_a_collection_that_would_be_downloaded_is_left_alone() -> None:
    assert "downloaded" in _unchecked({"collection": {"hf": "org/pairs"}}, "FG011")[0]


@pytest.mark.parametrize(
    ("created", "sets", "stale"), [("2999", [], True), ("1999", [], False), ("1999", ["own"], True)]
)
def test_a_set_older_than_the_model_it_is_to_train(
    created: str, sets: list[str], stale: bool, mine: Mine, tmp_path: Path
) -> None:
    mined = mine(LISTS, GOOD)
    model = tmp_path / "model"
    model.mkdir()
    facts = {"recipe": {}, "sets": [mined.version for _ in sets], "created": f"{created}-01-01T00:00:00+00:00"}
    (model / "foolsgold.json").write_text(json.dumps(facts))
    found = fg.check(mined, select=["FG020"], values={"student.model": str(model)})
    assert bool(found) == stale
    assert found.unchecked == ()


def test_whether_a_set_is_older_than_a_model_without_a_date_is_not_guessed(mine: Mine, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    found = fg.check(mine(LISTS, GOOD), select=["FG020"], values={"student.model": str(tmp_path / "plain")})
    assert found == []
    assert "does not say when it was trained" in found.unchecked[0].why


def test_of_a_folder_of_sets_the_newest_is_checked(mine: Mine) -> None:
    mine(LISTS, GOOD)
    newest = mine(LISTS, GOOD | {"p": 0.2})
    assert {finding.place.split(": ")[0] for finding in fg.check(newest.path.parent)} == {str(newest.path)}


def test_a_recipe_of_another_version_in_a_set_is_one_sentence(mine: Mine) -> None:
    mined = mine(LISTS, GOOD)
    file = mined.path / "manifest.json"
    facts = json.loads(file.read_text())
    facts["recipe"]["of_another_version"] = 1
    file.write_text(json.dumps(facts))
    with pytest.raises(MinedSetError, match="not one of this version of foolsgold"):
        fg.check(mined.path)
