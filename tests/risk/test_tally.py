"""False negatives planted in a collection small enough to count them by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from toy import TableTeacher, collection, run_file

import foolsgold as fg
from foolsgold.risk import Truth, by_hiding, by_judgements, tally
from foolsgold.risk.tally import by_rank

WORDS = ("apple", "bridge", "candle", "desert", "engine", "forest", "garden", "hammer", "island", "jacket")
DOCS = {word[0]: f"{word} {word[::-1]} {word * 2}" for word in WORDS}
QUERIES = {"q": "first question?", "r": "second question?"}


def _mine(tmp_path: Path, truth: Truth, lists: Mapping[str, Sequence[str]], teacher: Any, **sections: Any) -> Any:
    return fg.mine(
        truth.collection,
        retriever=None,
        sources={"run": {"path": str(run_file(tmp_path / "run.txt", lists))}},
        teacher=teacher,
        out=tmp_path / "mined",
        **{"select": {"strategy": "top", "per_query": 4}, **sections},
    )


def _judged(judged: Mapping[str, Mapping[str, int]]) -> Truth:
    truth = by_judgements(replace(collection(DOCS, QUERIES, judged), relevant_from=2))
    assert truth is not None
    return truth


# q: `a` stays, `b` and `h` are false negatives, `c` and `d` are judged not relevant, the others are not judged
GRADES = {"q": {"a": 3, "b": 2, "h": 2, "c": 1, "d": 0}, "r": {"b": 3, "c": 0}}
LISTS = {"q": ["a", "b", "c", "e", "d", "f", "g", "h"], "r": ["c", "i"]}


def test_planted_false_negatives_are_counted_exactly(tmp_path: Path) -> None:
    truth = _judged(GRADES)
    found = tally(_mine(tmp_path, truth, LISTS, None), truth)
    # q takes b, c, e, d (relevant, not, not judged, not), r takes c and i (not, not judged)
    assert (found.queries, found.without_negatives, found.asked) == (2, 0, 8)
    assert (found.negatives, found.known, found.relevant) == (6, 4, 1)
    assert found.rate.value == 0.25
    assert found.returned is not None
    assert (found.returned.count, found.returned.of) == (1, 2)  # b came back, h was over budget


def test_a_teacher_that_knows_throws_them_back(tmp_path: Path) -> None:
    truth = _judged(GRADES)
    teacher = TableTeacher({text: 0.9 if doc in "abh" else 0.1 for doc, text in DOCS.items()})
    found = tally(_mine(tmp_path, truth, {"q": ["a", "b", "h"], "r": ["c", "i"]}, teacher), truth)
    # q has nothing left; r's positive is b
    assert (found.negatives, found.known, found.relevant, found.without_negatives) == (2, 1, 0, 1)
    assert found.returned is not None
    assert (found.returned.count, found.returned.of) == (0, 2)


def test_hidden_positives_never_leak_in_as_known_ones(tmp_path: Path) -> None:
    for seed in range(4):
        truth = by_hiding(collection(DOCS, QUERIES, {"q": {"a": 1, "b": 1, "c": 1}}), seed=seed)
        assert truth is not None
        mined = _mine(tmp_path, truth, {"q": list(DOCS)}, None)
        (stays,) = mined.positives["doc_id"].to_pylist()
        verdicts = {row["doc_id"]: (row["verdict"], row["reason"]) for row in mined.ledger().to_pylist()}
        assert verdicts.pop(stays) == ("excluded", "known_positive")
        assert set(verdicts.values()) == {("negative", "no_filter")}
        found = tally(mined, truth)
        assert (found.negatives, found.known, found.relevant, found.within_reach) == (4, 4, 2, 2)


def test_a_hidden_positive_that_no_source_proposes_is_not_within_reach(tmp_path: Path) -> None:
    judged = {"q": {"a": 1, "b": 1, "c": 1}}
    truth = next(
        truth
        for seed in range(20)
        if (truth := by_hiding(collection(DOCS, QUERIES, judged), seed=seed))
        and truth.collection.positive_rows.tolist() == [0]
    )
    found = tally(_mine(tmp_path, truth, {"q": ["d", "e", "b"]}, None), truth)
    assert (found.negatives, found.relevant, found.within_reach) == (3, 1, 1)


def test_the_rate_by_rank_counts_places_after_exclusion(tmp_path: Path) -> None:
    truth = _judged(GRADES)
    bands = by_rank(_mine(tmp_path, truth, LISTS, None), truth, "run")
    # q: a is excluded, then 1 b, 2 c, 3 e, 4 d, 5 f, 6 g, 7 h; r: 1 c, 2 i. Only b, c, d, h and r's c are judged.
    counted = {(band.first, band.last): (band.rate.count, band.rate.of) for band in bands}
    assert counted == {(1, 1): (1, 2), (2, 2): (0, 1), (3, 5): (0, 1), (6, 10): (1, 1)}


def test_the_rate_by_rank_leaves_out_what_the_teacher_throws_back(tmp_path: Path) -> None:
    truth = _judged(GRADES)
    teacher = TableTeacher({text: 0.9 if doc in "ab" else 0.1 for doc, text in DOCS.items()})
    mined = _mine(tmp_path, truth, LISTS, teacher, select={"strategy": "top", "per_query": 8})
    counted = {(band.first, band.last): (band.rate.count, band.rate.of) for band in by_rank(mined, truth, "run")}
    assert counted == {(1, 1): (0, 1), (2, 2): (0, 1), (3, 5): (0, 1), (6, 10): (1, 1)}


@pytest.mark.parametrize("reference", ["min", "each"])
def test_every_positive_that_is_mined_for_apart_has_places_of_its_own(tmp_path: Path, reference: str) -> None:
    truth = replace(_judged(GRADES), collection=collection(DOCS, QUERIES, {"q": {"a": 1, "b": 1}}))
    truth = replace(truth, relevance=_judged({"q": {"a": 3, "c": 2, "d": 0}}).relevance)
    teacher = TableTeacher({text: 0.9 if doc in "ab" else 0.1 for doc, text in DOCS.items()})
    mined = _mine(tmp_path, truth, {"q": ["a", "c", "d"]}, teacher, decide={"positive_reference": reference})
    units = 2 if reference == "each" else 1
    counted = {(band.first, band.last): (band.rate.count, band.rate.of) for band in by_rank(mined, truth, "run")}
    assert counted == {(1, 1): (units, units), (2, 2): (0, units)}
