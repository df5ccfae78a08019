"""A file of somebody else's negatives as a mined set, and how bad the file is. Faults are planted and counted."""

from __future__ import annotations

import json
from math import log
from pathlib import Path
from typing import Any

import pytest
from toy import TableTeacher, collection
from typer.testing import CliRunner, Result

import foolsgold as fg
from foolsgold.commands.main import app
from foolsgold.errors import CollectionError, GateFailed, MinedSetError, RecipeError, TeacherError
from foolsgold.mined.mined_set import MinedSet

ROWS = [
    # a positive, a copy of it, the query itself, two of one text, and one that is really wrong
    {"query": "one?", "pos": ["Right One", "right too"], "neg": ["right too", "right  ONE", "one?", "wrong", "WRONG"]},
    {"query": "two?", "pos": ["right two"], "neg": ["wrong", "doubtful", "really right", "far off", "off"]},
]
SCORES = {
    "Right One": 0.9, "right too": 0.8, "right two": 0.9, "wrong": 0.1, "doubtful": 0.5, "really right": 0.95,
    "far off": 0.01, "off": 0.02,
}  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "their.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    return path


def teacher() -> TableTeacher:
    return TableTeacher(SCORES)


def negatives(mined: MinedSet) -> list[tuple[str, str]]:
    documents, queries = mined.collection.documents, mined.collection.queries
    return [
        (queries.take([queries.rows[q]])[0], documents.take([documents.rows[d]])[0])
        for q, d in zip(mined.negatives["query_id"].to_pylist(), mined.negatives["doc_id"].to_pylist(), strict=True)
    ]


def test_what_is_no_negative_by_the_texts_alone_is_excluded_with_its_reason(file: Path, tmp_path: Path) -> None:
    mined = fg.import_set(file, out=tmp_path / "mined")
    assert mined.manifest["counts"]["reasons"]["excluded"] == {
        "known_positive": 1, "duplicate_of_positive": 1, "query_itself": 1, "duplicate_of_candidate": 1,
    }  # fmt: skip
    assert negatives(mined) == [
        ("one?", "wrong"), ("two?", "wrong"), ("two?", "doubtful"), ("two?", "really right"), ("two?", "far off"),
        ("two?", "off"),
    ]  # fmt: skip
    assert mined.manifest["notes"][0].endswith("'pos' the positives, 'neg' the negatives")


def test_a_teacher_throws_back_what_it_holds_for_right_or_doubtful(file: Path, tmp_path: Path) -> None:
    mined = fg.import_set(file, out=tmp_path / "mined", teacher=teacher())
    assert negatives(mined) == [("one?", "wrong"), ("two?", "wrong"), ("two?", "far off"), ("two?", "off")]
    counts = mined.manifest["counts"]
    assert (counts["false_negative"], counts["ambiguous"], counts["unscored"]) == (1, 1, 0)
    weighed = fg.import_set(file, out=tmp_path / "w", teacher=teacher(), decide={"ambiguous": "weight"})
    assert ("two?", "doubtful") in negatives(weighed)


def test_the_set_is_whole_and_opens_in_another_process_by_its_folder_alone(file: Path, tmp_path: Path) -> None:
    mined = fg.import_set(file, out=tmp_path / "mined", teacher=teacher())
    opened = MinedSet(tmp_path / "mined")
    assert opened.version == mined.version
    assert len(opened.to_dataset("triplet")) == 5  # "one?" has two positives
    query, doc = (mined.ledger()[name][0].as_py() for name in ("query_id", "doc_id"))
    assert "found by imported at rank" in str(opened.explain(query, doc))
    assert opened.report().exists()


def test_the_same_file_gives_the_same_set(file: Path, tmp_path: Path) -> None:
    first, second = (fg.import_set(file, out=tmp_path / name, teacher=teacher()) for name in ("a", "b"))
    assert first.version == second.version
    fg.import_set(file, out=tmp_path / "a")
    assert sum(path.is_dir() for path in (tmp_path / "a" / "collections").iterdir()) == 1


def test_the_files_own_scores_take_a_teachers_place(tmp_path: Path) -> None:
    path = tmp_path / "kd.jsonl"
    row = {"query": "q", "pos": ["p"], "neg": ["n", "m"], "pos_scores": [4.0], "neg_scores": [-3.0, 2.0]}
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    mined = fg.import_set(path, out=tmp_path / "mined", scores="logit")
    assert negatives(mined) == [("q", "n")]  # sigmoid(-3) is below 0.3, sigmoid(2) above 0.7
    assert mined.audit().mean_margin == pytest.approx(7.0, abs=1e-3)
    row |= {"pos_scores": [0.9], "neg_scores": [0.1, 0.8]}
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    cosines = fg.import_set(path, out=tmp_path / "mined", scores="cosine")
    assert cosines.manifest["teacher"]["scale"] == "cosine"
    assert negatives(cosines) == [("q", "n")]
    with pytest.raises(RecipeError, match="name one of the two"):
        fg.import_set(path, out=tmp_path / "mined", scores="logit", teacher=teacher())


def test_scores_that_the_file_does_not_have_are_told(file: Path, tmp_path: Path) -> None:
    with pytest.raises(TeacherError, match="13 of 13 pairs have no score in the file"):
        fg.import_set(file, out=tmp_path / "mined", scores="logit")


def test_an_audit_counts_every_listed_negative_once(file: Path) -> None:
    measured = fg.audit_file(file, teacher=teacher())
    counts = {finding.name: finding.count for finding in measured.findings}
    assert counts == {
        "known_positive": 1, "duplicate_of_positive": 1, "near_duplicate_of_positive": 0, "query_itself": 1,
        "empty_text": 0, "duplicate_of_candidate": 1, "false_negative": 1, "ambiguous": 1, "usable": 4,
    }  # fmt: skip
    assert sum(counts.values()) == measured.negatives == 10
    assert measured.per_query == (5, 5, 5)
    assert measured.failed[:2] == ("known_positive", "duplicate_of_positive")
    assert "false_negative" in measured.failed  # 10 % of the negatives, where 5 % is the limit


def test_an_audit_measures_all_that_is_listed_and_not_what_would_be_kept(file: Path) -> None:
    measured = fg.audit_file(file, teacher=teacher()).measures
    assert measured.negatives == 10
    assert measured.fill_rate == 1.0
    # scored: wrong, and the five of "two?"; margins are from 0.8 (the lower of two positives) and from 0.9
    inverted = 1  # really right
    assert measured.inverted_share == pytest.approx(inverted / 6)

    def logit(p: float) -> float:
        return log(p / (1 - p))

    margins = [logit(0.8) - logit(0.1), *(logit(0.9) - logit(p) for p in (0.1, 0.5, 0.95, 0.01, 0.02))]
    assert measured.mean_margin == pytest.approx(sum(margins) / 6, abs=1e-3)


def test_an_audit_without_a_teacher_says_what_it_can(file: Path) -> None:
    measured = fg.audit_file(file)
    assert {finding.name for finding in measured.findings}.isdisjoint({"false_negative", "ambiguous"})
    assert measured.measures.margins is None
    assert measured.measures.hubs is not None
    assert measured.measures.lengths is not None


def test_fill_is_measured_against_what_most_queries_have(tmp_path: Path) -> None:
    rows = [
        {"query": f"q{i}", "pos": [f"p{i}"], "neg": [f"n{i} {j}" for j in range(n)]}
        for i, n in enumerate([3, 3, 3, 2, 9])
    ]
    path = tmp_path / "their.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    measured = fg.audit_file(path)
    assert measured.per_query == (2, 3, 9)
    assert measured.measures.fill_rate == pytest.approx(4 / 5)
    assert "min_fill" not in {gate.name for gate in measured.measures.gates}  # who asked for how many is not known


def test_leakage_is_told_by_text_against_the_held_out_collection(file: Path) -> None:
    held_out = collection(
        {"x": "RIGHT two", "y": "far off", "z": "else"},
        {"t": "Two?", "u": "never asked?"},
        {"t": {"x": 1, "y": 1}, "u": {"z": 1}},
    )
    shared = fg.audit_file(file, held_out=held_out).held_out
    assert shared is not None
    assert (shared.queries, shared.share, shared.answered, shared.denied) == (1, 0.5, 1, 1)
    assert shared.verdict == "fail"


def test_an_audit_leaves_nothing_behind_but_the_cache(file: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    fg.audit_file(file, teacher=teacher())
    assert sorted(tmp_path.rglob("*")) == before


# the command line, as a user calls it


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})


def test_foolsgold_audit_takes_a_file(file: Path, tmp_path: Path) -> None:
    done = _run("audit", str(file), "--quiet", "--report-to", str(tmp_path / "page.html"))
    assert isinstance(done.exception, GateFailed)
    assert done.exception.exit_code == 1
    assert "FlagEmbedding: 'query' is the query" in done.stdout
    assert "known positive" in done.stdout
    assert f"next: foolsgold audit {file} --teacher MODEL" in done.stdout
    assert "their-" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_its_json_is_one_object(file: Path) -> None:
    answer = json.loads(_run("audit", str(file), "--quiet", "--json").stdout)
    assert answer["passed"] is False
    assert answer["negatives"] == 10
    assert answer["measures"]["negatives"] == 10
    assert {found["name"]: found["count"] for found in answer["findings"]}["usable"] == 6


def test_a_clean_file_exits_with_0(tmp_path: Path) -> None:
    path = tmp_path / "clean.jsonl"
    path.write_text(json.dumps({"query": "q", "pos": ["right"], "neg": ["wrong", "off"]}) + "\n", encoding="utf-8")
    assert _run("audit", str(path), "--quiet").exit_code == 0


def test_import_then_audit_then_export(file: Path, tmp_path: Path) -> None:
    done = _run("import", str(file), "--out", str(tmp_path / "mined"), "--quiet", "--json")
    assert json.loads(done.stdout)["counts"]["selected"] == 6
    assert _run("audit", str(tmp_path / "mined")).exit_code == 0
    exported = _run(
        "export", str(tmp_path / "mined"), "--to", "flagembedding", "--out", str(tmp_path / "c.jsonl"), "-q"
    )
    assert "2 rows written to" in exported.stdout
    rows = [json.loads(line) for line in (tmp_path / "c.jsonl").read_text(encoding="utf-8").splitlines()]
    assert rows[0] == {"query": "one?", "pos": ["Right One", "right too"], "neg": ["wrong"], "type": "normal"}


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        (["audit", "FILE", "--report"], MinedSetError, "name one with --report-to"),
        (["audit", "FILE", "--scores", "percent"], RecipeError, "use one of logit, probability, cosine"),
        (["audit", "missing.jsonl"], CollectionError, "no such file"),
        (["import", "FILE", "--anchor", "qurey"], CollectionError, "did you mean 'query'"),
        (["audit", "FOLDER", "--teacher", "m"], MinedSetError, "--teacher is for files"),
        (["export", "FOLDER", "--to", "jsonl"], MinedSetError, "name one place to write to"),
        (["export", "FOLDER", "--to", "jsonl", "--out", "x", "--public"], MinedSetError, "are for --push-to-hub"),
    ],
)
def test_a_mistake_is_one_sentence(
    file: Path, tmp_path: Path, arguments: list[str], error: type[Exception], said: str
) -> None:
    places: dict[str, Any] = {"FILE": file, "FOLDER": tmp_path}
    done = _run(*(str(places.get(argument, argument)) for argument in arguments))
    assert isinstance(done.exception, error)
    assert said in str(done.exception)
