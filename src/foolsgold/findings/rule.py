"""What a rule is, and what it may say. Read this first, then rules.py, which lists them all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from foolsgold.findings.subject import Subject

Level = Literal["error", "warning"]


@dataclass(frozen=True)
class Fault:
    """What a rule has found. at: a key of the recipe, by its path, or a file of the set; said: what is there."""

    at: str
    said: str


@dataclass(frozen=True)
class Unknown:
    """Why a rule cannot be decided from what is given."""

    why: str


Look = Callable[["Subject"], Iterator[Fault | Unknown]]


@dataclass(frozen=True)
class Rule:
    """One anti-pattern. A look that yields nothing has found nothing wrong.

    level: an error harms the model or makes its evidence worthless; a warning could be better, or lacks evidence.
    why, fix: one sentence each. reads_sets: whether it reads the tables of a set, so that it looks at each set of a run
    and not at the run's recipe alone.
    """

    code: str
    name: str
    level: Level
    why: str
    fix: str
    look: Look
    reads_sets: bool = False

    def __str__(self) -> str:
        return f"{self.code} {self.name} ({self.level})\n\n{self.why}\n\nFix: {self.fix}"

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"code": self.code, "name": self.name, "level": self.level, "why": self.why, "fix": self.fix}


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

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Unchecked:
    """A rule that could not be decided, and why."""

    code: str
    place: str
    why: str

    def __str__(self) -> str:
        return f"{self.place}: {self.code} not checked: {self.why}"

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


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
        """Plain values."""
        return {
            "findings": [finding.to_json() for finding in self],
            "unchecked": [one.to_json() for one in self.unchecked],
            "errors": len(self.errors),
            "warnings": len(self.warnings),
        }
