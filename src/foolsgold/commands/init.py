"""`foolsgold init`: a commented recipe to start from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from foolsgold.commands.console import out, print_json
from foolsgold.commands.options import Beir, Json, Pairs, fields_of
from foolsgold.errors import RecipeError


def init(
    path: Annotated[Path, typer.Argument(help="Recipe to write.")] = Path("recipe.yaml"),
    beir: Beir = None,
    pairs: Pairs = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="Also write recipe.schema.json, with which editors complete and check it.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Write a commented recipe with every field and its default.

    Example: `foolsgold init recipe.yaml --beir data/scifact`
    """
    from foolsgold.recipe import recipe_schema
    from foolsgold.recipe.template import SCHEMA, commented_recipe

    if path.exists() and not force:
        raise RecipeError(f"{path} exists; --force overwrites it, another name keeps both")
    collection = fields_of(beir=beir, pairs=pairs).get("collection") or {"beir": "data/my-collection"}
    if not pairs:
        collection["split"] = "train"
    try:
        path.write_text(commented_recipe(collection, schema=schema), encoding="utf-8")
        if schema:
            path.with_name(SCHEMA).write_text(json.dumps(recipe_schema(), indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise RecipeError(f"{path}: cannot be written ({error})") from None
    if as_json:
        print_json({"path": str(path)})
    else:
        out.print(f"written to {path}; next: foolsgold mine {path}")
