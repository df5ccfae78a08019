"""Before training starts: the libraries it needs, and the processes that torchrun has started."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version

from foolsgold.errors import MissingExtra

LIBRARIES = ("foolsgold", "numpy", "torch", "transformers", "sentence-transformers")


def libraries() -> dict[str, str]:
    """The versions of the libraries that training uses.

    Raises:
        MissingExtra: one of them is not installed.
    """
    try:
        return {name: version(name) for name in LIBRARIES}
    except PackageNotFoundError:
        raise MissingExtra("torch", "training") from None


def is_first() -> bool:
    """Whether this process mines, evaluates and prints: it is the only one, or has rank 0."""
    return os.environ.get("RANK", "0") == "0"


def are_several() -> bool:
    """Whether more than one process trains."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1
