"""The file of answers: later lines win, null takes back, a torn line costs nothing, several processes may write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from foolsgold.errors import CollectionError
from foolsgold.label.answers import Answers


def _lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_an_answer_is_one_line_with_all_that_calibration_needs(tmp_path: Path) -> None:
    answers = Answers(tmp_path / "new" / "labels.jsonl")
    answers.append("q", "d", "not", 0.25)
    (line,) = _lines(answers.path)
    assert {name: line[name] for name in ("query_id", "doc_id", "label", "teacher_score")} == {
        "query_id": "q",
        "doc_id": "d",
        "label": "not",
        "teacher_score": 0.25,
    }
    assert str(line["time"]).endswith("+00:00")


def test_later_lines_win_null_takes_back_and_the_latest_comes_last(tmp_path: Path) -> None:
    answers = Answers(tmp_path / "labels.jsonl")
    for query, label in (("a", "not"), ("b", "relevant"), ("c", "unsure"), ("a", "relevant"), ("c", None)):
        answers.append(query, "d", label, None)
    assert list(answers.current().items()) == [(("b", "d"), "relevant"), (("a", "d"), "relevant")]
    assert list(Answers(answers.path).current().items()) == list(answers.current().items())
    assert len(_lines(answers.path)) == 5  # nothing was rewritten


def test_a_torn_last_line_is_passed_over_and_cut_off_before_the_next(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    Answers(path).append("q", "d1", "not", 0.1)
    with path.open("a", encoding="utf-8") as file:
        file.write('{"query_id": "q", "doc_id": "d2", "la')
    answers = Answers(path)
    assert answers.current() == {("q", "d1"): "not"}
    answers.append("q", "d3", "relevant", 0.2)
    assert answers.current() == {("q", "d1"): "not", ("q", "d3"): "relevant"}
    assert [line["doc_id"] for line in _lines(path)] == ["d1", "d3"]


def test_a_file_that_is_only_a_torn_line_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text('{"query_id": "' + "x" * 10_000, encoding="utf-8")
    answers = Answers(path)
    assert answers.current() == {}
    answers.append("q", "d", "not", None)
    assert len(_lines(path)) == 1


def test_what_others_append_is_seen_and_a_file_written_anew_is_read_anew(tmp_path: Path) -> None:
    one, other = Answers(tmp_path / "labels.jsonl"), Answers(tmp_path / "labels.jsonl")
    one.append("q", "d1", "not", None)
    other.append("q", "d2", "unsure", None)
    assert one.current() == other.current() == {("q", "d1"): "not", ("q", "d2"): "unsure"}
    one.path.write_text("", encoding="utf-8")
    assert other.current() == {}


def test_two_processes_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    program = (
        "import sys; from pathlib import Path; from foolsgold.label.answers import Answers\n"
        "answers = Answers(Path(sys.argv[1]))\n"
        "for n in range(40): answers.append(sys.argv[2], f'd{n}', 'not', 0.5)"
    )
    running = [subprocess.Popen([sys.executable, "-c", program, str(path), name]) for name in ("a", "b")]
    assert [process.wait(60) for process in running] == [0, 0]
    assert len(_lines(path)) == len(Answers(path).current()) == 80


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("not json", "not JSON"),
        ("[]", "a labelled pair has a query_id, a doc_id and a label"),
        ('{"query_id": null, "doc_id": "d", "label": "not"}', "a labelled pair has a query_id"),
        (
            '{"query_id": "q", "doc_id": "d", "label": "yes"}',
            "the label 'yes' is unknown",
        ),
        ('{"query_id": "q", "doc_id": "d"}', "no label; a label is"),
    ],
)
def test_a_line_that_is_no_answer_is_named(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text('{"query_id": "q", "doc_id": "d", "label": "not"}\n\n' + line + "\n", encoding="utf-8")
    with pytest.raises(CollectionError, match=rf"labels.jsonl, line 3: .*{said}"):
        Answers(path)


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(CollectionError, match="answers cannot be kept here"):
        Answers(tmp_path / "file" / "labels.jsonl")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full, which fails every write")
def test_a_full_disk_is_an_error_of_the_answer(tmp_path: Path) -> None:
    answers = Answers(tmp_path / "labels.jsonl")
    answers.path.unlink()
    answers.path.symlink_to("/dev/full")
    with pytest.raises(OSError, match=r"No space left|Invalid argument|Illegal seek"):
        answers.append("q", "d", "not", None)


def test_a_whole_last_line_without_an_end_counts_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    first, second = (json.dumps({"query_id": "q", "doc_id": doc, "label": "not"}) for doc in ("a", "b"))
    path.write_text(f"{first}\n{second}", encoding="utf-8")
    answers = Answers(path)
    assert answers.current() == {("q", "a"): "not", ("q", "b"): "not"}
    answers.append("q", "c", "relevant", None)
    assert answers.current() == Answers(path).current() == {
        ("q", "a"): "not", ("q", "b"): "not", ("q", "c"): "relevant"
    }  # fmt: skip
    assert path.read_text(encoding="utf-8").splitlines()[:2] == [first, second]
    with path.open("a", encoding="utf-8") as file:
        file.write("no answer\n")
    with pytest.raises(CollectionError, match="line 4: not JSON"):
        answers.current()
