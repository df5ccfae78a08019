"""foolsgold: mine hard negatives for dense retrievers, throw back the false ones, prove how good the rest are."""

# Functions that are called as their modules must be imported here and not when first asked for: importing the modules
# later would put those in the functions' place.
from importlib.metadata import PackageNotFoundError, version

from foolsgold import compat, search
from foolsgold.calibrate import calibrate
from foolsgold.check import check
from foolsgold.collection import Collection, load_collection
from foolsgold.errors import FoolsgoldError
from foolsgold.evaluate import evaluate
from foolsgold.export import export
from foolsgold.importing import audit_file, import_set
from foolsgold.mine import mine
from foolsgold.mined_set import MinedSet
from foolsgold.recipe import Recipe
from foolsgold.train import train

__all__ = [
    "Collection",
    "FoolsgoldError",
    "MinedSet",
    "Recipe",
    "audit_file",
    "calibrate",
    "check",
    "compat",
    "evaluate",
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
