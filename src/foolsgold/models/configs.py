"""What a model's own configuration files say about pooling, prompts and similarity (sentence-transformers' layout)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast

from foolsgold.errors import ModelError
from foolsgold.models.protocol import Role, Similarity

Pooling = Literal["cls", "mean"]

# Tried in this order, as sentence-transformers' encode_query and encode_document do.
_PROMPT_NAMES: dict[Role, tuple[str, ...]] = {"query": ("query",), "document": ("document", "passage", "corpus")}


def read_json(path: Path, default: Any = None) -> Any:
    """A configuration file's content; where there is no such file, `default`, or else {}.

    Raises:
        ModelError: the file cannot be read.
    """
    if not path.is_file():
        return {} if default is None else default
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: cannot be read as JSON ({error})") from None


def own_prompt(prompts: Mapping[str, str | None], role: Role) -> str:
    """The first prompt that the model has for a role, '' if none."""
    return next((text for name in _PROMPT_NAMES[role] if (text := prompts.get(name))), "")


def own_similarity(named: str | None, model: str) -> Similarity:
    """The similarity that a model names; cosine where it names none, as in sentence-transformers.

    Raises:
        ModelError: one that mining cannot search by.
    """
    if named not in (None, "cosine", "dot"):
        raise ModelError(
            f"{model}: compares its vectors by {named} distance; set similarity: cosine or dot to mine with it"
        )
    return cast(Similarity, named or "cosine")


def own_pooling(folder: Path, model: str) -> Pooling | None:
    """What 1_Pooling/config.json says, in its old form or its new; None without that file.

    Raises:
        ModelError: a way of pooling other than cls and mean.
    """
    config = read_json(folder / "1_Pooling" / "config.json")
    if not config:
        return None
    modes = config.get("pooling_mode")
    if modes is None:
        modes = [
            key.removeprefix("pooling_mode_") for key, on in config.items() if key.startswith("pooling_mode_") and on
        ]
    modes = [modes] if isinstance(modes, str) else list(modes)
    names: dict[str, Pooling] = {"cls": "cls", "cls_token": "cls", "mean": "mean", "mean_tokens": "mean"}
    if len(modes) != 1 or modes[0] not in names:
        raise ModelError(
            f"{model}: pools by {' and '.join(modes) or 'nothing'}; an ONNX folder can pool by cls or mean"
        )
    return names[modes[0]]
