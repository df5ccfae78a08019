"""`foolsgold check`: a linter for mistakes, and the checklist before production."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from foolsgold.commands.console import count, log_to_stderr, out, print_json
from foolsgold.commands.options import Assign, Json, Quiet, assignments
from foolsgold.errors import FoolsgoldError, GateFailed

if TYPE_CHECKING:
    from foolsgold.findings import Answer, Findings

_COLOURS = {"error": "red", "warning": "yellow", "yes": "green", "no": "red", "unknown": "dim"}


def check(
    path: Annotated[
        Path | None,
        typer.Argument(metavar="PATH", help="A recipe, a mined set, a run of training or a trained model."),
    ] = None,
    explain: Annotated[str | None, typer.Option(metavar="CODE", help="Explain a rule, and check nothing.")] = None,
    as_checklist: Annotated[
        bool,
        typer.Option("--checklist", help="Answer the checklist before production for a set or a run."),
    ] = False,
    select: Annotated[str | None, typer.Option(metavar="CODES", help="Only these rules, as in FG001,FG01.")] = None,
    ignore: Annotated[str | None, typer.Option(metavar="CODES", help="All rules except these.")] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Run teacher and student on up to 100 held-out queries (FG005).")
    ] = False,
    assign: Assign = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Also list what could not be checked, and why.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Find common mistakes in recipes, mined sets and runs, each with a reason and a fix. Exits with 1 on an error.

    Examples: `foolsgold check recipe.yaml`, `foolsgold check mined/ --set student.model=runs/RUN/model`,
    `foolsgold check --explain FG003` or `foolsgold check --checklist runs/RUN`
    """
    from foolsgold.findings import check as run
    from foolsgold.findings import checklist
    from foolsgold.findings.linter import rule_of

    if explain is not None:
        rule = rule_of(explain)
        if as_json:
            print_json(rule.to_json())
        else:
            out.print(str(rule))
        return
    if path is None:
        raise FoolsgoldError("nothing to check: name a recipe, a mined set, a run or a model, or --explain CODE")
    options: dict[str, Any] = {
        "measure": measure, "values": assignments(assign or []), "progress": log_to_stderr(quiet)
    }  # fmt: skip
    if as_checklist:
        _print_checklist(path, checklist(path, **options), as_json)
        return
    found = run(path, select=_codes(select), ignore=_codes(ignore), **options)
    if as_json:
        print_json({"path": str(path)} | found.to_json())
    else:
        _print(found, verbose)
    if found.errors:
        codes = ", ".join(dict.fromkeys(finding.code for finding in found.errors))
        raise GateFailed(f"{path}: {count(len(found.errors), 'error')} ({codes})")


def _codes(given: str | None) -> tuple[str, ...]:
    return tuple(code for part in (given or "").split(",") if (code := part.strip()))


def _print(found: Findings, verbose: bool) -> None:
    for finding in found:
        colour = _COLOURS[finding.level]
        out.print(Text.assemble((finding.place, "bold"), ": ", (finding.code, colour), f" {finding.said}"))
        out.print(Text(f"    {finding.fix}", "dim"))
    for one in found.unchecked if verbose else ():
        out.print(Text(str(one), "dim"))
    counts = f"{count(len(found.errors), 'error')}, {count(len(found.warnings), 'warning')}"
    counts += f", {len(found.unchecked)} not checked"
    out.print(counts + (" (--verbose says why)" if found.unchecked and not verbose else ""))


def _print_checklist(path: Path, answers: list[Answer], as_json: bool) -> None:
    if as_json:
        print_json({"path": str(path), "answers": [answer.to_json() for answer in answers]})
    for answer in () if as_json else answers:
        first, *rest = str(answer).splitlines()
        out.print(Text.assemble((first[:8], _COLOURS[answer.said]), (first[8:], "bold")))
        out.print(Text("\n".join(rest)))
    against = sum(answer.said == "no" for answer in answers)
    if against:
        raise GateFailed(f"{path}: {against} of {len(answers)} answers are no")
