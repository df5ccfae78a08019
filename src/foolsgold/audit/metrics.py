"""The measures of a mined set and their gates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from foolsgold.records import Scale
from foolsgold.teachers.scale import to_scale


@dataclass(frozen=True)
class Gate:
    """One measure against its limit, and what to do where it fails. `unknown`: there are no scores to measure it on."""

    name: str
    value: float | None
    limit: float
    verdict: Literal["pass", "fail", "unknown"]
    remedy: str


@dataclass(frozen=True)
class Audit:
    """Measures of one mined set.

    mean_margin: mean over negatives of positive minus negative teacher score, in logits (None without a teacher, or
    with one on the cosine scale). inverted_share: share of negatives that score above their positive (None without a
    teacher). fill_rate: share of queries that have all the negatives asked for.
    """

    negatives: int
    queries: int
    fill_rate: float
    mean_margin: float | None
    inverted_share: float | None
    gates: tuple[Gate, ...]

    @property
    def passed(self) -> bool:
        """Whether no gate failed."""
        return all(gate.verdict != "fail" for gate in self.gates)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self) | {"passed": self.passed}


def audit(negatives: pa.Table, queries: pa.Table, manifest: Mapping[str, Any]) -> Audit:
    """Measure a set from its tables (`records.negatives_schema`, `records.queries_schema`) and its manifest."""
    limits = manifest["recipe"]["audit"]
    scale: Scale | None = manifest["teacher"]["scale"] if manifest["teacher"] else None
    margin = inverted = None
    if scale is not None and len(negatives):
        positive, negative = (negatives[name].to_numpy() for name in ("positive_score", "teacher_score"))
        inverted = float(np.mean(negative > positive))
        if scale != "cosine":
            margin = float(np.mean(to_scale(positive, scale, "logit") - to_scale(negative, scale, "logit")))
    full = queries["shortfall"].to_numpy() == 0
    remedy = "negatives are too close to the positives: lower decide.negative_below"
    if margin is not None and scale is not None and np.median(to_scale(positive, scale, "logit")) < 0:
        remedy = (
            "the teacher scores most of these positives below 0.5, so either it does not know this kind of text or the "
            "positives do not answer their queries: try another teacher, and look at some positives"
        )
    gates = (
        _gate("min_mean_margin", margin, limits["min_mean_margin"], +1,
              remedy),
        _gate("max_inverted", inverted, limits["max_inverted"], -1,
              "negatives score above their positives: set decide.absolute_margin: 0, or look at the positives of the "
              "queries flagged positive_below_negative"),
    )  # fmt: skip
    return Audit(
        negatives=len(negatives),
        queries=len(queries),
        fill_rate=float(full.mean()) if len(full) else 0.0,
        mean_margin=margin,
        inverted_share=inverted,
        gates=tuple(gate for gate in gates if gate is not None),
    )


def _gate(name: str, value: float | None, limit: float | None, better: Literal[1, -1], remedy: str) -> Gate | None:
    """A gate with a lower limit (`better` is 1) or an upper one (-1); none without a limit."""
    if limit is None:
        return None
    if value is None:
        return Gate(name, value, limit, "unknown", remedy)
    return Gate(name, value, limit, "pass" if value * better >= limit * better else "fail", remedy)
