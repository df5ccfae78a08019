"""Folders in a cache that are there whole or not at all; `NAME.crc32` beside one tells whether it still is."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from filelock import FileLock

from foolsgold.stores.checksums import crc32_of_file

_log = logging.getLogger(__name__)


def written_once(folder: Path, write: Callable[[Path], None], *, checked: bool = False) -> Path:
    """The folder; where it is not there, `write` fills another, which is then given its name.

    Two processes do not write the same folder at once: the second waits, and finds it there. What a killed process left
    behind is removed by the next.

    checked: read the folder's files each time, and write it anew where one is not as it was written. Not for folders
    that belong to the user, who may change them.

    Raises:
        OSError: the folder cannot be written.
    """
    if _is_there(folder, checked):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name(f"{folder.name}.lock")):
        if _is_there(folder, checked):  # another process may just have written it
            return folder
        if folder.is_dir():
            _log.warning("%s is not as it was written, and is written again", folder)
            shutil.rmtree(folder)
        partial = folder.with_name(f"{folder.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        write(partial)
        if checked:
            _sums_of(folder).write_text(json.dumps(_read(partial)), encoding="utf-8")
        os.replace(partial, folder)
    return folder


def _is_there(folder: Path, checked: bool) -> bool:
    if not folder.is_dir():
        return False
    try:
        return not checked or json.loads(_sums_of(folder).read_text(encoding="utf-8")) == _read(folder)
    except (OSError, ValueError):
        return False


def _sums_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.crc32")


def _read(folder: Path) -> dict[str, int]:
    """The checksum of each file."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    with ThreadPoolExecutor() as pool:
        return {
            path.relative_to(folder).as_posix(): checksum
            for path, checksum in zip(files, pool.map(crc32_of_file, files), strict=True)
        }
