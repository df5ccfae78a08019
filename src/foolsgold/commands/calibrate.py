"""`foolsgold calibrate`: thresholds on evidence."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from foolsgold.commands.console import check_writable, log_to_stderr, out, print_json
from foolsgold.commands.options import (
    Assign,
    Beir,
    Json,
    Limit,
    Quiet,
    RelevantFrom,
    Retriever,
    Split,
    Teacher,
    fields_of,
)
from foolsgold.errors import RecipeError

if TYPE_CHECKING:
    from foolsgold.calibration import Calibration
    from foolsgold.recipe import Recipe

_ALL = 0.9  # with this share of the labels below it, a threshold filters nearly nothing
_BETTER = 0.005  # the smallest difference of two AUCs that counts
_ROWS = 9  # of the teacher's fifty thresholds


def calibrate(
    labels: Annotated[
        Path | None,
        typer.Argument(metavar="[LABELS]", help="query id, document id, label: .jsonl of `label`, .tsv or qrels."),
    ] = None,
    recipe_file: Annotated[Path | None, typer.Option("--recipe", help="Recipe in YAML: what scores the pairs.")] = None,
    mined: Annotated[Path | None, typer.Option(metavar="SET", help="A mined set, for its recipe.")] = None,
    beir: Beir = None,
    split: Split = None,
    relevant_from: RelevantFrom = None,
    limit: Limit = None,
    retriever: Retriever = None,
    teacher: Teacher = None,
    max_false_negative_rate: Annotated[
        float, typer.Option(help="Share of the negatives that may be relevant (its upper bound).")
    ] = 0.02,
    assign: Assign = None,
    to: Annotated[Path, typer.Option("--out", help="File to write; a plot is put beside it.")] = Path(
        "calibration.json"
    ),
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Fit the thresholds on labelled pairs (100 are enough to start).

    Without LABELS the collection's own judgements are read, if some are below relevant_from. Use the result with
    `decide: {calibration: calibration.json, max_false_negative_rate: 0.02}`.

    Examples: `foolsgold calibrate labels.jsonl --mined mined/` or
    `foolsgold calibrate --beir data/judged --split dev --relevant-from 2 --retriever org/model --teacher org/model`
    """
    from foolsgold.calibration.calibrate import calibrate as run
    from foolsgold.calibration.calibrate import check_heeded
    from foolsgold.calibration.plot import save_plot

    progress = log_to_stderr(quiet)
    plot_file = to.with_suffix(".svg")
    if plot_file.resolve() in {path.resolve() for path in (to, labels) if path is not None}:
        raise RecipeError(f"--out {to}: the plot, {plot_file}, would be written over it; name a .json")
    check_writable(to.parent, "--out")
    values = fields_of(
        assign,
        beir=beir,
        split=split,
        relevant_from=relevant_from,
        limit=limit,
        retriever=retriever,
        teacher=teacher,
    )
    check_heeded(values)
    collection, recipe = _what(recipe_file, mined, values)
    found = run(
        labels,
        collection,
        recipe,
        out=to,
        max_false_negative_rate=max_false_negative_rate,
        progress=progress,
    )
    plot = save_plot(found, plot_file)
    if as_json:
        print_json({"path": str(to), "plot": str(plot)} | found.to_json())
        return
    _print(found)
    out.print(f"written to {to} and {plot}")


def _what(recipe_file: Path | None, mined: Path | None, values: Mapping[str, Any]) -> tuple[Any, Recipe]:
    """The collection, where it is not the recipe's own, and the recipe; values: what is to be changed in it."""
    from foolsgold.recipe import Recipe

    if mined is not None:
        from foolsgold.mined.mined_set import MinedSet

        if recipe_file or any(field.partition(".")[0] == "collection" for field in values):
            raise RecipeError(
                "--mined names a recipe and a collection; leave out --recipe, --beir, --split, --relevant-from, --limit"
            )
        found = MinedSet(mined)
        return found.collection, found.manifest.recipe.with_values(values)
    recipe = (Recipe.from_yaml(recipe_file) if recipe_file else Recipe()).with_values(values)
    if recipe.collection is None:
        raise RecipeError("nothing to calibrate on: give --mined SET, --recipe with a collection, or --beir")
    return None, recipe


def _print(found: Calibration) -> None:
    counts = found.labels
    base = counts["relevant"] / counts["pairs"]
    out.print(
        f"{counts['pairs']:,} labelled pairs of {counts['queries']:,} queries, {counts['relevant']:,} relevant "
        f"({base:.1%})\n"
    )
    curve = found.teacher_curve
    table = Table(box=None, padding=(0, 2, 0, 0), title=f"the teacher alone ({found.scale})", title_justify="left")
    for name in ("threshold", "precision", "recall", "false negatives below", "95 %, by query"):
        table.add_column(name, justify="right")
    last = len(curve.thresholds) - 1
    for row in dict.fromkeys(round(last * step / (_ROWS - 1)) for step in range(_ROWS)):
        rate, low, high = curve.false_negative_rate[row]
        table.add_row(
            f"{curve.thresholds[row]:.4g}",
            f"{curve.precision[row, 0]:.1%}",
            f"{curve.recall[row, 0]:.1%}",
            f"{rate:.1%}",
            f"{low:.1%}-{high:.1%}",
        )
    out.print(table)
    low, high = found.teacher_auc_interval
    out.print(f"AUC, the teacher alone:  {found.teacher_auc:.3f}  ({low:.3f}-{high:.3f})")
    best, choice = found.models[0], found.choice
    low, high = best.auc_interval
    out.print(f"AUC, the combined model: {best.auc:.3f}  ({low:.3f}-{high:.3f}; {', '.join(best.signals)})\n")
    labels = f"{choice.relevant:,} of {choice.labels:,} pairs below are relevant, upper bound {choice.upper:.1%}"
    if choice.threshold is None:
        out.print(
            f"No threshold keeps false negatives under {found.target:.1%}: at best {labels}. Label at least "
            f"{choice.needed:,} more pairs, of those with the lowest probabilities."
        )
    else:
        out.print(
            f"Threshold for {found.target:.1%} false negatives: a probability of {choice.threshold:.3f} ({labels})."
        )
        if choice.labels > _ALL * counts["pairs"]:
            out.print(
                f"That lets {choice.labels / counts['pairs']:.0%} of the labelled pairs pass: {base:.1%} of them are "
                "relevant, so that a rate this high is kept nearly without a filter. Label pairs that are harder to "
                "tell (`foolsgold label` chooses them), or ask for a lower --max-false-negative-rate."
            )
    if best.auc - found.teacher_auc < _BETTER:
        out.print("The combined model is no better than the teacher alone: its other signals add nothing here.")
    for note in found.notes:
        out.print(note)
