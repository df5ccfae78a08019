"""The store of embeddings: `.npy` files under CACHE/embeddings/FINGERPRINT, encoded once, resumable.

While a file is being written it is `NAME.partial.npy`, and `NAME.done` says how many parts of it are complete, written
after they are on disk. A killed run loses at most a part. One process writes a file at a time; others wait for it.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import numpy as np
import numpy.typing as npt
from filelock import FileLock, Timeout

from foolsgold.collection.texts import Texts, first_of_equal
from foolsgold.encoding.protocol import Encoder, Role
from foolsgold.encoding.vectors import NotFinite
from foolsgold.progress import SILENT, Advance, Progress
from foolsgold.records import FloatArray, IntArray, text_key

_WINDOW = 16_384  # texts in memory at once, and sorted by length together
_PART = 1_024  # texts encoded between two marks of what is done
_PLURAL: dict[Role, str] = {"query": "queries", "document": "documents"}
_log = logging.getLogger(__name__)


def encode_all(encoder: Encoder, texts: Texts, role: Role, *, cache: Path, progress: Progress = SILENT) -> FloatArray:
    """float32 (n, dimension): the vector of each text, a read-only memory map of a file that outlives the process.

    A text that occurs several times is encoded once. Where `cache` cannot be written, an array in memory and a warning.

    Raises:
        NotFinite: naming the text whose vector has NaN or infinity.
    """
    shape = (len(texts), encoder.dimension)
    if not len(texts):
        return np.empty(shape, dtype=np.float32)
    keys = _keys(texts)
    name = sha256(b"\0".join((role.encode(), encoder.prompt(role).encode(), keys.tobytes()))).hexdigest()[:32]
    path = cache / "embeddings" / encoder.fingerprint / f"{name}.npy"
    kept = _opened(path, shape)
    if kept is not None:
        return kept
    work = _Work(encoder, texts, role, first_of_equal(keys), progress)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _only_one(path):
            kept = _opened(path, shape)  # another process may just have written it
            return _written(path, shape, work) if kept is None else kept
    except (OSError, NotImplementedError) as error:  # the second: a file system without locks
        _log.warning("%s cannot be written (%s); the vectors are kept in memory and lost at the end", cache, error)
    vectors = np.empty(shape, dtype=np.float32)
    for _ in work.into(vectors, done=0):
        pass
    return vectors


class _Work:
    """What is to be encoded, in a fixed order, so that a later process can go on where a killed one stopped.

    first: int32 (n), the first row that has the same text.
    """

    def __init__(self, encoder: Encoder, texts: Texts, role: Role, first: IntArray, progress: Progress) -> None:
        self._encoder = encoder
        self._texts = texts
        self._role = role
        self._first = first
        self._progress = progress

    def into(self, vectors: FloatArray, done: int) -> Iterator[int]:
        """Fill `vectors` but for the first `done` parts; yields the number of parts done after each."""
        parts = 0
        with self._progress.stage(f"encode {_PLURAL[self._role]}", len(self._texts)) as advance:
            for window, start in zip(self._texts.batches(_WINDOW), range(0, len(self._texts), _WINDOW), strict=True):
                first = self._first[start : start + len(window)]
                is_first = first == np.arange(start, start + len(window))
                for part in _parts_by_length(window, np.flatnonzero(is_first)):
                    parts += 1
                    if parts <= done:
                        advance(len(part))
                        continue
                    vectors[start + part] = self._encoded(window, part, start, advance)
                    yield parts
                again = np.flatnonzero(~is_first)
                vectors[start + again] = vectors[first[again]]
                advance(len(again))

    def _encoded(self, window: list[str], part: npt.NDArray[np.intp], start: int, advance: Advance) -> FloatArray:
        try:
            return self._encoder.encode([window[row] for row in part], self._role, advance)
        except NotFinite as error:
            row = start + int(part[error.position])
            raise NotFinite(error.model, f"{self._role} {self._texts.take_ids([row])[0]!r} (row {row})", row) from None


def _written(path: Path, shape: tuple[int, int], work: _Work) -> FloatArray:
    """Encode into the partial file, from where it ends, and give it its name."""
    partial, marker = path.with_suffix(".partial.npy"), path.with_suffix(".done")
    done = _parts_done(marker) if _opened(partial, shape) is not None else 0
    if not done:
        marker.unlink(missing_ok=True)
        _allocate(partial, shape)
    vectors = np.lib.format.open_memmap(partial, mode="r+")
    for so_far in work.into(vectors, done):
        vectors.flush()
        _mark(marker, so_far)
    vectors.flush()
    del vectors  # closed before it is renamed
    os.replace(partial, path)
    marker.unlink(missing_ok=True)
    written = _opened(path, shape)
    if written is None:
        raise OSError(f"{path}: cannot be read back")
    return written


def _opened(path: Path, shape: tuple[int, int]) -> FloatArray | None:
    """The file as a read-only memory map; None where there is none, or not a whole one of that shape."""
    try:
        vectors = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    if not isinstance(vectors, np.ndarray) or vectors.shape != shape or vectors.dtype != np.float32:
        return None
    return vectors


def _allocate(path: Path, shape: tuple[int, int]) -> None:
    """A file of the full size. Its blocks are reserved now: writing to a map of a full disk would kill the process."""
    vectors = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
    del vectors
    if hasattr(os, "posix_fallocate"):
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)


def _mark(marker: Path, done: int) -> None:
    new = marker.with_suffix(".done.new")
    new.write_text(json.dumps({"window": _WINDOW, "part": _PART, "done": done}), encoding="utf-8")
    os.replace(new, marker)


def _parts_done(marker: Path) -> int:
    """How many parts a killed process completed; 0 where it does not say or cut the work differently."""
    try:
        mark = json.loads(marker.read_text(encoding="utf-8"))
        return int(mark["done"]) if (mark["window"], mark["part"]) == (_WINDOW, _PART) else 0
    except (OSError, ValueError, TypeError, KeyError):
        return 0


@contextmanager
def _only_one(path: Path) -> Iterator[None]:
    """Hold the lock of one file; the system lets go of it when a process is killed."""
    lock = FileLock(path.with_suffix(".lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        _log.warning("another process is encoding the same texts; waiting for it")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _keys(texts: Texts) -> npt.NDArray[np.uint64]:
    """uint64 (n, 2): a hash of each text, exactly as it is."""
    keys = bytearray()
    for window in texts.batches(_WINDOW):
        keys += b"".join(map(text_key, window))
    return np.frombuffer(bytes(keys), dtype=np.uint64).reshape(-1, 2)


def _parts_by_length(window: list[str], rows: npt.NDArray[np.intp]) -> Iterator[npt.NDArray[np.intp]]:
    """The given rows of a window, the longest texts first, `_PART` at a time."""
    lengths = np.array([len(window[row]) for row in rows], dtype=np.int64)
    by_length = rows[np.argsort(-lengths, kind="stable")]
    for start in range(0, len(by_length), _PART):
        yield by_length[start : start + _PART]
