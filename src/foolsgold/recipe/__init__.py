"""The recipe: everything that a run of mining or training depends on, as one validated object."""

from foolsgold.recipe.recipe import (
    AuditSpec,
    CollectionSpec,
    DecideSpec,
    ExcludeSpec,
    JudgeSpec,
    ModelSpec,
    PairsSpec,
    Recipe,
    SelectSpec,
    SourceSpec,
    TeacherSpec,
    read_yaml,
)
from foolsgold.recipe.schema import recipe_schema
from foolsgold.recipe.stage import flat
from foolsgold.recipe.training import EvaluationSpec, LoraSpec, RegimeSpec, RemineSpec, StudentSpec, steps_in

__all__ = [
    "AuditSpec",
    "CollectionSpec",
    "DecideSpec",
    "EvaluationSpec",
    "ExcludeSpec",
    "JudgeSpec",
    "LoraSpec",
    "ModelSpec",
    "PairsSpec",
    "Recipe",
    "RegimeSpec",
    "RemineSpec",
    "SelectSpec",
    "SourceSpec",
    "StudentSpec",
    "TeacherSpec",
    "flat",
    "read_yaml",
    "recipe_schema",
    "steps_in",
]
