"""Folders in a cache that are there whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock


def written_once(folder: Path, write: Callable[[Path], None]) -> Path:
    """The folder; where it is not there, `write` fills another, which is then given its name.

    Two processes do not write the same folder at once: the second waits, and finds it there. What a killed process left
    behind is removed by the next.

    Raises:
        OSError: the folder cannot be written.
    """
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name(f"{folder.name}.lock")):
        if not folder.is_dir():  # another process may just have written it
            partial = folder.with_name(f"{folder.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            write(partial)
            os.replace(partial, folder)
    return folder
