"""Where stores live, and how a file or folder is written so that nobody ever sees half of it."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from zlib import crc32

from filelock import FileLock

from foolsgold.errors import FoolsgoldError

_PIECE = 1 << 20
_log = logging.getLogger(__name__)


def cache_folder(chosen: str | Path | None = None) -> Path:
    """The folder of all stores: `chosen`, else $FOOLSGOLD_CACHE, else the user's cache folder.

    It has embeddings, teacher scores and converted corpora, and can be deleted at any time.
    """
    if chosen is not None:
        return Path(chosen)
    chosen = os.environ.get("FOOLSGOLD_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "foolsgold"


@contextmanager
def written_whole(path: Path, error: type[FoolsgoldError] | None = None, remedy: str = "") -> Iterator[Path]:
    """A path to write a file or folder at; what is there at the end of the block becomes `path`.

    Where the block raises, `path` stays as it was. A file that is there already is replaced; a folder is not.

    error: raised, in one sentence that ends with `remedy`, for an OSError of the block; None: the OSError itself.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield partial
        os.replace(partial, path)
    except OSError as problem:
        if error is None:
            raise
        raise error(f"{path}: cannot be written ({problem.strerror or problem}){remedy and f'; {remedy}'}") from None
    finally:
        _remove(partial)


def written_once(folder: Path, write: Callable[[Path], None], *, checked: bool = False) -> Path:
    """The folder; where it is not there, `write` fills another, which then gets its name.

    Two processes do not write the same folder at once: the second waits, and finds it there. What a killed process left
    behind is removed by the next.

    checked: read the folder's files each time, compare them with `FOLDER.crc32` beside it, and write the folder again
    where one has changed. Not for folders that belong to the user, who may change them.

    Raises:
        OSError: the folder cannot be written.
    """
    sums = folder.with_name(f"{folder.name}.crc32")
    if _is_there(folder, sums if checked else None):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name(f"{folder.name}.lock")):
        if _is_there(folder, sums if checked else None):  # another process may just have written it
            return folder
        if folder.is_dir():
            _log.warning("%s has changed since it was written; it is written again", folder)
            shutil.rmtree(folder)
        partial = folder.with_name(f"{folder.name}.partial")  # without the process, so that the next one removes it
        _remove(partial)
        partial.mkdir()
        write(partial)
        if checked:
            sums.write_text(json.dumps(_checksums(partial)), encoding="utf-8")
        os.replace(partial, folder)
    return folder


def crc32_of_file(path: Path, start: int = 0, size: int | None = None) -> int:
    """CRC-32 of `size` bytes from `start`, or of everything from there; a megabyte is in memory at a time.

    Raises:
        OSError: the file is not there, or a part of it cannot be read.
    """
    checksum, left = 0, path.stat().st_size - start if size is None else size
    with path.open("rb") as file:
        file.seek(start)
        while piece := file.read(min(_PIECE, left)):
            checksum = crc32(piece, checksum)
            left -= len(piece)
    return checksum


def _is_there(folder: Path, sums: Path | None) -> bool:
    """sums: the file with the checksums that the folder must have; None: not checked."""
    if not folder.is_dir():
        return False
    try:
        return sums is None or json.loads(sums.read_text(encoding="utf-8")) == _checksums(folder)
    except (OSError, ValueError):
        return False


def _checksums(folder: Path) -> dict[str, int]:
    """The checksum of each file in a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    names = [path.relative_to(folder).as_posix() for path in files]
    with ThreadPoolExecutor() as pool:
        return dict(zip(names, pool.map(crc32_of_file, files), strict=True))


def _remove(path: Path) -> None:
    """Remove a file or folder if it is there and can be removed."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
