"""The checklist before production: eight questions, each answered from what a set or a run holds."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from foolsgold.errors import MinedSetError
from foolsgold.findings.evidence import measured_strength
from foolsgold.findings.labels import ENOUGH, Validation, validation_of
from foolsgold.findings.mining import teacher_retrieves, unfiltered
from foolsgold.findings.rule import Fault
from foolsgold.findings.subject import MODEL_FILE, Run, Subject, open_subjects
from foolsgold.findings.training import LONG, SMALL, no_curriculum
from foolsgold.progress import SILENT, Progress
from foolsgold.recipe import HARD_CAP
from foolsgold.training.regimes import regimes_of
from foolsgold.training.run import RunState

MOST_OF_ONE = 0.8  # of the negatives; a source that gives more is no mix

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
        """Plain values."""
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

    Args: as `check`; a recipe has nothing yet that could be asked about.

    Raises:
        FoolsgoldError: no set, run or model is there, or it cannot be read.
    """
    subjects = open_subjects(
        thing, values or {}, measure=measure, progress=progress, cache=None if cache is None else Path(cache)
    )
    main, sets = subjects[0], [subject for subject in subjects if subject.mined is not None]
    if main.kind == "recipe":
        raise MinedSetError(f"{main.place}: a recipe has made nothing yet; name a mined set, a run or a trained model")
    return [
        _teacher(main, sets),
        _threshold(main, sets),
        _mix(main, sets),
        _curriculum(main),
        _margins(main, sets),
        _batch_size(main),
        _evaluations(main),
        _versions(main),
    ]


def _teacher(main: Subject, sets: list[Subject]) -> Answer:
    question = "A teacher is picked"
    evidence, with_teacher = _of_best(main), 0
    for subject in sets:
        assert subject.mined is not None
        teacher = subject.mined.manifest["teacher"]
        with_teacher += teacher is not None
        of_set = f"set {subject.mined.version}: "
        if teacher is None:
            evidence.append(of_set + "no teacher")
        else:
            evidence.append(
                of_set + f"{teacher['model']}, {teacher['scale']}, fingerprint {teacher['fingerprint'][:12]}"
            )
    if not sets and main.recipe.teacher is not None:
        with_teacher = 1
        evidence.append(f"{main.recipe.teacher.model}, by the recipe that is recorded with the model")
    against = [said.said for look in (unfiltered, teacher_retrieves) for said in look(main) if isinstance(said, Fault)]
    strength = measured_strength(main)
    if strength is not None and not isinstance(strength, str):
        (evidence if strength.change.delta > 0 else against).append(str(strength))
    said: Said = "no" if against or not with_teacher else "yes"
    to_do = "name a `teacher`, such as a cross-encoder, and mine again"
    if main.run is not None and sets and not with_teacher and main.recipe.teacher is not None:
        to_do = "see why no regime with a teacher made the model better, or leave out those without"
    return Answer(question, said, (*evidence, *against), to_do)


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


def _threshold(main: Subject, sets: list[Subject]) -> Answer:
    question = f"Its threshold is set, and validated on {ENOUGH} labelled pairs"
    to_do = "`foolsgold label SET`, then `foolsgold calibrate`, and set decide.calibration to what it writes"
    if all(subject.recipe.teacher is None for subject in (main, *sets)):
        return Answer(question, "no", ("there is no teacher, and so no threshold",), to_do)
    decide = main.recipe.decide
    limits = f"negative_below {decide.negative_below}, positive_above {decide.positive_above}"
    if decide.calibration is not None:
        limits = f"calibration {decide.calibration}, max_false_negative_rate {decide.max_false_negative_rate:g}"
    found = [one for one in map(validation_of, (main, *sets)) if one is not None]
    validations = [one for one in found if isinstance(one, Validation)]
    evidence = (limits, *dict.fromkeys(map(str, found)))
    if any(one.is_enough for one in validations):
        return Answer(question, "yes", evidence, to_do)
    unknown = bool(found) and not validations
    return Answer(question, "unknown" if unknown else "no", evidence if found else (limits, "no labelled pairs"), to_do)


def _mix(main: Subject, sets: list[Subject]) -> Answer:
    question = "The mix of sources is balanced, and the cap is enforced"
    to_do = f"name a second source, give it a quota, and keep select.per_query and select.cap at {HARD_CAP} or less"
    if not sets:
        return Answer(question, "unknown", ("no set is here",), to_do)
    given: Counter[str] = Counter()
    most = 0
    for subject in sets:
        assert subject.audit is not None
        given.update({name: source.negatives for name, source in subject.audit.sources.items()})
        most = max(most, len(subject.audit.per_query) - 1)
    total = max(given.total(), 1)
    shares = ", ".join(f"{name} {count / total:.0%} ({count:,})" for name, count in given.most_common())
    balanced = 0 < max(given.values(), default=0) <= MOST_OF_ONE * total
    evidence = (
        *_of_best(main),
        f"{shares}; balanced is at most {MOST_OF_ONE:.0%} of one",
        f"at most {most} negatives a query (limit {HARD_CAP})",
    )
    return Answer(question, "yes" if balanced and most <= HARD_CAP else "no", evidence, to_do)


def _curriculum(main: Subject) -> Answer:
    question = f"There is a curriculum, if training takes more than {LONG:g} epochs"
    to_do = "give `schedule` regimes that grow harder, and `remine` where the student mines"
    if main.kind == "set":
        return Answer(question, "unknown", ("a set does not say how it is trained on",), "ask the same of the run")
    regimes = regimes_of(main.recipe)
    epochs = regimes[-1].to
    faults = [said.said for said in no_curriculum(main) if isinstance(said, Fault)]
    if main.recipe.schedule:
        modes = (regime.mode if isinstance(regime.mode, str) else "as its sections say" for regime in regimes)
        plan = ", ".join(f"{regime.name} ({mode})" for regime, mode in zip(regimes, modes, strict=True))
    else:
        plan = "one way of mining"
    said: Said = "no" if epochs > LONG and faults else "yes"
    return Answer(question, said, (f"{epochs:g} epochs: {plan}", *faults), to_do)


def _margins(main: Subject, sets: list[Subject]) -> Answer:
    question = "The distribution of margins is plotted"
    to_do = "mine with a teacher, then `foolsgold audit SET --report`, and look at margins.png"
    if not sets:
        return Answer(question, "unknown", ("no set is here",), to_do)
    evidence, plotted, scored = _of_best(main), 0, 0
    for subject in sets:
        assert subject.mined is not None
        assert subject.audit is not None
        margins, plot = subject.audit.margins, subject.mined.path / "margins.png"
        if margins is None:
            evidence.append(f"set {subject.mined.version}: no negative in it has a margin")
            continue
        scored += 1
        there = plot.is_file()
        plotted += there
        low, *_, high = margins.quantiles
        evidence.append(
            f"{plot}{'' if there else ' is missing'}: mean {margins.mean:.2f}, 5 % below {low:.2f}, 5 % above "
            f"{high:.2f}, {margins.inverted_share:.1%} inverted"
        )
    return Answer(question, "yes" if scored and plotted == scored else "no", tuple(evidence), to_do)


def _batch_size(main: Subject) -> Answer:
    question = "The batch size is tuned, with a cached loss if memory is the limit"
    to_do = (
        "train with another size beside it (--set student.batch_size=128, with student.loss=cached_mnr), and compare"
    )
    if main.kind == "set":
        return Answer(question, "unknown", ("a set does not say how it is trained on",), "ask the same of the run")
    student = main.recipe.student
    used = f"loss {student.loss}, batch_size {student.batch_size}"
    if student.loss == "mnr" and student.batch_size < SMALL:
        return Answer(question, "no", (f"{used}: too small for a loss on in-batch negatives",), to_do)
    tried = {} if main.run is None else _batch_sizes_tried(main.run)
    if len(tried) < 2:
        return Answer(question, "unknown", (used, "no other size was tried beside it"), to_do)
    measure = main.recipe.evaluation.decisive
    evidence = (
        used,
        *(f"batch_size {size}: {measure} {value:.4f} ({name})" for size, (value, name) in sorted(tried.items())),
    )
    best = max(tried, key=lambda size: tried[size][0])
    return Answer(
        question, "yes" if best == student.batch_size else "no", evidence, f"take batch_size {best}, or a larger one"
    )


def _batch_sizes_tried(run: Run) -> dict[int, tuple[float, str]]:
    """Batch size -> best decisive measure and the run's name, of finished runs beside a run, on the same queries."""
    tried: dict[int, tuple[float, str]] = {}
    same = [run.state.facts[name]["digest"] for name in ("collection", "held_out")]
    for file in sorted(run.path.resolve().parent.glob("*/run.json")):
        state = RunState.load(file.parent)
        measure = run.state.facts["recipe"]["evaluation"]["decisive"]
        if not state.is_finished or [state.facts[name]["digest"] for name in ("collection", "held_out")] != same:
            continue
        size, value = state.facts["recipe"]["student"]["batch_size"], state.best.measures.get(measure)
        if value is not None and value > tried.get(size, (float("-inf"), ""))[0]:
            tried[size] = (value, file.parent.name)
    return tried


def _evaluations(main: Subject) -> Answer:
    question = "The student was evaluated on held-out queries after each change of regime"
    to_do = "train with `foolsgold train`, which evaluates after each regime, to the end of the schedule"
    if main.run is None or main.kind != "run":
        evidence = []
        if main.model is not None:
            evidence = [f"{name} {value:.4f} at the end" for name, value in main.model.get("evaluation", {}).items()]
        return Answer(question, "unknown", (*evidence, "what was measured in between is in the run"), to_do)
    state = main.run.state
    held_out = state.facts["held_out"]
    decisive = main.recipe.evaluation.decisive
    evidence = [f"{held_out['queries']:,} queries of {held_out['name']}"]
    missing = []
    for name in ("start", *(regime.name for regime in regimes_of(main.recipe))):
        last = next((one for one in reversed(state.rounds) if one.regime == name), None)
        if last is None:
            missing.append(name)
            evidence.append(f"{name}: not evaluated")
        else:
            file = main.run.path / "evaluations" / f"step-{last.stop}.parquet"
            evidence.append(
                f"{name}: {decisive} {last.measures[decisive]:.4f} after step {last.stop:,} ({last.outcome}), {file}"
            )
    stopped = bool(state.rounds) and state.rounds[-1].outcome == "stopped"
    return Answer(question, "yes" if not missing or stopped else "no", tuple(evidence), to_do)


def _versions(main: Subject) -> Answer:
    question = "The sets are versioned with the model"
    to_do = "keep the run's folder, or its sets/ and model/foolsgold.json, with the model"
    if main.model is not None:
        return Answer(
            question, "yes", (f"{MODEL_FILE} names run {main.model['run']}, sets {_named(main.model['sets'])}",), to_do
        )
    if main.mined is not None:
        version = main.mined.version
        return Answer(question, "unknown", (f"set {version}; no model of it is known here",), "ask the same of the run")
    assert main.run is not None
    record = main.run.path / "model" / MODEL_FILE
    if not record.is_file():
        return Answer(question, "no", (f"{record} is missing: the run has not finished",), "run the same command again")
    named = json.loads(record.read_text(encoding="utf-8"))["sets"]
    gone = [version for version in named if not (main.run.set_folder(version) / "manifest.json").is_file()]
    evidence = [f"{record} names sets {_named(named)}"]
    evidence += [f"set {version} is not in {main.run.path / 'sets'}" for version in gone]
    return Answer(question, "no" if gone else "yes", tuple(evidence), to_do)


def _named(versions: list[str]) -> str:
    return ", ".join(versions) or "none: in-batch negatives only, or the start was best"
