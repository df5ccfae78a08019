"""The manifest of a mined set: the recipe as it was run, on what, and what became of the candidates."""

from __future__ import annotations

from copy import deepcopy
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from foolsgold.errors import MinedSetError, RecipeError
from foolsgold.recipe.recipe import Recipe


class Facts(BaseModel):
    """A part of a manifest: attributes are typed values, `[name]` gives the plain ones that the file holds.

    Keys that this version does not know stay as they are.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    def plain(self) -> dict[str, Any]:
        """As JSON has it, without keys that were never set."""
        return self.model_dump(exclude_unset=True, by_alias=True)

    def __getitem__(self, name: str) -> Any:
        return self.plain()[name]

    def get(self, name: str, default: Any = None) -> Any:
        """The plain value of a key, or the default where there is no such key."""
        return self.plain().get(name, default)

    def keys(self) -> list[str]:
        """The keys that are there, so that `dict(manifest)` is the plain manifest."""
        return list(self.plain())


class CollectionFacts(Facts):
    """What was mined, counted; `digest` is a hash of its texts and judgements."""

    name: str
    split: str | None = None
    digest: str
    documents: int
    queries: int
    positives: int


class SourceFacts(Facts):
    """A source's settings, with a fingerprint of its model where it has one."""

    kind: str | None = None
    model: str | None = None
    fingerprint: str | None = None


class CalibrationFacts(Facts):
    """The calibration that decided: `threshold` is on its probability."""

    threshold: float


class TeacherFacts(Facts):
    """The teacher, and the scale of every teacher score in the set."""

    model: str
    scale: Literal["logit", "probability", "cosine"]
    fingerprint: str | None = None
    judge: CalibrationFacts | None = None


class Counts(Facts):
    """What became of the candidates; all but `queries` count units (with `positive_reference: each`, pairs).

    reasons: by verdict; teacher_saved: the share of judgeable candidates that no teacher had to read.
    """

    queries: int
    units: int = 0
    candidates: int
    excluded: int = 0
    negative: int = 0
    ambiguous: int = 0
    false_negative: int = 0
    unscored: int = 0
    eligible: int = 0
    selected: int
    over_budget: int = 0
    shortfall: int = 0
    reasons: dict[str, dict[str, int]] = {}
    proposed_by: dict[str, int] = {}
    selected_by: dict[str, int] = {}
    queries_at_budget: int = 0
    queries_without_negatives: int = 0
    queries_with_positive_below_negative: int = 0
    teacher_scored: int = 0
    teacher_judgeable: int = 0
    teacher_saved: float | None = None


class Calls(Facts):
    """How many pairs the teacher read, and how many of its scores were in the store already."""

    teacher: int = 0
    reused: int = 0


class Manifest(Facts):
    """manifest.json of a mined set.

    recipe_values: the recipe's plain values as they were written; `recipe` is the recipe itself.
    limits: the thresholds of the run (`rules.limits.Limits`), None in sets of older versions.
    parent: the version of the newest set that was in the same folder. llm: the judge, if the recipe names one.
    """

    version: str
    parent: str | None = None
    created: str
    seconds: float | None = None
    collection: CollectionFacts
    seed: int
    sources: dict[str, SourceFacts]
    teacher: TeacherFacts | None
    llm: dict[str, Any] | None = None
    limits: dict[str, Any] | None = None
    counts: Counts
    calls: Calls
    warnings: list[str]
    notes: list[str]
    libraries: dict[str, str] = {}
    recipe_values: dict[str, Any] = Field(alias="recipe")

    @cached_property
    def recipe(self) -> Recipe:
        """The recipe, without fields that only another version of foolsgold knows.

        Raises:
            MinedSetError: it is not one of this version for another reason.
        """
        values = deepcopy(self.recipe_values)
        try:
            return Recipe.model_validate(values)
        except ValidationError as error:
            unknown = [problem["loc"] for problem in error.errors() if problem["type"] == "extra_forbidden"]
        for place in unknown:
            path = place[:2] + place[3:] if place[0] == "sources" else place  # pydantic puts the kind behind the name
            section: Any = values
            for step in path[:-1]:
                section = section[step]
            del section[path[-1]]
        try:
            return Recipe.build(values)
        except RecipeError as error:
            raise MinedSetError(
                f"mined set {self.version}: its recipe is not one of this version of foolsgold ({error})"
            ) from None

    @classmethod
    def read(cls, folder: Path) -> Self:
        """From a set's folder.

        Raises:
            MinedSetError: it cannot be read, or a key that every set has is missing or wrong.
        """
        try:
            return cls.model_validate_json((folder / "manifest.json").read_bytes())
        except ValidationError as error:
            first = error.errors()[0]
            wrong = f"{'.'.join(map(str, first['loc']))}: {first['msg']}".removeprefix(": ")
        except OSError as error:
            wrong = str(error)
        raise MinedSetError(f"{folder}: manifest.json cannot be read ({wrong}); mine the set again")
