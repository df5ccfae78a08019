"""The user's own function as a teacher: `module:function`, (query, document) pairs in, numbers out."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from foolsgold.errors import ModelError, TeacherError
from foolsgold.progress import SILENT, Progress
from foolsgold.recipe import TeacherSpec
from foolsgold.records import FloatArray
from foolsgold.teachers.cached import checked
from foolsgold.teachers.protocol import Pair

# Pairs a call: what the function holds in memory stays bounded, and the bar moves.
_BATCH = 256


class CallableTeacher:
    """Calls `function(pairs)` with a list of (query, document) tuples; it returns one number per pair.

    Its numbers are taken to be on the scale that the recipe declares. Its fingerprint is the function's attribute
    `fingerprint` where it has one (say it changes with the weights of a model behind the function), else the contents
    of the file that defines it.
    """

    def __init__(self, spec: TeacherSpec) -> None:
        self._name = spec.model
        self._function = _find(spec.model)
        self._prompt = spec.prompt or ""
        self._batch_size = spec.batch_size or _BATCH
        self.scale = spec.scale
        self.fingerprint = _fingerprint(self._function, spec.model, self._prompt)

    def score(self, pairs: Sequence[Pair], progress: Progress = SILENT) -> FloatArray:
        """float32 (n), on the declared scale.

        Raises:
            TeacherError: the function raised, or did not return one finite number per pair.
        """
        answers = [np.empty(0, dtype=np.float32)]
        with progress.stage("score pairs", len(pairs)) as advance:
            for start in range(0, len(pairs), self._batch_size):
                batch = [(self._prompt + query, doc) for query, doc in pairs[start : start + self._batch_size]]
                answers.append(checked(self._call(batch), batch, self.scale, f"teacher {self._name}"))
                advance(len(batch))
        return np.concatenate(answers)

    def _call(self, batch: list[Pair]) -> Any:
        try:
            return self._function(batch)
        except (Exception, SystemExit) as error:  # whatever the user's code raises
            raise TeacherError(f"teacher {self._name} raised {type(error).__name__}: {error}") from error


def _find(name: str) -> Callable[[list[Pair]], Any]:
    module_name, _, path = name.partition(":")
    if not module_name or not path:
        raise ModelError(f"{name}: a callable teacher is named module:function, such as my_teacher:score")
    found: Any = _import(module_name, name)
    for part in path.split("."):
        if not hasattr(found, part):
            functions = sorted(k for k, v in vars(found).items() if callable(v) and not k.startswith("_"))
            raise ModelError(
                f"{name}: {module_name} has no {path} (it has: {', '.join(functions) or 'nothing callable'})"
            )
        found = getattr(found, part)
    if not callable(found):
        raise ModelError(f"{name}: is a {type(found).__name__}, not a function that scores a list of (query, document)")
    return found  # type: ignore[no-any-return]


def _import(module: str, name: str) -> Any:
    here = str(Path.cwd())
    sys.path.insert(0, here)  # a script beside the recipe needs no installing
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not (module == error.name or module.startswith(error.name + ".")):
            raise ModelError(f"{name}: importing {module} needs {error.name}, which is not installed") from error
        raise ModelError(f"{name}: no module {module}, neither installed nor in the current folder") from None
    except Exception as error:  # whatever the user's module raises while it is imported
        raise ModelError(f"{name}: importing {module} raised {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(here)


def _fingerprint(function: Any, name: str, prompt: str) -> str:
    own = getattr(function, "fingerprint", None)
    if own is None:
        source = None
        for place in (inspect.unwrap(function), type(function)):
            with suppress(TypeError):  # built into Python: there is no file
                source = source or inspect.getsourcefile(place)
        own = Path(source).read_bytes().hex() if source else name
    return sha256(f"callable\0{name.partition(':')[2]}\0{prompt}\0{own}".encode()).hexdigest()[:32]
