"""From YAML to plain values, and from pydantic's problems to sentences."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any, get_args

import yaml

from foolsgold.errors import did_you_mean
from foolsgold.recipe.sources import KINDS, kinds_with
from foolsgold.recipe.stage import Stage


class _EachKeyOnce(yaml.SafeLoader):
    """YAML in which it is an error that a key stands twice in a section."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Refuse a repeated key, naming its line."""
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.YAMLError(f"a name is expected in line {key.start_mark.line + 1}, not a list or a mapping")
            if key.value in seen and key.value != "<<":
                raise yaml.YAMLError(f"{key.value} stands twice, again in line {key.start_mark.line + 1}")
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def read_yaml(text: str) -> Any:
    """The values of a YAML text. Raises yaml.YAMLError, also where a key stands twice."""
    return yaml.load(text, Loader=_EachKeyOnce)  # a SafeLoader


def sentence(recipe: type[Stage], problem: Any) -> str:
    """One of pydantic's problems with a recipe, as a sentence that begins with the field's place."""
    path = list(problem["loc"])
    kind = None
    if path[:1] == ["sources"] and len(path) > 2:
        kind = path.pop(2)  # pydantic puts the kind of a source behind its name
    where = ".".join(map(str, path))
    match problem["type"]:
        case "extra_forbidden":
            field = str(path[-1])
            if kind and len(path) == 3 and (owners := kinds_with(field)):
                return f"{where}: only a {' or '.join(owners)} source has this field"
            section = _section(KINDS[kind], path[2:-1]) if kind else _section(recipe, path[:-1])
            known = [one.alias or name for name, one in section.model_fields.items()]
            return f"{where}: unknown field{did_you_mean(field, known)}"
        case "union_tag_invalid":
            tag = problem["ctx"]["tag"]
            hint = f"{did_you_mean(tag, KINDS)}; another name needs its kind: {', '.join(KINDS)}"
            return f"{where}: unknown source{hint}" if tag == path[-1] else f"{where}.kind: unknown kind {tag}{hint}"
        case "missing" if kind and len(path) == 3:
            return f"{'.'.join(map(str, path[:2]))}: a {kind} source needs its {path[-1]}"
    message = str(problem["msg"]).removeprefix("Value error, ")
    return f"{where}: {message}" if where else message


def _section(model: type[Stage], path: Sequence[Any]) -> type[Stage]:
    """The section that a path leads to."""
    for part in path:
        if part in model.model_fields:
            model = next(_sections(model.model_fields[part].annotation), model)
    return model


def _sections(annotation: Any) -> Iterator[type[Stage]]:
    if isinstance(annotation, type) and issubclass(annotation, Stage):
        yield annotation
    for part in get_args(annotation):
        yield from _sections(part)
