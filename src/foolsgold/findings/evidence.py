"""Rules on what is known of a set and of the models around it: FG005, FG008, FG011, FG014, FG017, FG019 to FG021."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foolsgold.collection import Collection
from foolsgold.errors import FoolsgoldError
from foolsgold.findings.labels import ENOUGH, validation_of
from foolsgold.findings.models import local_folder
from foolsgold.findings.rule import Fault, Unknown
from foolsgold.findings.subject import Subject, other_split, record_of
from foolsgold.training.run import RunState

if TYPE_CHECKING:
    from foolsgold.findings.strength import Strength

_MARGIN_GATES = ("min_mean_margin", "max_inverted")
_HELD_OUT = ("dev", "validation", "valid", "val", "test")  # splits that custom keeps out of training
_NEEDS_A_SET = "only a mined set can tell; mine, and check the set"


def weak_teacher(subject: Subject) -> Iterator[Fault | Unknown]:
    """FG005: on held-out queries the teacher orders passages no better than the student."""
    found = measured_strength(subject)
    if isinstance(found, str):
        yield Unknown(found)
    elif found is not None and found.change.delta <= 0:
        yield Fault("teacher.model", str(found))


def measured_strength(subject: Subject) -> Strength | str | None:
    """The teacher against the student, or a sentence on why that is not known; None where there is no teacher."""
    recipe, student = subject.recipe, subject.student
    if recipe.teacher is None:
        return None
    if student is None:
        return "the recipe names no student and no retriever to hold the teacher against"
    if not subject.measure:
        return "both models have to be run on held-out queries; --measure does so"
    if recipe.collection is None:
        return "the recipe names no collection with held-out queries"
    is_trained = subject.kind == "model" or (subject.run is not None and subject.run.state.is_finished)
    if recipe.student.static and not is_trained:
        return "a static student is made when its training begins; check the run"
    from foolsgold.findings.strength import strength_of  # onnxruntime takes a while to import

    try:
        return strength_of(subject, student)
    except FoolsgoldError as error:
        return " ".join(str(error).split())


def unvalidated(subject: Subject) -> Iterator[Fault | Unknown]:
    """FG008: no labelled pairs, or too few, say what the thresholds let through."""
    recipe = subject.recipe
    if recipe.teacher is None:
        return
    found = validation_of(subject)
    if isinstance(found, str):
        yield Unknown(found)
    elif found is None:
        decide = recipe.decide
        if decide.calibration is not None:
            yield Fault(
                "decide.calibration", f"{decide.calibration} rests on labels of other collections than this one"
            )
        else:
            yield Fault(
                "decide.negative_below",
                f"no labelled pair says what {decide.negative_below} and {decide.positive_above} let through here",
            )
    elif not found.is_enough:
        yield Fault(
            "decide.calibration" if recipe.decide.calibration else "labels.jsonl", f"{found}; {ENOUGH} are a start"
        )


def leakage(subject: Subject) -> Iterator[Fault | Unknown]:
    """FG011: queries that are evaluated on are trained on too; negatives that another split holds for answers."""
    if subject.kind == "model":
        yield Unknown("the sets that it was trained on are not beside it")
        return
    if subject.audit is not None and subject.audit.leakage is not None and subject.audit.leakage.share > 0:
        leaked = subject.audit.leakage
        query, doc = leaked.examples[0]
        splits = " or ".join(leaked.splits)
        yield Fault(
            "negatives.parquet",
            f"{leaked.share:.2%} of the negatives are positives of their query in {splits}, such as {doc} of {query}",
        )
    if subject.kind == "set" and subject.run is not None:
        return  # of the run's own recipe
    collection = subject.collection
    if isinstance(collection, str):
        yield Unknown(collection)
        return
    for split in _held_out_splits(subject, collection):
        other = other_split(subject, split)
        if isinstance(other, str):
            yield Unknown(other)
            continue
        by_id, by_text = _shared(collection, other)
        if not _has_own_ids(subject):
            by_id = 0
        if by_id or by_text:
            yield Fault(
                "collection.split",
                f"of the {len(other.queries):,} queries of {split} {by_id:,} are in {collection.split} by id and "
                f"{by_text:,} by text",
            )


def _held_out_splits(subject: Subject, collection: Collection) -> list[str]:
    """The splits that must share no query with what is mined: the one that the recipe evaluates on, and by custom."""
    spec = subject.recipe.collection
    splits = [] if subject.recipe.evaluation.split is None else [subject.recipe.evaluation.split]
    if spec is not None and spec.beir is not None:
        there = {path.stem for path in (Path(spec.beir).expanduser() / "qrels").glob("*")}
        splits += [split for split in _HELD_OUT if split in there]
    return [split for split in dict.fromkeys(splits) if split != collection.split]


def _has_own_ids(subject: Subject) -> bool:
    """Whether an id means the same query in every split; those of pairs are numbers that each split begins anew."""
    return subject.recipe.collection is not None and subject.recipe.collection.beir is not None


def _shared(one: Collection, other: Collection) -> tuple[int, int]:
    """How many queries of the other are in the one: by their id, and by their text but for case and white space."""
    by_id = one.queries.find(other.queries.ids.to_pylist())
    texts = {key.tobytes() for key in one.queries.keys}
    return len(by_id), sum(key.tobytes() in texts for key in other.queries.keys)


def hubs(subject: Subject) -> Iterator[Fault | Unknown]:
    """FG014: the audit's gate on documents that are negatives of very many queries."""
    most = subject.audit.hubs.most if subject.audit is not None else ()
    first = f", first of all {most[0].doc_id} ({most[0].queries:,} queries)" if most else ""
    yield from _gate(subject, "max_hubs", "negatives.parquet", f"of the negatives are hubs{first}")


def low_positives(subject: Subject) -> Iterator[Fault | Unknown]:
    """FG017: the audit's gate on positives that the teacher would call negatives."""
    if subject.recipe.teacher is not None:
        said = "of the queries have a positive that the teacher would call a negative"
        yield from _gate(subject, "max_low_positives", "positives.parquet", said)


def _gate(subject: Subject, name: str, at: str, said: str) -> Iterator[Fault | Unknown]:
    """What a gate on a share says, on a set; nothing for a run, whose sets are looked at apart."""
    if subject.kind == "run":
        return
    if subject.audit is None:
        yield Unknown(_NEEDS_A_SET)
        return
    gate = subject.gate(name)
    if gate is None:
        yield Unknown(f"audit.{name} is null, so that its gate is off")
    elif gate.value is None:
        yield Unknown("the audit has nothing to measure it on")
    elif gate.verdict in ("warn", "fail"):
        yield Fault(at, f"{gate.value:.1%} {said} (limit {gate.limit:.0%})")


def unaudited(subject: Subject) -> Iterator[Fault | Unknown]:
    """FG019: nobody has looked, or will look, at how far the teacher holds the negatives from their positives."""
    if subject.audit is not None:
        if subject.audit.margins is None:
            if subject.run is not None and subject.recipe.teacher is None and _mines_with_teacher(subject.run.state):
                return  # a regime without a teacher, as the first steps of a curriculum are
            yield Fault("negatives.parquet", f"none of the {subject.audit.negatives:,} negatives has a margin")
            return
    elif subject.recipe.teacher is None:
        yield Fault("teacher", "without a teacher no margin between positives and negatives is known")
        return
    limits = subject.recipe.audit
    if all(getattr(limits, name) is None for name in _MARGIN_GATES):
        yield Fault("audit", f"the gates on margins, {' and '.join(_MARGIN_GATES)}, are off")


def _mines_with_teacher(state: RunState) -> bool:
    """Whether another set of a run has margins."""
    return any(one.mean_margin is not None for one in state.rounds)


def stale_set(subject: Subject) -> Iterator[Fault | Unknown]:
    """FG020: the model was trained after the set was mined, so that the set shows what an earlier model got wrong."""
    mined, student = subject.mined, subject.student
    if mined is None:
        if subject.kind == "recipe":
            yield Unknown(_NEEDS_A_SET)
        return
    if student is None:
        yield Unknown("the recipe names no model that the set is to train")
        return
    folder = local_folder(student.model)
    record = None if isinstance(folder, str) else record_of(folder)
    if record is None:
        yield Unknown(f"{student.model}: does not say when it was trained, as the models of foolsgold's runs do")
        return
    trained, made = _when(record["created"]), _when(mined.manifest.get("created"))
    if trained is None or made is None:
        yield Unknown(f"when {student.model} was trained or the set was mined is not recorded as a date")
        return
    if mined.version in record["sets"]:
        yield Fault("manifest.json", f"{student.model} was trained on this very set already")
    elif trained > made:
        yield Fault(
            "manifest.json",
            f"mined on {made:%Y-%m-%d %H:%M}, before {student.model} was trained ({trained:%Y-%m-%d %H:%M})",
        )


def _when(said: Any) -> datetime | None:
    """A recorded date; one without a zone is in UTC, as all that foolsgold records are."""
    try:
        read = datetime.fromisoformat(said)
    except (TypeError, ValueError):
        return None
    return read if read.tzinfo else read.replace(tzinfo=UTC)


def failed_audit(subject: Subject) -> Iterator[Fault | Unknown]:
    """FG021: a gate on margins fails."""
    if subject.audit is None and subject.kind != "run":
        yield Unknown(_NEEDS_A_SET)
    for name in _MARGIN_GATES:
        gate = subject.gate(name)
        if gate is not None and gate.value is not None and gate.verdict == "fail":
            yield Fault("negatives.parquet", f"{gate.measure}: {gate.value:.3g} (limit {gate.limit:g})")
