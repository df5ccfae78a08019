"""`foolsgold train`: mine, train, evaluate, keep or roll back, mine again."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from foolsgold.commands.console import log_to_stderr, out, print_json, print_wide
from foolsgold.commands.options import Assign, Json, Quiet, recipe_of

if TYPE_CHECKING:
    from foolsgold.training import Plan, Trained

_WIDTH = 180  # characters of a row in the table of rounds; a narrow terminal gets two tables


def train(
    recipe_file: Annotated[Path, typer.Argument(metavar="RECIPE", help="Recipe in YAML, with a student.")],
    assign: Assign = None,
    to: Annotated[Path, typer.Option("--out", help="Folder that the run's own folder is made in.")] = Path("runs"),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be done, after some measured steps.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Mine, train and evaluate, regime by regime; a round that makes the retriever worse is rolled back.

    The same command resumes a run that was stopped.

    Examples: `foolsgold train recipe.yaml` or
    `foolsgold train recipe.yaml --set student.loss=kl --set evaluation.split=dev --dry-run`
    """
    from foolsgold.training import plan
    from foolsgold.training import train as run
    from foolsgold.training.launch import is_first

    progress = log_to_stderr(quiet)
    recipe = recipe_of(recipe_file, assign)
    if dry_run:
        planned = plan(recipe, progress=progress)
        if as_json:
            print_json(asdict(planned) | {"seconds": planned.seconds})
        else:
            print_plan(planned)
        return
    trained = run(recipe, out=to, progress=progress)
    if not is_first():
        return
    if as_json:
        print_json(summary(trained))
    else:
        print_trained(trained)


def print_trained(trained: Trained) -> None:
    """Print the table of a run's rounds, and where the best model is."""
    for table in _tables_of(trained):
        print_wide(table, _WIDTH)
    best = trained.state.best
    if best.outcome == "start":
        out.print("no round was better than the student before training, so the model is that student")
    out.print(f"best after step {best.stop:,}: {trained.model_path}")
    out.print(f"report: {trained.path / 'report.html'}")
    if trained.state.facts["student"].get("static"):
        out.print(
            f"before and after training: {trained.state.student}, which find less than the model itself; on another "
            f"split: foolsgold evaluate {trained.model_path} --baseline {trained.path / 'start'} --split test",
        )


def _tables_of(trained: Trained) -> list[Table]:
    """The rounds in one table; on a terminal that is too narrow for it in two: what was done, and what it changed."""
    decisive = trained.state.facts["recipe"]["evaluation"]["decisive"]
    rounds = trained.rounds
    which = {"regime": [one.regime for one in rounds], "steps": [f"{one.start:,}-{one.stop:,}" for one in rounds]}
    done = {
        "set": [one.set_version or "" for one in rounds],
        "negatives": [f"{one.negatives:,}" if one.negatives else "" for one in rounds],
        "margin": ["" if one.mean_margin is None else f"{one.mean_margin:.2f}" for one in rounds],
        "inverted": ["" if one.inverted is None else f"{one.inverted:.1%}" for one in rounds],
        "seconds": [f"{one.seconds:,.0f}" for one in rounds],
    }
    brought = {name: [f"{one.measures[name]:.4f}" for one in rounds] for name in rounds[0].measures}
    brought[f"{decisive} change"] = [
        "" if one.delta is None or one.interval is None
        else f"{one.delta:+.4f} [{one.interval[0]:+.4f}, {one.interval[1]:+.4f}]"
        for one in rounds
    ]  # fmt: skip
    brought["outcome"] = [one.outcome for one in rounds]
    whole = _table({**which, **done, **brought})
    is_narrow = out.is_terminal and out.measure(whole, options=out.options.update_width(_WIDTH)).maximum > out.width
    return [_table(which | done), _table(which | brought)] if is_narrow else [whole]


def _table(columns: dict[str, list[str]]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in columns:
        table.add_column(name, justify="left" if name in ("regime", "set", "outcome") else "right", no_wrap=True)
    for row in zip(*columns.values(), strict=True):
        table.add_row(*row)
    return table


def print_plan(planned: Plan) -> None:
    """Print what a run would do."""
    out.print(
        f"{planned.rows:,} rows (query, positive) of {planned.queries:,} queries, {planned.documents:,} documents; "
        f"{planned.held_out:,} held-out queries"
    )
    out.print(f"{planned.steps:,} steps, {planned.steps_per_epoch:,} per epoch")
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("regime")
    for name in ("steps", "negatives per row", "minings", "new teacher calls", "training"):
        table.add_column(name, justify="right")
    for regime in planned.regimes:
        calls = regime.teacher_calls
        table.add_row(
            regime.name,
            f"{regime.start:,}-{regime.stop:,}",
            str(regime.negatives),
            str(regime.minings),
            "" if calls is None else f"{calls[0]:,} to {calls[1]:,}",
            _duration(regime.seconds),
        )
    out.print(table)
    out.print(
        f"training about {_duration(planned.seconds)} ({planned.seconds_per_step:.2f} s per step, measured without "
        "negatives); mining and evaluation are extra"
    )


def summary(trained: Trained) -> dict[str, Any]:
    """The result of a run as plain values, for --json."""
    return {
        "path": str(trained.path),
        "model": str(trained.model_path),
        "version": trained.version,
        "best": asdict(trained.state.best),
        "sets": trained.state.set_versions,
        "rounds": [asdict(one) for one in trained.rounds],
    }


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"
