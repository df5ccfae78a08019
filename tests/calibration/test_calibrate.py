"""From labels to a threshold that a run uses, on a collection whose relevant documents are known."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toy import TableTeacher, collection

import foolsgold as fg
from foolsgold.calibration import Calibration, load
from foolsgold.calibration.calibrate import calibrate, judged_pairs
from foolsgold.commands.calibrate import _print
from foolsgold.commands.calibrate import calibrate as command
from foolsgold.errors import CollectionError, RecipeError

QUERIES, EACH = 12, 20
IDS = {f"q{query}": f"question {query} word" for query in range(QUERIES)}
DOCS = {f"d{query}-{number}": f"question {query} answer {number}" for query in range(QUERIES) for number in range(EACH)}


def _relevant(number: int) -> bool:
    """The first six documents of each query are; of the others the seventh looks as if it was."""
    return number < 6


def _teacher() -> TableTeacher:
    """A logit of 2 for relevant documents and for the seventh, and less than -4 for the others."""
    numbers = {text: int(text.split()[-1]) for text in DOCS.values()}
    return TableTeacher(
        {text: 2.0 if number <= 6 else -4.0 - 0.1 * number for text, number in numbers.items()}, scale="logit"
    )


def _collection() -> fg.Collection:
    """One positive a query, the first document."""
    return collection(DOCS, IDS, {query: {f"d{query[1:]}-0": 1} for query in IDS})


def _labels(path: Path, **changes: str) -> Path:
    lines = {
        (query, f"d{query[1:]}-{number}"): str(int(_relevant(number))) for query in IDS for number in range(1, EACH)
    }
    text = "".join(f"{query}\t{doc}\t{changes.get(doc, label)}\n" for (query, doc), label in lines.items())
    path.write_text(text, encoding="utf-8")
    return path


def _calibrate(tmp_path: Path, labels: Path | None = None, **changes: Any) -> Calibration:
    settings: dict[str, Any] = {
        "retriever": None,
        "sources": {"bm25": {"depth": 30}},
        "teacher": _teacher(),
        "out": tmp_path / "calibration.json",
        "cache": tmp_path / "cache",
    }
    return calibrate(
        labels or _labels(tmp_path / "labels.tsv"), changes.pop("collection", _collection()), **(settings | changes)
    )


def test_the_counts_the_auc_and_the_threshold_are_those_of_the_labels(tmp_path: Path) -> None:
    found = _calibrate(tmp_path)
    assert found.labels == {"pairs": 12 * 19, "relevant": 12 * 5, "queries": 12}
    # the seventh of each query is not to be told from its 5 relevant ones: of 5 x 12 against 14 x 12 pairs, those
    # against the 13 others are in order, those against the seventh one half of the time
    assert found.teacher_auc == pytest.approx((13 + 0.5) / 14)
    choice = found.choice
    assert choice.threshold is not None
    assert (choice.labels, choice.relevant) == (12 * 13, 0)
    assert choice.upper == pytest.approx(2.7055 / (156 + 2.7055), abs=1e-4)
    assert load(tmp_path / "calibration.json").to_json() == found.to_json()


def test_mining_with_it_throws_back_what_may_be_relevant(tmp_path: Path) -> None:
    found = _calibrate(tmp_path)
    mined = fg.mine(
        _collection(),
        retriever=None,
        teacher=_teacher(),
        sources={"bm25": {"depth": 30}},
        decide={"calibration": str(tmp_path / "calibration.json")},
        out=tmp_path / "mined",
        cache=tmp_path / "cache",
    )
    numbers = [
        int(doc.split("-")[1])
        for doc, query in zip(
            mined.negatives["doc_id"].to_pylist(), mined.negatives["query_id"].to_pylist(), strict=True
        )
        if doc.startswith(f"d{query[1:]}-")
    ]
    assert numbers
    assert min(numbers) > 6
    judge = mined.manifest["teacher"]["judge"]
    assert judge["threshold"] == found.choice.threshold
    # what the ledger says is what the file says of the ledger
    scored = mined.ledger().filter(mined.ledger()["judge_probability"].is_valid())
    assert len(scored) > len(mined.negatives)
    np.testing.assert_array_equal(found.probability(scored), scored["judge_probability"].to_numpy())
    for row in scored.to_pylist():
        assert (row["verdict"] == "negative") == (row["judge_probability"] < judge["threshold"])
    assert mined.negatives["judge_probability"].null_count == 0


def test_a_calibration_of_another_teacher_is_refused_when_mining(tmp_path: Path) -> None:
    _calibrate(tmp_path)
    other = _teacher()
    other.fingerprint = "other weights"
    with pytest.raises(RecipeError, match="was made for TableTeacher with other weights, length or prompt"):
        fg.mine(
            _collection(),
            retriever=None,
            teacher=other,
            sources={"bm25": {}},
            decide={"calibration": str(tmp_path / "calibration.json")},
            out=tmp_path / "mined",
        )


def test_a_calibration_without_a_teacher_or_beside_a_threshold_is_refused() -> None:
    with pytest.raises(RecipeError, match="it calibrates a teacher's scores; name the teacher"):
        fg.Recipe.build({"teacher": None, "decide": {"calibration": "default"}})
    with pytest.raises(RecipeError, match=r"negative_below is 0.2, but a calibration sets that threshold itself"):
        fg.Recipe.build({"decide": {"calibration": "default", "negative_below": 0.2}})


def test_known_positives_among_the_labels_are_left_out(tmp_path: Path) -> None:
    path = _labels(tmp_path / "labels.tsv")
    path.write_text(path.read_text(encoding="utf-8") + "q0\td0-0\t1\n", encoding="utf-8")
    found = _calibrate(tmp_path, path)
    assert found.labels["pairs"] == 12 * 19
    assert found.notes == ("labels.tsv: labelled pairs that are known positives: 1, left out",)


def test_only_the_labelled_queries_are_read(tmp_path: Path) -> None:
    teacher = _teacher()
    path = tmp_path / "labels.tsv"
    path.write_text(
        "".join(f"q{q}\td{q}-{n}\t{int(_relevant(n))}\n" for q in (3, 7) for n in range(1, EACH)), encoding="utf-8"
    )
    _calibrate(tmp_path, path, teacher=teacher)
    assert {query for query, _ in teacher.read} == {IDS["q3"], IDS["q7"]}
    assert len(teacher.read) == 2 * EACH  # 19 pairs and a positive each


def test_judgements_keep_the_best_passage_as_the_only_positive() -> None:
    docs = {"a": "one", "b": "two", "c": "three", "copy": "Two", "d": "four"}
    what = collection(docs, {"q": "query"}, {"q": {"a": 1, "b": 3, "c": 3, "copy": 2, "d": 0}})
    pairs = judged_pairs(what)
    assert what.documents.take_ids(pairs.collection.positives(0)) == ["b"]  # the first of the two best
    assert what.documents.take_ids(pairs.doc) == ["a", "c", "d"]  # neither it nor its copy
    assert pairs.relevant.tolist() == [True, True, False]


def test_judgements_serve_as_labels(tmp_path: Path) -> None:
    graded = collection(
        DOCS,
        IDS,
        {q: {f"d{q[1:]}-{n}": 2 if n == 0 else int(_relevant(n)) for n in range(EACH)} for q in IDS},
    )
    found = calibrate(
        None, graded, retriever=None, sources={"bm25": {}}, teacher=_teacher(), out=None, cache=tmp_path / "cache"
    )
    assert found.labels == {"pairs": 12 * 19, "relevant": 12 * 5, "queries": 12}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nobody\td0-1\t1", "line 229: query 'nobody' is not one of toy, or has no positive there"),
        ("q0\tnothing\t0", "line 229: document 'nothing' is not in the corpus of toy"),
        ("q0\td0-1\t0", "line 229: query 'q0' and document 'd0-1' have another label in line 1"),
        ("q0\td1-1\tperhaps", "line 229: the label 'perhaps' is unknown"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, said: str) -> None:
    path = _labels(tmp_path / "labels.tsv")
    path.write_text(path.read_text(encoding="utf-8") + line + "\n", encoding="utf-8")
    with pytest.raises(CollectionError) as error:
        _calibrate(tmp_path, path)
    assert said in str(error.value)


def test_one_kind_of_label_is_refused_before_anything_is_scored(tmp_path: Path) -> None:
    teacher = _teacher()
    path = tmp_path / "labels.tsv"
    path.write_text("".join(f"q0\td0-{n}\t1\n" for n in range(1, EACH)), encoding="utf-8")
    with pytest.raises(CollectionError, match=r"labels.tsv: 19 relevant and 0 not relevant pairs to learn from"):
        _calibrate(tmp_path, path, teacher=teacher)
    assert teacher.read == []
    all_relevant = collection(DOCS, IDS, {"q0": {"d0-0": 1, "d0-1": 1}})
    with pytest.raises(CollectionError, match="every judged document is relevant, and labels of both kinds"):
        judged_pairs(all_relevant)


@pytest.mark.parametrize("rate", [0.0, 1.0, -0.1])
def test_a_rate_that_cannot_be_is_refused(tmp_path: Path, rate: float) -> None:
    with pytest.raises(RecipeError, match="a share above 0 and below 1"):
        _calibrate(tmp_path, max_false_negative_rate=rate)


def test_a_recipe_without_a_teacher_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="a teacher's scores are what is calibrated"):
        calibrate(_labels(tmp_path / "labels.tsv"), _collection(), {"teacher": None}, out=None)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"decide": {"negative_below": 0.3}}, "decide"),
        ({"decide": {"positive_reference": "max", "margin": 0.1}}, "decide"),
        ({"select": {"per_query": 3}}, "select"),
        ({"relabel": True}, "relabel"),
    ],
)
def test_what_a_calibration_does_not_depend_on_is_refused(tmp_path: Path, change: dict[str, Any], field: str) -> None:
    with pytest.raises(RecipeError, match=f"^{field}: a calibration does not depend on it; leave it out"):
        _calibrate(tmp_path, **change)


def test_the_reference_that_gaps_are_measured_from_can_be_changed(tmp_path: Path) -> None:
    assert _calibrate(tmp_path, decide={"positive_reference": "max"}).labels["pairs"] == 12 * 19


TEACHER = '''
def score(pairs):
    """The number at the end of each document, as a probability."""
    return [0.9 - 0.02 * int(document.split()[-1]) for _, document in pairs]
'''


def test_the_command_writes_and_names_what_is_wrong(tmp_path: Path) -> None:
    folder = tmp_path / "beir"
    (folder / "qrels").mkdir(parents=True)
    for name, texts in (("corpus", DOCS), ("queries", IDS)):
        lines = (json.dumps({"_id": key, "text": text}) + "\n" for key, text in texts.items())
        (folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
    positives = "".join(f"{query}\td{query[1:]}-0\t1\n" for query in IDS)
    (folder / "qrels" / "train.tsv").write_text(f"query-id\tcorpus-id\tscore\n{positives}", encoding="utf-8")
    (tmp_path / "marks.py").write_text(TEACHER, encoding="utf-8")
    recipe = {
        "collection": {"beir": "beir"},
        "retriever": None,
        "teacher": {"model": "marks:score", "kind": "callable"},
        "sources": {"bm25": {"depth": 30}},
    }
    (tmp_path / "recipe.yaml").write_text(json.dumps(recipe), encoding="utf-8")
    _labels(tmp_path / "labels.tsv")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "foolsgold.commands.main", "calibrate", *arguments],
            cwd=tmp_path,
            text=True,
            capture_output=True,
        )

    done = run("labels.tsv", "--recipe", "recipe.yaml", "--quiet", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert (told["path"], told["plot"]) == ("calibration.json", "calibration.svg")
    assert told["labels"] == {"pairs": 228, "relevant": 60, "queries": 12}
    assert told["teacher_auc"] == 1.0  # the lower the number, the more relevant
    assert (tmp_path / "calibration.svg").read_text(encoding="utf-8").startswith("<?xml")
    assert load(tmp_path / "calibration.json").to_json() == {
        key: value for key, value in told.items() if key not in ("path", "plot")
    }

    wrong = run("labels.tsv", "--recipe", "recipe.yaml", "--set", "sources.bm25.depth=0", "--quiet")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "sources.bm25.depth" in wrong.stderr
    wrong = run("labels.tsv", "--recipe", "recipe.yaml", "--set", "decide.negative_below=0.3", "--quiet")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "decide.negative_below: a calibration does not depend on it" in wrong.stderr
    wrong = run("labels.tsv", "--recipe", "recipe.yaml", "--limit", "1", "--quiet")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "q1" in wrong.stderr
    wrong = run("none.tsv", "--recipe", "recipe.yaml", "--quiet")
    assert (wrong.returncode, wrong.stdout, wrong.stderr) == (2, "", "error: none.tsv: no such file\n")


def test_the_command_needs_to_know_what_was_labelled() -> None:
    with pytest.raises(RecipeError, match="nothing to calibrate on: give --mined SET"):
        command(Path("labels.tsv"), quiet=True)
    with pytest.raises(RecipeError, match="--mined names a recipe and a collection"):
        command(Path("labels.tsv"), mined=Path("mined"), beir="folder", quiet=True)
    with pytest.raises(RecipeError, match="leave out --recipe, --beir, --split, --relevant-from, --limit"):
        command(Path("labels.tsv"), mined=Path("mined"), limit=3, quiet=True)


def test_the_command_tells_the_threshold_and_what_it_rests_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _print(_calibrate(tmp_path))
    told = capsys.readouterr().out
    assert "228 labelled pairs of 12 queries, 60 relevant" in told
    assert "AUC, the teacher alone:  0.964" in told
    assert "(0 of 156 pairs below are relevant, upper bound 1.7%)" in " ".join(told.split())
    _print(_calibrate(tmp_path, max_false_negative_rate=0.01))
    # 0 of n is within 1 % from n = 99 z^2 = 267.8 on
    assert "Label at least 112 more pairs" in " ".join(capsys.readouterr().out.split())
