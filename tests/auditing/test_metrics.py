"""Every measure of the audit, worked out by hand."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from foolsgold.auditing.composition import Hub, hubs_of
from foolsgold.auditing.metrics import Audit
from foolsgold.auditing.texts import near_duplicate_share
from foolsgold.collection import Texts
from foolsgold.errors import MinedSetError
from foolsgold.mined.mined_set import MinedSet

if TYPE_CHECKING:
    from conftest import Mining

TOP = {"strategy": "top", "per_query": 2}
# logits; the positive of q has 5, that of r has -1
LOGITS = {
    ("q", "p"): 5.0, ("q", "a"): 1.0, ("q", "b"): -1.0, ("q", "c"): 0.0,
    ("r", "p"): -1.0, ("r", "a"): 0.0, ("r", "d"): -3.0,
}  # fmt: skip
LISTS = {"near": {"q": ["b", "c"], "r": ["a"]}, "far": {"q": ["c", "b", "a"], "r": ["d"]}}


def _audit(mining: Mining, **sections: Any) -> Audit:
    decide = {"negative_below": 2.0, "positive_above": 3.0}
    return mining(LISTS, LOGITS, scale="logit", **({"select": TOP, "decide": decide} | sections)).audit()


def test_margins_in_logits_overall_and_by_source(mining: Mining) -> None:
    # each source gives one negative a query: near q b, r a; far q c, r d
    audit = _audit(mining)
    assert audit.score_unit == "logit"
    assert audit.margins is not None
    # q: 5 - -1 = 6 and 5 - 0 = 5; r: -1 - 0 = -1 and -1 - -3 = 2
    assert audit.mean_margin == audit.margins.mean == 3.0
    assert audit.margins.quantiles == pytest.approx(np.quantile([-1, 2, 5, 6], (0.05, 0.25, 0.5, 0.75, 0.95)))
    assert audit.inverted_share == 0.25
    near, far = audit.sources["near"], audit.sources["far"]
    assert (near.negatives, near.share) == (2, 0.5)
    assert near.margins is not None
    assert far.margins is not None
    assert (near.margins.mean, near.margins.inverted_share) == (2.5, 0.5)
    assert (far.margins.mean, far.margins.inverted_share) == (3.5, 0.0)
    assert audit.notes[0].startswith("leakage is not known")  # logits need no conversion, and so no note


def test_probabilities_become_logits_and_the_audit_says_so(mining: Mining) -> None:
    audit = mining({"run": {"q": ["a"]}}, {"p": 0.9, "a": 0.2}, select={"strategy": "top", "per_query": 1}).audit()
    assert audit.mean_margin == pytest.approx(math.log(0.9 / 0.1) - math.log(0.2 / 0.8), abs=1e-5)
    assert "margins are in logits, converted from the teacher's probabilities" in audit.notes


def test_cosines_have_margins_but_no_mean_margin_for_the_gate(mining: Mining) -> None:
    audit = mining({"run": {"q": ["a"]}}, {"p": 0.9, "a": 0.2}, scale="cosine", select={"per_query": 1}).audit()
    assert audit.mean_margin is None
    assert audit.score_unit == "cosine"
    assert audit.margins is not None
    assert audit.margins.mean == pytest.approx(0.7)
    assert audit.inverted_share == 0.0


def test_without_a_teacher_what_needs_one_is_unknown_and_the_rest_is_not(mining: Mining) -> None:
    audit = mining({"run": {"q": ["a", "b"]}}, None, select=TOP).audit()
    assert (audit.mean_margin, audit.inverted_share, audit.low_margin, audit.low_positive_share) == (None,) * 4
    assert {gate.name: gate.verdict for gate in audit.gates}["min_mean_margin"] == "unknown"
    assert audit.fill_rate == 1.0
    assert audit.lengths is not None
    assert "no teacher scored this set" in audit.notes[0]


def test_a_positive_that_the_teacher_would_call_a_negative_is_low(mining: Mining) -> None:
    # -1 is below negative_below (2), 5 is not
    assert _audit(mining).low_positive_share == 0.5
    assert _audit(mining).median_positive == 2.0
    # with no threshold, a logit of 0 is the border
    by_margin = {"negative_below": None, "positive_above": None, "absolute_margin": 0.0}
    assert _audit(mining, decide=by_margin).low_positive_share == 0.5


def test_fill_shortfalls_and_negatives_a_query(mining: Mining) -> None:
    lists = {"run": {"q": ["a", "b", "c"], "r": ["a"], "s": ["e"]}}
    audit = mining(lists, {"p": 0.9, "a": 0.1, "b": 0.1, "c": 0.1, "e": 0.95}, select=TOP).audit()
    assert audit.fill_rate == pytest.approx(1 / 3)
    assert (audit.short, audit.missing, audit.empty) == (2, 3, 1)
    assert audit.per_query == (1, 1, 1)


def test_rank_bands_count_ranks_from_one(mining: Mining) -> None:
    documents = {"p": "right"} | {f"d{rank}": f"text number {rank}" for rank in range(1, 112)}
    ranked = list(documents)[1:]
    audit = mining(
        {"run": {"q": ranked}},
        None,
        documents=documents,
        select={"strategy": "top", "per_query": 111, "cap": 111},
    ).audit()
    # the run is read to depth 100: ranks 1-10, 11-20, 21-50, 51-100
    assert audit.sources["run"].bands == (0.1, 0.1, 0.3, 0.5, 0.0)


def test_overlap_is_the_jaccard_similarity_of_the_candidates(mining: Mining) -> None:
    # near: q b, q c, r a; far: q c, q b, q a, r d; both: q b, q c; either: q a, q b, q c, r a, r d
    assert _audit(mining).overlap == {"near & far": pytest.approx(2 / 5)}


def test_hubs_are_far_above_the_mean_and_of_ten_queries_at_least() -> None:
    # h is a negative of 30 queries; 300 others of one each: mean (30 + 300) / 301 < 3
    rows = [(f"q{number}", "h") for number in range(30)] + [(f"q{number % 30}", f"d{number}") for number in range(300)]
    hubs = hubs_of(_pairs(rows))
    assert (hubs.number, hubs.share) == (1, pytest.approx(30 / 330))
    assert hubs.most[:2] == (Hub("h", 30), Hub("d0", 1))
    assert hubs_of(_pairs(rows[21:])).number == 0  # 9 queries only


def test_a_query_mined_for_each_of_its_positives_counts_once_for_a_hub() -> None:
    rows = [("q", "h")] * 20
    assert hubs_of(_pairs(rows, positive_id=[f"p{number}" for number in range(20)])).most == (Hub("h", 1),)


def _pairs(rows: list[tuple[str, str]], positive_id: list[str | None] | None = None) -> pa.Table:
    queries, docs = zip(*rows, strict=True)
    positive = pa.array(positive_id or [None] * len(rows), pa.string())
    return pa.table({"query_id": queries, "positive_id": positive, "doc_id": docs})


def test_lengths_tell_when_negatives_are_longer(mining: Mining) -> None:
    # negatives a (4 characters) and b (17), the positive p has 14
    audit = mining({"run": {"q": ["a", "b"]}}, None, select=TOP).audit()
    assert audit.lengths is not None
    assert (audit.lengths.negatives_median, audit.lengths.positives_median) == (10.5, 14.0)
    assert audit.lengths.ratio == 0.75
    assert audit.lengths.longer_share == 0.5


def test_near_duplicates_are_counted_within_a_query_only() -> None:
    long = "the quick brown fox jumps over the lazy dog and runs away through the dark green forest"
    texts = Texts.from_lists("abcd", [long, long + "s", "something else entirely", long + "!"])
    # unit 1: a, b (nearly a), c; unit 2: d
    share = near_duplicate_share(texts, np.array([0, 1, 2, 3], np.int32), np.array([3, 1], np.int32), 0.9)
    assert share == 0.25
    # three alike are two too many
    share = near_duplicate_share(texts, np.array([0, 1, 3], np.int32), np.array([3], np.int32), 0.9)
    assert share == pytest.approx(2 / 3)


def test_a_large_set_is_sampled_for_near_duplicates_evenly() -> None:
    text = "a passage that is there twice, in nearly the same words, as far as anyone can tell"
    texts = Texts.from_lists("ab", [text, text + "."])
    counts = np.full(12_000, 2, np.int32)
    assert near_duplicate_share(texts, np.tile(np.array([0, 1], np.int32), 12_000), counts, 0.9) == 0.5


def test_a_set_without_any_negative_is_audited(mining: Mining) -> None:
    audit = mining({"run": {"q": ["a"]}}, {"p": 0.9, "a": 0.95}, select=TOP).audit()
    assert audit.negatives == 0
    assert audit.margins is None
    assert audit.hubs.most == ()
    assert audit.lengths is None
    assert audit.warned == ("min_fill",)


def test_a_set_whose_collection_is_not_at_hand_is_measured_without_its_texts(mining: Mining) -> None:
    mined = mining(LISTS, LOGITS, scale="logit", select=TOP)
    audit = MinedSet(mined.path).audit()
    assert audit.mean_margin == mined.audit().mean_margin
    assert (audit.lengths, audit.near_duplicate_share, audit.leakage) == (None, None, None)
    assert any("collection in memory" in note for note in audit.notes)


def test_tables_that_do_not_belong_together_are_refused(mining: Mining) -> None:
    mined = mining(LISTS, LOGITS, scale="logit", select=TOP)
    pq.write_table(mined.negatives.slice(1), mined.path / "negatives.parquet")
    with pytest.raises(MinedSetError, match=r"queries\.parquet counts .* negatives\.parquet has"):
        MinedSet(mined.path).audit()


def test_the_audit_is_plain_json(mining: Mining) -> None:
    mined = mining(LISTS, LOGITS, scale="logit", select=TOP)
    written = json.loads((mined.path / "audit.json").read_text(encoding="utf-8"))
    assert written == json.loads(json.dumps(mined.audit().to_json()))
