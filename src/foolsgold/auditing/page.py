"""What the HTML pages have in common: a page needs nothing but itself, escapes every text, and is readable printed."""

from __future__ import annotations

import re
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_CUT = 420  # characters of a text: about what tells whether it answers a query


def environment(templates: Path) -> Environment:
    """The templates of a folder and those of this one: head.html.jinja, which needs a `title`."""
    made = Environment(
        loader=FileSystemLoader([templates, Path(__file__).parent]),
        autoescape=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "percent": lambda share: f"{share:.1%}".replace("%", "\N{NARROW NO-BREAK SPACE}%"),
        "short": _short,
        "number": lambda value: "" if value is None else f"{value:,.3g}" if isinstance(value, float) else f"{value:,}",
    }
    return made


def printable(text: str) -> str:
    """A text without control characters, which HTML does not know and a terminal obeys; lines and tabs stay."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def _short(text: str, characters: int = _CUT) -> str:
    """A text on one line and of a length that a page can hold. Its end is cut: it may be a whole book."""
    flat = " ".join(text[: 4 * characters].split())
    return flat if len(flat) <= characters and len(text) <= 4 * characters else flat[: characters - 1] + "…"
