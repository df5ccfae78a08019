"""The recipe: everything a mining run depends on, as one validated object, from YAML, keywords or `--set` pairs.

Its sections have a file each. Every field has a default, and the defaults that matter say where they come from. An
unknown key is an error that names the nearest known key.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import yaml
from pydantic import Field, ValidationError, field_validator, model_validator

from foolsgold.errors import RecipeError
from foolsgold.recipe.audit import AuditSpec
from foolsgold.recipe.collection import CollectionSpec
from foolsgold.recipe.html import html_table
from foolsgold.recipe.models import JudgeSpec, ModelSpec, TeacherSpec
from foolsgold.recipe.reading import read_yaml, sentence
from foolsgold.recipe.rules import DecideSpec, ExcludeSpec, SelectSpec
from foolsgold.recipe.sources import BM25Spec, DenseSpec, Sources, SourceSpec, recorded, with_kind
from foolsgold.recipe.stage import Stage, flat
from foolsgold.recipe.training import EvaluationSpec, RegimeSpec, RemineSpec, StudentSpec


def _bm25_and_dense() -> dict[str, SourceSpec]:
    return {"bm25": BM25Spec(quota=3), "dense": DenseSpec(quota=4, window=(0, 100))}


class Recipe(Stage):
    """One mining run, whole. Two runs of the same recipe on the same collection give the same bytes."""

    collection: CollectionSpec | None = None
    retriever: ModelSpec | None = Field(
        default_factory=lambda: ModelSpec(model="sentence-transformers/all-MiniLM-L6-v2")
    )
    teacher: TeacherSpec | None = Field(default_factory=TeacherSpec)
    sources: dict[str, SourceSpec] = Field(default_factory=_bm25_and_dense)
    exclude: ExcludeSpec = Field(default_factory=ExcludeSpec)
    decide: DecideSpec = Field(default_factory=DecideSpec)
    judge: JudgeSpec | None = Field(
        None, description="a language model for ambiguous candidates: {endpoint: URL, model: NAME, api_key_env: NAME}"
    )
    select: SelectSpec = Field(default_factory=SelectSpec)
    relabel: bool = Field(
        False, description="false negatives above positive_above become positives of a new collection"
    )
    audit: AuditSpec = Field(default_factory=AuditSpec)
    student: StudentSpec = Field(default_factory=StudentSpec)
    schedule: list[RegimeSpec] = Field(
        default_factory=list,
        description="regimes of training, such as {name: hard, from: 2, to: 4, mode: dense_ce_0.3}",
    )
    remine: RemineSpec | None = Field(
        None, description="mine again with the student in training: {every: 1 epoch, overlap: 0.5}"
    )
    evaluation: EvaluationSpec = Field(default_factory=EvaluationSpec)
    seed: int = Field(13, ge=0, lt=2**63, description="seed of everything random")

    @field_validator("judge", mode="before", json_schema_input_type=JudgeSpec | None)
    @classmethod
    def _a_judge_has_an_endpoint(cls, judge: Any) -> Any:
        if isinstance(judge, str):
            said = f"{judge} does not name an endpoint; write {{endpoint: http://127.0.0.1:8000/v1, model: NAME}}"
            raise ValueError(said)  # noqa: TRY004  (pydantic makes a sentence of it)
        return judge

    @field_validator("sources", mode="before", json_schema_input_type=Sources)
    @classmethod
    def _each_source_has_a_kind(cls, sources: Any) -> Any:
        if isinstance(sources, Mapping):
            return {name: with_kind(name, spec) for name, spec in sources.items()}
        return sources

    @model_validator(mode="after")
    def _sources_can_be_built(self) -> Self:
        if not self.sources:
            raise ValueError("sources is empty; name at least one, such as bm25 or dense")
        for name, spec in self.sources.items():
            if not name.replace("_", "").isalnum():
                raise ValueError(f"sources.{name}: a source's name is letters, digits and _")
            if name in ("teacher", "positive"):  # columns of the tables are called {name}_score
                raise ValueError(f"sources.{name}: this name is taken by the tables' columns; give it another")
            if spec.kind == "run" and self.select.strategy == "simans":
                raise ValueError(
                    f"select.strategy: simans needs the score of a query's positive, and the run {name} cannot score a "
                    "document it did not find; take another strategy"
                )
            if spec.kind == "dense" and spec.model is None and self.retriever is None:
                raise ValueError(f"sources.{name}: a dense source needs a model here or a retriever")
        return self

    @model_validator(mode="after")
    def _thresholds_are_on_the_scale(self) -> Self:
        if self.decide.calibration is not None and self.teacher is None:
            raise ValueError("decide.calibration: it calibrates a teacher's scores; name the teacher")
        if self.teacher is not None and (self.teacher.scale == "probability" or self.decide.calibration is not None):
            for field in ("negative_below", "positive_above"):
                value = getattr(self.decide, field)
                if value is not None and not 0.0 <= value <= 1.0:
                    raise ValueError(
                        f"decide.{field} is {value}, but the teacher's scale is probability (0 to 1); "
                        "set teacher.scale: logit if the threshold is a logit"
                    )
        return self

    @model_validator(mode="after")
    def _schedule_has_no_gap(self) -> Self:
        end = 0.0
        for regime in self.schedule:
            if regime.from_ != end:
                raise ValueError(
                    f"schedule: regime {regime.name} starts at epoch {regime.from_:g}, but the one before it ends at "
                    f"{end:g}; a schedule starts at 0 and has no gaps"
                )
            end = regime.to
        names = [regime.name for regime in self.schedule]
        if "start" in names:
            raise ValueError("schedule: start is the name of the student before training; give the regime another name")
        if len(set(names)) < len(names):
            raise ValueError("schedule: two regimes have the same name; each needs its own")
        if self.schedule and self.student.epochs not in (None, end):
            raise ValueError(
                f"student.epochs is {self.student.epochs:g}, but the schedule ends at epoch {end:g}; leave epochs out"
            )
        if self.remine is not None and not any(regime.mines_with_student for regime in self.schedule):
            raise ValueError("remine: no regime of a schedule mines with the student; name self among one's sources")
        return self

    def _repr_html_(self) -> str:
        """What is not a default, one field a line."""
        changed = self.model_dump(mode="json", exclude_defaults=True, by_alias=True)
        return html_table("recipe: what is not a default", ("field", "value"), flat(changed).items())

    @property
    def takes_whole_runs(self) -> bool:
        """Whether every document of the runs may be selected, as in an imported set: fewer is then not a shortfall."""
        depth = sum(spec.depth for spec in self.sources.values())
        return self.select.per_query >= depth and all(spec.kind == "run" for spec in self.sources.values())

    def model_of(self, source: str) -> ModelSpec | None:
        """The model of one of `sources`: its own, or the retriever where it is dense. None: it has no model."""
        spec = self.sources[source]
        if spec.kind == "dense":
            return spec.model or self.retriever
        return spec.model if spec.kind in ("sparse", "multivector") else None

    def recorded(self, *, by_alias: bool = False) -> dict[str, Any]:
        """Plain values as manifests hold them, of which versions are hashes."""
        values = self.model_dump(mode="json", by_alias=by_alias)
        return values | {"sources": {name: recorded(name, spec) for name, spec in values["sources"].items()}}

    @property
    def training_seed(self) -> int:
        """The seed of training: of the order of batches and the draws of negatives."""
        return self.seed if self.student.seed is None else self.student.seed

    @classmethod
    def from_yaml(cls, path: str | Path) -> Self:
        """Read a YAML file.

        Raises:
            RecipeError: no such file, not YAML, an unknown key, a value that cannot be.
        """
        path = Path(path)
        try:
            loaded = read_yaml(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise RecipeError(f"{path}: no such recipe; `foolsgold init {path}` writes one") from None
        except IsADirectoryError:
            raise RecipeError(f"{path}: is a folder; name the recipe's file") from None
        except (OSError, UnicodeDecodeError) as error:
            raise RecipeError(f"{path}: cannot be read ({error})") from None
        except (yaml.YAMLError, RecursionError) as error:
            raise RecipeError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
        if loaded is None:
            loaded = {}
        if not isinstance(loaded, dict):
            raise RecipeError(f"{path}: a recipe is a mapping of sections, not {type(loaded).__name__}")
        return cls.build(loaded, where=f"{path}: ")

    @classmethod
    def build(cls, values: Mapping[str, Any], where: str = "") -> Self:
        """Validate plain values, as from YAML.

        Raises:
            RecipeError: with every problem found, each naming its field.
        """
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise RecipeError("\n".join(f"{where}{sentence(cls, problem)}" for problem in error.errors())) from None

    def to_yaml(self) -> str:
        """The whole recipe, defaults included, as YAML."""
        return str(yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True))

    def with_values(self, overrides: Mapping[str, Any]) -> Self:
        """A copy with fields replaced, each named by its path: {"decide.negative_below": 0.2}.

        None for a source ({"sources.dense": None}) leaves that source out.

        Raises:
            RecipeError: as `build`.
        """
        values = self.model_dump()
        for path, value in overrides.items():
            *sections, field = path.split(".")
            target = values
            for section in sections:
                if target.get(section) is None:
                    target[section] = {}
                target = target[section]
                if not isinstance(target, dict):
                    is_list = "; a list is set whole, as in --set 'FIELD=[...]'" if isinstance(target, list) else ""
                    raise RecipeError(f"{path}: {section} is not a section{is_list}")
            if sections == ["sources"] and value is None:
                target.pop(field, None)
            else:
                target[field] = value
        return self.build(values)


def recipe_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a recipe, for editors that complete and check YAML."""
    schema = Recipe.model_json_schema(by_alias=True)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "foolsgold recipe",
        "description": "How hard negatives are mined, and how a retriever is trained on them.",
        **{name: part for name, part in schema.items() if name not in ("title", "description")},
    }
