"""What a reader of the report should look at: a few candidates of each kind, found in one pass over the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from foolsgold.auditing.margins import in_unit
from foolsgold.auditing.subject import Subject
from foolsgold.collection import Texts
from foolsgold.errors import FoolsgoldError
from foolsgold.records import FloatArray, IntArray

_SUSPICIOUS = 10
_REJECTED = 8
_BORDERLINE = 3  # on each side of each threshold


@dataclass(frozen=True)
class Example:
    """One candidate beside its query and the positive that it is measured from.

    Texts are whole, and None where the collection cannot be opened; scores are on the teacher's declared scale; ranks
    are counted from 1.
    """

    query_id: str
    doc_id: str
    positive_id: str | None
    query: str | None
    document: str | None
    positive: str | None
    score: float | None
    positive_score: float | None
    ranks: dict[str, int]
    verdict: str
    reason: str
    source: str | None


@dataclass(frozen=True)
class Borderline:
    """The candidates that are nearest to one threshold: those kept, and those dropped."""

    rule: str
    limit: float
    below: tuple[Example, ...]
    above: tuple[Example, ...]


@dataclass(frozen=True)
class Evidence:
    """What is seen in the ledger.

    suspicious: selected negatives with the smallest margin (without a teacher, of the best rank), one a query;
    rejected: false negatives of which the teacher is surest, one a query;
    ranks: for each source, rank (int32, from 1) and teacher's score (float32, in the unit of the margins) of every
    candidate of that source that the teacher has scored.
    """

    suspicious: tuple[Example, ...]
    rejected: tuple[Example, ...]
    borderline: tuple[Borderline, ...]
    ranks: dict[str, tuple[IntArray, FloatArray]]


class _Leading:
    """The n rows with the smallest keys, at most one a query; of equal keys the row that came first."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._rows: pa.Table | None = None

    def offer(self, rows: pa.Table, keys: npt.NDArray[Any]) -> None:
        """More rows, with their keys."""
        rows = rows.append_column("key", pa.array(keys.astype(np.float64)))
        rows = rows if self._rows is None else pa.concat_tables([self._rows, rows])
        rows = rows.take(pa.array(np.argsort(rows["key"].to_numpy(), kind="stable")))
        kept: dict[str, int] = {}
        for place, query_id in enumerate(rows["query_id"].to_pylist()):
            kept.setdefault(query_id, place)
            if len(kept) == self._n:
                break
        self._rows = rows.take(pa.array(list(kept.values()), pa.int64()))

    def rows(self) -> list[dict[str, Any]]:
        """The rows, smallest key first."""
        return [] if self._rows is None else self._rows.to_pylist()


def look(mined: Subject) -> Evidence:
    """Read a set's ledger for what is worth seeing."""
    manifest = mined.manifest
    sources = list(manifest.sources)
    scale = manifest.teacher.scale if manifest.teacher else None
    suspicious, rejected = _Leading(_SUSPICIOUS), _Leading(_REJECTED)
    limits = mined.limits
    rules = list(limits.flips(np.empty(0))) if scale is not None else []
    sides = {name: (_Leading(_BORDERLINE), _Leading(_BORDERLINE)) for name in rules}
    judged = limits.zones_on == "judge_probability"
    seen: dict[str, list[tuple[IntArray, FloatArray]]] = {source: [] for source in sources}
    for batch in mined.ledger_batches(_columns(sources) + ["judge_probability"] * judged):
        rows = _plain(pa.Table.from_batches([batch]))
        if scale is None:
            selected = rows.filter(rows["selected"])
            suspicious.offer(selected, _best_rank(selected, sources))
            continue
        rows = rows.filter(pc.and_(pc.is_valid(rows["teacher_score"]), pc.not_equal(rows["verdict"], "excluded")))
        if not len(rows):
            continue
        positive = rows["positive_score"].to_numpy().astype(np.float64)
        unit = in_unit(rows["teacher_score"].to_numpy(), scale)
        margin = in_unit(rows["positive_score"].to_numpy().astype(np.float32), scale) - unit
        for leading, mask, keys in (
            (suspicious, rows["selected"].to_numpy(), margin),
            (rejected, np.asarray(pc.equal(rows["verdict"], "false_negative")), -unit),
        ):
            leading.offer(rows.filter(pa.array(mask)), keys[mask])
        for name, flip in limits.flips(positive).items():
            over = rows[limits.column_of(name)].to_numpy().astype(np.float64) - flip
            below, above = sides[name]
            below.offer(rows.filter(pa.array(over < 0)), -over[over < 0])
            above.offer(rows.filter(pa.array(over >= 0)), over[over >= 0])
        for source in sources:
            rank = rows[f"{source}_rank"]
            there = np.asarray(rank.is_valid())
            seen[source].append((pc.drop_null(rank).to_numpy() + 1, unit[there]))
    tell = _Teller(mined, [suspicious, rejected, *(side for both in sides.values() for side in both)])
    return Evidence(
        suspicious=tell(suspicious),
        rejected=tell(rejected),
        borderline=tuple(
            Borderline(name, getattr(limits, name), tell(below), tell(above)) for name, (below, above) in sides.items()
        ),
        ranks={
            source: (np.concatenate([rank for rank, _ in parts]), np.concatenate([score for _, score in parts]))
            for source, parts in seen.items()
            if parts
        },
    )


def _columns(sources: list[str]) -> list[str]:
    return [
        "query_id", "positive_id", "doc_id", *(f"{source}_rank" for source in sources),
        "teacher_score", "positive_score", "verdict", "reason", "source", "selected",
    ]  # fmt: skip


def _plain(rows: pa.Table) -> pa.Table:
    """Words as words: dictionaries differ from batch to batch."""
    for name in ("verdict", "reason", "source"):
        rows = rows.set_column(rows.column_names.index(name), name, rows[name].cast(pa.string()))
    return rows


def _best_rank(rows: pa.Table, sources: list[str]) -> npt.NDArray[Any]:
    ranks = pc.min_element_wise(*(rows[f"{source}_rank"] for source in sources))
    return np.asarray(ranks.to_numpy())


class _Teller:
    """From rows to examples with their texts, which are looked up once for all."""

    def __init__(self, mined: Subject, leading: Iterable[_Leading]) -> None:
        rows = [row for some in leading for row in some.rows()]
        self._sources = list(mined.manifest.sources)
        queries = {row["query_id"] for row in rows}
        self._positives: dict[str, list[tuple[str, float | None]]] = {}
        known = mined.positives.filter(pc.is_in(mined.positives["query_id"], pa.array(sorted(queries), pa.string())))
        for query_id, doc_id, score in zip(
            *(known[name].to_pylist() for name in ("query_id", "doc_id", "teacher_score")), strict=True
        ):
            self._positives.setdefault(query_id, []).append((doc_id, score))
        documents = {row["doc_id"] for row in rows} | {doc for some in self._positives.values() for doc, _ in some}
        self._query: Mapping[str, str] = {}
        self._document: Mapping[str, str] = {}
        try:
            collection = mined.collection
        except FoolsgoldError:  # the audit's notes say why
            return
        self._query, self._document = _texts(collection.queries, queries), _texts(collection.documents, documents)

    def __call__(self, leading: _Leading) -> tuple[Example, ...]:
        return tuple(self._example(row) for row in leading.rows())

    def _example(self, row: Mapping[str, Any]) -> Example:
        positive_id = row["positive_id"] or self._measured_from(row)
        return Example(
            query_id=row["query_id"],
            doc_id=row["doc_id"],
            positive_id=positive_id,
            query=self._query.get(row["query_id"]),
            document=self._document.get(row["doc_id"]),
            positive=None if positive_id is None else self._document.get(positive_id),
            score=row["teacher_score"],
            positive_score=row["positive_score"],
            ranks={source: row[f"{source}_rank"] + 1 for source in self._sources if row[f"{source}_rank"] is not None},
            verdict=row["verdict"].replace("_", " "),
            reason=row["reason"].replace("_", " "),
            source=row["source"],
        )

    def _measured_from(self, row: Mapping[str, Any]) -> str | None:
        """The positive with the score that the margin is measured from, or (of a mean) the one nearest to it."""
        positives = self._positives.get(row["query_id"], [])
        wanted = row["positive_score"]
        if wanted is None or any(score is None for _, score in positives):
            return positives[0][0] if positives else None
        return min(positives, key=lambda one: abs((one[1] or 0.0) - wanted), default=(None, None))[0]


def _texts(texts: Texts, ids: set[str]) -> dict[str, str]:
    rows = texts.find(sorted(ids))
    return dict(zip(rows, texts.take(list(rows.values())), strict=True))
