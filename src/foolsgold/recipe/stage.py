"""What the parts of a recipe have in common."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
BatchSize = Annotated[
    Annotated[int, Field(ge=1)] | None, BeforeValidator(lambda size: None if size == "auto" else size)
]


class Stage(BaseModel):
    """A section: an unknown key is an error, and so is a number that is none."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
