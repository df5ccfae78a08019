"""What every command shares: results go to stdout, everything else to stderr."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from rich.console import Console
from rich.logging import RichHandler

from foolsgold.errors import FoolsgoldError
from foolsgold.progress import SILENT, Bars, Progress

# a name or a text may hold what rich takes for markup
out = Console(soft_wrap=not sys.stdout.isatty(), highlight=False, markup=False)
err = Console(stderr=True, highlight=False, markup=False)


def log_to_stderr(quiet: bool) -> Progress:
    """Notes and warnings to stderr, and the progress that fits."""
    logging.basicConfig(
        level=logging.WARNING,
        format="%(message)s",
        handlers=[RichHandler(console=err, show_time=False, show_path=False, markup=False)],
    )
    logging.getLogger("foolsgold").setLevel(logging.WARNING if quiet else logging.INFO)
    return SILENT if quiet else Bars(err)


def print_wide(renderable: Any, width: int) -> None:
    """A table or tree in lines of up to so many characters: a terminal breaks them, and a file keeps them whole.

    As wide as the terminal it would be all dots, and rich cuts off what is beyond the 80 columns that it gives a file.
    """
    Console(file=out.file, width=max(out.width, width), highlight=False, markup=False).print(renderable)


def check_writable(folder: Path, option: str) -> None:
    """Make a folder and write into it, before work is done whose result would be lost.

    Raises:
        FoolsgoldError: it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise FoolsgoldError(f"{option} {folder}: cannot be written ({error.strerror}); name another") from None


def count(number: int, what: str) -> str:
    """As in: 1 round, 2 rounds."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def print_json(value: Any) -> None:
    """One JSON object on one line."""
    print(json.dumps(value, ensure_ascii=False, default=str))
