"""What the writers of all formats share: options, json lines, and scores as trainers want them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from foolsgold.errors import MinedSetError
from foolsgold.exchange.rows import Passage, Row, rows_of
from foolsgold.files import written_whole
from foolsgold.mined.formats import Examples, Format, examples
from foolsgold.mined.mined_set import MinedSet
from foolsgold.records import BoolArray, Scale


@dataclass(frozen=True)
class Options:
    """How a set is written.

    scores: the teacher's, too; negatives: at most so many a row (exactly so many where all rows must be alike);
    shape: of sentence-transformers' rows; weights: of the negatives, too; prompt: an instruction put before the query
    by trainers that read one from the data.
    """

    scores: bool = False
    negatives: int | None = None
    shape: Format = "triplet"
    weights: bool = False
    prompt: str | None = None


@dataclass(frozen=True)
class Exported:
    """What was written: the file or folder, how many rows, and what was left out, one sentence each."""

    path: Path
    rows: int
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Writer:
    """How a mined set is exported for one trainer.

    write: writes it; suffix: of its file, "" for a folder; has: the options that it has; loaded_by: what reads it, for
    the card on the hub.
    """

    write: Callable[[MinedSet, Path, Options], Exported]
    suffix: str
    loaded_by: str
    has: tuple[str, ...] = ()


def json_lines(
    mined: MinedSet,
    out: Path,
    options: Options,
    record: Callable[[Row], Mapping[str, Any]],
    *,
    one_positive: bool = False,
    weighed: bool = False,
) -> Exported:
    """One line for each row that has a negative. weighed: whether the format can say what a negative weighs."""
    found = scaled_examples(mined)
    starts = np.ones(len(found.query), dtype=np.bool_) if one_positive else found.first
    notes = left_out((found.counts > 0)[starts], "no negative")
    found = found.keep(found.counts > 0)
    if not len(found.query):
        raise MinedSetError(f"{mined.path}: no query has a negative")
    if not weighed and (light := int((found.weight < 1.0).sum())):
        notes += (f"negatives with a weight below 1: {light:,}, written as any other; this format has no weights",)
    rows = rows_of(found, mined.collection, negatives=options.negatives, one_positive=one_positive)
    with written_whole(out) as path:
        write_lines(path, map(record, rows))
    return Exported(out, len(found.query) if one_positive else int(found.first.sum()), notes)


def write_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """One line of JSON for each record."""
    with path.open("w", encoding="utf-8") as file:
        for record in records:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


def scaled_examples(mined: MinedSet) -> Examples:
    """The set's rows, with scores as they are exported."""
    found, teacher = examples(mined, mined.collection), mined.manifest.teacher
    return found if teacher is None else found.on_scale(teacher.scale, scale(mined))


def scale(mined: MinedSet) -> Scale:
    """Logits, which distillation takes a softmax of; cosines cannot be made logits, and stay what they are."""
    return "cosine" if mined.manifest.teacher and mined.manifest.teacher.scale == "cosine" else "logit"


def scores_of(passages: list[Passage]) -> list[float]:
    """The teacher's scores of passages.

    Raises:
        MinedSetError: one has no score.
    """
    scores = [passage.score for passage in passages if passage.score is not None]
    if len(scores) < len(passages):
        lacking = next(passage.doc_id for passage in passages if passage.score is None)
        raise MinedSetError(f"the teacher has no score for document {lacking!r}; export without scores, or mine again")
    return scores


def left_out(kept: BoolArray, why: str) -> tuple[str, ...]:
    """A note on the rows that are not kept, if there are any."""
    lost = int(np.sum(~kept))
    return (f"rows with {why}: {lost:,} of {len(kept):,}, left out",) if lost else ()


def check_new(folder: Path) -> None:
    """Raise MinedSetError if a folder is there: what else is in it would be lost."""
    if folder.exists():
        raise MinedSetError(f"{folder}: is there already; name another folder, or remove it first")
