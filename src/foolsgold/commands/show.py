"""What the command line prints of a mined set: its funnel and worked examples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from foolsgold.auditing.page import printable
from foolsgold.mined.mined_set import MinedSet

_WIDTH = 220  # characters of a text shown in an example


def funnel(mined: MinedSet) -> RenderableType:
    """Candidates, exclusions by reason, zones, selection, and how many teacher calls were saved."""
    counts = mined.manifest.counts
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(justify="left")
    table.add_column(justify="right")
    table.add_column(justify="left", style="dim")

    def row(name: str, number: int, note: str = "", style: str = "") -> None:
        table.add_row(Text(name, style), Text(f"{number:,}", style), Text(note))

    collection, recipe = mined.manifest.collection, mined.manifest.recipe
    row("documents", collection.documents, f"{collection.name}, split {collection.split}")
    limit = recipe.collection.limit if recipe.collection else None
    row(
        "queries",
        counts.queries,
        f"with {collection.positives:,} positives" + (f" (limit: {limit:,})" if limit else ""),
    )
    if counts.units != counts.queries:
        row("  mined for each positive", counts.units, "the counts below are for these")
    row("candidates", counts.candidates, _each("proposed by", counts.proposed_by), "bold")
    row("  excluded", counts.excluded)
    for reason, number in _by_size(counts.reasons.get("excluded", {})):
        row(f"    {reason.replace('_', ' ')}", number)
    if mined.manifest.teacher is not None:
        calls = mined.manifest.calls
        saved = counts.teacher_saved
        note = f"of {counts.teacher_judgeable:,}" + ("" if saved is None else f": {saved:.0%} of the calls saved")
        row("  scored by the teacher", counts.teacher_scored, note)
        row("    read now", calls.teacher, f"with the positives; {calls.reused:,} scores were known already")
    for zone, style in (("negative", "green"), ("ambiguous", "yellow"), ("false_negative", "red"), ("unscored", "")):
        if number := counts[zone]:
            reasons = _by_size(counts.reasons[zone])
            notes = [
                reason.replace("_", " ") + (f" {number:,}" if len(reasons) > 1 else "") for reason, number in reasons
            ]
            row(f"  {zone.replace('_', ' ')}", number, ", ".join(notes), style)
    row("selected", counts.selected, _each("from", counts.selected_by), "bold")
    row("  over budget", counts.over_budget, "more negatives than asked for")
    if not recipe.takes_whole_runs:
        row(
            "queries at budget",
            counts.queries_at_budget,
            f"queries without any: {counts.queries_without_negatives:,}",
        )
    if recipe.relabel:
        row("new positives", len(mined.relabelled), f"in {mined.path / 'relabelled.tsv'}")
    return table


_VERDICTS = {"pass": "green", "warn": "yellow", "fail": "red", "unknown": "dim"}


def gates(mined: MinedSet) -> RenderableType:
    """The audit's gates, and what to do about those that warn or fail."""
    lines = []
    for gate in mined.audit().gates:
        value = "not measured" if gate.value is None else f"{gate.value:.3g} (limit {gate.limit:g})"
        line = Text.assemble((f"{gate.verdict:<7}", _VERDICTS[gate.verdict]), f" {gate.name} {value}")
        lines.append(line.append(f": {gate.remedy}") if gate.verdict in ("warn", "fail") else line)
    return Group(*lines)


def measures(mined: MinedSet) -> RenderableType:
    """What the audit measured, gate or not; the report says it all."""
    audit = mined.audit()
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column()
    table.add_column(style="dim")

    def row(name: str, number: str, note: str = "") -> None:
        table.add_row(Text(f"{name:<20} {number}"), Text(note))

    row("negatives", f"{audit.negatives:,}", f"for {audit.queries:,} queries, {audit.fill_rate:.1%} of them at budget")
    if audit.margins is not None:
        low, *_, middle, _, high = audit.margins.quantiles
        row(
            f"margin ({audit.score_unit}s)",
            f"{audit.margins.mean:.2f}",
            f"5 % below {low:.2f}, half below {middle:.2f}, 5 % above {high:.2f}",
        )
    if audit.low_margin is not None:
        row("  lowest tenth below", f"{audit.low_margin:.2f}")
    for name, source in audit.sources.items():
        margin = f"mean margin {source.margins.mean:.2f}, " if source.margins else ""
        inverted = f"{source.margins.inverted_share:.1%} inverted, " if source.margins else ""
        row(f"  from {name}", f"{source.negatives:,}", f"{margin}{inverted}{source.bands[0]:.0%} of rank 10 or better")
    for pair, share in audit.overlap.items():
        row(f"  {pair}", f"{share:.1%}", "of the candidates of either are proposed by both")
    if audit.hubs.most:
        first = audit.hubs.most[0]
        row("most frequent", f"{first.queries:,}", f"queries have document {first.doc_id}; {audit.hubs.number:,} hubs")
    if audit.lengths is not None:
        row("length ratio", f"{audit.lengths.ratio:.2f}", "median of the negatives divided by that of the positives")
    if audit.leakage is not None:
        splits = ", ".join(audit.leakage.splits)
        row("tested elsewhere", f"{audit.leakage.tested_share:.1%}", f"of the negatives answer some query of {splits}")
    return Group(table, *(Text(note, "dim") for note in audit.notes))


@dataclass(frozen=True)
class Example:
    """One query with its positive, a negative that was selected, and a false negative that was removed."""

    query: str
    positive: str
    positive_score: float
    negative: str
    negative_score: float
    negative_source: str
    rejected: str
    rejected_score: float

    def to_json(self) -> dict[str, Any]:
        """The example as plain values."""
        return dict(self.__dict__)


def examples(mined: MinedSet, n: int = 3) -> list[Example]:
    """The n queries with a false negative in which the teacher is surest of it and of the positive; texts in full."""
    ledger = mined.ledger()
    rejected = ledger.filter(pc.equal(ledger["verdict"].cast("string"), "false_negative"))
    selected = mined.negatives
    best: dict[str, tuple[float, str]] = {}
    for query_id, doc_id, score, positive in _rows(rejected, "query_id", "doc_id", "teacher_score", "positive_score"):
        if score is not None and positive is not None and positive >= 0.5 and score > best.get(query_id, (-1.0, ""))[0]:
            best[query_id] = (score, doc_id)
    hardest: dict[str, tuple[float, str, str]] = {}
    for query_id, doc_id, score, source in _rows(selected, "query_id", "doc_id", "teacher_score", "source"):
        if score is not None and score > hardest.get(query_id, (-1.0, "", ""))[0]:
            hardest[query_id] = (score, doc_id, source)
    collection = mined.collection
    positives: dict[str, tuple[str, float]] = {}
    for query_id, doc_id, score in _rows(mined.positives, "query_id", "doc_id", "teacher_score"):
        positives.setdefault(query_id, (doc_id, score))

    def text(doc_id: str) -> str:
        return f"[{doc_id}] {collection.documents.take([collection.documents.find([doc_id])[doc_id]])[0]}"

    both = sorted(
        set(best) & set(hardest),
        key=lambda query_id: (-min(best[query_id][0], positives[query_id][1]), query_id),
    )
    return [
        Example(
            query=collection.queries.take([collection.queries.find([query_id])[query_id]])[0],
            positive=text(positives[query_id][0]),
            positive_score=positives[query_id][1],
            negative=text(hardest[query_id][1]),
            negative_score=hardest[query_id][0],
            negative_source=hardest[query_id][2],
            rejected=text(best[query_id][1]),
            rejected_score=best[query_id][0],
        )
        for query_id in both[:n]
    ]


def example_panel(example: Example) -> RenderableType:
    """One example as a box."""
    lines = (
        ("query", "", example.query, "bold"),
        ("positive", f"{example.positive_score:.3f}", example.positive, "green"),
        ("negative", f"{example.negative_score:.3f}", example.negative, "cyan"),
        ("false negative", f"{example.rejected_score:.3f}", example.rejected, "red"),
    )
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0))
    for name, score, content, style in lines:
        table.add_row(Text(name, style), Text(score, style), Text(_short(content)))
    return Panel(Group(table), title=f"a hard negative from {example.negative_source}", title_align="left")


def _short(text: str) -> str:
    flat = printable(" ".join(text.split()))
    return flat if len(flat) <= _WIDTH else flat[: _WIDTH - 1] + "…"


def _each(lead: str, counts: dict[str, int]) -> str:
    return f"{lead} " + ", ".join(f"{source} {number:,}" for source, number in counts.items())


def _by_size(counts: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _rows(table: Any, *columns: str) -> Any:
    return zip(*(table[name].to_pylist() for name in columns), strict=True)
