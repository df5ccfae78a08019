from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from toy import collection

from foolsgold.errors import SourceError
from foolsgold.sources.run import RunSource, write_run

GOLD = collection(
    {"a": "one", "b": "two", "c": "three", "d": "four"},
    {"p": "first?", "q": "second?", "r": "third?"},
    {"p": {"a": 1}, "q": {"b": 1}, "r": {"c": 1}},
)


def source(path: Path, text: str) -> RunSource:
    path = path / "engine.run"
    path.write_text(text, encoding="utf-8")
    return RunSource("run", path, GOLD)


def retrieve(run: RunSource, queries: list[int], depth: int = 10) -> list[list[tuple[int, float]]]:
    hits = run.retrieve(np.array(queries, dtype=np.int32), depth)
    pairs = list(zip(hits.rows.tolist(), hits.scores.tolist(), strict=True))
    return [pairs[a:b] for a, b in zip(hits.offsets[:-1], hits.offsets[1:], strict=True)]


def test_hits_come_by_score_then_row_whatever_order_and_rank_the_file_has(tmp_path: Path) -> None:
    run = source(tmp_path, "q Q0 d 1 0.5 x\np\tQ0\ta\t9\t-1\tx\nq Q0 a 2 2.0 x\nq Q0 c 3 0.5 x\n\n")
    assert retrieve(run, [1, 0, 2, 1]) == [
        [(0, 2.0), (2, 0.5), (3, 0.5)],
        [(0, -1.0)],
        [],
        [(0, 2.0), (2, 0.5), (3, 0.5)],
    ]
    assert retrieve(run, [1], depth=2) == [[(0, 2.0), (2, 0.5)]]
    assert retrieve(run, []) == []
    assert run.notes == ()


@given(
    st.dictionaries(
        st.tuples(st.sampled_from("pqr"), st.sampled_from("abcd")), st.floats(-100, 100, width=32), min_size=1
    ),
    st.lists(st.integers(0, 2), max_size=5),
    st.integers(1, 5),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_run_comes_back_sorted(
    tmp_path: Path, scores: dict[tuple[str, str], float], queries: list[int], depth: int
) -> None:
    run = source(tmp_path, "".join(f"{q} Q0 {d} 0 {score!r} x\n" for (q, d), score in scores.items()))
    wanted = [
        sorted(
            (("abcd".index(d), s) for (q, d), s in scores.items() if q == "pqr"[row]), key=lambda hit: (-hit[1], hit[0])
        )
        for row in queries
    ]
    assert retrieve(run, queries, depth) == [hits[:depth] for hits in wanted]


def test_a_document_listed_twice_has_its_best_score(tmp_path: Path) -> None:
    run = source(tmp_path, "p Q0 a 1 1 x\np Q0 b 2 2 x\np Q0 a 3 3 x\n")
    assert retrieve(run, [0]) == [[(0, 3.0), (1, 2.0)]]
    assert run.notes == ("engine.run: documents listed more than once for a query: 1, the best score counts",)


def test_unknown_ids_are_counted_and_passed_over(tmp_path: Path) -> None:
    run = source(tmp_path, "p Q0 a 1 1 x\np Q0 z 2 2 x\np Q0 y 3 3 x\ns Q0 a 1 1 x\n")
    assert retrieve(run, [0]) == [[(0, 1.0)]]
    assert run.notes == (
        "engine.run: queries that the collection does not have: 1, skipped (as 's')",
        "engine.run: documents that the collection does not have: 2, skipped (as 'z')",
    )


BROKEN = {
    "p Q0 a 1 1 x\np Q0 b 1 1\n": "line 2: 5 columns; a TREC run line has six",
    "p Q0 a 1 nan x\n": "line 1: the score 'nan' is not a finite number",
    "p Q0 a 1 inf x\n": "line 1: the score 'inf' is not a finite number",
    "p Q0 a 1 1e39 x\n": "line 1: the score '1e39' is not a finite number",
    "p Q0 a 1 high x\n": "line 1: the score 'high' is not a finite number",
    "": "empty; a run lists query-id Q0 doc-id rank score tag",
    "7 Q0 8 1 1 x\n": r"no line has a query and a document of toy, split train \(the first: query '7', document '8'\)",
}


@pytest.mark.parametrize(("text", "message"), BROKEN.items(), ids=range(len(BROKEN)))
def test_a_broken_run_is_named_with_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SourceError, match=r"engine\.run.*" + message):
        source(tmp_path, text)


def test_all_broken_lines_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"9 bad lines\n  line 1: [\s\S]*\n  and 4 more"):
        source(tmp_path, "p Q0 a 1 nan x\nshort\n" * 4 + "short\n")


def test_a_missing_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no such run file"):
        RunSource("run", tmp_path / "nowhere", GOLD)


def parquet(path: Path, **columns: list[object]) -> RunSource:
    pq.write_table(pa.table(columns), path / "run.parquet")
    return RunSource("run", path / "run.parquet", GOLD)


def test_parquet_is_read_as_trec_is(tmp_path: Path) -> None:
    run = parquet(tmp_path, query_id=["q", "q", "p"], doc_id=["d", "a", "b"], score=[1, 2, 3], rank=[0, 0, 0])
    assert retrieve(run, [0, 1, 2]) == [[(1, 3.0)], [(0, 2.0), (3, 1.0)], []]


def test_a_broken_parquet_run_is_named_with_its_row(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="row 2: the score None is not a finite number"):
        parquet(tmp_path, query_id=["q", "q"], doc_id=["d", "a"], score=[1.0, None])
    with pytest.raises(SourceError, match="row 1: an id is null"):
        parquet(tmp_path, query_id=[None, "q"], doc_id=["d", "a"], score=[1.0, 2.0])
    with pytest.raises(SourceError, match="no column doc_id; a run has query_id, doc_id, score"):
        parquet(tmp_path, query_id=["q"], docid=["d"], score=[1.0])
    (tmp_path / "run.parquet").write_text("nonsense")
    with pytest.raises(SourceError, match="not a parquet file"):
        RunSource("run", tmp_path / "run.parquet", GOLD)


def test_the_manifest_gets_the_path_and_the_contents_hash(tmp_path: Path) -> None:
    text = "p Q0 a 1 1 x\n"
    run = source(tmp_path, text)
    assert run.describe() == {
        "kind": "run",
        "path": str(tmp_path / "engine.run"),
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
    }
    assert run.score(np.zeros(1, np.int32), np.zeros(1, np.int32)) is None


def test_a_run_that_is_written_is_read_back_sorted(tmp_path: Path) -> None:
    lines = write_run(tmp_path / "own.trec", [("q", [("c", 0.1), ("a", 1 / 3)]), ("p", [])])
    assert lines == 2
    assert (tmp_path / "own.trec").read_text(encoding="utf-8").splitlines() == [
        f"q Q0 a 1 {1 / 3!r} foolsgold",
        "q Q0 c 2 0.1 foolsgold",
    ]
    assert retrieve(RunSource("run", tmp_path / "own.trec", GOLD), [1]) == [
        [(0, pytest.approx(1 / 3)), (2, pytest.approx(0.1))]
    ]


@pytest.mark.parametrize(
    ("query", "hit", "said"),
    [
        ("q 1", ("a", 1.0), "'q 1' cannot be in a run"),
        ("q", ("", 1.0), "'' cannot be in a run"),
        ("q", ("a", float("nan")), "the score is nan"),
    ],
)
def test_what_a_run_cannot_hold_is_refused_and_nothing_is_written(
    tmp_path: Path, query: str, hit: tuple[str, float], said: str
) -> None:
    with pytest.raises(SourceError, match=said):
        write_run(tmp_path / "own.trec", [("p", [("b", 2.0)]), (query, [hit])])
    assert list(tmp_path.iterdir()) == []
