"""The JSON schema of a recipe, for editors that complete and check YAML."""

from __future__ import annotations

from typing import Any

from foolsgold.recipe.recipe import Recipe


def recipe_schema() -> dict[str, Any]:
    """As JSON Schema, draft 2020-12, from the fields of `Recipe` and their descriptions."""
    schema = Recipe.model_json_schema(by_alias=True)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "foolsgold recipe",
        "description": "How hard negatives are mined, and how a retriever is trained on them.",
        **{name: part for name, part in schema.items() if name not in ("title", "description")},
    }
