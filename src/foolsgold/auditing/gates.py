"""Measures against limits: what is wrong with a mined set, and what to do."""

from __future__ import annotations

from foolsgold.auditing.metrics import Audit, Gate, Verdict
from foolsgold.recipe import AuditSpec


def gates(audit: Audit, limits: AuditSpec) -> tuple[Gate, ...]:
    """The gates of a set that have a limit, in the order of the recipe."""
    leakage = audit.leakage
    measured: dict[str, tuple[float | None, Verdict, str]] = {
        "min_mean_margin": (audit.mean_margin, "fail", _margin_remedy(audit)),
        "max_inverted": (
            audit.inverted_share,
            "fail",
            "negatives score above their positives: set decide.absolute_margin: 0, or look at the positives of the "
            "queries flagged positive_below_negative",
        ),
        "max_leaked": (
            leakage.share if leakage else None,
            "fail",
            "these pairs are positives that this split does not know: add the other splits' judgements to its qrels, "
            "or set decide.positive_above lower",
        ),
        "min_lower_mode": (
            audit.low_margin,
            "warn",
            "one in ten negatives is nearly as close to the question as its positive, as false negatives are: read the "
            "most suspicious ones in the report, and lower decide.negative_below or set decide.absolute_margin",
        ),
        "min_fill": (
            audit.fill_rate if audit.queries else None,
            "warn",
            "raise sources.*.depth, add a source, ask for fewer with select.per_query, or set decide.ambiguous: weight",
        ),
        "max_low_positives": (
            audit.low_positive_share,
            "warn",
            "labels that may be wrong, or a teacher that does not know this kind of text: look at the positives with "
            "the lowest teacher_score in positives.parquet, and drop those that do not answer their query",
        ),
        "max_hubs": (
            audit.hubs.share,
            "warn",
            "a few documents are negatives of very many queries, so that a model learns that they are never right: see "
            "whether they are boilerplate, and take them out of the corpus or give random or bm25 a larger quota",
        ),
        "max_near_duplicates": (
            audit.near_duplicate_share,
            "warn",
            "the corpus says the same thing several times, and the budget is spent on it: remove the repetitions from "
            "the corpus, or use select.strategy: random with a deeper window",
        ),
    }  # fmt: skip
    return tuple(
        Gate(name, value, limit, _verdict(name, value, limit, beyond), remedy)
        for name, (value, beyond, remedy) in measured.items()
        if (limit := getattr(limits, name)) is not None
    )


def _verdict(name: str, value: float | None, limit: float, beyond: Verdict) -> Verdict:
    """A name says which side is the good one: at least the limit of a min_, at most that of a max_."""
    if value is None:
        return "unknown"
    good = value >= limit if name.startswith("min_") else value <= limit
    return "pass" if good else beyond


def _margin_remedy(audit: Audit) -> str:
    if audit.median_positive is not None and audit.median_positive < 0:
        return (
            "the teacher scores most of these positives below 0.5, so either it does not know this kind of text or the "
            "positives do not answer their queries: try another teacher, and look at some positives"
        )
    return "negatives are too close to the positives: lower decide.negative_below"
