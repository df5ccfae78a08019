"""The measures of a mined set, and the gates that hold them against limits."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from foolsgold.auditing.composition import Hubs, SourceShare
from foolsgold.auditing.leakage import Leakage
from foolsgold.auditing.margins import Margins
from foolsgold.auditing.texts import Lengths
from foolsgold.recipe import AuditSpec
from foolsgold.recipe.html import html_table
from foolsgold.records import Scale

_IN_LOGITS = ("min_mean_margin", "min_lower_mode")  # the others are shares
_WORSE = ("warn", "fail")

Verdict = Literal["pass", "warn", "fail", "unknown"]


@dataclass(frozen=True)
class Gate:
    """One measure against its limit, and what to do where it is beyond it. `unknown`: it was not measured.

    A gate that fails means a set that will harm training; one that warns, a set that could be better.
    """

    name: str
    value: float | None
    limit: float
    verdict: Verdict
    remedy: str

    @property
    def measure(self) -> str:
        """What is measured, in words."""
        return AuditSpec.model_fields[self.name].description or ""

    @property
    def is_share(self) -> bool:
        """Whether value and limit are shares, from 0 to 1."""
        return self.name not in _IN_LOGITS


@dataclass(frozen=True)
class Audit:
    """Measures of one mined set. What cannot be measured is None: without a teacher, or without the collection.

    negatives, queries: how many (with `positive_reference: each`, a query counts once for each positive).
    fill_rate: share of queries that have all the negatives asked for; short, missing, empty: queries with fewer, the
    negatives that they lack, queries without any; per_query: how many queries have 0, 1, 2, ... negatives.
    score_unit: what margins are in: logits, or cosines with a teacher on that scale.
    mean_margin: mean over negatives of positive minus negative score, in logits (None with cosines).
    low_margin: the margin that one in ten negatives is below, in logits (None with cosines).
    inverted_share: share of negatives that score above their positive.
    margins: the distribution of the margins; sources: the same for each source, with shares and ranks.
    median_positive: of the scores of the positives that margins are measured from; low_positive_share: of queries whose
    positive the teacher would call a negative (below decide.negative_below, or where that is not set or a calibration
    decides, below a logit of 0).
    overlap: of each two sources, the share of their candidates that both propose.
    near_duplicate_share: of negatives that nearly repeat another one of their query.
    notes: what was converted, and what could not be measured and why.
    """

    negatives: int
    queries: int
    fill_rate: float
    mean_margin: float | None
    low_margin: float | None
    inverted_share: float | None
    short: int
    missing: int
    empty: int
    per_query: tuple[int, ...]
    score_unit: Scale | None
    margins: Margins | None
    median_positive: float | None
    low_positive_share: float | None
    sources: dict[str, SourceShare]
    overlap: dict[str, float]
    hubs: Hubs
    lengths: Lengths | None
    near_duplicate_share: float | None
    leakage: Leakage | None
    notes: tuple[str, ...]
    gates: tuple[Gate, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether no gate failed."""
        return all(gate.verdict != "fail" for gate in self.gates)

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of the gates that failed."""
        return tuple(gate.name for gate in self.gates if gate.verdict == "fail")

    @property
    def warned(self) -> tuple[str, ...]:
        """The names of the gates that warn."""
        return tuple(gate.name for gate in self.gates if gate.verdict == "warn")

    def to_json(self) -> dict[str, Any]:
        """Every measure and gate as plain values, as audit.json has them."""
        return asdict(self) | {"passed": self.passed}

    def _repr_html_(self) -> str:
        return html_table(
            f"audit of {self.negatives:,} negatives for {self.queries:,} queries",
            ("gate", "what it measures", "value", "limit", "verdict", "what to do"),
            (
                (gate.name, gate.measure, gate.value, gate.limit, gate.verdict, gate.remedy * (gate.verdict in _WORSE))
                for gate in self.gates
            ),
        )
