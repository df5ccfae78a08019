"""Which pairs are asked about: spread over scores and queries, denser at thresholds, the same for the same seed."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from toy import TableTeacher, collection, run_file

import foolsgold as fg
from foolsgold.errors import MinedSetError
from foolsgold.label.choose import choose
from foolsgold.mined.mined_set import MinedSet

Command = Callable[..., subprocess.CompletedProcess[str]]


def test_the_same_seed_chooses_the_same_and_a_longer_list_begins_with_the_shorter(made: Path) -> None:
    mined = MinedSet(made)
    assert choose(mined, 12) == choose(mined, 12)
    assert choose(mined, 40)[:12] == choose(mined, 12)
    assert choose(mined, 12, seed=1) != choose(mined, 12)


def test_every_pair_comes_once_and_no_more_than_there_are(made: Path) -> None:
    pairs = choose(MinedSet(made), 1000)
    assert len({(pair.query_id, pair.doc_id) for pair in pairs}) == len(pairs) == 40
    assert all(pair.teacher_score is not None and pair.source == "run" for pair in pairs)


def test_queries_are_asked_about_in_turn(made: Path) -> None:
    # of every stratum's pairs the one whose query was asked about least: 8 queries, 16 pairs
    asked = Counter(pair.query_id for pair in choose(MinedSet(made), 16))
    assert len(asked) == 8
    assert max(asked.values()) <= 3


def test_strata_are_bands_of_log_odds_and_what_is_near_a_threshold(made: Path) -> None:
    # scores from 0.01 (log-odds -4.6) to 0.943 (2.8): 8 bands of 0.8 or so; near is within 0.22 or so of 0.3 and 0.7
    by_stratum: dict[str, list[float]] = {}
    for pair in choose(MinedSet(made), 40):
        assert pair.teacher_score is not None
        by_stratum.setdefault(pair.stratum, []).append(pair.teacher_score)
    assert all(0.25 < score < 0.355 for score in by_stratum["near negative_below"])
    assert all(0.645 < score < 0.75 for score in by_stratum["near positive_above"])
    bands = [by_stratum[name] for name in sorted(by_stratum) if name.startswith("band")]
    assert all(max(low) < min(high) for low, high in itertools.pairwise(bands))
    assert min(bands[0]) == pytest.approx(0.01)


def test_a_round_gives_each_band_a_pair_and_each_threshold_two(made: Path) -> None:
    strata = [pair.stratum for pair in choose(MinedSet(made), 40)]
    first = Counter(strata[: len({name for name in strata if name.startswith("band")}) + 4])
    assert first["near negative_below"] == first["near positive_above"] == 2
    assert {count for name, count in first.items() if name.startswith("band")} == {1}


def _with_calibration(made: Path, here: Path, **decide: float) -> MinedSet:
    """The set as if a calibration with the threshold 0.1 had decided, by probabilities that say the opposite.

    Its manifest has no `limits`, as those of older versions.
    """
    shutil.copytree(made, here)
    ledger = pq.read_table(here / "ledger.parquet")
    turned = pc.subtract(pa.scalar(1.0, pa.float32()), ledger["teacher_score"])
    place = ledger.column_names.index("judge_probability")
    pq.write_table(ledger.set_column(place, "judge_probability", turned), here / "ledger.parquet")
    manifest = json.loads((here / "manifest.json").read_text(encoding="utf-8"))
    manifest.pop("limits", None)
    manifest["teacher"]["judge"] = {"threshold": 0.1}
    manifest["recipe"]["decide"] |= {"calibration": "made.json", **decide}
    (here / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return MinedSet(here)


def _near(mined: MinedSet) -> dict[str, list[float]]:
    """The teacher's scores of the pairs near each limit."""
    near: dict[str, list[float]] = {}
    for pair in choose(mined, 40):
        if pair.stratum.startswith("near"):
            assert pair.teacher_score is not None
            near.setdefault(pair.stratum, []).append(pair.teacher_score)
    return near


def test_with_a_calibration_its_probability_is_what_is_spread(made: Path, tmp_path: Path) -> None:
    near = _near(_with_calibration(made, tmp_path / "set"))
    assert set(near) == {"near the calibrated threshold", "near positive_above"}
    assert all(0.87 < score < 0.93 for score in near["near the calibrated threshold"])
    assert all(0.25 < score < 0.36 for score in near["near positive_above"])  # a probability of 0.7


def test_with_a_calibration_the_margins_are_on_the_teachers_score(made: Path, tmp_path: Path) -> None:
    # the positives score 0.99: the margins are at 0.495 and 0.09, the calibrated threshold is at 0.9
    near = _near(_with_calibration(made, tmp_path / "set", relative_margin=0.5, absolute_margin=0.9))
    assert set(near) == {
        "near the calibrated threshold",
        "near positive_above",
        "near relative_margin",
        "near absolute_margin",
    }
    assert all(0.44 < score < 0.55 for score in near["near relative_margin"])
    assert all(0.07 < score < 0.12 for score in near["near absolute_margin"])


def test_pairs_near_the_percentile_of_positives_are_asked_about(tmp_path: Path) -> None:
    docs = DOCS | {f"x{n}": f"text {n}" for n in range(20)}
    scores = {"one": 0.8} | {f"text {n}": 0.04 * (n + 1) for n in range(20)}
    mined = fg.mine(
        collection(docs, {"q": "count"}, {"q": {"p": 1}}),
        retriever=None,
        teacher=TableTeacher(scores),
        sources={"run": {"path": str(run_file(tmp_path / "run", {"q": [f"x{n}" for n in range(20)]}))}},
        decide={"negative_below": None, "positive_above": None, "positive_percentile": 5},
        select={"per_query": 20, "cap": 20},
        out=tmp_path / "mined",
    )
    near = _near(mined)
    assert set(near) == {"near positive_percentile"}
    assert all(0.72 < score < 0.85 for score in near["near positive_percentile"])


DOCS = {"p": "one", "a": "two", "b": "three", "c": "four", "d": "five"}


def test_sources_take_turns_and_excluded_candidates_are_not_asked_about(tmp_path: Path) -> None:
    score = {"one": 0.9, "two": 0.101, "three": 0.102, "four": 0.103, "five": 0.104}
    lists = {"left": ["p", "a", "b", "c"], "right": ["d"]}
    mined = fg.mine(
        collection(DOCS, {"q": "count"}, {"q": {"p": 1}}),
        retriever=None,
        teacher=TableTeacher(score),
        sources={
            name: {"kind": "run", "path": str(run_file(tmp_path / name, {"q": docs}))} for name, docs in lists.items()
        },
        out=tmp_path / "mined",
    )
    pairs = choose(mined, 10)
    assert {pair.doc_id: pair.source for pair in pairs} == {"a": "left", "b": "left", "c": "left", "d": "right"}


def test_without_a_teacher_the_ranks_are_spread_and_scores_are_unknown(tmp_path: Path) -> None:
    mined = fg.mine(
        collection(DOCS, {"q": "count"}, {"q": {"p": 1}}),
        retriever=None,
        teacher=None,
        sources={"run": {"path": str(run_file(tmp_path / "run", {"q": ["a", "b", "c", "d"]}))}},
        out=tmp_path / "mined",
    )
    pairs = choose(mined, 10)
    assert sorted(pair.doc_id for pair in pairs) == ["a", "b", "c", "d"]
    assert {pair.teacher_score for pair in pairs} == {None}
    assert next(pair.stratum for pair in pairs if pair.doc_id == "a") == "band 8 of 8"


def test_a_pair_that_stands_in_the_ledger_for_each_positive_is_asked_about_once(tmp_path: Path) -> None:
    mined = fg.mine(
        collection(DOCS, {"q": "count"}, {"q": {"p": 1, "a": 1}}),
        retriever=None,
        teacher=TableTeacher({"one": 0.9, "two": 0.8, "three": 0.1, "four": 0.2}),
        sources={"run": {"path": str(run_file(tmp_path / "run", {"q": ["b", "c"]}))}},
        decide={"positive_reference": "each"},
        out=tmp_path / "mined",
    )
    assert len(mined.ledger()) == 4
    assert sorted(pair.doc_id for pair in choose(mined, 10)) == ["b", "c"]


def test_a_set_without_candidates_is_one_sentence(tmp_path: Path) -> None:
    mined = fg.mine(
        collection(DOCS, {"q": "count"}, {"q": {"p": 1}}),
        retriever=None,
        teacher=TableTeacher({"one": 0.9}),
        sources={"run": {"path": str(run_file(tmp_path / "run", {"q": ["p"]}))}},
        out=tmp_path / "mined",
    )
    with pytest.raises(MinedSetError, match="nothing to label"):
        choose(mined, 10)


def test_list_prints_the_pairs_and_serves_nothing(made: Path, command: Command) -> None:
    done = command(str(made), "--n", "3", "--list", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["pairs"] == [pair.to_json() for pair in choose(MinedSet(made), 3)]
    table = command(str(made.parent), "--n", "3", "--list").stdout.splitlines()
    assert len(table) == 4
    assert not (made / "labels.jsonl").exists()


def test_a_folder_without_a_set_is_an_error_without_a_traceback(tmp_path: Path, command: Command) -> None:
    done = command(str(tmp_path), "--list")
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
