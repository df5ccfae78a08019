"""Mining end to end on a collection whose every number can be worked out by hand."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from calibration.made import calibration, model
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from toy import TableTeacher, collection, run_file

import foolsgold as fg
from foolsgold.errors import RecipeError, TeacherError
from foolsgold.mined.mined_set import MinedSet

DOCS = {
    "pos": "the cat sat on the mat",
    "variant": " The CAT  sat\ton the mat",
    "near": "a cat sits on a mat, all day long",
    "easy": "stock markets fell sharply",
    "hard": "cats and mats: a catalogue",
    "unsure": "where cats like to sit",
    "self": "Where does the cat sit?",
    "blank": "   ",
}
QUERIES = {"q": "where does the cat sit?"}
SCORES = {"pos": 0.95, "near": 0.9, "unsure": 0.5, "hard": 0.2, "easy": 0.01}


def _teacher(scores: Mapping[str, float] = SCORES, docs: Mapping[str, str] = DOCS) -> TableTeacher:
    return TableTeacher({docs[doc]: score for doc, score in scores.items()})


def _mine(tmp_path: Path, lists: Mapping[str, Sequence[str]], teacher: Any = ..., **sections: Any) -> MinedSet:
    source = {"run": {"path": str(run_file(tmp_path / "run.txt", lists)), **sections.pop("run", {})}}
    what = sections.pop("what", None) or collection(DOCS, QUERIES, {"q": {"pos": 1}})
    return fg.mine(
        what,
        retriever=None,
        teacher=_teacher() if teacher is ... else teacher,
        sources=sections.pop("sources", {}) | source,
        out=tmp_path / "mined",
        **sections,
    )


def _verdicts(mined: MinedSet, query: str = "q") -> dict[str, tuple[str, str]]:
    rows = mined.ledger(query).to_pylist()
    return {row["doc_id"]: (row["verdict"], row["reason"]) for row in rows}


def test_every_candidate_has_its_verdict_and_reason(tmp_path: Path) -> None:
    mined = _mine(tmp_path, {"q": list(DOCS)}, select={"strategy": "top", "per_query": 3})
    assert _verdicts(mined) == {
        "pos": ("excluded", "known_positive"),
        "variant": ("excluded", "duplicate_of_positive"),
        "self": ("excluded", "query_itself"),
        "blank": ("excluded", "empty_text"),
        "near": ("false_negative", "above_positive_threshold"),
        "unsure": ("ambiguous", "between_thresholds"),
        "hard": ("negative", "below_negative_threshold"),
        "easy": ("negative", "below_negative_threshold"),
    }
    assert mined.negatives["doc_id"].to_pylist() == ["easy", "hard"]


def test_a_negative_carries_rank_scores_and_weight(tmp_path: Path) -> None:
    mined = _mine(tmp_path, {"q": ["pos", "near", "hard"]})
    (row,) = mined.negatives.to_pylist()
    assert row == {
        "query_id": "q",
        "positive_id": None,
        "doc_id": "hard",
        "source": "run",
        "run_rank": 2,
        "run_score": 98.0,
        "teacher_score": pytest.approx(0.2),
        "positive_score": pytest.approx(0.95),
        "judge_probability": None,
        "weight": 1.0,
    }


def test_a_near_duplicate_of_a_positive_is_excluded_and_its_threshold_can_be_moved(tmp_path: Path) -> None:
    docs = DOCS | {"edited": "the cat sat on the mat."}
    # 5-shingles: "the cat sat on the mat" has 18 of 22 characters, all different; the full stop adds one: 18 / 19
    what = collection(docs, QUERIES, {"q": {"pos": 1}})
    teacher = _teacher(SCORES | {"edited": 0.1}, docs)
    strict = _mine(tmp_path, {"q": ["edited", "easy"]}, teacher, what=what, exclude={"near_duplicate": 18 / 19})
    assert _verdicts(strict)["edited"] == ("excluded", "near_duplicate_of_positive")
    loose = _mine(tmp_path, {"q": ["edited", "easy"]}, teacher, what=what, exclude={"near_duplicate": 0.96})
    assert _verdicts(loose)["edited"] == ("negative", "below_negative_threshold")


def test_two_corpus_entries_of_one_text_are_one_candidate(tmp_path: Path) -> None:
    docs = DOCS | {"again": "Stock markets FELL sharply"}
    what = collection(docs, QUERIES, {"q": {"pos": 1}})
    mined = _mine(tmp_path, {"q": ["again", "easy"]}, _teacher(SCORES | {"again": 0.01}, docs), what=what)
    assert _verdicts(mined)["again"] == ("excluded", "duplicate_of_candidate")
    assert mined.negatives["doc_id"].to_pylist() == ["easy"]


def test_a_candidate_outside_the_window_is_excluded_and_the_window_skips_known_positives(tmp_path: Path) -> None:
    mined = _mine(tmp_path, {"q": ["pos", "easy", "hard", "unsure"]}, run={"window": [1, 2]})
    assert _verdicts(mined) == {
        "pos": ("excluded", "known_positive"),
        "easy": ("excluded", "outside_window"),  # the first once the positive is gone
        "hard": ("negative", "below_negative_threshold"),
        "unsure": ("excluded", "outside_window"),
    }


def test_fewer_negatives_than_asked_is_a_shortfall_with_its_number(tmp_path: Path) -> None:
    mined = _mine(tmp_path, {"q": ["near", "hard", "easy"]}, select={"per_query": 5})
    (row,) = mined.queries.to_pylist()
    assert (row["selected"], row["shortfall"], row["false_negative"]) == (2, 3, 1)
    assert any(
        "1 of 1 queries have fewer negatives than asked (3 missing" in text for text in mined.manifest["warnings"]
    )


def test_a_query_with_no_candidate_left_is_in_the_tables_and_has_no_negatives(tmp_path: Path) -> None:
    what = collection(DOCS, {"q": "where does the cat sit?", "r": "markets"}, {"q": {"pos": 1}, "r": {"easy": 1}})
    mined = _mine(tmp_path, {"q": ["pos", "variant"], "r": ["hard"]}, what=what, select={"per_query": 1})
    assert mined.negatives.select(["query_id", "doc_id"]).to_pylist() == [{"query_id": "r", "doc_id": "hard"}]
    by_query = {row["query_id"]: row for row in mined.queries.to_pylist()}
    assert (by_query["q"]["candidates"], by_query["q"]["excluded"], by_query["q"]["shortfall"]) == (2, 2, 1)
    assert mined.manifest["counts"]["queries_without_negatives"] == 1


def test_a_query_that_no_source_knows_is_a_shortfall_too(tmp_path: Path) -> None:
    what = collection(DOCS, {"q": "where does the cat sit?", "r": "markets"}, {"q": {"pos": 1}, "r": {"easy": 1}})
    mined = _mine(tmp_path, {"q": ["hard"]}, what=what, select={"per_query": 1})
    assert mined.queries["shortfall"].to_pylist() == [0, 1]


@pytest.mark.parametrize(
    ("reference", "kept"),
    # positives 0.9 and 0.5; relative margin 0.8 keeps up to 0.4 (min), 0.72 (max), 0.56 (mean)
    [("min", ["a"]), ("max", ["a", "b", "c"]), ("mean", ["a", "b"])],
)
def test_margins_are_measured_from_the_named_positive(tmp_path: Path, reference: str, kept: list[str]) -> None:
    docs = {"p1": "one", "p2": "two", "a": "three", "b": "four", "c": "five"}
    teacher = _teacher({"p1": 0.9, "p2": 0.5, "a": 0.39, "b": 0.55, "c": 0.7}, docs)
    mined = _mine(
        tmp_path,
        {"q": ["a", "b", "c"]},
        teacher,
        what=collection(docs, {"q": "count"}, {"q": {"p1": 1, "p2": 2}}),
        decide={
            "negative_below": None,
            "positive_above": None,
            "relative_margin": 0.8,
            "positive_reference": reference,
        },
        select={"strategy": "top"},
    )
    assert mined.negatives["doc_id"].to_pylist() == kept


def test_each_mines_for_every_positive_apart(tmp_path: Path) -> None:
    docs = {"p1": "one", "p2": "two", "a": "three", "b": "four", "c": "five"}
    mined = _mine(
        tmp_path,
        {"q": ["p2", "a", "b", "c"]},
        _teacher({"p1": 0.9, "p2": 0.5, "a": 0.39, "b": 0.55, "c": 0.7}, docs),
        what=collection(docs, {"q": "count"}, {"q": {"p1": 1, "p2": 1}}),
        decide={"negative_below": None, "positive_above": None, "relative_margin": 0.8, "positive_reference": "each"},
        select={"strategy": "top", "per_query": 3},
    )
    rows = [(row["positive_id"], row["doc_id"]) for row in mined.negatives.to_pylist()]
    assert rows == [("p1", "a"), ("p1", "b"), ("p1", "c"), ("p2", "a")]
    assert mined.queries["shortfall"].to_pylist() == [0, 2]
    assert mined.to_dataset("triplet").to_list() == [
        {"anchor": "count", "positive": docs[positive], "negative": docs[negative]} for positive, negative in rows
    ]


def test_a_percentile_of_all_positives_caps_the_negatives(tmp_path: Path) -> None:
    docs = {"p1": "one", "p2": "two", "a": "three", "b": "four"}
    teacher = _teacher({"p1": 0.9, "p2": 0.5, "a": 0.69, "b": 0.71}, docs)
    mined = _mine(
        tmp_path,
        {"q": ["a", "b"]},
        teacher,
        what=collection(docs, {"q": "count"}, {"q": {"p1": 1, "p2": 1}}),
        decide={"negative_below": None, "positive_above": None, "positive_percentile": 50},  # of 0.5, 0.9: 0.7
    )
    assert mined.negatives["doc_id"].to_pylist() == ["a"]


def test_a_positive_that_scores_below_its_negative_is_flagged_not_hidden(tmp_path: Path) -> None:
    mined = _mine(tmp_path, {"q": ["hard"]}, _teacher(SCORES | {"pos": 0.1}), select={"per_query": 1})
    assert mined.queries["positive_below_negative"].to_pylist() == [True]
    assert mined.negatives["doc_id"].to_pylist() == ["hard"]
    assert any("positive that scores below one of its negatives" in text for text in mined.manifest["warnings"])


def test_an_ambiguous_candidate_may_be_kept_with_its_weight(tmp_path: Path) -> None:
    mined = _mine(
        tmp_path, {"q": ["unsure", "near", "easy"]}, decide={"ambiguous": "weight"}, select={"strategy": "top"}
    )
    assert mined.negatives["doc_id"].to_pylist() == ["unsure", "easy"]
    assert mined.negatives["weight"].to_pylist() == [pytest.approx(0.5), 1.0]  # 0.5 is half way from 0.3 to 0.7


def test_relabelling_makes_positives_of_a_new_collection_and_leaves_the_old_one(tmp_path: Path) -> None:
    what = collection(DOCS, QUERIES, {"q": {"pos": 1}})
    mined = _mine(tmp_path, {"q": ["near", "hard", "unsure"]}, what=what, relabel=True, select={"strategy": "top"})
    assert mined.collection.documents.take_ids(mined.collection.positives(0)) == ["pos", "near"]
    assert what.documents.take_ids(what.positives(0)) == ["pos"]
    written = (mined.path / "relabelled.tsv").read_text(encoding="utf-8")
    assert written == "query-id\tcorpus-id\tscore\nq\tpos\t1\nq\tnear\t1\n"
    assert mined.to_dataset("triplet", scores=True).to_list() == [
        {
            "anchor": QUERIES["q"],
            "positive": DOCS["pos"],
            "negative": DOCS["hard"],
            "scores": pytest.approx([0.95, 0.2]),
        },
        {
            "anchor": QUERIES["q"],
            "positive": DOCS["near"],
            "negative": DOCS["hard"],
            "scores": pytest.approx([0.9, 0.2]),
        },
    ]


def test_a_changed_threshold_costs_no_teacher_call(tmp_path: Path) -> None:
    lists = {"q": ["near", "unsure", "hard", "easy"]}
    first, second = _teacher(), _teacher()
    _mine(tmp_path, lists, first)
    changed = _mine(tmp_path, lists, second, decide={"negative_below": 0.6})
    assert len(first.read) == 5
    assert second.read == []
    assert changed.manifest["calls"] == {"teacher": 0, "reused": 5}
    assert sorted(changed.negatives["doc_id"].to_pylist()) == ["easy", "hard", "unsure"]


def test_a_teacher_is_asked_only_until_the_budget_is_full(tmp_path: Path) -> None:
    teacher = _teacher()
    mined = _mine(
        tmp_path, {"q": ["near", "hard", "easy", "unsure"]}, teacher, select={"strategy": "top", "per_query": 1}
    )
    # the positive; near (thrown back); then hard, which fills the budget
    assert [doc for _, doc in teacher.read] == [DOCS["pos"], DOCS["near"], DOCS["hard"]]
    assert _verdicts(mined)["easy"] == ("unscored", "not_needed")
    assert mined.manifest["counts"]["teacher_saved"] == 0.5


def test_dense_like_sources_without_any_filter_warn_loudly(tmp_path: Path) -> None:
    mined = _mine(tmp_path, {"q": ["near", "hard"]}, None)
    assert any("run without a teacher or a margin" in text for text in mined.manifest["warnings"])
    assert _verdicts(mined)["near"] == ("negative", "no_filter")


def test_a_margin_that_nothing_can_measure_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="nothing here can score a positive"):
        _mine(tmp_path, {"q": ["near"]}, None, decide={"relative_margin": 0.95})


def test_without_a_teacher_a_margin_is_measured_on_the_sources_own_scores(tmp_path: Path) -> None:
    mined = fg.mine(
        collection(DOCS, QUERIES, {"q": {"pos": 1}}),
        retriever=None,
        teacher=None,
        sources={"bm25": {}},
        decide={"relative_margin": 0.9},
        select={"strategy": "top"},
        out=tmp_path,
    )
    (positive,) = mined.positives["bm25_score"].to_pylist()
    ledger = mined.ledger("q").to_pylist()
    judged = {row["doc_id"]: row for row in ledger if row["verdict"] != "excluded"}
    assert judged
    for row in judged.values():
        assert row["verdict"] == ("negative" if row["bm25_score"] <= 0.9 * positive else "false_negative")
        assert row["teacher_score"] is None


def test_a_corpus_smaller_than_the_depth_is_mined_whole(tmp_path: Path) -> None:
    docs = {"p": "red apple", "a": "green apple", "b": "yellow apple"}
    mined = fg.mine(
        collection(docs, {"q": "apple"}, {"q": {"p": 1}}),
        retriever=None,
        teacher=_teacher({"p": 0.9, "a": 0.1, "b": 0.1}, docs),
        sources={"bm25": {"depth": 50}, "random": {"depth": 50, "quota": 1}},
        out=tmp_path,
    )
    assert sorted(mined.negatives["doc_id"].to_pylist()) == ["a", "b"]


def test_simans_on_a_source_that_cannot_score_positives_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="simans needs the score of a query's positive"):
        _mine(tmp_path, {"q": ["near"]}, select={"strategy": "simans"})


def test_the_same_run_gives_the_same_bytes_and_the_same_version(tmp_path: Path) -> None:
    lists = {"q": ["near", "unsure", "hard", "easy"]}
    first = _mine(tmp_path, lists)
    (first.path / "negatives.parquet").write_bytes(b"damaged since")
    again = _mine(tmp_path, lists)
    elsewhere = fg.mine(
        collection(DOCS, QUERIES, {"q": {"pos": 1}}),
        fg.Recipe.build(first.manifest["recipe"]),
        teacher=_teacher(),
        out=tmp_path / "elsewhere",
    )
    assert first.version == again.version == elsewhere.version
    assert again.manifest["calls"] == {"teacher": 0, "reused": 5}  # and what is said of the run is of this run
    for name in ("negatives", "ledger", "queries", "positives"):
        parts = [(mined.path / f"{name}.parquet").read_bytes() for mined in (first, elsewhere)]
        assert parts[0] == parts[1]


def test_another_seed_is_another_version(tmp_path: Path) -> None:
    lists = {"q": ["near", "unsure", "hard", "easy"]}
    first = _mine(tmp_path, lists)
    second = _mine(tmp_path, lists, seed=14)
    assert first.version != second.version
    assert second.manifest["parent"] == first.version
    assert _mine(tmp_path, lists, seed=14).manifest["parent"] == first.version  # again: not its own parent


def _big(seed: int, n_queries: int = 7, n_docs: int = 40) -> tuple[Any, dict[str, list[str]], TableTeacher]:
    """Random lists and scores: 7 queries, 40 documents, some of them duplicates of others."""
    rng = np.random.default_rng(seed)
    docs = {f"d{i}": f"text {i % 36}" for i in range(n_docs)}
    queries = {f"q{i}": f"query {i}" for i in range(n_queries)}
    judged = {q: {f"d{int(d)}": 1 for d in rng.choice(n_docs, rng.integers(1, 4), replace=False)} for q in queries}
    lists = {q: [f"d{int(d)}" for d in rng.permutation(n_docs)[: rng.integers(0, 30)]] for q in queries}
    lists["q0"] = [f"d{int(d)}" for d in rng.permutation(n_docs)[:20]]
    scores: dict[Any, float] = {
        (query, text): float(rng.random()) for query, text in itertools.product(queries.values(), set(docs.values()))
    }
    return collection(docs, queries, judged), lists, TableTeacher(scores)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 10_000),
    strategy=st.sampled_from(["top", "random", "log_random", "stratified"]),
    quotas=st.tuples(*[st.one_of(st.none(), st.integers(0, 4))] * 3),
    window=st.one_of(st.none(), st.tuples(st.integers(0, 5), st.integers(6, 20)).map(list)),
    zones=st.sampled_from([(0.3, 0.7), (0.5, 0.5), (0.1, 0.9), (None, 0.8), (0.4, None)]),
    margins=st.sampled_from([{}, {"relative_margin": 0.9}, {"absolute_margin": 0.1}, {"positive_percentile": 20}]),
    reference=st.sampled_from(["min", "max", "mean", "each"]),
    ambiguous=st.booleans(),
    backfill=st.booleans(),
    per_query=st.integers(1, 8),
    judged=st.booleans(),
)
def test_lazy_scoring_selects_exactly_what_exhaustive_scoring_selects(
    tmp_path: Path,
    seed: int,
    strategy: str,
    quotas: tuple[int | None, ...],
    window: list[int] | None,
    zones: tuple[float | None, float | None],
    margins: dict[str, float],
    reference: str,
    ambiguous: bool,
    backfill: bool,
    per_query: int,
    judged: bool,
) -> None:
    what, lists, teacher = _big(seed)
    # p = sigmoid(the teacher's logit - 0.5 x the positive's): other candidates than those below any score
    judge = model(("teacher_logit", "teacher_gap"), [0.5, 0.5], safe_to=zones[0] or 0.4)
    calibration(judge, fingerprint=teacher.fingerprint).save(tmp_path / "calibration.json")
    path = str(run_file(tmp_path / "run.txt", lists))
    other = str(run_file(tmp_path / "other.txt", {query: docs[::-1][:12] for query, docs in lists.items()}))
    sections: dict[str, Any] = {
        "sources": {
            "run": {"path": path, "quota": quotas[0], "window": window},
            "other": {"kind": "run", "path": other, "quota": quotas[1]},
            "random": {"depth": 6, "quota": quotas[2]},
        },
        "decide": {
            "negative_below": 0.3 if judged else zones[0],
            "calibration": str(tmp_path / "calibration.json") if judged else None,
            "positive_above": zones[1],
            "ambiguous": "weight" if ambiguous and None not in zones else "skip",
            "positive_reference": reference,
            **margins,
        },
        "select": {"strategy": strategy, "per_query": per_query, "backfill": backfill},
        "seed": seed,
        "retriever": None,
    }
    lazy = fg.mine(what, teacher=teacher, out=tmp_path / "lazy", cache=tmp_path / "c1", **sections)
    recipe = fg.Recipe.build(
        lazy.manifest["recipe"] | {"teacher": lazy.manifest["recipe"]["teacher"] | {"exhaustive": True}}
    )
    whole = fg.mine(what, recipe, teacher=teacher, out=tmp_path / "whole", cache=tmp_path / "c1")
    assert lazy.negatives.equals(whole.negatives)
    assert (lazy.negatives["judge_probability"].null_count == 0) or not judged
    assert whole.manifest["counts"]["unscored"] == 0
    for counts in (lazy.manifest["counts"], whole.manifest["counts"]):
        zone_sum = sum(counts[zone] for zone in ("excluded", "negative", "ambiguous", "false_negative", "unscored"))
        assert counts["candidates"] == zone_sum
        assert counts["eligible"] == counts["selected"] + counts["over_budget"]


def test_blocks_of_queries_do_not_change_the_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    what, lists, teacher = _big(3)
    tables = []
    for block in (2, 4096):
        monkeypatch.setattr(sys.modules[fg.mine.__module__], "BLOCK", block)
        folder = tmp_path / str(block)
        folder.mkdir()
        mined = _mine(folder, lists, teacher, what=what)
        tables.append([pq.read_table(mined.path / f"{name}.parquet") for name in ("negatives", "ledger", "queries")])
    assert all(one.equals(other) for one, other in zip(*tables, strict=True))


def test_what_answers_a_query_answers_every_query_with_the_same_text(tmp_path: Path) -> None:
    docs = {"a": "alpha one", "b": "alpha two", "c": "gamma"}
    what = collection(docs, {"q": "Alpha?", "r": " alpha? "}, {"q": {"a": 1}, "r": {"b": 1}})
    mined = _mine(tmp_path, {"q": ["b", "c"], "r": ["a", "c"]}, None, what=what)
    assert _verdicts(mined, "q")["b"] == ("excluded", "known_positive")
    assert _verdicts(mined, "r")["a"] == ("excluded", "known_positive")
    assert mined.negatives["doc_id"].to_pylist() == ["c", "c"]


def test_what_is_nearly_an_answer_of_a_query_of_the_same_text_is_no_negative(tmp_path: Path) -> None:
    long = "alpha two is a rather long document about many things indeed, many and more of them"
    docs = {"a": "alpha one", "b": long, "b2": long + ".", "c": "gamma"}
    what = collection(docs, {"q": "Alpha?", "r": " alpha? "}, {"q": {"a": 1}, "r": {"b": 1}})
    mined = _mine(tmp_path, {"q": ["b2", "c"]}, None, what=what)
    assert _verdicts(mined, "q")["b2"] == ("excluded", "near_duplicate_of_positive")


def test_a_teachers_logits_are_decided_on_the_recipes_scale(tmp_path: Path) -> None:
    # sigmoid(0.29) = 0.57: not below 0.3, though 0.29 is
    teacher = TableTeacher({DOCS["pos"]: 3.0, DOCS["hard"]: 0.29, DOCS["easy"]: -2.0}, scale="logit")
    mined = _mine(tmp_path, {"q": ["hard", "easy"]}, teacher)
    assert _verdicts(mined)["hard"] == ("ambiguous", "between_thresholds")
    assert mined.negatives["teacher_score"].to_pylist() == [pytest.approx(1 / (1 + np.exp(2.0)))]


def test_thresholds_of_another_scale_are_read_on_it_with_a_warning(tmp_path: Path) -> None:
    teacher = TableTeacher({DOCS["pos"]: 3.0, DOCS["hard"]: 0.29}, scale="logit")
    recipe = fg.Recipe.build({"teacher": {"scale": "logit"}})
    source = {"run": {"path": str(run_file(tmp_path / "run.txt", {"q": ["hard"]}))}}
    what = collection(DOCS, QUERIES, {"q": {"pos": 1}})
    mined = fg.mine(what, recipe, retriever=None, teacher=teacher, sources=source, out=tmp_path / "mined")
    # the teacher's object replaces the recipe's teacher, its scale stays the recipe's
    assert mined.manifest["recipe"]["teacher"]["scale"] == "logit"
    assert _verdicts(mined)["hard"][0] == "negative"
    assert any("are read as logits" in text for text in mined.manifest["warnings"])


def test_a_function_with_a_scale_is_a_teacher(tmp_path: Path) -> None:
    def share(pairs: list[tuple[str, str]]) -> list[float]:
        return [SCORES[next(name for name, text in DOCS.items() if text == doc)] for _, doc in pairs]

    with pytest.raises(TeacherError, match=r"share\.scale is None; set it to what its scores are"):
        _mine(tmp_path, {"q": ["hard"]}, share)
    share.scale = "probability"  # type: ignore[attr-defined]
    assert _mine(tmp_path, {"q": ["hard"]}, share).negatives["doc_id"].to_pylist() == ["hard"]


@pytest.mark.parametrize("answer", [[float("nan")], [1.7], [], [0.1, 0.2], ["high"], [[0.1]], None])
def test_a_teacher_that_does_not_answer_with_a_number_a_pair_is_refused(tmp_path: Path, answer: Any) -> None:
    class Odd:
        scale = "probability"

        def score(self, pairs: list[tuple[str, str]]) -> Any:
            del pairs
            return answer

    with pytest.raises(TeacherError):
        _mine(tmp_path, {"q": ["hard"]}, Odd())
    assert not list((tmp_path / "mined").glob("*/manifest.json"))


def test_with_each_a_document_is_labelled_once_a_query(tmp_path: Path) -> None:
    docs = {"p1": "one", "p2": "two", "a": "three"}
    mined = _mine(
        tmp_path,
        {"q": ["a"]},
        _teacher({"p1": 0.9, "p2": 0.8, "a": 0.1}, docs),
        what=collection(docs, {"q": "count"}, {"q": {"p1": 1, "p2": 1}}),
        decide={"positive_reference": "each"},
    )
    assert len(mined.negatives) == 2
    rows = [(row["positive"], row["label"]) for row in mined.to_dataset("labeled-pair").to_list()]
    assert rows == [("one", 1), ("three", 0), ("two", 1)]


def test_a_source_that_proposes_nothing_for_most_queries_is_spoken_of(tmp_path: Path) -> None:
    docs = {"a": "黑猫坐在垫子上", "b": "股市大跌", "p": "猫在垫子上睡觉"}
    what = collection(docs, {"q": "猫坐在哪里"}, {"q": {"p": 1}})
    sections: dict[str, Any] = {"retriever": None, "teacher": None, "out": tmp_path}
    silent = fg.mine(what, sources={"bm25": {}}, **sections)
    assert any("bm25 proposed nothing for 1 of 1 queries" in text for text in silent.manifest["warnings"])
    found = fg.mine(what, sources={"bm25": {"tokenizer": "bigram", "language": "none"}}, **sections)
    assert found.negatives["doc_id"].to_pylist() == ["a"]
