"""Files of labels, good and bad."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from foolsgold.calibration.labels import read_labels
from foolsgold.errors import CollectionError


def _jsonl(path: Path, *records: Any) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def _answer(doc: str, label: Any, query: str = "q") -> dict[str, Any]:
    return {"query_id": query, "doc_id": doc, "label": label}


def test_answers_of_the_labelling_page(tmp_path: Path) -> None:
    path = _jsonl(
        tmp_path / "labels.jsonl",
        _answer("a", "relevant"),
        _answer("b", "not"),
        _answer("c", "unsure"),
        _answer("d", "relevant"),
        _answer("d", None),  # taken back
        _answer("e", "relevant"),
        _answer("e", "not"),  # the last line counts
    )
    labels, notes = read_labels(path, 1)
    assert [(label.doc_id, label.relevant, label.line) for label in labels] == [
        ("a", True, 1),
        ("b", False, 2),
        ("e", False, 7),
    ]
    assert notes == [
        "labels.jsonl: pairs labelled again or taken back: 2, the last line counts",
        "labels.jsonl: pairs labelled unsure: 1, left out",
    ]


@pytest.mark.parametrize(
    ("label", "relevant"),
    [(True, True), (False, False), (2, True), (1, False), ("2", True), ("Not", False), (0.0, False)],
)
def test_grades_and_truth_values(tmp_path: Path, label: Any, relevant: bool) -> None:
    (found,), _ = read_labels(_jsonl(tmp_path / "labels.jsonl", _answer("a", label)), 2)
    assert found.relevant is relevant


@pytest.mark.parametrize("header", ["", "query-id\tcorpus-id\tscore\n"])
def test_a_table_and_a_qrels_file(tmp_path: Path, header: str) -> None:
    path = tmp_path / "labels.tsv"
    path.write_text(f"{header}q\ta\t1\nq\tb\tnot\n\nr 0 c 0\nq\ta\t1\n", encoding="utf-8")
    labels, notes = read_labels(path, 1)
    assert [label[:3] for label in labels] == [("q", "a", True), ("q", "b", False), ("r", "c", False)]
    assert notes == []


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["q\ta\t1", "q\tb\tmaybe"], "labels.tsv, line 2: the label 'maybe' is unknown; a label is "),
        (
            ["q\ta\t1", "q\ta\t0"],
            "labels.tsv, line 2: query 'q' and document 'a' have another label in line 1; keep one",
        ),
        (["q\ta"], "labels.tsv, line 1: 2 columns; a labelled pair is query id, document id, label"),
        (["query-id\tcorpus-id\tscore"], "labels.tsv: no labelled pair; each line names a query"),
        (["q\ta\t1.5"], "line 1: the label '1.5' is unknown"),
        (["q\ta\t--1"], "line 1: the label '--1' is unknown"),
    ],
)
def test_bad_tables_are_named_by_line(tmp_path: Path, lines: list[str], said: str) -> None:
    path = tmp_path / "labels.tsv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(CollectionError) as error:
        read_labels(path, 1)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"query_id": "q", "label": "not"}, "line 2: a labelled pair has a query_id, a doc_id and a label"),
        ({"query_id": "q", "doc_id": "b"}, 'line 2: no label; a label is "relevant"'),
        (_answer("b", 0.5), "line 2: the label 0.5 is neither a word nor a whole number"),
        (_answer("b", ["not"]), "line 2: the label ['not'] is unknown"),
        (["q", "b", 1], "line 2: holds a list"),
    ],
)
def test_bad_objects_are_named_by_line(tmp_path: Path, record: Any, said: str) -> None:
    with pytest.raises(CollectionError) as error:
        read_labels(_jsonl(tmp_path / "labels.jsonl", _answer("a", "not"), record), 1)
    assert said in str(error.value)


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(CollectionError, match=r"none\.tsv: no such file"):
        read_labels(tmp_path / "none.tsv", 1)


def test_a_log_in_capitals_is_a_log_and_grades_may_be_signed(tmp_path: Path) -> None:
    labels, _ = read_labels(_jsonl(tmp_path / "LABELS.JSONL", _answer("a", "+1"), _answer("b", "-1")), 1)
    assert [label[:3] for label in labels] == [("q", "a", True), ("q", "b", False)]
