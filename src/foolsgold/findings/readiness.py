"""The checklist before production: eight questions, each answered from what a set or a run holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from foolsgold.errors import MinedSetError
from foolsgold.findings.finding import Fault, Unknown
from foolsgold.findings.labels import ENOUGH, validation_of
from foolsgold.findings.models import measured_strength
from foolsgold.findings.recipe import LONG, SMALL, no_curriculum, teacher_retrieves, unfiltered
from foolsgold.findings.subject import MODEL_FILE, Subject, open_subject, record_of
from foolsgold.progress import SILENT, Progress
from foolsgold.recipe import HARD_CAP
from foolsgold.training.regimes import regimes_of
from foolsgold.training.rounds import Trained
from foolsgold.training.run import RunState

MOST_OF_ONE = 0.8  # of the negatives; sources are not mixed where one gives more

Said = Literal["yes", "no", "unknown"]


@dataclass(frozen=True)
class Answer:
    """One question, its answer, what it rests on (numbers and names of files), and what to do unless it is yes."""

    question: str
    said: Said
    evidence: tuple[str, ...]
    to_do: str

    def __str__(self) -> str:
        lines = [f"{self.said:<8}{self.question}", *(f"        {one}" for one in self.evidence)]
        return "\n".join([*lines, *([f"        to do: {self.to_do}"] if self.said != "yes" else [])])

    def to_json(self) -> dict[str, Any]:
        """What --json prints."""
        return asdict(self)


def checklist(
    thing: Any,
    *,
    measure: bool = False,
    values: Mapping[str, Any] | None = None,
    progress: Progress = SILENT,
    cache: str | Path | None = None,
) -> list[Answer]:
    """Is this set, or the model of this run, ready for production?

    Args: as `check`, except that a recipe has made nothing yet that could be asked about.

    Raises:
        FoolsgoldError: no set, run or model is there, or it cannot be read.
    """
    main = open_subject(thing, values, measure=measure, progress=progress, cache=cache)
    if main.kind == "recipe":
        raise MinedSetError(f"{main.place}: a recipe has made nothing yet; name a mined set, a run or a trained model")
    return [ask(main) for ask in _QUESTIONS]


class _Known(NamedTuple):
    """An answer, what it rests on, and what to do if that is not what the question usually says."""

    is_yes: bool
    evidence: Sequence[str]
    to_do: str | None = None


_Look = Callable[[Subject], _Known]
_QUESTIONS: list[Callable[[Subject], Answer]] = []  # in the order of the checklist


def _question(question: str, to_do: str, *, of_training: bool = False) -> Callable[[_Look], _Look]:
    """A function that answers a question, or raises Unknown with the evidence that there is."""

    def asked(look: _Look) -> _Look:
        def ask(main: Subject) -> Answer:
            if of_training and main.kind == "set":
                why = "a set does not say how it is trained on"
                return Answer(question, "unknown", (why,), "ask the same of the run")
            try:
                known = look(main)
            except Unknown as unknown:
                return Answer(question, "unknown", unknown.args, to_do)
            return Answer(question, "yes" if known.is_yes else "no", tuple(known.evidence), known.to_do or to_do)

        _QUESTIONS.append(ask)
        return look

    return asked


def _sets(main: Subject) -> tuple[Subject, ...]:
    """The sets that are meant: those of a run, or the set itself."""
    return main.sets if main.mined is None else (main,)


def _some_sets(main: Subject) -> tuple[Subject, ...]:
    if not (sets := _sets(main)):
        raise Unknown("no set is here")
    return sets


@_question("A teacher is picked", "name a `teacher`, such as a cross-encoder, and mine again")
def _teacher(main: Subject) -> _Known:
    evidence, with_teacher = _of_best(main), 0
    for subject in _sets(main):
        assert subject.mined is not None
        teacher = subject.mined.manifest.teacher
        with_teacher += teacher is not None
        said = "no teacher"
        if teacher is not None:
            said = f"{teacher.model}, {teacher.scale}, fingerprint {str(teacher.fingerprint)[:12]}"
        evidence.append(f"set {subject.mined.version}: {said}")
    if not _sets(main) and main.recipe.teacher is not None:
        with_teacher = 1
        evidence.append(f"{main.recipe.teacher.model}, by the recipe that is recorded with the model")
    against = [said.said for look in (unfiltered, teacher_retrieves) for said in look(main) if isinstance(said, Fault)]
    try:
        strength = measured_strength(main)
    except Unknown:
        strength = None
    if strength is not None:
        (evidence if strength.change.delta > 0 else against).append(str(strength))
    to_do = None
    if main.run is not None and _sets(main) and not with_teacher and main.recipe.teacher is not None:
        to_do = "see why no regime with a teacher made the model better, or leave out those without"
    return _Known(not against and with_teacher > 0, [*evidence, *against], to_do)


def _of_best(main: Subject) -> list[str]:
    """Which sets are meant, where a run mined more of them than its best model was trained on."""
    if main.run is None or not main.run.state.rounds:
        return []
    state = main.run.state
    mined, seen = {one.set_version for one in state.rounds if one.set_version is not None}, len(state.set_versions)
    if len(mined) == seen:
        return []
    best = state.best
    return [f"of the run's {len(mined)} sets the best model, {best.regime} after step {best.stop:,}, saw {seen}"]


@_question(
    f"Its threshold is set, and validated on {ENOUGH} labelled pairs",
    "`foolsgold label SET`, then `foolsgold calibrate`, and set decide.calibration to what it writes",
)
def _threshold(main: Subject) -> _Known:
    if all(subject.recipe.teacher is None for subject in (main, *main.sets)):
        return _Known(False, ["there is no teacher, and so no threshold"])
    decide = main.recipe.decide
    limits = f"negative_below {decide.negative_below}, positive_above {decide.positive_above}"
    if decide.calibration is not None:
        limits = f"calibration {decide.calibration}, max_false_negative_rate {decide.max_false_negative_rate:g}"
    validations, unread = [], []
    for subject in (main, *main.sets):
        try:
            validations.append(validation_of(subject))
        except Unknown as why:
            unread.append(str(why))
    found = [one for one in validations if one is not None]
    evidence = [limits, *dict.fromkeys([*map(str, found), *unread])]
    if unread and not found:
        raise Unknown(*evidence)
    return _Known(any(one.is_enough for one in found), evidence if found else [limits, "no labelled pairs"])


@_question(
    "The mix of sources is balanced, and the cap is enforced",
    f"name a second source, give it a quota, and keep select.per_query and select.cap at {HARD_CAP} or less",
)
def _mix(main: Subject) -> _Known:
    given: Counter[str] = Counter()
    most = 0
    for subject in _some_sets(main):
        assert subject.audit is not None
        given.update({name: source.negatives for name, source in subject.audit.sources.items()})
        most = max(most, len(subject.audit.per_query) - 1)
    total = max(given.total(), 1)
    shares = ", ".join(f"{name} {count / total:.0%} ({count:,})" for name, count in given.most_common())
    balanced = 0 < max(given.values(), default=0) <= MOST_OF_ONE * total
    evidence = [
        *_of_best(main),
        f"{shares}; balanced is at most {MOST_OF_ONE:.0%} from one",
        f"at most {most} negatives per query (limit {HARD_CAP})",
    ]
    return _Known(balanced and most <= HARD_CAP, evidence)


@_question(
    f"There is a curriculum, if training takes more than {LONG:g} epochs",
    "give `schedule` regimes that grow harder, and `remine` where the student mines",
    of_training=True,
)
def _curriculum(main: Subject) -> _Known:
    regimes = regimes_of(main.recipe)
    faults = [said.said for said in no_curriculum(main) if isinstance(said, Fault)]
    plan = "one way of mining"
    if main.recipe.schedule:
        modes = (regime.mode if isinstance(regime.mode, str) else "as its sections say" for regime in regimes)
        plan = ", ".join(f"{regime.name} ({mode})" for regime, mode in zip(regimes, modes, strict=True))
    epochs = regimes[-1].to
    return _Known(epochs <= LONG or not faults, [f"{epochs:g} epochs: {plan}", *faults])


@_question(
    "The distribution of margins is plotted",
    "mine with a teacher, then `foolsgold audit SET --report`, and look at margins.png",
)
def _margins(main: Subject) -> _Known:
    evidence, plotted, scored = _of_best(main), 0, 0
    for subject in _some_sets(main):
        assert subject.mined is not None
        assert subject.audit is not None
        margins, plot = subject.audit.margins, subject.mined.path / "margins.png"
        if margins is None:
            evidence.append(f"set {subject.mined.version}: no negative in it has a margin")
            continue
        scored += 1
        plotted += plot.is_file()
        low, *_, high = margins.quantiles
        evidence.append(
            f"{plot}{'' if plot.is_file() else ' is missing'}: mean {margins.mean:.2f}, 5 % below {low:.2f}, "
            f"5 % above {high:.2f}, {margins.inverted_share:.1%} inverted"
        )
    return _Known(0 < scored == plotted, evidence)


@_question(
    "The batch size is tuned, with a cached loss if memory is the limit",
    "train with another size too (--set student.batch_size=128, with student.loss=cached_mnr), and compare",
    of_training=True,
)
def _batch_size(main: Subject) -> _Known:
    student = main.recipe.student
    used = f"loss {student.loss}, batch_size {student.batch_size}"
    if student.loss == "mnr" and student.batch_size < SMALL:
        return _Known(False, [f"{used}: too small for a loss on in-batch negatives"])
    tried = {} if main.run is None else _batch_sizes_tried(main.run)
    if len(tried) < 2:
        raise Unknown(used, "no other size was tried beside it")
    measure = main.recipe.evaluation.decisive
    values = [f"batch_size {size}: {measure} {value:.4f} ({name})" for size, (value, name) in sorted(tried.items())]
    best = max(tried, key=lambda size: tried[size][0])
    return _Known(best == student.batch_size, [used, *values], f"take batch_size {best}, or a larger one")


def _batch_sizes_tried(run: Trained) -> dict[int, tuple[float, str]]:
    """Batch size -> best decisive measure and the run's name, of finished runs beside a run, on the same queries."""

    def measured_on(state: RunState) -> list[str]:
        return [state.facts[name]["digest"] for name in ("collection", "held_out")]

    tried: dict[int, tuple[float, str]] = {}
    measure = run.state.facts["recipe"]["evaluation"]["decisive"]
    for file in sorted(run.path.resolve().parent.glob("*/run.json")):
        state = RunState.load(file.parent)
        if not state.is_finished or measured_on(state) != measured_on(run.state):
            continue
        size, value = state.facts["recipe"]["student"]["batch_size"], state.best.measures.get(measure)
        if value is not None and value > tried.get(size, (float("-inf"), ""))[0]:
            tried[size] = (value, file.parent.name)
    return tried


@_question(
    "The student was evaluated on held-out queries after each change of regime",
    "train with `foolsgold train`, which evaluates after each regime, to the end of the schedule",
)
def _evaluations(main: Subject) -> _Known:
    if main.run is None or main.kind != "run":
        measured = {} if main.model is None else main.model.get("evaluation", {})
        at_the_end = [f"{name} {value:.4f} at the end" for name, value in measured.items()]
        raise Unknown(*at_the_end, "what was measured in between is in the run")
    state = main.run.state
    held_out = state.facts["held_out"]
    decisive = main.recipe.evaluation.decisive
    evidence = [f"{held_out['queries']:,} queries of {held_out['name']}"]
    complete = True
    for name in ("start", *(regime.name for regime in regimes_of(main.recipe))):
        last = next((one for one in reversed(state.rounds) if one.regime == name), None)
        if last is None:
            complete = False
            evidence.append(f"{name}: not evaluated")
        else:
            file = main.run.path / "evaluations" / f"step-{last.stop}.parquet"
            evidence.append(
                f"{name}: {decisive} {last.measures[decisive]:.4f} after step {last.stop:,} ({last.outcome}), {file}"
            )
    return _Known(complete or (bool(state.rounds) and state.rounds[-1].outcome == "stopped"), evidence)


@_question(
    "The sets are versioned with the model",
    "keep the run's folder, or its sets/ and model/foolsgold.json, with the model",
    of_training=True,
)
def _versions(main: Subject) -> _Known:
    if main.model is not None:
        return _Known(True, [f"{MODEL_FILE} names run {main.model['run']}, sets {_named(main.model['sets'])}"])
    assert main.run is not None
    path = main.run.model_path / MODEL_FILE
    record = record_of(main.run.model_path)
    if record is None:
        return _Known(False, [f"{path} is missing: the run has not finished"], "run the same command again")
    gone = [one for one in record["sets"] if not (main.run.path / "sets" / one / "manifest.json").is_file()]
    missing = [f"set {version} is not in {main.run.path / 'sets'}" for version in gone]
    return _Known(not gone, [f"{path} names sets {_named(record['sets'])}", *missing])


def _named(versions: list[str]) -> str:
    return ", ".join(versions) or "none: in-batch negatives only, or the start was best"
