"""A mined set on disk: formats, stories, differences, and that it is whole or not there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from toy import TableTeacher, collection, run_file

import foolsgold as fg
from foolsgold.errors import MinedSetError
from foolsgold.mined.mined_set import MinedSet
from foolsgold.mining.writer import check_conservation
from foolsgold.records import QUERY_COUNTS

DOCS = {"p1": "one", "p2": "two", "a": "three", "b": "four", "c": "five", "d": "six"}
SCORES = {"p1": 0.9, "p2": 0.8, "a": 0.1, "b": 0.2, "c": 0.9, "d": 0.5}
LISTS = {"q": ["c", "d", "a", "b"], "r": ["b"]}


def _what() -> Any:
    return collection(DOCS, {"q": "count", "r": "sum"}, {"q": {"p1": 1, "p2": 2}, "r": {"p1": 1}})


def _mine(tmp_path: Path, **sections: Any) -> MinedSet:
    return fg.mine(
        _what(),
        retriever=None,
        teacher=TableTeacher({DOCS[doc]: score for doc, score in SCORES.items()}),
        sources={"run": {"path": str(run_file(tmp_path / "run.txt", LISTS))}},
        out=tmp_path / "mined",
        **({"select": {"strategy": "top", "per_query": 2}} | sections),
    )


def test_triplets_are_every_positive_with_every_negative(tmp_path: Path) -> None:
    assert _mine(tmp_path).to_dataset("triplet").to_list() == [
        {"anchor": "count", "positive": "one", "negative": "three"},
        {"anchor": "count", "positive": "one", "negative": "four"},
        {"anchor": "count", "positive": "two", "negative": "three"},
        {"anchor": "count", "positive": "two", "negative": "four"},
        {"anchor": "sum", "positive": "one", "negative": "four"},
    ]


def test_tuples_leave_out_and_count_queries_with_fewer_negatives(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mined = _mine(tmp_path)
    assert mined.to_dataset("n-tuple").to_list() == [
        {"anchor": "count", "positive": "one", "negative_1": "three", "negative_2": "four"},
        {"anchor": "count", "positive": "two", "negative_1": "three", "negative_2": "four"},
    ]
    assert "1 of 3 (query, positive) rows have fewer than 2 negatives" in caplog.text
    assert len(mined.to_dataset("n-tuple", n=1)) == 3


def test_labelled_pairs_have_each_document_of_a_query_once(tmp_path: Path) -> None:
    assert _mine(tmp_path).to_dataset("labeled-pair").to_list() == [
        {"anchor": "count", "positive": "one", "label": 1},
        {"anchor": "count", "positive": "three", "label": 0},
        {"anchor": "count", "positive": "four", "label": 0},
        {"anchor": "count", "positive": "two", "label": 1},
        {"anchor": "sum", "positive": "one", "label": 1},
        {"anchor": "sum", "positive": "four", "label": 0},
    ]


def test_labelled_lists_begin_with_the_positive(tmp_path: Path) -> None:
    assert _mine(tmp_path).to_dataset("labeled-list").to_list() == [
        {"anchor": "count", "positive": ["one", "three", "four"], "labels": [1, 0, 0]},
        {"anchor": "count", "positive": ["two", "three", "four"], "labels": [1, 0, 0]},
        {"anchor": "sum", "positive": ["one", "four"], "labels": [1, 0]},
    ]


def test_scores_are_those_of_this_positive_and_these_negatives(tmp_path: Path) -> None:
    mined = _mine(tmp_path)
    assert mined.to_dataset("triplet", scores=True)[2]["scores"] == pytest.approx([0.8, 0.1])
    assert mined.to_dataset("n-tuple", scores=True)[0]["scores"] == pytest.approx([0.9, 0.1, 0.2])
    assert mined.to_dataset("labeled-pair", scores=True).column_names == ["anchor", "positive", "score"]
    assert mined.to_dataset("labeled-list", scores=True)[1]["scores"] == pytest.approx([0.8, 0.1, 0.2])


def test_weights_stand_beside_the_negatives_they_belong_to(tmp_path: Path) -> None:
    mined = _mine(tmp_path, decide={"ambiguous": "weight"}, select={"strategy": "top", "per_query": 2})
    assert mined.negatives["doc_id"].to_pylist() == ["d", "a", "b"]
    # (0.7 - 0.5) / (0.7 - 0.3) = 0.5
    assert mined.to_dataset("triplet", weights=True)[0]["weights"] == pytest.approx([0.5])
    assert mined.to_dataset("n-tuple", weights=True)[0]["weights"] == pytest.approx([0.5, 1.0])
    assert mined.to_dataset("labeled-pair", weights=True)["weight"][:3] == pytest.approx([1.0, 0.5, 1.0])
    assert mined.to_dataset("labeled-list", weights=True)[0]["weights"] == pytest.approx([0.5, 1.0])


def test_formats_that_are_not_there_are_refused(tmp_path: Path) -> None:
    mined = _mine(tmp_path)
    with pytest.raises(MinedSetError, match="one of triplet, n-tuple"):
        mined.to_dataset("triple")  # type: ignore[arg-type]
    with pytest.raises(MinedSetError, match="no query has 8 negatives"):
        mined.to_dataset("n-tuple", n=8)
    for n in (0, -1, 2.5, "3", True):
        with pytest.raises(MinedSetError, match="a whole number, at least 1"):
            mined.to_dataset("n-tuple", n=n)  # type: ignore[arg-type]
    with pytest.raises(MinedSetError, match="triplet has all there are"):
        mined.to_dataset("triplet", n=1)


def test_a_candidates_story_names_rank_scores_verdict_and_quota(tmp_path: Path) -> None:
    mined = _mine(tmp_path)
    assert str(mined.explain("q", "a")) == (
        "Query q, document a: found by run at rank 3 (score 98).\n"
        "The teacher gives it 0.1 (probability); the positive has 0.8.\n"
        "Verdict: negative, because its score is below decide.negative_below (0.3).\n"
        "Selected, from the quota of run."
    )
    assert "false negative, because its score is above decide.positive_above (0.7)" in str(mined.explain("q", "c"))


def test_a_pair_that_was_never_a_candidate_is_said_to_be_none(tmp_path: Path) -> None:
    mined = _mine(tmp_path)
    with pytest.raises(MinedSetError, match="no source proposed document 'p1' for query 'r'"):
        mined.explain("r", "p1")
    with pytest.raises(MinedSetError, match="no candidate was found for a query 'z'"):
        mined.explain("z", "a")


def test_a_notebook_shows_tables_with_every_text_escaped(tmp_path: Path) -> None:
    mined = _mine(tmp_path)
    named = mined.manifest.collection.model_copy(update={"name": "<b>toy</b>"})
    mined.manifest = mined.manifest.model_copy(update={"collection": named})
    table = mined._repr_html_()
    assert "&lt;b&gt;toy&lt;/b&gt;" in table
    assert "<b>" not in table
    assert 'selected from run</td><td style="text-align: right">3<' in table
    gates = mined.audit()._repr_html_()
    for gate in mined.audit().gates:
        assert f">{gate.name}<" in gates
    assert "decide.negative_below" in fg.Recipe.build({"decide": {"negative_below": 0.2}})._repr_html_()
    assert "seed" not in fg.Recipe()._repr_html_()


def test_a_set_opens_from_its_folder_and_from_the_folder_of_sets(tmp_path: Path) -> None:
    mined = _mine(tmp_path)
    for path in (mined.path, mined.path.parent):
        opened = MinedSet(path, _what())
        assert opened.version == mined.version
        assert opened.negatives.equals(mined.negatives)


def test_a_set_mined_in_memory_asks_for_its_collection(tmp_path: Path) -> None:
    mined = _mine(tmp_path)
    with pytest.raises(MinedSetError, match="collection in memory"):
        MinedSet(mined.path).to_dataset()


def test_a_collection_that_changed_since_is_refused(tmp_path: Path) -> None:
    mined = _mine(tmp_path)
    changed = collection(DOCS | {"a": "3"}, {"q": "count", "r": "sum"}, {"q": {"p1": 1, "p2": 2}, "r": {"p1": 1}})
    with pytest.raises(MinedSetError, match="is not the one that was mined"):
        MinedSet(mined.path, changed).to_dataset()


@pytest.mark.parametrize("content", [None, "", "{", "{}"])
def test_a_folder_without_a_whole_manifest_is_no_set(tmp_path: Path, content: str | None) -> None:
    (tmp_path / "x").mkdir()
    if content is not None:
        (tmp_path / "x" / "manifest.json").write_text(content, encoding="utf-8")
    with pytest.raises(MinedSetError):
        MinedSet(tmp_path / "x")


def test_a_broken_table_is_one_sentence(tmp_path: Path) -> None:
    mined = _mine(tmp_path)
    (mined.path / "negatives.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(MinedSetError, match=r"negatives\.parquet cannot be read"):
        _ = MinedSet(mined.path).negatives


def test_counts_that_do_not_add_up_are_never_written() -> None:
    good = {
        name: [value] for name, value in zip(QUERY_COUNTS, (10, 4, 3, 1, 1, 1, 3, 2, 1, 0), strict=True)
    }  # 10 = 4 + 3 + 1 + 1 + 1 and 3 = 2 + 1
    check_conservation(pa.table(good))
    for field in ("candidates", "eligible"):
        with pytest.raises(AssertionError):
            check_conservation(pa.table(good | {field: [good[field][0] + 1]}))


def test_the_audit_of_a_set_is_written_beside_it(tmp_path: Path) -> None:
    mined = _mine(tmp_path)
    written = json.loads((mined.path / "audit.json").read_text(encoding="utf-8"))
    assert written["negatives"] == 3
    assert written["fill_rate"] == 0.5
    assert written["inverted_share"] == 0.0
    # logits: positives 0.8 (q, the lower of two) and 0.9 (r); negatives 0.1, 0.2 and 0.2
    # logit(0.8) = 1.3863, logit(0.9) = 2.1972, logit(0.1) = -2.1972, logit(0.2) = -1.3863
    assert written["mean_margin"] == pytest.approx((3.5835 + 2.7726 + 3.5835) / 3, abs=1e-3)
    assert written["passed"] is True


def test_a_failed_gate_says_so(tmp_path: Path) -> None:
    audit = _mine(tmp_path, audit={"min_mean_margin": 4.0}).audit()
    assert [(gate.name, gate.verdict) for gate in audit.gates][:2] == [
        ("min_mean_margin", "fail"),
        ("max_inverted", "pass"),
    ]
    assert not audit.passed


_SLOW_RUN = """
import sys, time
from pathlib import Path
sys.path[:0] = [{tests!r}, str(Path({tests!r}).parent)]
import numpy as np
from test_mined_set import DOCS, SCORES, LISTS, _what
from toy import TableTeacher
import foolsgold as fg

class Slow(TableTeacher):
    def score(self, pairs, progress=None):
        if any(text == DOCS["d"] for _, text in pairs):
            Path({flag!r}).touch()
            time.sleep(60)
        return super().score(pairs)

fg.mine(_what(), retriever=None, teacher=Slow({{DOCS[doc]: score for doc, score in SCORES.items()}}),
        sources={{"run": {{"path": {run!r}}}}}, select={{"strategy": "top", "per_query": 2}}, out={out!r})
"""


def test_a_killed_run_leaves_no_half_written_set_and_its_scores_are_not_lost(tmp_path: Path) -> None:
    out, flag = tmp_path / "mined", tmp_path / "waiting"
    script = _SLOW_RUN.format(
        tests=str(Path(__file__).parent),
        flag=str(flag),
        run=str(run_file(tmp_path / "run.txt", LISTS)),
        out=str(out),
    )
    run = subprocess.Popen([sys.executable, "-c", script], env=os.environ.copy())
    deadline = time.monotonic() + 60
    while not flag.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    run.send_signal(signal.SIGKILL)
    run.wait()
    assert flag.exists()
    with pytest.raises(MinedSetError, match="no mined set here"):
        MinedSet(out)
    teacher = TableTeacher({DOCS[doc]: score for doc, score in SCORES.items()})
    mined = fg.mine(
        _what(),
        retriever=None,
        teacher=teacher,
        sources={"run": {"path": str(tmp_path / "run.txt")}},
        select={"strategy": "top", "per_query": 2},
        out=out,
    )
    assert mined.negatives["doc_id"].to_pylist() == ["a", "b", "b"]
    assert "one" not in [text for _, text in teacher.read]  # the positives had been scored before the kill


def test_a_damaged_table_or_manifest_is_one_sentence_and_never_another_set(tmp_path: Path) -> None:
    mined = _mine(tmp_path)
    file = mined.path / "negatives.parquet"
    whole = file.read_bytes()
    told = 0
    for place in range(4, len(whole) - 8, 7):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        try:
            table = MinedSet(mined.path, _what()).negatives
        except MinedSetError:
            told += 1
        else:  # in what no value depends on, such as statistics
            assert table.equals(mined.negatives)
    assert told > 0
    pq.write_table(mined.negatives.drop_columns(["weight"]), file)
    with pytest.raises(MinedSetError, match=r"negatives.parquet has no column weight of float; mine the set again"):
        _ = MinedSet(mined.path, _what()).negatives
    wrong = mined.negatives.set_column(2, mined.negatives.field("doc_id"), pa.array(["nope"] * len(mined.negatives)))
    pq.write_table(wrong, file)
    with pytest.raises(MinedSetError, match="document 'nope' of the mined set is not in its collection"):
        MinedSet(mined.path, _what()).audit()
    manifest = json.loads((mined.path / "manifest.json").read_text())
    del manifest["sources"]
    (mined.path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(MinedSetError, match=r"manifest.json cannot be read \(sources: Field required\)"):
        MinedSet(mined.path)
