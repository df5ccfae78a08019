from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from toy import TableTeacher, collection

import foolsgold as fg
from foolsgold.calibration import load
from foolsgold.collection import Collection
from foolsgold.errors import CollectionError, RecipeError
from foolsgold.risk import Risk, measure
from foolsgold.risk.plot import save_plots

WORDS = ("apple", "bridge", "candle", "desert", "engine", "forest", "garden", "hammer", "island", "jacket")
DOCS = {word[0]: f"{word} {word[::-1]} fruit" for word in WORDS}
QUERIES = {"q": "fruit apple", "r": "fruit bridge"}
POSITIVES = {"q": {"a": 1, "b": 1}, "r": {"a": 1, "b": 1}}
TEACHER = {text: 0.9 if doc in "ab" else 0.1 for doc, text in DOCS.items()}
RECIPE = fg.Recipe.build(
    {"retriever": None, "sources": {"bm25": {"depth": 9}}, "select": {"strategy": "top", "per_query": 2}}
)


def _collection(judged: dict[str, dict[str, int]] = POSITIVES) -> Collection:
    return collection(DOCS, QUERIES, judged)


def _measured(**options: object) -> Risk:
    return measure(_collection(), RECIPE, **{"depth": 10, "teacher": TableTeacher(TEACHER), **options})


def test_rows_come_by_way_then_method_then_filter() -> None:
    rows = [(row.way, row.method.name, row.filtered) for row in _measured().rows]
    names = ("random", "bm25", "dense", "nearest", "self", "recipe")
    assert rows == [("hidden", name, filtered) for name in names for filtered in (False, True)]


def test_what_cannot_be_mined_is_said_to_be_missing() -> None:
    missing = {row.method.name: row.missing for row in _measured().rows if row.tally is None}
    assert set(missing) == {"dense", "nearest", "self"}
    assert "no retriever" in str(missing["dense"])
    assert "--student" in str(missing["self"])


def test_each_method_is_counted() -> None:
    # of each query's two positives one is hidden; all ten documents are within reach of both methods
    by_name = {(row.method.name, row.filtered): row.tally for row in _measured().rows}
    for name in ("random", "bm25", "recipe"):
        found = by_name[name, False]
        assert found is not None
        assert (found.queries, found.negatives, found.known, found.within_reach) == (2, 4, 4, 2)
        caught = by_name[name, True]
        assert caught is not None
        assert (caught.negatives, caught.relevant, caught.within_reach) == (4, 0, 2)


def test_one_seed_gives_one_answer_and_the_seed_counts() -> None:
    assert _measured().to_json() == _measured().to_json()
    recipes = [RECIPE.with_values({"seed": seed, "teacher": None}) for seed in range(6)]
    answers = [measure(_collection(), recipe, depth=10).to_json() for recipe in recipes]
    assert any(answer != answers[0] for answer in answers)


def test_a_calibrated_judge_estimates_every_negative_filtered_or_not() -> None:
    class Judge:
        def probability(self, table: pa.Table, scale: str) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
            assert scale == "probability"
            return table["teacher_score"].to_numpy() / np.float32(2)

    one_positive = _collection({"q": {"a": 1}, "r": {"b": 1}})
    found = measure(one_positive, RECIPE, depth=10, calibration=Judge(), teacher=TableTeacher(TEACHER))
    assert found.ways == ("estimated",)
    by_name = {(row.method.name, row.filtered): row.tally for row in found.rows if row.tally}
    for (name, filtered), counts in by_name.items():
        assert counts.known == counts.negatives == 4, (name, filtered)
        assert counts.within_reach is None
    # the recipe takes the two best of BM25: for q (fruit apple) all others score alike, so b, c by row; for r a, c
    assert by_name["recipe", False].relevant == pytest.approx(2 * 0.45 + 2 * 0.05)
    assert by_name["recipe", True].relevant == pytest.approx(4 * 0.05)


def test_a_judge_without_a_teacher_is_refused() -> None:
    with pytest.raises(RecipeError, match="has no teacher"):
        measure(_collection(), RECIPE.with_values({"teacher": None}), depth=10, calibration=object())  # type: ignore[arg-type]


def test_without_a_teacher_nothing_is_filtered_and_that_is_said() -> None:
    found = measure(_collection(), RECIPE.with_values({"teacher": None}), depth=10)
    assert not any(row.filtered for row in found.rows)
    assert any("no teacher" in note for note in found.notes)


def test_a_collection_that_cannot_tell_says_what_it_lacks() -> None:
    with pytest.raises(CollectionError, match=r"second positive.*not relevant.*--calibration"):
        measure(_collection({"q": {"a": 1}, "r": {"b": 1}}), RECIPE, depth=10)


def test_a_depth_below_the_budget_is_refused() -> None:
    with pytest.raises(RecipeError, match="depth is 1"):
        _measured(depth=1)


def test_what_mine_warns_of_is_not_repeated_and_the_logger_is_left_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("foolsgold.mine")
    before = logger.level
    _measured()
    assert not [record for record in caplog.records if record.name == "foolsgold.mine"]
    assert logger.level == before


def test_curves_are_of_methods_with_ranks_and_agree_with_the_rows() -> None:
    found = _measured()
    assert {(curve.method.name, curve.filtered) for curve in found.curves} == {("bm25", False), ("bm25", True)}
    unfiltered = next(curve for curve in found.curves if not curve.filtered)
    # nine candidates a query are left after exclusion, and one of them is the hidden positive
    assert sum(band.rate.of for band in unfiltered.bands) == 18
    assert sum(band.rate.count for band in unfiltered.bands) == 2


def test_plots_are_written_as_the_same_bytes_each_time(tmp_path: Path) -> None:
    found = _measured()
    first, second = (save_plots(found, tmp_path / name) for name in ("one", "two"))
    for one, two in zip(first, second, strict=True):
        assert one.read_bytes() == two.read_bytes()
    assert first[0].name == "risk.svg"
    text = first[0].read_text(encoding="utf-8")
    assert "bm25, filtered" in text
    assert "hidden positives among the negatives" in text
    assert first[1].read_bytes().startswith(b"\x89PNG")


def test_a_calibration_of_another_teacher_is_refused_before_anything_is_mined() -> None:
    other = load("default").model_copy(update={"name": "mine.json"})  # the default alone takes any teacher
    teacher = TableTeacher(TEACHER)
    with pytest.raises(RecipeError, match=r"calibration mine.json was made for the teacher .*, not for TableTeacher"):
        measure(_collection(), RECIPE, depth=10, calibration=other, teacher=teacher)
    assert teacher.read == []
