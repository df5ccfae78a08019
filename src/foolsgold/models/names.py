"""What a model's name means, and a fingerprint of what is behind it.

A name is a Hub id (`org/name`), a local folder, or `package:NAME/SUBPATH`, a folder inside an installed Python package.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import file_digest, sha256
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any

from foolsgold.errors import MissingExtra, ModelError
from foolsgold.models.describe import is_onnx_folder
from foolsgold.models.known import KNOWN, verify

FORMS = (
    "a model is named by a Hub id (org/name), a local folder (./models/mine), "
    "or a folder inside an installed Python package (package:NAME/SUBPATH)"
)

# What changes vectors or scores: weights, tokeniser, configuration, code. Not a README, not a log.
_DECIDES = frozenset(
    {".bin", ".data", ".jinja", ".json", ".model", ".onnx", ".onnx_data", ".py", ".safetensors", ".txt"}
)
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
# A model's own pickle stays on the Hub (rule 11), and so do other formats of its weights. Only the small layers after a
# transformer, in folders of their own, may be .bin: sentence-transformers reads those with torch's weights_only.
_FETCHED = ("*.json", "*.txt", "*.model", "*.jinja", "*.safetensors", "*/pytorch_model.bin")
_NOT_FETCHED = ("onnx/*", "openvino/*", "checkpoint-*/*", "original/*")
_HUB_TIMEOUT = 10.0  # seconds the Hub has for each answer


@dataclass(frozen=True)
class Located:
    """A model's name and where its files are. folder is None for a Hub id that has not been fetched."""

    name: str
    folder: Path | None

    @property
    def is_onnx(self) -> bool:
        """Whether onnxruntime runs it: a folder with model.onnx and tokenizer.json."""
        return self.folder is not None and is_onnx_folder(self.folder)

    @property
    def files(self) -> Path:
        """The folder of a model whose files are on this machine (`fetched`)."""
        if self.folder is None:
            raise ModelError(f"{self.name}: must be fetched before its files are read")
        return self.folder


def locate(name: str) -> Located:
    """Find what a name means. Looks at this machine only; nothing is fetched or loaded.

    The demo models (`models/known.py`) are checked against their digests here, once a process.

    Raises:
        ModelError: nothing has that name, or a demo model's files are not the ones they should be.
    """
    if name.startswith("package:"):
        folder = _in_package(name)
        verify(name, folder)
        return Located(name, folder)
    folder = Path(name).expanduser()
    if name and folder.is_dir():
        return Located(name, folder.resolve())
    if name and folder.is_file():
        raise ModelError(f"{name}: is a file, not the folder of a model; {FORMS}")
    if name.startswith((".", "/", "~")) or name.count("/") > 1 or "\\" in name:
        raise ModelError(f"{name}: no such folder; {FORMS}")
    if not _HUB_ID.fullmatch(name):
        raise ModelError(f"{name!r}: neither a folder here nor a Hub id; {FORMS}")
    return Located(name, None)


def fetched(located: Located, *, with_code: bool = False) -> Located:
    """The same model with its files on this machine: a Hub id is downloaded into (or found in) the Hub's own cache.

    with_code: bring the repository's Python files too; only where the user trusts them.

    Raises:
        ModelError: the Hub cannot be reached, or has no such model or no safetensors weights of it.
        MissingExtra: huggingface_hub is not installed.
    """
    if located.folder is not None:
        return located
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise MissingExtra("torch", f"the Hub model {located.name}") from None
    try:
        folder = snapshot_download(
            located.name,
            allow_patterns=[*_FETCHED, *(["*.py"] if with_code else [])],
            ignore_patterns=list(_NOT_FETCHED),
            etag_timeout=_HUB_TIMEOUT,
        )
    except Exception as error:  # the Hub's client raises its own, its HTTP library's and the system's errors
        raise ModelError(f"{located.name}: {_why(error)}; {FORMS}") from None
    return Located(located.name, Path(folder))


def fingerprint(located: Located, *extra: Any) -> str:
    """32 hexadecimal digits that change whenever the model's files or the `extra` settings do.

    Covers the contents of weights, tokeniser and configuration and where in the folder each lies; not the model's name,
    not where its folder is, no time. `located` must have its files here (`fetched`).
    """
    folder = located.files
    digest = sha256()
    for path in sorted(_deciding_files(folder), key=lambda path: path.as_posix()):
        with (folder / path).open("rb") as file:
            content = file_digest(file, "sha256").hexdigest()
        digest.update(f"{path.as_posix()}\0{content}\n".encode())
    for setting in extra:
        digest.update(f"{setting!r}\n".encode())
    return digest.hexdigest()[:32]


def _deciding_files(folder: Path) -> Iterator[PurePosixPath]:
    for path in folder.rglob("*"):
        inside = path.relative_to(folder)
        hidden = any(part.startswith((".", "checkpoint-", "__pycache__")) for part in inside.parts)
        if path.suffix in _DECIDES and not hidden and path.is_file():
            yield PurePosixPath(inside)


def _in_package(name: str) -> Path:
    package, *inside = PurePosixPath(name.removeprefix("package:")).parts or ("",)
    if not package.isidentifier() or ".." in inside:
        raise ModelError(f"{name}: not of the form package:NAME/SUBPATH; {FORMS}")
    spec = find_spec(package)  # of a top-level name: finds the package without importing it
    if spec is None or not spec.submodule_search_locations:
        wanted = {one.requirement for path, one in KNOWN.items() if path.partition("/")[0] == package}
        hint = f" (pip install {wanted.pop()} brings it)" if wanted else ""
        raise ModelError(f"{name}: no Python package {package} is installed here{hint}; {FORMS}")
    for root in spec.submodule_search_locations:
        folder = Path(root, *inside)
        if folder.is_dir():
            return folder
    raise ModelError(f"{name}: the installed package {package} has no folder {'/'.join(inside)}; {FORMS}")


def _why(error: Exception) -> str:
    """What the Hub's client means, for those of its errors that a user meets."""
    known_causes = {
        "RepositoryNotFoundError": "the Hub has no such model, or it is private (`hf auth login`)",
        "GatedRepoError": "access to this model must be asked for on its page on the Hub",
        "LocalEntryNotFoundError": "the Hub cannot be reached, and the model has not been downloaded before",
        "OfflineModeIsEnabled": "the Hub's client is set to be offline, and the model has not been downloaded before",
    }
    short = " ".join(str(error).split())[:200] or type(error).__name__
    return known_causes.get(type(error).__name__, f"cannot be downloaded from the Hub ({short})")
