"""A run of training on disk: what it is made of, and a record of every round, written as soon as it is known.

`runs/<id>/` holds run.json, sets/ (the mined sets), evaluations/ (per query), checkpoints/ while it lasts, and at the
end model/ (the best one, with foolsgold.json) and report.html. The id is a hash of all that the run depends on, so that
the same command finds the same run, and goes on with it where it stopped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from foolsgold.errors import TrainingError
from foolsgold.files import written_whole

UNDONE = ("rolled back", "stopped")  # outcomes after which training goes back to the best model
Outcome = Literal["start", "best", "kept", "worse", "rolled back", "stopped"]


@dataclass(frozen=True)
class Round:
    """One segment of training, after its evaluation; the first is the student before training.

    mining: how often the regime was mined before its set. start, stop: steps. set_version: the mined set it was trained
    on, None for in-batch negatives only.
    negatives: of that set. mean_margin, inverted, failed_gates: its audit; None without teacher scores.
    measures: mean over the held-out queries. delta, interval, p_value: of the decisive measure against the best model
    before, 95 % bootstrap interval and paired randomisation test; None for the first.
    outcome: best (of all so far), kept (no better, but not significantly worse), worse (significantly, and kept as the
    recipe says), rolled back, stopped (rolled back, and the end).
    """

    regime: str
    mining: int
    start: int
    stop: int
    set_version: str | None
    negatives: int
    mean_margin: float | None
    inverted: float | None
    failed_gates: list[str]
    measures: dict[str, float]
    delta: float | None
    interval: tuple[float, float] | None
    p_value: float | None
    outcome: Outcome
    seconds: float


@dataclass
class RunState:
    """What run.json holds.

    facts: recipe, collection, student, libraries, as the manifest of a mined set has them. mined: at which step a set
    was mined last, and that set: a run that was stopped later goes on with it.
    """

    version: str
    facts: dict[str, Any]
    rounds: list[Round] = field(default_factory=list)
    curve: list[tuple[int, float]] = field(default_factory=list)
    mined: tuple[int, str] | None = None
    is_finished: bool = False

    @property
    def student(self) -> str:
        """What training started from, in words."""
        return student_words(self.facts["student"])

    @property
    def best(self) -> Round:
        """The round whose model is the best so far."""
        return next(one for one in reversed(self.rounds) if one.outcome in ("start", "best"))

    @property
    def set_versions(self) -> list[str]:
        """Every mined set that the best model was trained on, in order, each once.

        What came after the model that training went back to is not among them.
        """
        kept: list[Round] = []
        for one in self.rounds:
            if one.outcome in UNDONE:
                kept = kept[: 1 + max(i for i, other in enumerate(kept) if other.outcome in ("start", "best"))]
            else:
                kept.append(one)
        upto = kept[: 1 + max(i for i, other in enumerate(kept) if other.outcome in ("start", "best"))]
        return list(dict.fromkeys(one.set_version for one in upto if one.set_version is not None))

    def save(self, folder: Path) -> None:
        """Write run.json, whole or not at all."""
        text = json.dumps(asdict(self), indent=2, ensure_ascii=False)
        with written_whole(folder / "run.json", TrainingError, "name another --out") as partial:
            partial.write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> RunState:
        """Read run.json.

        Raises:
            TrainingError: there is none, or it cannot be read.
        """
        try:
            values = json.loads((folder / "run.json").read_text(encoding="utf-8"))
            rounds = [
                Round(**{**one, "interval": tuple(one["interval"]) if one["interval"] else None})
                for one in values.pop("rounds")
            ]
            curve = [(int(step), float(loss)) for step, loss in values.pop("curve")]
            mined = values.pop("mined")
            for name in ("recipe", "collection", "student", "created"):
                values["facts"][name]
            return cls(rounds=rounds, curve=curve, mined=tuple(mined) if mined else None, **values)
        except FileNotFoundError:
            raise TrainingError(f"{folder}: no run of training is here (run.json is missing)") from None
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise TrainingError(
                f"{folder}: run.json cannot be read ({error}); train again into another --out"
            ) from None


def student_words(student: Mapping[str, Any]) -> str:
    """What a run's facts say of its student."""
    return f"the token embeddings of {student['model']}" if student.get("static") else str(student["model"])
