"""The demo collection: what the docstrings of installed Python packages say, asked for by their first sentence.

A query is a docstring's first sentence, its positive is the rest of that docstring. Nothing is downloaded and nothing
is imported: the files are parsed. It is real text with real traps: `scipy.linalg.svd` beside `numpy.linalg.svd`, and
dozens of methods called `predict` that say nearly the same.

The qualified name of a function is its document's id and is not put into its text: it would often repeat the query's
words, and a retriever that matches names is not what the demo is to show.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
import sysconfig
import warnings
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from foolsgold.collection.collection import Contents
from foolsgold.collection.texts import Texts, normalise
from foolsgold.errors import CollectionError
from foolsgold.progress import SILENT, Progress

DOCUMENTS = 3600  # an embedding model on a CPU reads them in about a minute
SPLITS = ("train", "test")

# foolsgold's own dependencies, so that the demo is nearly the same in every environment and parses in seconds.
_PACKAGES = ("datasets", "matplotlib", "numpy", "pyarrow", "scipy", "sklearn")
_SKIPPED = {
    "test", "tests", "conftest", "site-packages", "dist-packages", "idlelib", "lib2to3", "turtledemo", "ensurepip",
    "__pycache__",
}  # fmt: skip
_SHORTEST_QUERY, _LONGEST_QUERY = 25, 200  # characters
_SHORTEST_DOCUMENT, _LONGEST_DOCUMENT = 100, 1000  # characters; 1,000 are about the 256 tokens that small models read
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`\"'(*])")
_UNDERLINE = re.compile(r"^[ \t]*[-=~^]{3,}[ \t]*\n?", re.MULTILINE)


class Docstring(NamedTuple):
    """One documented function or class."""

    name: str
    summary: str
    rest: str


def read_demo(split: str | None = None, n_documents: int = DOCUMENTS, progress: Progress = SILENT) -> Contents:
    """The demo collection of this environment: the same on every call. 80 % of the queries are train, 20 % test.

    Docstrings with the same first sentence are positives of one query.

    Raises:
        CollectionError: a split that is neither train nor test.
    """
    split = split or "train"
    if split not in SPLITS:
        raise CollectionError(f"demo: no split {split!r}; it has {', '.join(SPLITS)}. Name one with split")
    chosen = sample(docstrings(_source_files(), progress), n_documents)
    queries: dict[str, str] = {}
    judgements: dict[tuple[str, str], int] = {}
    for entry in chosen:
        query_id = f"q{_hash(normalise(entry.summary)):016x}"
        if (_hash(f"split of {query_id}") % 5 == 0) == (split == "test"):
            queries.setdefault(query_id, entry.summary)
            judgements[query_id, entry.name] = 1
    documents = Texts.from_lists((entry.name for entry in chosen), (entry.rest for entry in chosen))
    return Contents("demo", split, documents, Texts.from_lists(queries, queries.values()), judgements)


def docstrings(files: Iterable[tuple[str, Path]], progress: Progress = SILENT) -> list[Docstring]:
    """The documented public functions, classes and methods of (module name, file), by name.

    A name is without the private parts of its module, as one imports it: scipy.linalg._decomp_svd.svd is
    scipy.linalg.svd. Files that cannot be read or parsed are skipped.
    """
    found: dict[str, Docstring] = {}
    files = list(files)
    with progress.stage("read docstrings (files)", len(files)) as advance:
        for module, path in files:
            for name, text in _documented(path):
                public = ".".join([*(part for part in module.split(".") if not part.startswith("_")), name])
                entry = _split(public if public not in found else f"{module}.{name}", text)
                if entry is not None:
                    found.setdefault(entry.name, entry)
            advance(1)
    return [found[name] for name in sorted(found)]


def sample(entries: list[Docstring], n: int) -> list[Docstring]:
    """About n of the entries, at most n, in their order: always the same ones, from all packages.

    Entries with the same bare name stay together (all `predict`, all `svd`), since near-duplicates are what hard
    negatives are about and a plain sample would part them. Families are taken in the order of a hash of that name.
    """
    families: dict[str, list[int]] = {}
    for row, entry in enumerate(entries):
        families.setdefault(entry.name.rsplit(".", 1)[-1], []).append(row)
    taken: list[int] = []
    for name in sorted(families, key=_hash):
        if len(taken) + len(families[name]) <= n:
            taken += families[name]
    return [entries[row] for row in sorted(taken)]


def _source_files() -> list[tuple[str, Path]]:
    """(module name, file) of the standard library and the packages, sorted."""
    library = Path(sysconfig.get_paths()["stdlib"])
    files = list(_modules(library, ""))
    for package in _PACKAGES:
        found = importlib.util.find_spec(package)  # of a top-level package: nothing is imported
        for folder in (found.submodule_search_locations or ()) if found else ():
            files += _modules(Path(folder), package)
    return sorted(files)


def _modules(folder: Path, package: str) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.iterdir()):
        if path.name in _SKIPPED or path.stem in _SKIPPED:
            continue
        if path.is_dir():
            # a folder without __init__.py, such as lib-dynload, is no package
            if (path / "__init__.py").is_file():
                yield from _modules(path, f"{package}.{path.name}" if package else path.name)
        elif path.suffix == ".py":
            names = (package, "" if path.stem == "__init__" else path.stem)
            yield ".".join(name for name in names if name), path


def _documented(path: Path) -> Iterator[tuple[str, str]]:
    """(name within the module, docstring) of a file's public functions, classes and methods."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in other people's code
            tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return
    yield from _of_body(tree.body, "")


def _of_body(body: list[ast.stmt], within: str) -> Iterator[tuple[str, str]]:
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() if not node.name.startswith("_"):
                text = ast.get_docstring(node, clean=False)
                if text:
                    yield within + node.name, text
                if isinstance(node, ast.ClassDef):
                    yield from _of_body(node.body, f"{within}{node.name}.")
            case ast.If() | ast.Try():
                yield from _of_body(node.body, within)
                yield from _of_body(node.orelse, within)


def _split(name: str, text: str) -> Docstring | None:
    """A docstring's first sentence and the rest of it, or None where either is too short to mean something."""
    if len(text) < _SHORTEST_QUERY + _SHORTEST_DOCUMENT:
        return None
    first, _, body = inspect.cleandoc(text).partition("\n\n")
    summary, *more = _SENTENCE_END.split(" ".join(first.split()), maxsplit=1)
    body = _UNDERLINE.sub("", body).strip()
    rest = _cut("\n".join([*more, body]).strip())
    if (
        not _SHORTEST_QUERY <= len(summary) <= _LONGEST_QUERY
        or len(summary.split()) < 3
        or len(rest) < _SHORTEST_DOCUMENT
    ):
        return None
    return Docstring(name, summary, rest)


def _cut(text: str) -> str:
    """At most the longest document, ended between two words."""
    if len(text) <= _LONGEST_DOCUMENT:
        return text
    return text[:_LONGEST_DOCUMENT].rsplit(" ", 1)[0].rstrip()


def _hash(text: str) -> int:
    """64 bits that are the same in every process, which Python's own hash is not."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
