"""Evaluations: saved, loaded, compared."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from foolsgold.commands.evaluate import _table
from foolsgold.errors import EvaluationError
from foolsgold.evaluation.result import Evaluation


def _evaluation(model: str = "before", shift: float = 0.0, **values: list[float]) -> Evaluation:
    scored = values or {"nDCG@10": [0.2, 0.4, 0.6], "MRR@10": [1.0, 0.5, 0.0]}
    return Evaluation(
        model=model,
        collection="toy, test",
        digest="abc",
        query_ids=("q1", "q2", "q3"),
        values={name: np.array(scores) + shift for name, scores in scored.items()},
        about={"similarity": "cosine"},
    )


def test_means_are_over_the_queries() -> None:
    assert _evaluation().means == pytest.approx({"nDCG@10": 0.4, "MRR@10": 0.5})
    assert "nDCG@10     0.4000" in str(_evaluation())


def test_what_is_saved_is_loaded_again(tmp_path: Path) -> None:
    saved = _evaluation()
    again = Evaluation.load(saved.save(tmp_path / "new" / "folder" / "one.parquet"))
    assert (again.model, again.collection, again.digest, again.query_ids, again.about) == (
        saved.model, saved.collection, saved.digest, saved.query_ids, saved.about,
    )  # fmt: skip
    assert {name: values.tolist() for name, values in again.values.items()} == {
        name: values.tolist() for name, values in saved.values.items()
    }
    assert [path.name for path in (tmp_path / "new" / "folder").iterdir()] == ["one.parquet"]


def test_a_saved_evaluation_is_a_table_of_queries(tmp_path: Path) -> None:
    table = pq.read_table(_evaluation().save(tmp_path / "one.parquet"))
    assert table.column_names == ["query_id", "nDCG@10", "MRR@10"]
    assert table["query_id"].to_pylist() == ["q1", "q2", "q3"]


def test_what_holds_no_evaluation_is_said_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match="no such file"):
        Evaluation.load(tmp_path / "none.parquet")
    (tmp_path / "text.parquet").write_text("no table", encoding="utf-8")
    with pytest.raises(EvaluationError, match="is not an evaluation"):
        Evaluation.load(tmp_path / "text.parquet")
    pq.write_table(pa.table({"query_id": ["q1"]}), tmp_path / "other.parquet")
    with pytest.raises(EvaluationError, match="is not an evaluation"):
        Evaluation.load(tmp_path / "other.parquet")
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(EvaluationError, match="cannot be written"):
        _evaluation().save(tmp_path / "file" / "one.parquet")


def test_a_comparison_has_the_change_of_each_common_measure() -> None:
    after = _evaluation("after", **{"nDCG@10": [0.3, 0.6, 0.9], "P@5": [1.0, 1.0, 1.0]})
    compared = after.compare(_evaluation())
    assert list(compared.changes) == ["nDCG@10"]
    change = compared.of("nDCG@10")
    assert (change.before, change.after, change.delta) == pytest.approx((0.4, 0.6, 0.2))
    assert change.interval == pytest.approx((0.1, 0.3))
    assert change.p_value == 2 / 8
    assert "+0.2000" in str(compared)
    with pytest.raises(EvaluationError, match=r"P@5 was not measured of both; there are nDCG@10"):
        compared.of("P@5")


def test_only_a_drop_that_chance_does_not_explain_is_significant() -> None:
    rng = np.random.default_rng(1)
    ids = tuple(map(str, range(50)))
    before = replace(_evaluation(), query_ids=ids, values={"nDCG@10": rng.uniform(0.4, 0.6, 50)})
    worse = replace(before, values={"nDCG@10": before.values["nDCG@10"] - rng.uniform(0, 0.2, 50)})
    noisy = replace(before, values={"nDCG@10": before.values["nDCG@10"] - 0.001 + rng.normal(0, 0.2, 50)})
    assert worse.compare(before).is_significant_drop("nDCG@10")
    assert not before.compare(worse).is_significant_drop("nDCG@10")  # a rise is none
    assert not before.compare(before).is_significant_drop("nDCG@10")
    change = noisy.compare(before).of("nDCG@10")
    assert noisy.compare(before).is_significant_drop("nDCG@10", alpha=0.999) == (change.delta < 0)
    assert not noisy.compare(before).is_significant_drop("nDCG@10", alpha=1e-6)


@pytest.mark.parametrize(
    "other", [{"digest": "other"}, {"query_ids": ("q1", "q2", "q4")}, {"query_ids": ("q1", "q2"), "values": {}}]
)
def test_evaluations_of_other_texts_or_queries_are_not_compared(other: dict[str, object]) -> None:
    with pytest.raises(EvaluationError, match="not the same texts and judgements"):
        _evaluation().compare(replace(_evaluation(), **other))  # type: ignore[arg-type]


def test_evaluations_without_a_common_measure_are_not_compared() -> None:
    with pytest.raises(EvaluationError, match=r"has P@5 and before has nDCG@10, MRR@10"):
        _evaluation("after", **{"P@5": [0.0, 0.0, 0.0]}).compare(_evaluation())


def test_the_table_keeps_its_numbers_whole_on_a_narrow_terminal() -> None:
    names = ("nDCG@10", "MRR@10", "recall@10", "recall@100", "MAP")
    scores = {name: [0.25, 0.25, 0.25] for name in names}
    model = "package:somebody/models/data/a_name_of_many_parts"
    screen = StringIO()
    Console(file=screen, width=80).print(_table([_evaluation(model, **scores), _evaluation("short", **scores)]))
    head, columns, *rows = (line.rstrip() for line in screen.getvalue().splitlines())
    assert head == "toy, test, 3 queries"
    assert columns.split() == ["model", *names]
    assert [row.count("0.2500") for row in rows if "0." in row] == [5, 5]
    # an evaluation of something else has its collection beside it
    screen = StringIO()
    other = replace(_evaluation("other"), collection="else, dev")
    Console(file=screen, width=120).print(_table([_evaluation(), other]))
    assert [line.split("  ")[0] for line in screen.getvalue().splitlines()] == ["model", "before", "other"]
    assert "toy, test, 3 queries" in screen.getvalue()
    assert "else, dev, 3 queries" in screen.getvalue()
