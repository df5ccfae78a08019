"""A calibration: what labels said of one teacher, as a file; and the judge that a run makes of it."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from foolsgold.calibration.logistic import Logistic
from foolsgold.calibration.rates import Choice, Curve, TeacherCurve
from foolsgold.calibration.signals import NEEDS_BM25, NEEDS_RETRIEVER, SIGNALS, Columns, Evidence, from_ledger, matrix
from foolsgold.errors import MinedSetError, RecipeError
from foolsgold.records import Column, FloatArray, Scale

log = logging.getLogger(__name__)

DEFAULT = "default"
_FORMAT = 1
_HOW = "foolsgold calibrate LABELS --recipe RECIPE makes one"


@dataclass(frozen=True)
class Model:
    """A logistic model of some signals, and what cross-validation by query said of it.

    curve: labels below each threshold on the out-of-fold probability; auc: its area, with a 95 % interval; log_loss:
    its mean, in nats.
    """

    signals: tuple[str, ...]
    logistic: Logistic
    curve: Curve
    auc: float
    auc_interval: tuple[float, float]
    log_loss: float

    def probability(self, evidence: Evidence) -> Column:
        """float32 (n): how probable it is that a candidate is relevant; known where all signals are."""
        values, known = matrix(evidence, self.signals)
        return Column(self.logistic.probability(np.where(known[:, None], values, 0.0)).astype(np.float32), known)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        fit = self.logistic
        return {
            "signals": list(self.signals),
            "mean": fit.mean.tolist(),
            "scale": fit.scale.tolist(),
            "coefficients": fit.coefficients.tolist(),
            "intercept": fit.intercept,
            "auc": self.auc,
            "auc_interval": list(self.auc_interval),
            "log_loss": self.log_loss,
            "curve": self.curve.to_json(),
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Model:
        """From `to_json`'s."""
        signals = tuple(values["signals"])
        if unknown := [name for name in signals if name not in SIGNALS]:
            raise ValueError(f"unknown signals {', '.join(unknown)}")
        parts = [np.asarray(values[name], dtype=np.float64) for name in ("mean", "scale", "coefficients")]
        if any(part.shape != (len(signals),) or not np.isfinite(part).all() for part in parts):
            raise ValueError("a model has one finite mean, scale and coefficient a signal")
        if not (parts[1] > 0).all():
            raise ValueError("a scale is above 0")
        low, high = values["auc_interval"]
        return cls(
            signals=signals,
            logistic=Logistic(parts[0], parts[1], parts[2], float(values["intercept"])),
            curve=Curve.from_json(values["curve"]),
            auc=float(values["auc"]),
            auc_interval=(float(low), float(high)),
            log_loss=float(values["log_loss"]),
        )


@dataclass(frozen=True)
class Calibration:
    """What labelled pairs say of a teacher's scores, alone and together with what the sources say.

    name: the file, or `default`; teacher, retriever: model and fingerprint of what the pairs were scored with (no
    retriever where there was none); sources: the names of the retriever's and the BM25 source, or None; scale: of the
    teacher's scores; labels: counts of pairs, relevant pairs and queries; teacher_auc: the teacher's score alone;
    models: one for each choice of sources that a ledger may have, the fullest first; target: the false-negative rate
    that was asked for; notes: what was left out of the labels.
    """

    name: str
    teacher: Mapping[str, str]
    retriever: Mapping[str, str] | None
    sources: Mapping[str, str | None]
    scale: Scale
    labels: Mapping[str, int]
    teacher_auc: float
    teacher_auc_interval: tuple[float, float]
    teacher_curve: TeacherCurve
    models: tuple[Model, ...]
    target: float
    notes: tuple[str, ...] = ()

    @property
    def choice(self) -> Choice:
        """The fullest model's threshold for the target."""
        return self.models[0].curve.choose(self.target)

    def probability(self, table: pa.Table, scale: Scale = "probability") -> FloatArray:
        """float32 (n): how probable it is that each row of a ledger is relevant.

        A row is judged by the fullest model all of whose signals it has: without a dense source in the set, by the
        teacher and BM25.

        Args:
            table: rows of a ledger, `records.ledger_schema`, with a teacher's score each.
            scale: the one their teacher's scores are on, as in the manifest.

        Raises:
            MinedSetError: a row has no teacher's score; scores that are not on that scale.
        """
        columns = from_ledger(table)
        scores = columns["teacher_score"]
        if not scores.valid.all():
            raise MinedSetError(
                f"{int((~scores.valid).sum()):,} of {len(table):,} rows have no teacher_score, and a judge needs one; "
                "mine with teacher.exhaustive: true, or leave those rows out"
            )
        if scale == "probability" and len(table) and not (scores.values.min() >= 0 and scores.values.max() <= 1):
            raise MinedSetError("teacher_score is not a probability; say on which scale it is")
        evidence = Evidence(columns, self.sources["retriever"], self.sources["bm25"], scale)
        probability = np.zeros(len(table), dtype=np.float32)
        left = np.ones(len(table), dtype=np.bool_)
        for model in self.models:
            judged = model.probability(evidence)
            rows = left & judged.valid
            probability[rows] = judged.values[rows]
            left &= ~rows
        if left.any():
            raise MinedSetError(f"{int(left.sum()):,} of {len(table):,} rows have no positive_score to compare with")
        return probability

    def judge(
        self, *, teacher: Mapping[str, str], scale: Scale, retriever: str | None, bm25: str | None, target: float
    ) -> Judge:
        """The judge of a run with this teacher and these sources (their names).

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
                f"{choice.upper:.2g}); label at least {choice.needed:,} pairs more, or raise max_false_negative_rate"
            )
        return Judge(self.name, model, retriever, bm25, scale, choice, choice.threshold)

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
        log.warning("calibration %s %s; its rates hold only roughly; %s", self.name, others, _HOW)

    def check_retriever(self, name: str, fingerprint: str) -> None:
        """Refuse another retriever than that of the labelled pairs: its scores mean something else.

        Raises:
            RecipeError: it is another one. The default calibration reads no retriever's score but as a share of what
            lies between unrelated and equal passages, and takes any.
        """
        if self.name != DEFAULT and self.retriever and fingerprint != self.retriever["fingerprint"]:
            others = f"was made with the retriever {self.retriever['model']}, not with {name}"
            if name == self.retriever["model"]:
                others = f"was made with another version, length or prompt of the retriever {name}"
            raise RecipeError(f"calibration {self.name} {others}; calibrate with this recipe: {_HOW}")

    def save(self, path: Path) -> None:
        """Write it as JSON.

        Raises:
            RecipeError: the file cannot be written.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(self.to_json(), ensure_ascii=False) + "\n", encoding="utf-8")
        except OSError as error:
            raise RecipeError(f"{path}: cannot be written ({error})") from None

    def to_json(self) -> dict[str, Any]:
        """Plain values, as in calibration.json."""
        return {
            "format": _FORMAT,
            "teacher": dict(self.teacher),
            "retriever": None if self.retriever is None else dict(self.retriever),
            "sources": dict(self.sources),
            "scale": self.scale,
            "labels": dict(self.labels),
            "max_false_negative_rate": self.target,
            "decision": asdict(self.choice),
            "teacher_auc": self.teacher_auc,
            "teacher_auc_interval": list(self.teacher_auc_interval),
            "teacher_curve": self.teacher_curve.to_json(),
            "models": [model.to_json() for model in self.models],
            "notes": list(self.notes),
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any], name: str) -> Calibration:
        """From `to_json`'s."""
        if values["format"] != _FORMAT:
            raise ValueError(f"format {values['format']}, and this version reads {_FORMAT}")
        if not values["models"]:
            raise ValueError("it has no model")
        low, high = values["teacher_auc_interval"]
        return cls(
            name=name,
            teacher={key: str(values["teacher"][key]) for key in ("model", "fingerprint")},
            retriever=values["retriever"],
            sources={key: values["sources"][key] for key in ("retriever", "bm25")},
            scale=values["scale"],
            labels=values["labels"],
            teacher_auc=float(values["teacher_auc"]),
            teacher_auc_interval=(float(low), float(high)),
            teacher_curve=TeacherCurve.from_json(values["teacher_curve"]),
            models=tuple(Model.from_json(model) for model in values["models"]),
            target=float(values["max_false_negative_rate"]),
            notes=tuple(values["notes"]),
        )


@dataclass(frozen=True)
class Judge:
    """A calibration's model at work in one run: candidates below `threshold` are negatives.

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
        return self.model.probability(Evidence(columns, self.retriever, self.bm25, self.scale))

    def describe(self) -> dict[str, Any]:
        """For the manifest: which calibration, its threshold, and all that probabilities depend on."""
        model = {key: value for key, value in self.model.to_json().items() if key != "curve"}
        return {"calibration": self.name, **asdict(self.choice), **model}


def load(path: str | Path) -> Calibration:
    """A calibration.json, or `default`: the one that ships with foolsgold.

    The default was fitted on trecdl21 with a cosine retriever and an ms-marco cross-encoder, from comparisons with the
    positive alone (benchmarks/calibration.py); docs/calibration.md says when to make one's own.

    Raises:
        RecipeError: no such file, or not a calibration.
    """
    name = str(path)
    file = files("foolsgold.calibration") / "default.json" if name == DEFAULT else Path(path)
    try:
        return Calibration.from_json(json.loads(file.read_text(encoding="utf-8")), name)
    except FileNotFoundError:
        raise RecipeError(f"{name}: no such calibration; {_HOW}, and `{DEFAULT}` ships with foolsgold") from None
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"{name}: cannot be read ({error})") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RecipeError(f"{name}: not a calibration ({type(error).__name__}: {error}); {_HOW}") from None
