"""What torchrun says of the processes that train together, before any of them has met the others."""

from __future__ import annotations

import os


def is_first() -> bool:
    """Whether this process is the one that speaks for all: the only one, or that of rank 0."""
    return os.environ.get("RANK", "0") == "0"


def are_several() -> bool:
    """Whether more than one process trains."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1
