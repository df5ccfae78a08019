"""Checksums, by which stores find what a power cut never wrote or a disk lost."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

_PIECE = 1 << 20


def crc32_of_file(path: Path, start: int = 0, size: int | None = None) -> int:
    """CRC-32 of `size` bytes from `start` on, or of all up to the end; a megabyte is in memory at a time.

    Raises:
        OSError: the file is not there, or a place of it cannot be read.
    """
    checksum, left = 0, path.stat().st_size - start if size is None else size
    with path.open("rb") as file:
        file.seek(start)
        while piece := file.read(min(_PIECE, left)):
            checksum = crc32(piece, checksum)
            left -= len(piece)
    return checksum
