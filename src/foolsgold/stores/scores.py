"""Teacher scores on disk: scored once, decided on many times (design, rule 6)."""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from foolsgold.records import Column, FloatArray

log = logging.getLogger(__name__)

PairKey = tuple[bytes, bytes]
"""`records.text_key` of the query and of the document."""

_BUSY_SECONDS = 60.0
_BROKEN = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_SCHEMA = """
CREATE TABLE IF NOT EXISTS teachers (id INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS scores (
    teacher INTEGER NOT NULL, query BLOB NOT NULL, document BLOB NOT NULL, score REAL NOT NULL,
    PRIMARY KEY (teacher, query, document)
) WITHOUT ROWID;
"""
_TEACHER = "SELECT id FROM teachers WHERE fingerprint = ?"
_FIND = "SELECT score FROM scores WHERE teacher = ? AND query = ? AND document = ? AND typeof(score) = 'real'"
_KEEP = "INSERT OR REPLACE INTO scores VALUES (?, ?, ?, ?)"


class ScoreStore:
    """Raw teacher scores by (teacher fingerprint, query text, document text), in one SQLite file.

    Every `put` is committed before it returns, and several processes may share the file. It is a cache: a broken file
    is moved aside, and where the file cannot be written it is only read, and new scores are kept in memory, each with a
    warning. Neither stops a run.
    """

    def __init__(self, path: Path | None) -> None:
        """Open the file; None for a store in memory."""
        self.path = path or Path(":memory:")
        self._is_read_only = False  # then `_connection` is to memory, for what is new
        self._connection = _connect(":memory:") if path is None else self._open()

    def get(self, teacher: str, keys: Sequence[PairKey]) -> Column:
        """The score of each pair, float32 (n), known where the store has it. About 150,000 pairs a second."""
        try:
            return self._get(teacher, keys)
        except sqlite3.DatabaseError as error:
            if _code(error) in _BROKEN:
                self._start_again(error)
            elif isinstance(error, sqlite3.OperationalError):
                log.warning("%s cannot be read (%s); %d pairs may be scored again", self.path, error, len(keys))
            else:
                raise
        return Column.unknown(len(keys))

    def put(self, teacher: str, keys: Sequence[PairKey], scores: FloatArray) -> None:
        """Keep the score of each pair; committed when this returns. About 100,000 pairs a second."""
        try:
            self._put(teacher, keys, scores)
        except sqlite3.DatabaseError as error:
            if _code(error) in _BROKEN:
                self._start_again(error)
                self._put(teacher, keys, scores)
            elif _code(error) == sqlite3.SQLITE_READONLY:  # found out only now where other files of the store exist
                self._connection.close()
                self._connection = self._in_memory(error)
                self._put(teacher, keys, scores)
            elif isinstance(error, sqlite3.OperationalError):  # a full disk, or another process that never lets go
                log.warning("%s cannot be written (%s); %d scores are not kept", self.path, error, len(keys))
            else:
                raise

    def close(self) -> None:
        """Close the file. Everything put is there already."""
        self._connection.close()

    def _get(self, teacher: str, keys: Sequence[PairKey]) -> Column:
        found = Column.unknown(len(keys))
        if self._is_read_only:
            found = self._get_read_only(teacher, keys)
        _find(self._connection, teacher, keys, found)  # after the file, whose scores are the older ones
        return found

    def _get_read_only(self, teacher: str, keys: Sequence[PairKey]) -> Column:
        found = Column.unknown(len(keys))
        try:
            before = self.path.stat()
            with closing(_connect_read_only(self.path)) as connection:
                _find(connection, teacher, keys, found)
            after = self.path.stat()
            if (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size):
                return found
            error: Exception | str = "another process writes it"
        except (OSError, sqlite3.DatabaseError) as problem:
            error = problem
        log.warning("%s cannot be read (%s); %d pairs may be scored again", self.path, error, len(keys))
        return Column.unknown(len(keys))

    def _put(self, teacher: str, keys: Sequence[PairKey], scores: FloatArray) -> None:
        values = np.asarray(scores, dtype=np.float32).tolist()
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")  # waits for another writer here, never half-way through
            self._connection.execute("INSERT OR IGNORE INTO teachers (fingerprint) VALUES (?)", (teacher,))
            (known,) = self._connection.execute(_TEACHER, (teacher,)).fetchone()
            rows = ((known, query, document, value) for (query, document), value in zip(keys, values, strict=True))
            self._connection.executemany(_KEEP, rows)

    def _open(self) -> sqlite3.Connection:
        try:
            self._inode = _inode(self.path)
            self.path.parent.mkdir(parents=True, exist_ok=True)
            try:
                connection = _connect(self.path)
            except sqlite3.DatabaseError as error:
                if _code(error) not in _BROKEN:
                    raise
                self._move_aside(error)
                return self._open()
            self._inode = _inode(self.path)
        except (OSError, sqlite3.DatabaseError) as error:
            return self._in_memory(error)
        return connection

    def _in_memory(self, error: Exception) -> sqlite3.Connection:
        try:
            with closing(_connect_read_only(self.path)) as connection:
                connection.execute(_FIND, (0, b"", b""))
            self._is_read_only = True
            said = "%s cannot be written (%s); scores are read from it, and new ones are kept in memory only"
        except (OSError, sqlite3.DatabaseError):
            said = "%s cannot be written (%s); teacher scores are kept in memory only"
        log.warning(said, self.path, error)
        return _connect(":memory:")

    def _start_again(self, error: sqlite3.DatabaseError) -> None:
        self._connection.close()
        try:
            self._move_aside(error)
        except OSError as unmoved:
            log.warning("%s is broken (%s) and cannot be moved (%s); it is not used", self.path, error, unmoved)
            self._connection = _connect(":memory:")
        else:
            self._connection = self._open()

    def _move_aside(self, error: sqlite3.DatabaseError) -> None:
        if _inode(self.path) != self._inode:
            return  # another process has moved it aside already; what lies there now is new and good
        aside = _free_name(self.path)
        for suffix in ("", "-wal", "-shm"):
            part = self.path.with_name(self.path.name + suffix)
            if part.exists():
                os.replace(part, aside.with_name(aside.name + suffix))
        log.warning(
            "%s is not a usable score store (%s); moved to %s, and a new store is started", self.path, error, aside.name
        )


def _connect(path: Path | str) -> sqlite3.Connection:
    """A connection with the tables there. Waits while other processes set up the same file."""
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
    deadline = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")  # does not wait by itself
            # A killed process loses nothing; only a power cut can lose the last commits, and it cannot break the file.
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.executescript(_SCHEMA)
            with connection:
                connection.execute("BEGIN IMMEDIATE")  # a read-only file is found out now, not after the first wave
            return connection
        except sqlite3.Error as error:
            if _code(error) not in _BUSY or time.monotonic() > deadline:
                connection.close()
                raise
            time.sleep(0.05)


def _connect_read_only(path: Path) -> sqlite3.Connection:
    """A connection to a file that cannot be written, opened again for each reading.

    Readers share a file beside it with the writers, which cannot be made here. Without a log of writes (-wal) there is
    no writer and every score is in the file itself, which is then read as one that does not change. That a writer came
    in the meantime shows in the file.
    """
    log_of_writes = path.with_name(f"{path.name}-wal")
    is_whole = not log_of_writes.exists() or (
        log_of_writes.stat().st_size == 0 and not path.with_name(f"{path.name}-shm").exists()
    )
    address = f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if is_whole else ''}"
    return sqlite3.connect(address, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)


def _find(connection: sqlite3.Connection, teacher: str, keys: Sequence[PairKey], found: Column) -> None:
    """Set the score of each pair that the store has."""
    execute = connection.execute
    with connection:
        execute("BEGIN")  # one read lock for all look-ups: as fast as a join with a temporary table
        known = execute(_TEACHER, (teacher,)).fetchone()
        if known is None:
            return
        for row, (query, document) in enumerate(keys):
            score = execute(_FIND, (known[0], query, document)).fetchone()
            if score is not None:
                found.values[row] = score[0]
                found.valid[row] = True


def _code(error: sqlite3.Error) -> int | None:
    """SQLite's primary result code, None for an error of the Python module itself."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _inode(path: Path) -> int | None:
    return path.stat().st_ino if path.exists() else None


def _free_name(path: Path) -> Path:
    """The first of NAME.broken, NAME.broken-1, ... that is not taken."""
    number = 0
    while (name := path.with_name(f"{path.name}.broken{f'-{number}' if number else ''}")).exists():
        number += 1
    return name
