"""Where stores live: $FOOLSGOLD_CACHE, else the user's cache folder."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder(chosen: str | Path | None = None) -> Path:
    """The folder of all stores (embeddings, teacher scores, converted corpora). Safe to delete at any time.

    chosen: what a caller asks for in its place.
    """
    if chosen is not None:
        return Path(chosen)
    chosen = os.environ.get("FOOLSGOLD_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "foolsgold"
