"""Search: exact top-k of dense vectors, BM25, and the similarity of texts by their shingles.

The names load on first use, because numba and bm25s take longer to import than the rest of foolsgold together.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from foolsgold.search.bm25 import BM25
    from foolsgold.search.dense import top_k

__all__ = ["BM25", "top_k"]

_HOME = {"BM25": "foolsgold.search.bm25", "top_k": "foolsgold.search.dense"}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value
