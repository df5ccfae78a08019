"""What the reference pages hold is read from the code while the site is built, so that it cannot drift from it.

A mkdocs hook: where a page says `<!-- generated: NAME ARGUMENT -->`, the part of that name is put. Parts are Markdown.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pyarrow as pa
from pydantic import RootModel

from foolsgold import records
from foolsgold.recipe import Recipe, recipe_schema

_MANY = {"object": "A mapping from names to these. ", "array": "A list of these. "}
_PLACE = re.compile(r"^<!-- generated: (?P<part>\w+)(?: (?P<argument>\S+))? -->$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs with the Markdown of each page."""
    return _PLACE.sub(lambda place: PARTS[place["part"]](place["argument"] or ""), markdown)


def recipe_fields(_: str) -> str:
    """A section of the recipe each: what it is, and every field with its type, default and meaning."""
    schema = recipe_schema()
    parts = [_table(("section or field", "what it is", "default"), _sections(schema))]
    for name, field in schema["properties"].items():
        for spec in _specs(field):
            parts += [f"## {name}", *_spec(schema["$defs"][spec], schema, _MANY.get(field.get("type", ""), ""))]
    inner = sorted({spec for one in schema["$defs"].values() for spec in _specs(one)})
    for spec in inner:
        if not any(spec in _specs(field) for field in schema["properties"].values()):
            parts += [f"## {spec}", *_spec(schema["$defs"][spec], schema)]
    return "\n\n".join(parts)


def _sections(schema: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    recipe = Recipe()
    for name, field in schema["properties"].items():
        specs = _specs(field)
        said = field.get("description") or (schema["$defs"][specs[0]]["description"] if specs else "")
        # of a section only what makes it differ from a plain one: its own page part lists the rest
        default = _flow(RootModel[Any](getattr(recipe, name)).model_dump(mode="json", exclude_unset=True))
        yield f"[`{name}`](#{name})" if specs else f"`{name}`", said, "" if default == "{}" else f"`{default}`"


def _spec(spec: dict[str, Any], schema: dict[str, Any], before: str = "") -> list[str]:
    needed = spec.get("required", ())
    rows = [
        (
            f"`{name}`",
            _type(field, schema),
            "needed" if name in needed else f"`{_flow(field.get('default'))}`",
            field.get("description") or "".join(schema["$defs"][one]["description"] for one in _specs(field)),
        )
        for name, field in spec["properties"].items()
    ]
    return [before + spec["description"], _table(("field", "type", "default", "meaning"), rows)]


def _specs(field: Any) -> list[str]:
    """The names of the sections that a part of the schema refers to, at any depth."""
    if isinstance(field, dict):
        own = [field["$ref"].rsplit("/", 1)[1]] if "$ref" in field else []
        return own + [spec for value in field.values() for spec in _specs(value)]
    return [spec for value in field for spec in _specs(value)] if isinstance(field, list) else []


def _type(field: dict[str, Any], schema: dict[str, Any]) -> str:
    if "anyOf" in field:
        return " or ".join(_type(one, schema) for one in field["anyOf"])
    if "$ref" in field:
        spec = _specs(field)[0]
        places = [name for name, one in schema["properties"].items() if spec in _specs(one)]
        return f"[{places[0]}](#{places[0]})" if places else f"[{spec}](#{spec.lower()})"
    if "const" in field:
        return f"`{_flow(field['const'])}`"
    if "enum" in field:
        return ", ".join(f"`{_flow(value)}`" for value in field["enum"])
    if field.get("prefixItems"):
        return f"[{', '.join(_type(one, schema) for one in field['prefixItems'])}]"
    if field.get("type") == "array":
        return f"list of {_type(field['items'], schema)}"
    words = {"string": "text", "integer": "whole number", "boolean": "true or false", "object": "mapping"}
    kind: str = field["type"]
    return words.get(kind, kind) + _bounds(field)


def _bounds(field: dict[str, Any]) -> str:
    """The limits of a number, as in ", 0 to 1"; those of 64 bits go without saying."""
    named = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}
    bounds = {name: field[name] for name in named if name in field and abs(field[name]) < 2**31}
    if bounds.keys() == {"minimum", "maximum"}:
        return f", {bounds['minimum']:g} to {bounds['maximum']:g}"
    return "".join(f", {named[name]} {value:g}" for name, value in bounds.items())


def _flow(value: Any) -> str:
    """A value as YAML has it on one line; numbers and words without quotes."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_flow(one) for one in value) + "]"
    return value if isinstance(value, str) else json.dumps(value)


def command_line(_: str) -> str:
    """Each command with its arguments and options, as typer itself documents them."""
    written = subprocess.run(
        [sys.executable, "-m", "typer", "foolsgold.commands.main", "utils", "docs", "--name", "foolsgold"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return written[written.index("\n## ") :]  # before it only what every command line has


def public_names(module: str, level: int = 2) -> str:
    """For mkdocstrings: each name of a module's `__all__`, and then, under their own headings, those of its modules."""
    found = importlib.import_module(module)
    values = [getattr(found, name) for name in found.__all__]
    parts = [
        f"::: {value.__module__}.{value.__qualname__}\n    options:\n      heading_level: {level}"
        for value in values
        if not isinstance(value, ModuleType)
    ]
    for value in values:
        if isinstance(value, ModuleType):
            about = inspect.cleandoc(value.__doc__ or "")
            parts.append(f"## {value.__name__}\n\n{about}\n\n{public_names(value.__name__, level=3)}")
    return "\n\n".join(parts)


def schema(table: str) -> str:
    """The columns of one of a mined set's tables, for a set of the sources bm25 and dense."""
    make = getattr(records, f"{table}_schema")
    fields: pa.Schema = make(["bm25", "dense"]) if table != "queries" else make()
    rows = [(f"`{field.name}`", _arrow(field.type), "yes" if field.nullable else "") for field in fields]
    about = inspect.cleandoc(make.__doc__).replace("\n", "\n\n")  # a column a line
    return f"{about}\n\n{_table(('column', 'type', 'may be null'), rows)}"


def _arrow(kind: pa.DataType) -> str:
    return f"{kind.value_type}, encoded" if pa.types.is_dictionary(kind) else str(kind)


def reasons(_: str) -> str:
    """Every reason that a candidate may have in the ledger."""
    return ", ".join(f"`{reason}`" for reason in records.REASONS)


def _table(head: tuple[str, ...], rows: Any) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in lines
    )


PARTS: dict[str, Callable[[str], str]] = {
    "recipe": recipe_fields,
    "command_line": command_line,
    "names": public_names,
    "schema": schema,
    "reasons": reasons,
}
