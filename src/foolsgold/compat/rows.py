"""Mined negatives as a `datasets.Dataset`, and what `verbose` prints of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foolsgold.compat.arguments import Plan
from foolsgold.compat.choose import Mined
from foolsgold.compat.pairs import Pairs
from foolsgold.mined.formats import Examples, table_of
from foolsgold.records import BoolArray, Column, FloatArray

if TYPE_CHECKING:
    from datasets import Dataset

_ROW = "{:<6} {:>14} {:>14} {:>14}"
_WIDER = {pa.float32(): pa.float64(), pa.list_(pa.float32()): pa.list_(pa.float64())}  # as sentence-transformers' are


def examples_of(mined: Mined, pairs: Pairs, plan: Plan) -> Examples:
    """Every positive with its query's negatives; those that the format has no row for are left out.

    A `labeled-pair` has the negatives after all of a query's positives, so `first` is the last of these.
    """
    begins = np.cumsum(mined.counts) - mined.counts
    last = np.zeros(len(pairs.positives), dtype=np.bool_)
    last[pairs.offsets[1:] - 1] = True
    examples = Examples(
        queries=pairs.queries,
        documents=pairs.documents,
        query=pairs.owners,
        positive=pairs.positives,
        positive_score=Column(mined.positive_score, ~np.isnan(mined.positive_score)),
        first=last,
        begin=begins[pairs.owners],
        counts=mined.counts[pairs.owners],
        negative=mined.document,
        score=Column.known(mined.score),
        weight=np.ones(len(mined.document), dtype=np.float32),
    )
    if plan.format == "labeled-pair":  # positives without negatives have rows too
        return examples
    return examples.keep(examples.counts >= (plan.n if plan.format == "n-tuple" and not plan.ragged else 1))


def to_dataset(examples: Examples, plan: Plan, anchor: str, positive: str) -> Dataset:
    """The rows in the plan's format; `anchor` and `positive` name their columns, whatever they then hold."""
    from datasets import Dataset

    there = np.arange(plan.n) < examples.counts[:, None]
    if plan.format == "n-tuple":
        examples = _padded(examples, there)
    table = table_of(examples, plan.format, plan.n, scores=plan.scores, weights=False)
    if plan.format == "n-tuple":
        for i in np.flatnonzero(~there.all(axis=0)).tolist():
            column = pc.if_else(pa.array(there[:, i]), table.column(2 + i), pa.scalar(None, pa.string()))
            table = table.set_column(2 + i, f"negative_{i + 1}", column)
    fields = [pa.field(field.name, _WIDER.get(field.type, field.type)) for field in table.schema]
    return Dataset(table.cast(pa.schema(fields)).rename_columns([anchor, positive, *table.column_names[2:]]))


def report(of: Examples, found: Dataset, mined: Mined, plan: Plan, rows: int) -> None:
    """Print statistics of the scores, what thresholds dropped, and what to change; `rows` of the dataset were given."""
    negative = of.score.values[of.flat(of.counts)]
    difference = np.repeat(of.positive_score.values, of.counts) - negative
    summaries = [_summary(scores) for scores in (mined.positive_score, negative, difference)]
    print(_ROW.format("Metric", "Positive", "Negative", "Difference"))
    print(_ROW.format("Count", f"{len(mined.positive_score):,}", f"{len(negative):,}", ""))
    for metric in summaries[0]:
        print(_ROW.format(metric, *(summary[metric] for summary in summaries)))
    left = mined.looked_at
    for name in ("absolute_margin", "relative_margin", "max_score", "min_score"):
        if not mined.skipped[name]:
            continue
        print(
            f"Skipped {mined.skipped[name]:,} potential negatives ({mined.skipped[name] / left:.2%}) due to the {name} "
            f"of {getattr(plan.thresholds, name)}."
        )
        if name.endswith("margin"):  # max_score and min_score are counted of the same candidates
            left -= mined.skipped[name]
    possible = len(mined.positive_score)
    if plan.format == "triplet":
        possible *= plan.n
    elif plan.format == "labeled-pair":
        possible = len(mined.counts) * plan.n + rows
    missing = possible - len(found)
    if missing <= 0:
        return
    limits = ("absolute_margin", "relative_margin", "max_score")
    remedies = ["range_max", *(["range_min"] if plan.ranks.begin > 0 else [])]
    remedies += [name for name in limits if getattr(plan.thresholds, name) is not None]
    named = ", ".join(remedies[:-1]) + " and " + remedies[-1] if len(remedies) > 1 else remedies[0]
    print(
        f"Could not find enough negatives for {missing} samples ({missing / possible:.2%}). Consider adjusting the "
        f"{named} parameter{'s' if len(remedies) > 1 else ''} if you'd like to find more valid negatives."
    )


def _padded(of: Examples, there: BoolArray) -> Examples:
    """The examples with as many negatives as `there` has columns: where it is False any document, without a score."""
    if there.all():
        return of
    n = there.shape[1]
    flat = np.where(there, of.begin[:, None] + np.arange(n), 0).ravel()
    score = Column(of.score.values[flat], there.ravel())
    begin = np.arange(len(there)) * n
    return Examples(
        of.queries, of.documents, of.query, of.positive, of.positive_score, of.first, begin, np.full(len(there), n),
        of.negative[flat], score, of.weight[flat],
    )  # fmt: skip


def _summary(scores: FloatArray) -> dict[str, str]:
    """As torch computes them: the lower of two medians, the standard deviation of a sample."""
    if not len(scores):
        lowest = dict.fromkeys(("Min", "25%", "50%", "75%"), "inf")
        return {"Mean": "nan", "Median": "nan", "Std": "nan", **lowest, "Max": "-inf"}
    wide = scores.astype(np.float64)
    low, *quarters, high = np.percentile(wide, (0, 25, 50, 75, 100))
    values = {
        "Mean": wide.mean(),
        "Median": np.percentile(wide, 50, method="lower"),
        "Std": wide.std(ddof=1) if len(wide) > 1 else np.nan,
        "Min": low,
        **dict(zip(("25%", "50%", "75%"), quarters, strict=True)),
        "Max": high,
    }
    return {name: f"{value:.4f}" for name, value in values.items()}
