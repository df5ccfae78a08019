"""Tables for notebooks: what `_repr_html_` shows in place of a line of text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any


def html_table(caption: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table with every text escaped; numbers with thousands separated, None as nothing."""
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f'<td style="text-align: right">{value:,.4g}</td>'
    if isinstance(value, int) and not isinstance(value, bool):
        return f'<td style="text-align: right">{value:,}</td>'
    return f'<td style="text-align: left">{"" if value is None else escape(str(value))}</td>'
