"""What a check says. Read this first, then rules.py, which says what a rule is and lists all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

Level = Literal["error", "warning"]


@dataclass(frozen=True)
class Fault:
    """What a rule has found. at: a key of the recipe, by its path, or a file of the set; said: what is there."""

    at: str
    said: str


class Unknown(Exception):
    """Why a rule cannot be decided from what is there. A rule yields it and continues, or raises it."""


Said = Iterator[Fault | Unknown]


@dataclass(frozen=True)
class Finding:
    """One fault at its place: `recipe.yaml: decide.negative_below`, or `mined/3f1c0a2b9d4e: negatives.parquet`."""

    code: str
    level: Level
    place: str
    said: str
    fix: str

    def __str__(self) -> str:
        return f"{self.place}: {self.code} {self.said}. {self.fix}"


@dataclass(frozen=True)
class Unchecked:
    """A rule that could not be decided, and why."""

    code: str
    place: str
    why: str

    def __str__(self) -> str:
        return f"{self.place}: {self.code} not checked: {self.why}"


class Findings(list[Finding]):
    """The faults of what was checked, in the order of the rules; `unchecked`: the rules that could not be decided."""

    def __init__(self, findings: Iterable[Finding] = (), unchecked: Iterable[Unchecked] = ()) -> None:
        super().__init__(findings)
        self.unchecked = tuple(unchecked)

    @property
    def errors(self) -> list[Finding]:
        """Those that harm the model, or make its evidence worthless."""
        return [finding for finding in self if finding.level == "error"]

    @property
    def warnings(self) -> list[Finding]:
        """Those that could be better, or lack evidence."""
        return [finding for finding in self if finding.level == "warning"]

    def __str__(self) -> str:
        return "\n".join(map(str, self)) if self else "no finding"

    def __repr__(self) -> str:
        return (
            f"Findings({len(self.errors)} errors, {len(self.warnings)} warnings, {len(self.unchecked)} not checked)"
            + "".join(f"\n  {finding}" for finding in self)
        )

    def to_json(self) -> dict[str, Any]:
        """What --json prints."""
        return {
            "findings": [asdict(finding) for finding in self],
            "unchecked": [asdict(one) for one in self.unchecked],
            "errors": len(self.errors),
            "warnings": len(self.warnings),
        }
