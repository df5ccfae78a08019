"""The recipe: everything that a run of mining or training depends on, as one validated object."""

from foolsgold.recipe.audit import AuditSpec
from foolsgold.recipe.collection import CollectionSpec, PairsSpec
from foolsgold.recipe.models import JudgeSpec, ModelSpec, TeacherSpec
from foolsgold.recipe.reading import read_yaml
from foolsgold.recipe.recipe import Recipe, recipe_schema
from foolsgold.recipe.rules import HARD_CAP, DecideSpec, ExcludeSpec, SelectSpec
from foolsgold.recipe.sources import BM25Spec, DenseSpec, MultiVectorSpec, RandomSpec, RunSpec, SourceSpec, SparseSpec
from foolsgold.recipe.stage import flat
from foolsgold.recipe.training import EvaluationSpec, LoraSpec, RegimeSpec, RemineSpec, StudentSpec, steps_in

__all__ = [
    "HARD_CAP",
    "AuditSpec",
    "BM25Spec",
    "CollectionSpec",
    "DecideSpec",
    "DenseSpec",
    "EvaluationSpec",
    "ExcludeSpec",
    "JudgeSpec",
    "LoraSpec",
    "ModelSpec",
    "MultiVectorSpec",
    "PairsSpec",
    "RandomSpec",
    "Recipe",
    "RegimeSpec",
    "RemineSpec",
    "RunSpec",
    "SelectSpec",
    "SourceSpec",
    "SparseSpec",
    "StudentSpec",
    "TeacherSpec",
    "flat",
    "read_yaml",
    "recipe_schema",
    "steps_in",
]
