"""A run of training on disk: what it is made of, and a record of every round, written as soon as it is known.

`runs/<id>/` holds run.json, sets/ (the mined sets), evaluations/ (per query), checkpoints/ while it lasts, and at the
end model/ (the best one, with foolsgold.json) and report.html. The id is a hash of all that the run depends on, so that
the same command finds the same run and resumes it where it stopped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from foolsgold.errors import TrainingError
from foolsgold.files import written_whole

if TYPE_CHECKING:
    from foolsgold.training.trainer import SegmentTrainer

UNDONE = ("rolled back", "stopped")  # outcomes after which training goes back to the best model
Outcome = Literal["start", "best", "kept", "worse", "rolled back", "stopped"]


@dataclass(frozen=True, kw_only=True)
class Round:
    """One segment of training, after its evaluation; the first round is the student before training.

    mining: how often the regime had been mined before its set. start, stop: steps. set_version: the mined set it was
    trained on, None for in-batch negatives only. negatives: of that set.
    mean_margin, inverted, failed_gates: from the set's audit; None without teacher scores.
    measures: means over the held-out queries. delta, interval, p_value: of the decisive measure against the best model
    before, with a 95 % bootstrap interval and a paired randomisation test; None for the first round.
    outcome: best (of all so far), kept (not better, but not significantly worse), worse (significantly, and kept as the
    recipe says), rolled back, stopped (rolled back, and the run ends).
    """

    regime: str
    mining: int = 0
    start: int = 0
    stop: int = 0
    set_version: str | None = None
    negatives: int = 0
    mean_margin: float | None = None
    inverted: float | None = None
    failed_gates: list[str] = field(default_factory=list)
    measures: dict[str, float]
    delta: float | None = None
    interval: tuple[float, float] | None = None
    p_value: float | None = None
    outcome: Outcome
    seconds: float


@dataclass
class RunState:
    """What run.json holds.

    facts: recipe, collection, student and libraries, as in the manifest of a mined set. curve: (step, training loss).
    mined: the step at which a set was last mined, and that set, so that a run that was stopped resumes with it.
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
    def decisive(self) -> str:
        """The measure that decides."""
        return str(self.facts["recipe"]["evaluation"]["decisive"])

    @property
    def best(self) -> Round:
        """The round whose model is the best so far."""
        return _up_to_best(self.rounds)[-1]

    @property
    def set_versions(self) -> list[str]:
        """Every mined set that the best model was trained on, in order, each once.

        Rounds after a model that training went back to are left out.
        """
        lasting: list[Round] = []
        for one in self.rounds:
            lasting = _up_to_best(lasting) if one.outcome in UNDONE else [*lasting, one]
        sets = (one.set_version for one in _up_to_best(lasting))
        return list(dict.fromkeys(version for version in sets if version is not None))

    def share(self, trainer: SegmentTrainer, folder: Path) -> None:
        """Write down what the first process has decided, and give it to the other processes."""
        self.rounds = trainer.shared(self.rounds)
        if trainer.is_main:
            self.save(folder)

    def save(self, folder: Path) -> None:
        """Write run.json, whole or not at all."""
        text = json.dumps(asdict(self), indent=2, ensure_ascii=False)
        with written_whole(folder / "run.json", TrainingError, "name another --out") as partial:
            partial.write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> RunState:
        """Read run.json.

        Raises:
            TrainingError: it is missing, or cannot be read.
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


def _up_to_best(rounds: list[Round]) -> list[Round]:
    """The rounds up to the last one whose model was the best."""
    return rounds[: 1 + max(i for i, one in enumerate(rounds) if one.outcome in ("start", "best"))]


def student_words(student: Mapping[str, Any]) -> str:
    """A run's student in words, from the facts of the run."""
    return f"the token embeddings of {student['model']}" if student.get("static") else str(student["model"])
