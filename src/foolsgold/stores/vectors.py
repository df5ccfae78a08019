"""The store of embeddings: `.npy` files under CACHE/embeddings/FINGERPRINT, encoded once, resumable.

While a file is being written it is `NAME.partial.npy`, and `NAME.done` has the checksums of what is complete, written
after that is on disk. A killed run loses at most a part. The checksums stay beside the whole file: vectors that have
changed since, after a power cut or on a bad disk, are encoded again. That takes reading the file once, which the
search does anyway. One process writes a file at a time; others wait for it.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
from filelock import FileLock, Timeout

from foolsgold.collection.texts import Texts, first_of_equal
from foolsgold.files import crc32_of_file, written_whole
from foolsgold.models.protocol import Encoder, Role
from foolsgold.models.vectors import NotFinite
from foolsgold.progress import SILENT, Advance, Progress
from foolsgold.records import FloatArray, IntArray, text_key
from foolsgold.stores.kept import PLURAL, named

_WINDOW = 16_384  # texts in memory at once, and sorted by length together
_PART = 1_024  # texts encoded between two marks of what is done
_log = logging.getLogger(__name__)

_Sums = list[int | list[int]]
"""CRC-32 by window: of all its rows, or of each part that is complete while others are not."""


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
    kept = _whole(path, shape)
    if kept is not None:
        return kept
    work = _Work(encoder, texts, role, first_of_equal(keys), progress)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _only_one(path):
            kept = _whole(path, shape)  # another process may just have written it
            return _written(path, shape, work) if kept is None else kept
    except (OSError, NotImplementedError) as error:  # the second: a file system without locks
        _log.warning("%s cannot be written (%s); the vectors are kept in memory and lost at the end", cache, error)
    vectors = np.empty(shape, dtype=np.float32)
    for _ in work.into(vectors, _nothing(len(texts))):
        pass
    return vectors


class _Work:
    """What is to be encoded, in a fixed order, so that a later process can continue where a killed one stopped.

    first: int32 (n), the first row that has the same text.
    """

    def __init__(self, encoder: Encoder, texts: Texts, role: Role, first: IntArray, progress: Progress) -> None:
        self._encoder = encoder
        self._texts = texts
        self._role = role
        self._first = first
        self._progress = progress

    def into(self, vectors: FloatArray, sums: _Sums) -> Iterator[None]:
        """Fill `vectors` where they are not what `sums` says, and bring `sums` up to date; yields after each part."""
        with self._progress.stage(f"encode {PLURAL[self._role]}", len(self._texts)) as advance:
            for number, window in enumerate(self._texts.batches(_WINDOW)):
                known = sums[number]
                if isinstance(known, int):
                    advance(len(window))
                    continue
                start = number * _WINDOW
                here = vectors[start : start + len(window)]
                first = self._first[start : start + len(window)]
                is_first = first == np.arange(start, start + len(window))
                for place, part in enumerate(_parts_by_length(window, np.flatnonzero(is_first))):
                    if known[place : place + 1] == [_crc32(here[part])]:
                        advance(len(part))
                        continue
                    here[part] = self._encoded(window, part, start, advance)
                    known[place : place + 1] = [_crc32(here[part])]
                    yield
                again = np.flatnonzero(~is_first)
                here[again] = vectors[first[again]]
                sums[number] = _crc32(here)
                advance(len(again))
                yield

    def _encoded(self, window: list[str], part: npt.NDArray[np.intp], start: int, advance: Advance) -> FloatArray:
        try:
            return self._encoder.encode([window[row] for row in part], self._role, advance)
        except NotFinite as error:
            raise named(error, self._texts, self._role, start + int(part[error.position])) from None


def _written(path: Path, shape: tuple[int, int], work: _Work) -> FloatArray:
    """Encode into the partial file what it lacks, and give it its name. A damaged file becomes the partial one."""
    partial, marker = path.with_suffix(".partial.npy"), _marker(path)
    damaged = path.exists()
    if _mapped(path, shape) is not None:
        os.replace(path, partial)
    sums = _sums(partial, shape)
    if damaged:
        lost = [number for number, known in enumerate(sums or _nothing(shape[0])) if isinstance(known, list)]
        again = sum(min(_WINDOW, shape[0] - number * _WINDOW) for number in lost)
        _log.warning(
            "%s has changed since it was written; %d of its %d vectors are encoded again", path, again, shape[0]
        )
    if sums is None:
        marker.unlink(missing_ok=True)
        _allocate(partial, shape)
        sums = _nothing(shape[0])
    vectors = np.lib.format.open_memmap(partial, mode="r+")
    for _ in work.into(vectors, sums):
        vectors.flush()
        _mark(marker, sums)
    del vectors  # closed before it is renamed
    os.replace(partial, path)
    written = _mapped(path, shape)
    if written is None:
        raise OSError(f"{path}: cannot be read back")
    return written


def _whole(path: Path, shape: tuple[int, int]) -> FloatArray | None:
    """The file as a read-only memory map; None where it is missing, of another shape or not as it was written."""
    vectors = _mapped(path, shape)
    if vectors is None:
        return None
    sums = _sums(path, shape)
    if sums is None:  # without checksums, vectors that nobody wrote are still seen
        windows = (vectors[start : start + _WINDOW] for start in range(0, len(vectors), _WINDOW))
        return vectors if all(np.isfinite(window).all() and window.any(axis=1).all() for window in windows) else None
    return vectors if all(isinstance(known, int) for known in sums) else None


def _mapped(path: Path, shape: tuple[int, int]) -> np.memmap[Any, np.dtype[np.float32]] | None:
    try:
        vectors = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    if not isinstance(vectors, np.memmap) or vectors.shape != shape or vectors.dtype != np.float32:
        return None
    return vectors


def _sums(path: Path, shape: tuple[int, int]) -> _Sums | None:
    """The checksums that were marked, without those of windows that have changed since; None where none fit the file.

    The file is read, not mapped, so that a place which the disk cannot read is an error here and not the process's end.
    """
    vectors, marked = _mapped(path, shape), _marked(_marker(path), shape[0])
    if vectors is None or marked is None:
        return None
    size = _WINDOW * shape[1] * vectors.itemsize

    def checked(number: int) -> int | list[int]:
        known = marked[number]
        if isinstance(known, list):
            return known
        try:
            return known if crc32_of_file(path, vectors.offset + number * size, size) == known else []
        except OSError:
            return []

    with ThreadPoolExecutor() as pool:
        return list(pool.map(checked, range(len(marked))))


def _crc32(vectors: FloatArray) -> int:
    return crc32(vectors.data)


def _nothing(n: int) -> _Sums:
    return [[] for _ in range(0, n, _WINDOW)]


def _allocate(path: Path, shape: tuple[int, int]) -> None:
    """A file of the full size. Its blocks are reserved now: writing to a map of a full disk would kill the process."""
    vectors = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
    del vectors
    if hasattr(os, "posix_fallocate"):
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)


def _marker(path: Path) -> Path:
    return path.with_name(f"{path.name.partition('.')[0]}.done")


def _mark(marker: Path, sums: _Sums) -> None:
    with written_whole(marker) as new, new.open("w", encoding="utf-8") as file:
        json.dump({"window": _WINDOW, "part": _PART, "crc32": sums}, file)
        file.flush()
        os.fsync(file.fileno())


def _marked(marker: Path, n: int) -> _Sums | None:
    """What was marked of a file of n rows; None where nothing was, or the work was cut differently."""
    try:
        mark = json.loads(marker.read_text(encoding="utf-8"))
        sums = mark["crc32"]
        fits = (mark["window"], mark["part"]) == (_WINDOW, _PART) and len(sums) == len(_nothing(n))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError):
        return _nothing(n)
    if not fits:
        return None
    return [each if isinstance(each, int | list) else [] for each in sums]


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
