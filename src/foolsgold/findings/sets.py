"""Rules on mined sets and what is known around them: FG008, FG011, FG014, FG017, FG019 to FG021."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from foolsgold.collection import Collection
from foolsgold.collection.beir import qrels_files
from foolsgold.collection.leakage import shared_queries
from foolsgold.findings.finding import Fault, Said, Unknown
from foolsgold.findings.labels import ENOUGH, validation_of
from foolsgold.findings.models import local_folder
from foolsgold.findings.subject import Subject, record_of

_MARGIN_GATES = ("min_mean_margin", "max_inverted")
_HELD_OUT = ("dev", "validation", "valid", "val", "test")  # splits that are usually kept out of training
_NEEDS_A_SET = Unknown("only a mined set can tell; mine, and check the set")


def unvalidated(subject: Subject) -> Said:
    """FG008: no labelled pairs, or too few, show what the thresholds let through."""
    decide = subject.recipe.decide
    if subject.recipe.teacher is None:
        return
    found = validation_of(subject)
    if found is None and decide.calibration is not None:
        yield Fault("decide.calibration", f"{decide.calibration} rests on labels of other collections than this one")
    elif found is None:
        limits = f"{decide.negative_below} and {decide.positive_above}"
        yield Fault("decide.negative_below", f"no labelled pair says what {limits} let through here")
    elif not found.is_enough:
        at = "decide.calibration" if decide.calibration else "labels.jsonl"
        yield Fault(at, f"{found}; {ENOUGH} are enough to start")


def leakage(subject: Subject) -> Said:
    """FG011: queries that are evaluated on are trained on too; negatives that another split holds for answers."""
    if subject.kind == "model":
        raise Unknown("the sets that it was trained on are not beside it")
    leaked = subject.audit.leakage if subject.audit is not None else None
    if leaked is not None and leaked.share > 0:
        query, doc = leaked.examples[0]
        splits = " or ".join(leaked.splits)
        yield Fault(
            "negatives.parquet",
            f"{leaked.share:.2%} of the negatives are positives of their query in {splits}, such as {doc} of {query}",
        )
    if subject.kind == "set" and subject.run is not None:
        return  # the run's own recipe is looked at for all its sets
    collection = subject.collection
    for split in _held_out_splits(subject, collection):
        try:
            other = subject.other_split(split)
        except Unknown as why:
            yield why
            continue
        by_id, by_text = shared_queries(collection.queries, other.queries)
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
        there = qrels_files(Path(spec.beir).expanduser())
        splits += [split for split in _HELD_OUT if split in there]
    return [split for split in dict.fromkeys(splits) if split != collection.split]


def _has_own_ids(subject: Subject) -> bool:
    """Whether an id means the same query in every split; ids of pairs are row numbers, which start again per split."""
    return subject.recipe.collection is not None and subject.recipe.collection.beir is not None


def hubs(subject: Subject) -> Said:
    """FG014: the audit's gate on documents that are negatives of very many queries."""
    most = subject.audit.hubs.most if subject.audit is not None else ()
    first = f", first of all {most[0].doc_id} ({most[0].queries:,} queries)" if most else ""
    yield from _gate(subject, "max_hubs", "negatives.parquet", f"of the negatives are hubs{first}")


def low_positives(subject: Subject) -> Said:
    """FG017: the audit's gate on positives that the teacher would call negatives."""
    if subject.recipe.teacher is not None:
        said = "of the queries have a positive that the teacher would call a negative"
        yield from _gate(subject, "max_low_positives", "positives.parquet", said)


def _gate(subject: Subject, name: str, at: str, said: str) -> Said:
    """What a gate on a share says of a set; nothing for a run, whose sets are looked at one by one."""
    if subject.kind == "run":
        return
    if subject.audit is None:
        raise _NEEDS_A_SET
    gate = subject.gate(name)
    if gate is None:
        yield Unknown(f"audit.{name} is null, so that its gate is off")
    elif gate.value is None:
        yield Unknown("the audit has nothing to measure it on")
    elif gate.verdict in ("warn", "fail"):
        yield Fault(at, f"{gate.value:.1%} {said} (limit {gate.limit:.0%})")


def unaudited(subject: Subject) -> Said:
    """FG019: nobody has looked, or will look, at the margins between negatives and positives."""
    recipe, audit = subject.recipe, subject.audit
    if audit is not None and audit.margins is None:
        rounds = subject.run.state.rounds if subject.run is not None and recipe.teacher is None else ()
        if any(one.mean_margin is not None for one in rounds):
            return  # of a regime without a teacher, as the first one of a curriculum is, beside others with one
        yield Fault("negatives.parquet", f"none of the {audit.negatives:,} negatives has a margin")
    elif audit is None and recipe.teacher is None:
        yield Fault("teacher", "without a teacher no margin between positives and negatives is known")
    elif all(getattr(recipe.audit, name) is None for name in _MARGIN_GATES):
        yield Fault("audit", f"the gates on margins, {' and '.join(_MARGIN_GATES)}, are off")


def stale_set(subject: Subject) -> Said:
    """FG020: the model was trained after the set was mined, so that the set shows what an earlier model got wrong."""
    mined, student = subject.mined, subject.student
    if mined is None:
        if subject.kind == "recipe":
            yield _NEEDS_A_SET
        return
    if student is None:
        raise Unknown("the recipe names no model that the set is to train")
    try:
        record = record_of(local_folder(student.model))
    except Unknown:
        record = None
    if record is None:
        raise Unknown(f"{student.model}: does not say when it was trained, as the models of foolsgold's runs do")
    trained, made = _when(record["created"]), _when(mined.manifest.created)
    if trained is None or made is None:
        raise Unknown(f"when {student.model} was trained or the set was mined is not recorded as a date")
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


def failed_audit(subject: Subject) -> Said:
    """FG021: a gate on margins fails."""
    if subject.audit is None and subject.kind != "run":
        raise _NEEDS_A_SET
    for name in _MARGIN_GATES:
        gate = subject.gate(name)
        if gate is not None and gate.value is not None and gate.verdict == "fail":
            yield Fault("negatives.parquet", f"{gate.measure}: {gate.value:.3g} (limit {gate.limit:g})")
