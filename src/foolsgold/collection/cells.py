"""What a cell of a table of texts may hold: a text, a {text, id} object, or a list of either."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from foolsgold.collection.columns import CORPUS_IDS
from foolsgold.collection.distinct import Entry
from foolsgold.collection.lines import type_word


class BadCell(Exception):
    """A cell that holds something else than it must; its reader knows the line."""


def text_of(value: Any, column: str) -> str | None:
    """A cell's text, stripped, or None where it has none.

    Raises:
        BadCell: it is no text.
    """
    if value is None:
        return None
    if not isinstance(value, str):
        raise BadCell(f"{column!r} is {shown(value)}; it must be a text. Name another column if this is not the one")
    return value.strip() or None


def documents_of(value: Any, column: str) -> Iterator[Entry]:
    """The documents of a cell: a text, a {text, id} object, or a list of either. Empty ones are passed over.

    Raises:
        BadCell: an object without a text, or a value that is no text.
    """
    for item in value if isinstance(value, list) else [value]:
        own_id = None
        text = item
        if isinstance(item, dict):
            if "text" not in item:
                raise BadCell(
                    f"{column!r} is an object with {', '.join(map(repr, item)) or 'nothing'}; it needs 'text'"
                )
            text = item["text"]
            title = item.get("title")
            if isinstance(title, str) and isinstance(text, str):
                text = f"{title} {text}".strip()
            own_id = next((id_of(item[key]) for key in CORPUS_IDS if item.get(key) is not None), None)
        text = text_of(text, column)
        if text is not None:
            yield Entry(text, own_id)


def id_of(value: Any) -> str | None:
    """A cell's id; a number is written as text."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) and value else None


def shown(value: Any) -> str:
    """A value in a message: what it is, and its beginning."""
    return f"{type_word(value)} ({str(value)[:40]})"
