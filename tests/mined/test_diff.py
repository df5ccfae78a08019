"""What changed between two mined sets, worked out by hand from their ledgers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toy import TableTeacher, collection, run_file

import foolsgold as fg
from foolsgold.mined.mined_set import MinedSet

DOCS = {"p": "one", "a": "two", "b": "three", "c": "four", "d": "five", "e": "six"}
BEFORE = {"one": 0.9, "two": 0.1, "three": 0.2, "four": 0.5, "five": 0.05, "six": 0.2}


def _mine(tmp_path: Path, docs: list[str], scores: dict[str, float] = BEFORE, **sections: Any) -> MinedSet:
    return fg.mine(
        collection(DOCS, {"q": "count"}, {"q": {"p": 1}}),
        retriever=None,
        teacher=TableTeacher(scores),
        sources={"run": {"path": str(run_file(tmp_path / "run.txt", {"q": docs}))}},
        out=tmp_path / "mined",
        **({"select": {"strategy": "top", "per_query": 2}} | sections),
    )


def test_where_negatives_came_from_and_where_they_went(tmp_path: Path) -> None:
    # before: a and b are selected, d is over the budget's reach, c was thrown back as ambiguous; e is no candidate
    before = _mine(tmp_path, ["a", "b", "c", "d"])
    # after: e comes first, a is found to be a false negative, b stays
    after = _mine(tmp_path, ["e", "a", "b", "c", "d"], BEFORE | {"two": 0.95}, seed=14)
    change = before.diff(after.path)
    assert (change.added, change.removed, change.kept) == ([("q", "e")], [("q", "a")], [("q", "b")])
    assert change.by_source == {"run": {"added": 1, "removed": 1, "kept": 1}}
    assert change.added_were == {"not_a_candidate": 1}
    assert change.removed_are == {"above_positive_threshold": 1}
    assert change.flipped == {("negative", "false_negative"): 1}
    [flip] = change.flips.to_pylist()
    assert (flip["doc_id"], flip["selected_before"], flip["selected_after"]) == ("a", True, False)
    assert change.recipe == {"seed": (13, 14)}
    assert set(change.models) == {"sources.run.sha256", "teacher.fingerprint"}  # another run file, another teacher
    said = str(change)
    assert "removed, now: above positive threshold 1" in said
    assert "1 candidates went from negative to false negative" in said


def test_a_set_beside_itself_changes_nothing(tmp_path: Path) -> None:
    mined = _mine(tmp_path, ["a", "b", "c", "d"])
    change = mined.diff(mined)
    assert (change.added, change.removed, change.recipe, change.models) == ([], [], {}, {})
    assert change.kept == [("q", "a"), ("q", "b")]
    assert len(change.flips) == 0
    assert str(change) == "0 added, 0 removed, 2 kept\n  run: 0 added, 0 removed, 2 kept"


def test_what_was_over_budget_is_told_from_what_was_thrown_back(tmp_path: Path) -> None:
    before = _mine(tmp_path, ["a", "c", "b", "d"], select={"strategy": "top", "per_query": 1})
    after = _mine(tmp_path, ["a", "c", "b", "d"], decide={"negative_below": 0.6})
    change = before.diff(after)
    assert change.added == [("q", "c")]
    assert change.added_were in ({"between_thresholds": 1}, {"not_needed": 1})


def test_negatives_of_each_positive_are_told_apart(tmp_path: Path) -> None:
    def mine(per_query: int) -> MinedSet:
        return fg.mine(
            collection(DOCS, {"q": "count"}, {"q": {"p": 1, "a": 1}}),
            retriever=None,
            teacher=TableTeacher(BEFORE | {"two": 0.9}),
            sources={"run": {"path": str(run_file(tmp_path / "run.txt", {"q": ["b", "d", "e"]}))}},
            decide={"positive_reference": "each"},
            select={"strategy": "top", "per_query": per_query},
            out=tmp_path / "each",
        )

    change = mine(1).diff(mine(2))
    assert change.pairs["positive_id"].to_pylist() == ["a", "a", "p", "p"]
    assert change.added == [("q", "d")]  # for both positives, and named once
    assert change.by_source == {"run": {"added": 2, "removed": 0, "kept": 2}}


def test_sets_that_share_no_id_are_matched_by_text(tmp_path: Path) -> None:
    before = _mine(tmp_path, ["a", "b", "c", "d"])
    # another's file lists "three" (b, which stays), and "seven", which no document of the collection says
    file = tmp_path / "other.jsonl"
    file.write_text('{"query": "Count", "pos": ["one"], "neg": ["three ", "seven"]}\n', encoding="utf-8")
    after = fg.import_set(file, out=tmp_path / "imported")
    assert set(after.ledger()["doc_id"].to_pylist()).isdisjoint(DOCS)
    change = before.diff(after)
    assert change.by_text == ("queries", "documents")
    assert (change.kept, change.removed) == ([("q", "b")], [("q", "a")])
    [(query, seven)] = change.added
    assert query == "q"
    assert seven in after.ledger()["doc_id"].to_pylist()
    assert str(change).startswith("the two share no ids of queries and documents, which are matched by text\n1 added")
    # and the other way round: the ids of the first set are then the file's
    back = after.diff(before)
    assert len(back.kept) == 1
    assert len(back.removed) == 1
    assert back.added == [(back.kept[0][0], "a")]


def test_texts_that_occur_twice_are_not_counted_twice(tmp_path: Path) -> None:
    file = tmp_path / "other.jsonl"
    file.write_text('{"query": "count", "pos": ["one"], "neg": ["two"]}\n', encoding="utf-8")
    before = fg.import_set(file, out=tmp_path / "imported")
    twice = collection(DOCS | {"a2": "two"}, {"q": "count"}, {"q": {"p": 1}})
    run = run_file(tmp_path / "run.txt", {"q": ["a", "b"]})
    after = fg.mine(twice, retriever=None, teacher=None, sources={"run": {"path": str(run)}}, out=tmp_path / "mined")
    change = before.diff(after)
    assert (len(change.kept), [doc for _, doc in change.added], change.removed) == (1, ["b"], [])
    assert sum(sum(counts.values()) for counts in change.by_source.values()) == 2
