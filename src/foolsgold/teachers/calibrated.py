"""A calibration: from a teacher's score and what else is known of a candidate to the probability that it is relevant.

`foolsgold.calibration` fits it to labelled pairs; here it is loaded and applied.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, ValidationError, computed_field, field_validator, model_validator
from typing_extensions import TypedDict

from foolsgold.errors import MinedSetError, RecipeError
from foolsgold.records import Column, DoubleArray, FloatArray, Scale
from foolsgold.teachers.curves import Choice, Curve, Doubles, TeacherCurve
from foolsgold.teachers.signals import (
    NEEDS_BM25,
    NEEDS_RETRIEVER,
    SIGNALS,
    CandidateScores,
    Columns,
    from_ledger,
    matrix,
)

log = logging.getLogger(__name__)

DEFAULT = "default"
_FORMAT = 1
_HOW = "foolsgold calibrate LABELS --recipe RECIPE makes one"


class Logistic(BaseModel):
    """p = 1 / (1 + exp(-(intercept + coefficients . (x - mean) / scale))).

    mean, scale, coefficients: float64 (n_signals).
    """

    model_config = ConfigDict(frozen=True)

    mean: Doubles
    scale: Doubles
    coefficients: Doubles
    intercept: float

    def of_signals(self, signals: DoubleArray) -> DoubleArray:
        """The probabilities, float64 (n), for signals float64 (n, n_signals)."""
        from scipy.special import expit  # `import foolsgold` works without loading scipy

        found: DoubleArray = expit(self.intercept + ((signals - self.mean) / self.scale) @ self.coefficients)
        return found


class Model(Logistic):
    """A logistic model of some signals, and how good it is by cross-validation by query.

    curve: labels below each threshold on the out-of-fold probability; auc: its area, with a 95 % interval; log_loss:
    its mean, in nats.
    """

    signals: tuple[str, ...]
    auc: float
    auc_interval: tuple[float, float]
    log_loss: float
    curve: Curve

    @model_validator(mode="after")
    def _fits_its_signals(self) -> Self:
        if unknown := [name for name in self.signals if name not in SIGNALS]:
            raise ValueError(f"unknown signals {', '.join(unknown)}")
        parts = (self.mean, self.scale, self.coefficients)
        if any(part.shape != (len(self.signals),) or not np.isfinite(part).all() for part in parts):
            raise ValueError("a model has one finite mean, scale and coefficient per signal")
        if not (self.scale > 0).all():
            raise ValueError("a scale is above 0")
        return self

    def probability(self, scores: CandidateScores) -> Column:
        """float32 (n): how probable it is that a candidate is relevant; known where all signals are."""
        values, known = matrix(scores, self.signals)
        return Column(self.of_signals(np.where(known[:, None], values, 0.0)).astype(np.float32), known)


class MadeBy(TypedDict):
    """A model that labelled pairs were scored with."""

    model: str
    fingerprint: str


class SourceNames(TypedDict):
    """The names of the dense and the BM25 source; None without one."""

    retriever: str | None
    bm25: str | None


class Calibration(BaseModel):
    """What labelled pairs say of a teacher's scores, alone and together with the sources' scores.

    name: the file, or `default`; teacher, retriever: what the pairs were scored with; scale: of the teacher's scores;
    labels: counts of pairs, relevant pairs and queries; teacher_auc: the teacher's score alone; models: one for each
    choice of sources that a ledger may have, the fullest first; target: the false-negative rate that was asked for;
    notes: what was left out of the labels.
    """

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    name: str = Field(exclude=True)
    format: int = _FORMAT
    teacher: MadeBy
    retriever: MadeBy | None
    sources: SourceNames
    scale: Scale
    labels: dict[str, int]
    target: float = Field(alias="max_false_negative_rate")
    teacher_auc: float
    teacher_auc_interval: tuple[float, float]
    teacher_curve: TeacherCurve
    models: tuple[Model, ...] = Field(min_length=1)
    notes: tuple[str, ...] = ()

    @field_validator("format")
    @classmethod
    def _is_this_format(cls, format: int) -> int:
        if format != _FORMAT:
            raise ValueError(f"format {format}, and this version reads {_FORMAT}")
        return format

    @computed_field(alias="decision")  # type: ignore[prop-decorator]
    @property
    def choice(self) -> Choice:
        """The fullest model's threshold for the target."""
        return self.models[0].curve.choose(self.target)

    def probability(self, table: pa.Table, scale: Scale = "probability") -> FloatArray:
        """float32 (n): how probable it is that each row of a ledger is relevant.

        Each row's probability is that of the fullest model all of whose signals it has: without a dense source in the
        set, that of the teacher and BM25.

        Args:
            table: rows of a ledger, `records.ledger_schema`, each with a teacher's score.
            scale: the one their teacher's scores are on, as in the manifest.

        Raises:
            MinedSetError: a row has no teacher's score; scores that are not on that scale.
        """
        columns = from_ledger(table)
        scores = columns["teacher_score"]
        if not scores.valid.all():
            raise MinedSetError(
                f"{int((~scores.valid).sum()):,} of {len(table):,} rows have no teacher_score, and a calibration needs "
                "one; mine with teacher.exhaustive: true, or leave those rows out"
            )
        if scale == "probability" and len(table) and not (scores.values.min() >= 0 and scores.values.max() <= 1):
            raise MinedSetError("teacher_score is not a probability; say on which scale it is")
        known = CandidateScores(columns, self.sources["retriever"], self.sources["bm25"], scale)
        probability = np.zeros(len(table), dtype=np.float32)
        left = np.ones(len(table), dtype=np.bool_)
        for model in self.models:
            found = model.probability(known)
            rows = left & found.valid
            probability[rows] = found.values[rows]
            left &= ~rows
        if left.any():
            raise MinedSetError(f"{int(left.sum()):,} of {len(table):,} rows have no positive_score to compare with")
        return probability

    def apply(
        self, *, teacher: Mapping[str, str], scale: Scale, retriever: str | None, bm25: str | None, target: float
    ) -> AppliedCalibration:
        """The calibration of a run with this teacher and these sources (their names).

        Raises:
            RecipeError: it was made for another teacher or scale; no threshold keeps the target.
        """
        self.check_teacher(teacher["model"], teacher["fingerprint"], scale)
        model = next(
            model
            for model in self.models
            if (retriever or not NEEDS_RETRIEVER & set(model.signals)) and (bm25 or not NEEDS_BM25 & set(model.signals))
        )
        choice = model.curve.choose(target)
        if choice.threshold is None:
            raise RecipeError(
                f"calibration {self.name} has no threshold that keeps false negatives under {target:.2g} with "
                f"{', '.join(model.signals)} (at best {choice.relevant} relevant of {choice.labels}, upper bound "
                f"{choice.upper:.2g}); label at least {choice.needed:,} more pairs, or raise max_false_negative_rate"
            )
        return AppliedCalibration(self.name, model, retriever, bm25, scale, choice, choice.threshold)

    def check_teacher(self, name: str, fingerprint: str, scale: Scale) -> None:
        """Refuse another teacher or scale than that of the labelled pairs; the default only warns of another teacher.

        Raises:
            RecipeError: it was made for another one.
        """
        if (scale == "cosine") != (self.scale == "cosine"):
            raise RecipeError(
                f"calibration {self.name} reads teacher scores as {self.scale}s, and teacher.scale is {scale}; "
                f"calibrate this teacher: {_HOW}"
            )
        if fingerprint == self.teacher["fingerprint"]:
            return
        others = f"was made for the teacher {self.teacher['model']}, not for {name}"
        if name == self.teacher["model"]:
            others = f"was made for {name} with other weights, length or prompt"
        if self.name != DEFAULT:
            raise RecipeError(f"calibration {self.name} {others}; calibrate this teacher: {_HOW}")
        log.warning("calibration %s %s; its rates are only approximate; %s", self.name, others, _HOW)

    def check_retriever(self, name: str, fingerprint: str) -> None:
        """Refuse another retriever than that of the labelled pairs: its scores mean something else.

        Raises:
            RecipeError: it is another one. The default calibration takes any: of a retriever it only reads how far a
            cosine is from that of unrelated passages to that of equal ones.
        """
        if self.name != DEFAULT and self.retriever and fingerprint != self.retriever["fingerprint"]:
            others = f"was made with the retriever {self.retriever['model']}, not with {name}"
            if name == self.retriever["model"]:
                others = f"was made with another version, length or prompt of the retriever {name}"
            raise RecipeError(f"calibration {self.name} {others}; calibrate with this recipe: {_HOW}")

    def to_json(self) -> dict[str, Any]:
        """The content of calibration.json."""
        return self.model_dump(mode="json", by_alias=True)

    def save(self, path: Path) -> None:
        """Write calibration.json.

        Raises:
            RecipeError: the file cannot be written.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(self.to_json(), ensure_ascii=False) + "\n", encoding="utf-8")
        except OSError as error:
            raise RecipeError(f"{path}: cannot be written ({error})") from None


@dataclass(frozen=True)
class AppliedCalibration:
    """A calibration's model in one run: candidates with a probability below `threshold` are negatives.

    retriever, bm25: the names of the run's sources; scale: its teacher's; choice: what the labels say of the threshold.
    """

    name: str
    model: Model
    retriever: str | None
    bm25: str | None
    scale: Scale
    choice: Choice
    threshold: float

    def probability(self, columns: Columns) -> Column:
        """float32 (n), for the ledger's columns of n candidates that have a teacher's score."""
        return self.model.probability(CandidateScores(columns, self.retriever, self.bm25, self.scale))

    def describe(self) -> dict[str, Any]:
        """For the manifest: which calibration, its threshold, and all that probabilities depend on."""
        return {
            "calibration": self.name,
            **asdict(self.choice),
            **self.model.model_dump(mode="json", exclude={"curve"}),
        }


def load(path: str | Path) -> Calibration:
    """Read a calibration.json, or `default`: the one that ships with foolsgold.

    The default was fitted on trecdl21 with a cosine retriever and an ms-marco cross-encoder, from comparisons with the
    positive alone (benchmarks/calibration.py); docs/calibration.md says when to make one's own.

    Raises:
        RecipeError: no such file, or not a calibration.
    """
    name = str(path)
    file = files("foolsgold.teachers") / "default_calibration.json" if name == DEFAULT else Path(path)
    try:
        return Calibration.model_validate(json.loads(file.read_text(encoding="utf-8")) | {"name": name})
    except FileNotFoundError:
        raise RecipeError(f"{name}: no such calibration; {_HOW}, and `{DEFAULT}` ships with foolsgold") from None
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"{name}: cannot be read ({error})") from None
    except ValidationError as error:
        first = error.errors()[0]
        said = f"{'.'.join(map(str, first['loc']))}: {first['msg'].removeprefix('Value error, ')}"
        raise RecipeError(f"{name}: not a calibration ({said.removeprefix(': ')}); {_HOW}") from None
    except (ValueError, TypeError):
        raise RecipeError(f"{name}: not a calibration (it is not a JSON object); {_HOW}") from None
