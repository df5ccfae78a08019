"""Labels on disk: one line an answer, appended and synced at once; later lines win, and a null label takes one back."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock

from foolsgold.errors import CollectionError

Label = Literal["relevant", "unsure", "not"]
LABELS: tuple[Label, ...] = ("relevant", "unsure", "not")
Key = tuple[str, str]
"""(query id, document id)."""


@dataclass(frozen=True)
class Answer:
    """What was said of a pair, or None where it was taken back."""

    query_id: str
    doc_id: str
    label: Label | None


class Answers:
    """A file of answers that several processes may append to: what others wrote is read before it is needed.

    Lines are JSON objects with query_id, doc_id, label ("relevant", "unsure", "not", or null for undone),
    teacher_score (null without a teacher) and time (UTC). What a killed process left of a line is cut off before
    the next is written; a whole last line without its end, as editors leave it, counts and stays.
    """

    def __init__(self, path: Path) -> None:
        """Open a file, or begin one.

        Raises:
            CollectionError: it cannot be read or written, or has a line that is no answer.
        """
        self.path = path
        self._lock = FileLock(path.with_name(f".{path.name}.lock"))
        self._current: dict[Key, Label] = {}
        self._read_to = self._lines = 0
        self._is_open = False  # whether the last line that was read had no end
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with self._lock, path.open("ab"):
                _sync_folder(path.parent)
        except OSError as error:
            raise CollectionError(f"{path}: answers cannot be kept here ({error}); name another file") from None
        self.current()

    def current(self) -> dict[Key, Label]:
        """What has been said of each pair and not taken back, the latest answer last.

        Raises:
            CollectionError: the file has gone, or has a line that is no answer.
        """
        try:
            with self.path.open("rb") as file:
                if file.seek(0, os.SEEK_END) < self._read_to:  # someone wrote it anew
                    self._current, self._read_to, self._lines, self._is_open = {}, 0, 0, False
                file.seek(self._read_to)
                read = file.read()
        except OSError as error:
            raise CollectionError(f"{self.path}: cannot be read ({error})") from None
        for line in read.splitlines(keepends=True):
            if not line.endswith(b"\n") and not _is_whole(line):
                break  # a torn last line is no answer yet
            self._read_to += len(line)
            if line != b"\n" or not self._is_open:  # else the end of the line that was read without it
                self._lines += 1
            self._is_open = not line.endswith(b"\n")
            if line.strip():
                self._take(parse(line, f"{self.path}, line {self._lines}"))
        return self._current

    def append(self, query_id: str, doc_id: str, label: Label | None, teacher_score: float | None) -> None:
        """Write one answer; it is on the disk when this returns.

        Raises:
            OSError: the disk is full, or the file cannot be written. Nothing has been answered then.
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

    def _take(self, answer: Answer) -> None:
        key = (answer.query_id, answer.doc_id)
        self._current.pop(key, None)  # so that the latest comes last
        if answer.label is not None:
            self._current[key] = answer.label


def parse(line: bytes, where: str) -> Answer:
    """One line of the file.

    Raises:
        CollectionError: naming `where` and what is wrong.
    """
    try:
        facts = json.loads(line)
    except ValueError as error:
        raise CollectionError(f"{where}: not JSON ({error}); mend or remove the line") from None
    if not isinstance(facts, dict) or not all(isinstance(facts.get(name), str) for name in ("query_id", "doc_id")):
        raise CollectionError(f"{where}: an answer is an object with the texts query_id and doc_id, and a label")
    label = facts.get("label", "")
    if label is not None and label not in LABELS:
        raise CollectionError(f"{where}: label is {label!r}; it is one of {', '.join(LABELS)}, or null for undone")
    return Answer(facts["query_id"], facts["doc_id"], label)


def _is_whole(line: bytes) -> bool:
    """Whether a line without an end is all there: the object that it is closes."""
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _end_of_whole_lines(file: Any) -> int:
    """The size of the file without a torn last line; 0 if it has no whole line."""
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
