"""Gates: on which side of a limit is which verdict, and what the user is told to do."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from foolsgold.auditing.composition import Hubs
from foolsgold.auditing.gates import gates
from foolsgold.auditing.leakage import Leakage
from foolsgold.auditing.metrics import Audit
from foolsgold.recipe import AuditSpec

if TYPE_CHECKING:
    from conftest import Mining

FINE: dict[str, Any] = {
    "negatives": 100, "queries": 20, "fill_rate": 0.8, "mean_margin": 2.0, "inverted_share": 0.05, "short": 4,
    "missing": 4, "empty": 0, "per_query": (), "score_unit": "logit", "margins": None,
    "low_margin": 1.0, "median_positive": 4.0, "low_positive_share": 0.1, "sources": {}, "overlap": {},
    "hubs": Hubs(0.05, 1, ()), "lengths": None, "near_duplicate_share": 0.05,
    "leakage": Leakage(0.0, 0.0, ("test",), ()), "notes": (),
}  # fmt: skip


def _verdicts(**measured: Any) -> dict[str, str]:
    return {gate.name: gate.verdict for gate in gates(Audit(**(FINE | measured)), AuditSpec())}


def test_a_measure_at_its_limit_passes() -> None:
    assert set(_verdicts().values()) == {"pass"}
    assert list(_verdicts()) == list(AuditSpec.model_fields)


@pytest.mark.parametrize(
    ("measured", "gate", "verdict"),
    [
        ({"mean_margin": 1.99}, "min_mean_margin", "fail"),
        ({"inverted_share": 0.051}, "max_inverted", "fail"),
        ({"leakage": Leakage(0.01, 0.0, ("test",), ())}, "max_leaked", "fail"),
        ({"low_margin": 0.99}, "min_lower_mode", "warn"),
        ({"fill_rate": 0.79}, "min_fill", "warn"),
        ({"low_positive_share": 0.11}, "max_low_positives", "warn"),
        ({"hubs": Hubs(0.06, 1, ())}, "max_hubs", "warn"),
        ({"near_duplicate_share": 0.06}, "max_near_duplicates", "warn"),
        ({"mean_margin": None}, "min_mean_margin", "unknown"),
        ({"leakage": None}, "max_leaked", "unknown"),
        ({"low_margin": None}, "min_lower_mode", "unknown"),
    ],
)
def test_one_measure_beyond_its_limit_moves_one_gate(measured: dict[str, Any], gate: str, verdict: str) -> None:
    assert _verdicts(**measured) == _verdicts() | {gate: verdict}


def test_only_a_failed_gate_fails_the_set() -> None:
    warned = Audit(**(FINE | {"fill_rate": 0.1}))
    warned = replace(warned, gates=gates(warned, AuditSpec()))
    assert (warned.passed, warned.warned, warned.failed) == (True, ("min_fill",), ())
    failed = Audit(**(FINE | {"inverted_share": 1.0}))
    failed = replace(failed, gates=gates(failed, AuditSpec()))
    assert (failed.passed, failed.warned, failed.failed) == (False, (), ("max_inverted",))


def test_a_gate_without_a_limit_is_off() -> None:
    off = AuditSpec.model_validate(dict.fromkeys(AuditSpec.model_fields))
    assert gates(Audit(**FINE), off) == ()


def test_positives_that_the_teacher_rejects_are_named_as_the_cause_of_a_low_margin() -> None:
    (gate, *_) = gates(Audit(**(FINE | {"mean_margin": 0.1})), AuditSpec())
    assert "lower decide.negative_below" in gate.remedy
    (gate, *_) = gates(Audit(**(FINE | {"mean_margin": 0.1, "median_positive": -3.0})), AuditSpec())
    assert "try another teacher" in gate.remedy


def test_a_group_of_negatives_beside_their_positives_is_seen_at_the_lower_end(mining: Mining) -> None:
    # 60 queries: one negative far away (margin 9 and a little), and one as good as the positive (margin 0 and a little)
    queries = [f"q{number:02}" for number in range(60)]
    scores: dict[Any, float] = {(query, "p"): 5.0 for query in queries}
    scores |= {(query, "a"): -4.0 - number / 60 for number, query in enumerate(queries)}
    scores |= {(query, "b"): 5.0 - number / 60 for number, query in enumerate(queries)}
    mined = mining(
        {"run": {query: ["a", "b"] for query in queries}},
        scores,
        scale="logit",
        decide={"negative_below": None, "positive_above": 6.0},
        select={"strategy": "top", "per_query": 2},
    )
    audit = mined.audit()
    assert audit.low_margin == pytest.approx(0.2, abs=0.1)
    gate = next(gate for gate in audit.gates if gate.name == "min_lower_mode")
    assert gate.verdict == "warn"
    assert "false negatives" in gate.remedy
