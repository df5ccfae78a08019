"""`foolsgold audit`: measure a mined set, or a file of somebody else's negatives, and hold it against its gates."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from foolsgold.commands.console import log_to_stderr, out, print_json
from foolsgold.commands.files import Anchor, Positive, Scores, Split, scale_of
from foolsgold.commands.options import Assign, Json, Quiet, recipe_of
from foolsgold.errors import GateFailed, MinedSetError

if TYPE_CHECKING:
    from foolsgold.exchange.found import FileAudit
    from foolsgold.mined.mined_set import MinedSet


def audit(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="SET|FILE",
            help="A mined set, a folder of sets (its newest), or a file of negatives: jsonl, json, parquet, "
            "csv, tsv, a saved Dataset, hf:NAME.",
        ),
    ],
    teacher: Annotated[
        str | None,
        typer.Option(help="For a file: score its pairs with this model, to find false negatives and margins."),
    ] = None,
    scores: Scores = None,
    anchor: Anchor = None,
    positive: Positive = None,
    split: Split = None,
    held_out: Annotated[
        str | None,
        typer.Option(help="For a file: look for leakage into this collection, such as beir:data/scifact."),
    ] = None,
    held_out_split: Annotated[str, typer.Option(help="Its split.")] = "test",
    assign: Assign = None,
    report: Annotated[
        bool, typer.Option("--report", help="Write report.html and its plots into the set again.")
    ] = False,
    report_to: Annotated[
        Path | None, typer.Option(help="Write the report to this file, with its plots beside it.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Also exit with 1 if a gate only warns.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Measure how good a mined set or a file of negatives is. Exits with 1 if a gate fails.

    Examples: `foolsgold audit mined/ --report` or `foolsgold audit their.jsonl --teacher org/cross-encoder`
    """
    if not _is_set(path):
        if report:
            raise MinedSetError(f"{path}: a file has no folder for its report; name one with --report-to page.html")
        _audit_file(
            path, teacher, scores, anchor, positive, split, held_out, held_out_split, assign, report_to, strict, quiet,
            as_json,
        )  # fmt: skip
        return
    of_files = {
        "--teacher": teacher, "--scores": scores, "--anchor": anchor, "--positive": positive, "--split": split,
        "--held-out": held_out, "--set": assign,
    }  # fmt: skip
    given = [name for name, value in of_files.items() if value]
    if given:
        raise MinedSetError(f"{path}: a mined set; {', '.join(given)} {'is' if len(given) == 1 else 'are'} for files")
    from foolsgold.commands import show
    from foolsgold.mined.mined_set import MinedSet

    mined = MinedSet(path)
    measured = mined.audit()
    written = [mined.report(target) for target in ((None,) if report else ()) + ((report_to,) if report_to else ())]
    if as_json:
        print_json({"path": str(mined.path), "version": mined.version} | measured.to_json())
    else:
        out.print(show.measures(mined))
        out.print(show.gates(mined))
        for target in written:
            out.print(f"written to {target}")
    _hold(mined.path, measured.failed + (measured.warned if strict else ()))


def _is_set(path: Path) -> bool:
    """Whether a path is for `MinedSet`: any folder but one that `save_to_disk` wrote."""
    saved = ("dataset_info.json", "dataset_dict.json", "state.json")
    return path.is_dir() and not any((path / name).exists() for name in saved)


def _audit_file(
    path: Path,
    teacher: str | None,
    scores: str | None,
    anchor: str | None,
    positive: str | None,
    split: str | None,
    held_out: str | None,
    held_out_split: str,
    assign: list[str] | None,
    report_to: Path | None,
    strict: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    from foolsgold.collection import load_collection
    from foolsgold.exchange.found import audit_file

    progress = log_to_stderr(quiet)
    logging.getLogger("foolsgold.mine").setLevel(logging.ERROR)  # what it would say of the file is said below
    evaluation = None if held_out is None else load_collection(held_out, split=held_out_split, progress=progress)
    measured = audit_file(
        str(path),
        teacher=teacher,
        scores=scale_of(scores),
        anchor=anchor,
        positive=positive,
        split=split,
        held_out=evaluation,
        report=report_to,
        progress=progress,
        recipe=recipe_of(None, assign),
    )
    if as_json:
        print_json(measured.to_json())
    else:
        out.print(_told(measured))
        if report_to is not None:
            out.print(f"written to {report_to}")
        out.print(_next(measured, teacher))
    _hold(path, measured.failed + (measured.warned if strict else ()))


def _hold(path: Path, beyond: tuple[str, ...]) -> None:
    if beyond:
        raise GateFailed(f"{path}: more than the limit: {', '.join(beyond).replace('_', ' ')} (see above)")


_COLOURS = {"pass": "green", "warn": "yellow", "fail": "red"}


def _told(measured: FileAudit) -> RenderableType:
    """The file, what each of its negatives is, and the audit of all of them."""
    from foolsgold.commands import show

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for justify in ("left", "right", "right", "left"):
        table.add_column(justify=justify)

    def row(name: str, count: int, share: str = "", said: str = "", style: str = "") -> None:
        table.add_row(Text(name, style), Text(f"{count:,}", style), Text(share, style), Text(said, "dim"))

    fewest, asked, most = measured.per_query
    each = f"{asked} each" if fewest == most else f"{fewest} to {most} each, most have {asked}"
    row("queries", measured.queries, "", f"with {measured.positives:,} positives, in {measured.rows:,} rows")
    row("negatives", measured.negatives, "", each, "bold")
    for finding in measured.findings:
        if finding.count or finding.name == "usable":
            style = _COLOURS[finding.verdict]
            row(f"  {finding.name.replace('_', ' ')}", finding.count, f"{finding.share:.1%}", finding.meaning, style)
    if measured.repeated:
        row("listed again", measured.repeated, "", "for the same query and positives; counted once above")
    if measured.held_out is not None:
        shared = measured.held_out
        row(
            "queries held out", shared.queries, f"{shared.share:.1%}",
            f"are also asked in {shared.name}; {shared.answered:,} of its answers are positives here, "
            f"{shared.denied:,} are negatives", _COLOURS[shared.verdict],
        )  # fmt: skip
    notes = [Text(note, "dim") for note in measured.notes]
    audited = cast("MinedSet", measured)  # nothing but its audit() is looked at
    title = Text(f"{measured.path}: {measured.detected}")
    return Group(title, table, *notes, show.measures(audited), show.gates(audited))


def _next(measured: FileAudit, teacher: str | None) -> str:
    if teacher is None and measured.measures.score_unit is None:
        return f"next: foolsgold audit {measured.path} --teacher MODEL also finds false negatives and margins"
    named = f" --teacher {teacher}" if teacher is not None else ""
    return f"next: foolsgold import {measured.path}{named} keeps the usable ones; foolsgold export writes them back"
