"""Options of the commands that read a file of negatives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer

from foolsgold.errors import RecipeError

if TYPE_CHECKING:
    from foolsgold.records import Scale

Anchor = Annotated[str | None, typer.Option(help="For a file: the column of queries, if its name is unusual.")]
Positive = Annotated[str | None, typer.Option(help="For a file: the column of positives, if its name is unusual.")]
Split = Annotated[str | None, typer.Option(help="For a saved DatasetDict or hf:NAME: which split (default: train).")]
Scores = Annotated[
    str | None,
    typer.Option(
        metavar="SCALE",
        help="For a file: use its own scores instead of a teacher's: logit, probability or cosine.",
    ),
]


def scale_of(name: str | None) -> Scale | None:
    """The scale that `--scores` names.

    Raises:
        RecipeError: there is no such scale.
    """
    from foolsgold.records import Scale

    if name is not None and name not in get_args(Scale):
        raise RecipeError(f"--scores {name}: unknown scale; use one of {', '.join(get_args(Scale))}")
    return cast(Scale | None, name)
