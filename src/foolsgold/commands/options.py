"""The options that several commands have, and what each sets in the recipe."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foolsgold.errors import RecipeError

if TYPE_CHECKING:
    from foolsgold.recipe import Recipe

RecipeFile = Annotated[Path | None, typer.Argument(metavar="RECIPE", help="Recipe in YAML.")]
Beir = Annotated[str | None, typer.Option(help="Folder with corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv.")]
Pairs = Annotated[
    str | None, typer.Option(help="File of (query, positive) rows: jsonl, parquet, csv, tsv or a saved Dataset.")
]
Split = Annotated[str | None, typer.Option(help="Which judgements to use.")]
RelevantFrom = Annotated[int | None, typer.Option(help="Lowest grade that makes a document relevant.")]
Limit = Annotated[int | None, typer.Option(min=1, help="Use only the first N queries.")]
Retriever = Annotated[str | None, typer.Option(help="Embedding model: hub id, folder or package:NAME/SUBPATH.")]
Teacher = Annotated[str | None, typer.Option(help="Cross-encoder or other teacher; 'none' for no teacher.")]
PerQuery = Annotated[int | None, typer.Option(min=1, help="Negatives per query.")]
Seed = Annotated[int | None, typer.Option(min=0, help="Seed of everything random.")]
Assign = Annotated[
    list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="Set any recipe field; may be repeated.")
]
Set = Annotated[Path, typer.Argument(metavar="SET", help="A mined set, or a folder of sets (its newest).")]
Out = Annotated[Path, typer.Option("--out", help="Folder in which the set's own folder is made.")]
Strict = Annotated[bool, typer.Option("--strict", help="Exit with 1 if a gate of the audit fails.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bars and no notes; only warnings.")]

_COLLECTIONS = ("beir", "pairs", "hf", "ir_datasets")
_FIELDS = {  # of the recipe, by option
    "split": "collection.split",
    "relevant_from": "collection.relevant_from",
    "limit": "collection.limit",
    "per_query": "select.per_query",
    "seed": "seed",
}


def recipe_of(file: Path | None, assign: Sequence[str] | None = None, **options: Any) -> Recipe:
    """The recipe of a file, or else the default one, changed by options (by name; None: not given) and by --set.

    Raises:
        RecipeError: a file that is not a recipe, or values that it cannot have.
    """
    from foolsgold.recipe import Recipe

    recipe = Recipe.from_yaml(file) if file else Recipe()
    return recipe.with_values(fields_of(assign, **options))


def fields_of(assign: Sequence[str] | None = None, **options: Any) -> dict[str, Any]:
    """What options and --set say, by the path of the field that they set.

    Raises:
        RecipeError: two collections; a --set that is not FIELD=VALUE, or not YAML.
    """
    given = {name: value for name, value in options.items() if value is not None}
    fields: dict[str, Any] = {}
    if collection := {name: given.pop(name) for name in _COLLECTIONS if name in given}:
        if len(collection) > 1:
            named = " and ".join(f"--{name.replace('_', '-')}" for name in collection)
            raise RecipeError(f"{named} name two collections; a recipe has one")
        fields["collection"] = collection
    for name, value in given.items():
        if name in _FIELDS:
            fields[_FIELDS[name]] = value
        else:  # retriever and teacher: the sections whole, since another model has another prompt, length and scale
            fields[name] = None if name == "teacher" and value.lower() == "none" else {"model": value}
    return fields | assignments(assign or ())


def assignments(pairs: Sequence[str]) -> dict[str, Any]:
    """The values of `--set`, by the path of their field.

    Raises:
        RecipeError: not of the form, or not YAML.
    """
    import yaml

    from foolsgold.recipe import read_yaml

    values = {}
    for pair in pairs:
        field, equals, value = pair.partition("=")
        if not equals or not field:
            raise RecipeError(f"--set {pair}: write FIELD=VALUE, as in --set decide.negative_below=0.2")
        try:
            values[field] = read_yaml(value)
        except yaml.YAMLError as error:
            why = " ".join(str(error).split())
            raise RecipeError(f"--set {pair}: the value is not valid YAML ({why}); quote it if it is a text") from None
    return values
