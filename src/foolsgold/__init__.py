"""foolsgold: mine hard negatives for dense retrievers, throw back the false ones, prove how good the rest are."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from foolsgold import search
    from foolsgold.collection import Collection, load_collection
    from foolsgold.errors import FoolsgoldError
    from foolsgold.mine import mine
    from foolsgold.mined_set import MinedSet
    from foolsgold.recipe import Recipe

__all__ = ["Collection", "FoolsgoldError", "MinedSet", "Recipe", "load_collection", "mine", "search"]

# Loaded when first used, so that `import foolsgold` and `foolsgold --help` answer at once.
_HOME = {
    "Collection": "foolsgold.collection",
    "FoolsgoldError": "foolsgold.errors",
    "MinedSet": "foolsgold.mined_set",
    "Recipe": "foolsgold.recipe",
    "load_collection": "foolsgold.collection",
    "mine": "foolsgold.mine",
}

try:
    __version__ = version("foolsgold")
except PackageNotFoundError:  # a source tree that is not installed
    __version__ = "0"


def __getattr__(name: str) -> Any:
    if name == "search":
        return import_module("foolsgold.search")
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'foolsgold' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
