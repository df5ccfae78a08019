"""Every error foolsgold raises on purpose.

Each message is a sentence for the user: what was wrong, where (file, line, row, field), and what to do now.
The command line prints it and exits with `exit_code`; a traceback from foolsgold is always a bug.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class FoolsgoldError(Exception):
    """Base of all errors a user can cause."""

    exit_code = 2


class CollectionError(FoolsgoldError):
    """A corpus, a query file or a qrels file cannot be used as it is."""


class RecipeError(FoolsgoldError):
    """A recipe has an unknown field, a value out of range, or two fields that contradict each other."""


class ModelError(FoolsgoldError):
    """A model cannot be found, loaded or trusted (wrong digest)."""


class SourceError(FoolsgoldError):
    """A source cannot retrieve: a broken run file, an embedding with NaN, an unknown tokeniser."""


class TeacherError(FoolsgoldError):
    """A teacher returned something else than one finite number per pair."""


class MinedSetError(FoolsgoldError):
    """A mined set's folder is missing, incomplete, or does not fit the collection it is used with."""


class EvaluationError(FoolsgoldError):
    """An unknown measure, or evaluations that cannot be compared."""


class TrainingError(FoolsgoldError):
    """A run of training cannot start or continue: too few rows, a folder that belongs to another run."""


class MissingExtra(FoolsgoldError):
    """An optional dependency is not installed."""

    def __init__(self, extra: str, needed_for: str) -> None:
        super().__init__(f"{needed_for} needs the optional extra: pip install 'foolsgold[{extra}]'")
        self.extra = extra


class GateFailed(FoolsgoldError):
    """An audit gate or a check rule failed. Not bad input: the exit code is 1."""

    exit_code = 1


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` may have been meant to be: one that is like it, or that has it as its initials."""
    known = list(known)
    by_initials = [one for one in known if "_" in one and "".join(part[:1] for part in one.split("_")) == word]
    return next(iter(by_initials or difflib.get_close_matches(word, known, n=1)), None)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a sentence on an unknown word: the nearest known one, or all of them."""
    known = list(known)
    near = nearest(word, known)
    return f"; did you mean {near}?" if near else f" (known: {', '.join(known)})"
