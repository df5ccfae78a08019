"""`foolsgold risk`: how many of my negatives are positives?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from foolsgold.commands.console import check_writable, log_to_stderr, out, print_json
from foolsgold.commands.options import (
    Beir,
    Json,
    Pairs,
    PerQuery,
    Quiet,
    RecipeFile,
    RelevantFrom,
    Retriever,
    Seed,
    Split,
    Teacher,
    recipe_of,
)
from foolsgold.errors import RecipeError

if TYPE_CHECKING:
    from foolsgold.risk import Row

_EXPLAINED = {
    "hidden": (
        "Hidden positives: of each query's known positives one was left and the others hidden. The rate is the share "
        "of mined negatives that are hidden positives (a lower bound: what was never labelled is not seen); back is "
        "the share of the hidden positives among the candidates that came back as negatives."
    ),
    "judged": (
        "Judged: each query kept its best-graded passage as the only positive. The rate is the share of judged "
        "negatives with a grade of at least relevant_from; negatives that nobody judged are left out of it. Back is "
        "the share of the relevant passages among the candidates that came back as negatives."
    ),
    "estimated": (
        "Estimated: the mean of the calibrated probabilities of relevance of the mined negatives, on the whole "
        "collection. The interval covers the draw, not the calibration."
    ),
}


def risk(
    recipe_file: RecipeFile = None,
    beir: Beir = None,
    pairs: Pairs = None,
    split: Split = None,
    relevant_from: RelevantFrom = None,
    retriever: Retriever = None,
    teacher: Teacher = None,
    student: Annotated[str | None, typer.Option(help="The model being trained, for self-mined negatives.")] = None,
    calibration: Annotated[
        str | None, typer.Option(metavar="FILE", help="calibration.json: estimate from calibrated teacher scores too.")
    ] = None,
    queries: Annotated[int, typer.Option(min=1, help="Measure on at most this many queries.")] = 500,
    depth: Annotated[int, typer.Option(min=1, help="Candidates that each method draws from.")] = 50,
    per_query: PerQuery = None,
    seed: Seed = None,
    to: Annotated[Path, typer.Option("--out", help="Folder for risk.svg and risk.png.")] = Path("risk"),
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Measure how many negatives are in truth relevant, for each way of mining, with and without the teacher.

    It uses every way that the data allow: positives are hidden and looked for among the negatives, graded judgements
    are read, and a calibrated teacher estimates.

    Example: `foolsgold risk recipe.yaml --queries 300`
    """
    from foolsgold.risk import measure
    from foolsgold.risk.plot import save_plots
    from foolsgold.risk.tally import FEW

    progress = log_to_stderr(quiet)
    check_writable(to, "--out")
    recipe = recipe_of(
        recipe_file,
        beir=beir,
        pairs=pairs,
        split=split,
        relevant_from=relevant_from,
        retriever=retriever,
        teacher=teacher,
        per_query=per_query,
        seed=seed,
    )
    if recipe.collection is None:
        raise RecipeError("nothing to measure on: give a recipe with a collection, or --beir, or --pairs")
    found = measure(
        recipe=recipe,
        depth=depth,
        student=student,
        queries=queries,
        calibration=_loaded(calibration),
        progress=progress,
    )
    plots = save_plots(found, to)
    if as_json:
        print_json(found.to_json() | {"plots": [str(path) for path in plots]})
        return
    for way in found.ways:
        rows = [row for row in found.rows if row.way == way]
        measured = max(row.tally.queries for row in rows if row.tally)
        out.print(f"{way}, {measured:,} queries")
        out.print(_table(rows))
        out.print(_EXPLAINED[way], "\n")
    out.print(
        "Rates are in %. Intervals are Wilson's, as if negatives were independent; those of one query are not quite. "
        f"*: fewer than {FEW} are known, look at the interval only."
    )
    unmeasured = {f"{row.method.label} not measured: {row.missing}" for row in found.rows if row.missing}
    for note in [*sorted(unmeasured), *found.notes]:
        out.print(note)
    out.print(f"written to {plots[0]} and {plots[1]}")


def _loaded(calibration: str | None) -> Any:
    if calibration is None:
        return None
    from foolsgold.calibration import load

    return load(calibration)


def _table(rows: Sequence[Row]) -> Table:
    """One way's rows; 80 columns are enough."""
    judged = rows[0].way == "judged"
    table = Table(box=None, padding=(0, 1, 0, 0))
    table.add_column("method", no_wrap=True)
    names = ["negatives", *(["judged"] if judged else []), "relevant", "rate", "95 %", "back", "literature"]
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        label = "  + teacher" if row.filtered else row.method.label
        counts = row.tally
        if counts is None:
            table.add_row(label, "not measured", *[""] * (len(names) - 2), row.method.usually or "")
            continue
        low, high = counts.rate.interval
        table.add_row(
            label,
            f"{counts.negatives:,}" if counts.negatives == counts.asked else f"{counts.negatives:,} / {counts.asked:,}",
            *([f"{counts.known:,}"] if judged else []),
            f"{counts.relevant:,.0f}" if row.way != "estimated" else f"{counts.relevant:,.1f}",
            _percent(counts.rate.value) + ("*" if counts.rate.is_few else ""),
            f"{_percent(low)}-{_percent(high)}",
            "" if counts.returned is None else f"{counts.returned.count:,.0f} / {counts.returned.of:,}",
            row.method.usually or "",
        )
    return table


def _percent(value: float | None) -> str:
    """Two digits that count below 1, one decimal above."""
    if value is None:
        return "none"
    return f"{100 * value:.1f}" if value == 0 or value >= 0.01 else f"{100 * value:.2f}"
