"""What the parts of a recipe have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
BatchSize = Annotated[
    Annotated[int, Field(ge=1)] | None,
    BeforeValidator(
        lambda size: None if size == "auto" else size,
        json_schema_input_type=Annotated[int, Field(ge=1)] | Literal["auto"] | None,
    ),
]


class Stage(BaseModel):
    """A section: an unknown key is an error, and so is a number that is not finite."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested sections as one mapping, each value named by its path: {"decide.negative_below": 0.3}."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        found |= flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return found
