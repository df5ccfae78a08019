"""`foolsgold audit`: measure a mined set, hold it against its gates, write its report anew."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foolsgold.commands.console import Json, out, print_json
from foolsgold.errors import GateFailed


def audit(
    path: Annotated[Path, typer.Argument(metavar="SET", help="A mined set, or a folder of sets (its newest).")],
    report: Annotated[
        bool, typer.Option("--report", help="Write report.html and its plots into the set anew.")
    ] = False,
    report_to: Annotated[Path | None, typer.Option(help="Write the report to this file, its plots beside it.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 on a gate that warns, too.")] = False,
    as_json: Json = False,
) -> None:
    """Say how good a mined set is: its measures, and the gates of its recipe. Exits with 1 if a gate fails.

    Example: `foolsgold audit mined/ --report`
    """
    from foolsgold import show
    from foolsgold.mined_set import MinedSet

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
    beyond = measured.failed + (measured.warned if strict else ())
    if beyond:
        raise GateFailed(f"{mined.path}: {', '.join(beyond)} beyond the limit")
