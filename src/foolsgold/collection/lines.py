"""Lines of text files, and one error that lists all the bad ones."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from foolsgold.errors import CollectionError, FoolsgoldError
from foolsgold.progress import SILENT, Progress

_SHOWN = 5
_STEP = 4096  # lines between two reports of progress


class Problems:
    """What is wrong with a file's lines (or rows): the first few in full, the others as a count."""

    def __init__(self, name: str | Path, unit: str = "line", error: type[FoolsgoldError] = CollectionError) -> None:
        self.name = name
        self.unit = unit
        self.error = error
        self.count = 0
        self._shown: list[str] = []

    def add(self, number: int, what: str) -> None:
        """Line `number` (from 1) has this problem."""
        self.count += 1
        if len(self._shown) < _SHOWN:
            self._shown.append(f"{self.unit} {number}: {what}")

    def check(self) -> None:
        """Raise one error for all problems added so far, if there are any."""
        if self.count == 1:
            raise self.error(f"{self.name}, {self._shown[0]}")
        if self.count:
            others = self.count - len(self._shown)
            more = [f"and {others:,} more"] if others else []
            raise self.error("\n  ".join([f"{self.name}: {self.count:,} bad {self.unit}s", *self._shown, *more]))


def numbered_lines(
    path: Path, progress: Progress = SILENT, error: type[FoolsgoldError] = CollectionError
) -> Iterator[tuple[int, str]]:
    """Each line of a UTF-8 file (a .gz is unpacked) with its number from 1 and its line end; a BOM is skipped.

    Raises:
        error: the file cannot be opened, unpacked, or is not UTF-8.
    """
    try:
        with path.open("rb") as raw, progress.stage(f"read {path.name} (kB)", path.stat().st_size // 1000) as advance:
            done = 0
            for number, line in enumerate(io.TextIOWrapper(_unpacked(raw, path), "utf-8-sig", newline="\n"), 1):
                yield number, line
                if number % _STEP == 0:
                    advance(raw.tell() // 1000 - done)
                    done = raw.tell() // 1000
            advance(path.stat().st_size // 1000 - done)
    except UnicodeDecodeError:
        _raise_not_utf8(path, error)
    except (EOFError, gzip.BadGzipFile, zlib.error) as problem:
        raise error(f"{path}: cannot be unpacked ({problem}); copy the file again") from None
    except FileNotFoundError:
        raise error(f"{path}: no such file") from None
    except OSError as problem:
        raise error(f"{path}: cannot be read ({problem.strerror or problem})") from None


def json_lines(path: Path, problems: Problems, progress: Progress = SILENT) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each JSON object of a JSONL file with its line number; blank lines are skipped, bad ones go to `problems`."""
    for number, line in numbered_lines(path, progress, problems.error):
        if line.isspace():
            continue
        try:
            record = json.loads(line)
        except json.JSONDecodeError as problem:
            problems.add(
                number, f"not JSON ({problem.msg} at column {problem.pos + 1}); each line must be one JSON object"
            )
        except (ValueError, RecursionError) as problem:
            problems.add(number, f"not usable JSON ({problem})")
        else:
            if isinstance(record, dict):
                yield number, record
            else:
                problems.add(number, f"holds {type_word(record)}; each line must be one JSON object")


def type_word(value: Any) -> str:
    """What a value is, in a user's words."""
    words = {
        type(None): "null",
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "a text",
        list: "a list",
        dict: "an object",
    }
    return words.get(type(value), type(value).__name__)


def _unpacked(raw: BinaryIO, path: Path) -> BinaryIO:
    return gzip.open(raw, "rb") if path.suffix == ".gz" else raw  # type: ignore[return-value]


def _raise_not_utf8(path: Path, error: type[FoolsgoldError]) -> None:
    problems = Problems(path, error=error)
    with path.open("rb") as raw, suppress(EOFError, gzip.BadGzipFile, zlib.error):
        for number, line in enumerate(_unpacked(raw, path), 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as problem:
                byte = line[problem.start]
                problems.add(
                    number, f"not UTF-8 (byte 0x{byte:02x} at column {problem.start + 1}); save the file as UTF-8"
                )
    problems.check()
    raise error(f"{path}: not UTF-8; save the file as UTF-8")
