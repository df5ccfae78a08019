"""Every error foolsgold raises on purpose.

Each message is a sentence for the user: what was wrong, where (file, line, row, field), and what to do now.
The command line prints it and exits with `exit_code`; a traceback from foolsgold is always a bug.
"""

from __future__ import annotations


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
    """A source cannot retrieve: a broken run file, an embedding with NaN, a tokeniser that is not known."""


class TeacherError(FoolsgoldError):
    """A teacher answered with something that is not one finite number a pair."""


class MinedSetError(FoolsgoldError):
    """A mined set's folder is missing, incomplete, or does not fit the collection it is used with."""


class EvaluationError(FoolsgoldError):
    """A measure that is none, or evaluations that cannot be compared."""


class TrainingError(FoolsgoldError):
    """A run of training cannot begin or go on: too few rows, a folder that belongs to another run."""


class MissingExtra(FoolsgoldError):
    """An optional dependency is not installed."""

    def __init__(self, extra: str, needed_for: str) -> None:
        super().__init__(f"{needed_for} needs the optional extra: pip install 'foolsgold[{extra}]'")
        self.extra = extra


class GateFailed(FoolsgoldError):
    """An audit gate or a check rule failed. Not bad input: the exit code is 1."""

    exit_code = 1
