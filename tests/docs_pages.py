"""The code blocks of a page of the docs, and as a script: runs those of one page, top to bottom, in one process.

    python docs_pages.py PAGE.md

Commands are in blocks of ```bash or ```console, or of no language where they begin with foolsgold or pip; other blocks
without a language are output. `title="NAME"` makes a block a file of that name. What cannot run here has a comment
before it that says why:

    <!-- not run: trains for minutes -->
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path
from textwrap import dedent
from typing import Any

_BLOCK = re.compile(
    r"^(?: *<!-- not run: (?P<why>[^\n]+?) -->\n\s*?)?"
    r"(?P<fence> *)```(?P<info>[^\n]*)\n(?P<code>.*?)^(?P=fence)```$",
    flags=re.MULTILINE | re.DOTALL,
)
_TITLE = re.compile(r'title="([^"]+)"')
_VARIABLE = re.compile(r"[A-Z_]+=.*")
LANGUAGES = ("", "bash", "console", "diff", "json", "python", "text", "yaml")


@dataclass(frozen=True)
class Block:
    """One fenced block. line: of its first line of code, from 1; why_not: what it lacks to be run, if it is not."""

    line: int
    language: str
    title: str | None
    code: str
    why_not: str | None

    @property
    def commands(self) -> list[list[str]]:
        """The words of each command, without what is set before it, where it is a block of commands."""
        lines = self.code.replace("\\\n", " ").splitlines()
        if self.language == "console" or (not self.language and self.code.startswith("$ ")):
            lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        elif self.language != "bash" and not (not self.language and self.code.startswith(("foolsgold ", "pip "))):
            return []
        commands = [shlex.split(line, comments=True) for line in lines]
        return [list(dropwhile(_VARIABLE.fullmatch, words)) for words in commands if words]


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        language, _, options = found["info"].strip().partition(" ")
        title = _TITLE.search(options)
        line = text.count("\n", 0, found.start("code")) + 1
        yield Block(line, language, title[1] if title else None, dedent(found["code"]), found["why"])


def run(page: Path) -> None:
    """Run a page in the current folder, and stop with its first block that does not work."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page):
        if block.title is not None:
            Path(block.title).write_text(block.code, encoding="utf-8")
        elif block.why_not is None and block.language == "python":
            # the line numbers of the page, in a traceback
            exec(compile("\n" * (block.line - 1) + block.code, str(page), "exec"), names)
        elif block.why_not is None:
            for words in block.commands:
                _command(words, f"{page.name}, line {block.line}")


def _command(words: list[str], where: str) -> None:
    from foolsgold.commands import main as cli

    if words[0] == "pip":  # what it would install is checked elsewhere
        return
    if words[0] != "foolsgold":
        sys.exit(f"{where}: {words[0]} does not run here; say so: <!-- not run: why -->")
    sys.argv = words
    try:
        cli.main()
    except SystemExit as end:
        # 1 says that a gate or rule failed: an answer, as good as any
        if end.code not in (0, 1):
            sys.exit(f"{where}: {shlex.join(words)} ends with {end.code}")


if __name__ == "__main__":
    sys.path[0] = ""  # modules beside the page, as for one's own script
    run(Path(sys.argv[1]))
