"""The answers of the labelling page on disk: one line each, written at once; of a pair the last line counts."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock

from foolsgold.calibration.labels import Verdict, fields_of, verdict_of
from foolsgold.errors import CollectionError

Key = tuple[str, str]
"""(query id, document id)."""


class Answers:
    """A file of answers that several processes may append to: what others wrote is read before it is needed.

    Lines are JSON objects with query_id, doc_id, label ("relevant", "unsure", "not", or null for an answer that was
    taken back), teacher_score (null without a teacher) and time (UTC). An incomplete last line, which a killed process
    left, is cut off before the next is written; a complete one without a line end, as editors leave it, counts.
    """

    def __init__(self, path: Path) -> None:
        """Open a file, or create it.

        Raises:
            CollectionError: it cannot be read or written, or a line is not an answer.
        """
        self.path = path
        self._lock = FileLock(path.with_name(f".{path.name}.lock"))
        self._current: dict[Key, Verdict] = {}
        self._read_to = self._lines = 0
        self._is_open = False  # whether the last line that was read had no end
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with self._lock, path.open("ab"):
                _sync_folder(path.parent)
        except OSError as error:
            raise CollectionError(f"{path}: answers cannot be kept here ({error}); name another file") from None
        self.current()

    def current(self) -> dict[Key, Verdict]:
        """The answer to each pair, without those taken back, the latest answer last.

        Raises:
            CollectionError: the file is gone, or a line is not an answer.
        """
        try:
            with self.path.open("rb") as file:
                if file.seek(0, os.SEEK_END) < self._read_to:  # someone replaced it
                    self._current, self._read_to, self._lines, self._is_open = {}, 0, 0, False
                file.seek(self._read_to)
                read = file.read()
        except OSError as error:
            raise CollectionError(f"{self.path}: cannot be read ({error})") from None
        for line in read.splitlines(keepends=True):
            if not line.endswith(b"\n") and not _is_whole(line):
                break  # an incomplete last line is not an answer yet
            self._read_to += len(line)
            if line != b"\n" or not self._is_open:  # else the end of the line that was read without it
                self._lines += 1
            self._is_open = not line.endswith(b"\n")
            if line.strip():
                key, label = _parsed(line, f"{self.path}, line {self._lines}")
                self._current.pop(key, None)  # so that the latest comes last
                if label is not None:
                    self._current[key] = label
        return self._current

    def append(self, query_id: str, doc_id: str, label: Verdict | None, teacher_score: float | None) -> None:
        """Write one answer; it is on the disk when this returns.

        Raises:
            OSError: the disk is full, or the file cannot be written. Nothing is kept then.
        """
        facts = {
            "query_id": query_id,
            "doc_id": doc_id,
            "label": label,
            "teacher_score": teacher_score,
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        line = json.dumps(facts, ensure_ascii=False).encode() + b"\n"
        with self._lock, self.path.open("r+b") as file:
            end, size = _end_of_whole_lines(file), file.seek(0, os.SEEK_END)
            file.seek(end)
            if _is_whole(file.read(size - end)):
                end, line = size, b"\n" + line
            file.truncate(end)
            file.seek(end)
            try:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
            except OSError:
                file.truncate(end)
                raise


def _parsed(line: bytes, where: str) -> tuple[Key, Verdict | None]:
    try:
        query_id, doc_id, label = fields_of(json.loads(line))
        return (query_id, doc_id), verdict_of(label, 1)
    except json.JSONDecodeError as error:
        raise CollectionError(f"{where}: not JSON ({error}); fix or remove the line") from None
    except ValueError as error:
        raise CollectionError(f"{where}: {error}") from None


def _is_whole(line: bytes) -> bool:
    """Whether a line without a line end is complete."""
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _end_of_whole_lines(file: Any) -> int:
    """The size of the file without its last line, if that has no line end."""
    end = int(file.seek(0, os.SEEK_END))
    while end > 0:
        start = max(0, end - 4096)
        file.seek(start)
        found = file.read(end - start).rfind(b"\n")
        if found >= 0:
            return start + int(found) + 1
        end = start
    return 0


def _sync_folder(folder: Path) -> None:
    """Make a new file's name survive a power cut, where the system can."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
