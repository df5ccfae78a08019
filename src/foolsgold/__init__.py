"""foolsgold: mine hard negatives for dense retrievers, remove the false negatives, prove how good the rest are."""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from foolsgold import compat, search
    from foolsgold.calibration.calibrate import calibrate
    from foolsgold.collection import Collection, load_collection
    from foolsgold.errors import FoolsgoldError
    from foolsgold.evaluation.evaluate import evaluate
    from foolsgold.exchange.export import export
    from foolsgold.exchange.found import audit_file
    from foolsgold.exchange.importing import import_set
    from foolsgold.findings import check
    from foolsgold.mined.mined_set import MinedSet, audit, diff, explain
    from foolsgold.mining.mine import mine
    from foolsgold.recipe import Recipe
    from foolsgold.training import train

_HOME = {  # where each public name is defined; imported when it is first used, so that `import foolsgold` is quick
    "Collection": "collection",
    "FoolsgoldError": "errors",
    "MinedSet": "mined.mined_set",
    "Recipe": "recipe",
    "audit": "mined.mined_set",
    "audit_file": "exchange.found",
    "calibrate": "calibration.calibrate",
    "check": "findings",
    "compat": "",
    "diff": "mined.mined_set",
    "evaluate": "evaluation.evaluate",
    "explain": "mined.mined_set",
    "export": "exchange.export",
    "import_set": "exchange.importing",
    "load_collection": "collection",
    "mine": "mining.mine",
    "search": "",
    "train": "training",
}

__all__ = [
    "Collection",
    "FoolsgoldError",
    "MinedSet",
    "Recipe",
    "audit",
    "audit_file",
    "calibrate",
    "check",
    "compat",
    "diff",
    "evaluate",
    "explain",
    "export",
    "import_set",
    "load_collection",
    "mine",
    "search",
    "train",
]

try:
    __version__ = version("foolsgold")
except PackageNotFoundError:  # a source tree that is not installed
    __version__ = "0"


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'foolsgold' has no attribute {name!r}")
    home = _HOME[name]
    found = getattr(import_module(f"foolsgold.{home}"), name) if home else import_module(f"foolsgold.{name}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
