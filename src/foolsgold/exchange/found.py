"""audit_file: how bad a file of mined negatives is, in one call and without a recipe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

from foolsgold.auditing import Audit, audit, write_report
from foolsgold.auditing.metrics import Verdict
from foolsgold.collection import Collection
from foolsgold.exchange.held_out import HeldOut, overlap_with
from foolsgold.exchange.importing import SOURCE, mine_listed, read_file
from foolsgold.exchange.listed import Listed
from foolsgold.files import cache_folder
from foolsgold.mined.folder import MinedFolder
from foolsgold.mined.mined_set import MinedSet
from foolsgold.progress import SILENT, Progress
from foolsgold.recipe import Recipe
from foolsgold.records import Scale, negatives_schema, queries_schema

# Why a listed document is not a negative, worst first: what `exclude` says of it, and what that does to a model.
_EXCLUDED = {
    "known_positive": "positives of their query in the file itself: the model is taught both",
    "duplicate_of_positive": "the text of a positive, except for case and white space",
    "near_duplicate_of_positive": "nearly the text of a positive",
    "query_itself": "the query's own text",
    "empty_text": "without a text",
    "duplicate_of_candidate": "the text of another negative of their query",
}
_WRONG = ("known_positive", "duplicate_of_positive", "near_duplicate_of_positive")


@dataclass(frozen=True)
class ListedKind:
    """One kind of listed negative: how many, which share of all, and what that means.

    verdict: `fail` harms training for certain, `warn` wastes the budget or is in doubt, `pass` is as it should be.
    """

    name: str
    count: int
    share: float
    verdict: Verdict
    meaning: str


@dataclass(frozen=True)
class FileAudit:
    """What is wrong with a file of mined negatives.

    detected: whose format it has, and which column is what; per_query: the smallest, the most frequent and the largest
    number of negatives of a query; repeated: negatives that are listed again for the same query and positives;
    findings: every listed negative once, by what it is; measures: of all that is listed, with gates, as any set's;
    held_out: what it shares with the collection to be evaluated on, None if there is none.
    """

    path: str
    detected: str
    rows: int
    queries: int
    positives: int
    negatives: int
    per_query: tuple[int, int, int]
    repeated: int
    findings: tuple[ListedKind, ...]
    held_out: HeldOut | None
    measures: Audit
    notes: tuple[str, ...]

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of the findings and gates that failed."""
        return self._named("fail") + self.measures.failed

    @property
    def warned(self) -> tuple[str, ...]:
        """The names of the findings and gates that warn."""
        return self._named("warn") + self.measures.warned

    def to_json(self) -> dict[str, Any]:
        """The audit as values that JSON can hold."""
        return asdict(self) | {"measures": self.measures.to_json(), "passed": not self.failed}

    def audit(self) -> Audit:
        """The measures, under the name that a mined set has for them."""
        return self.measures

    def _named(self, verdict: str) -> tuple[str, ...]:
        leaked = self.held_out is not None and self.held_out.verdict == verdict
        return tuple(f.name for f in self.findings if f.verdict == verdict) + (("held_out",) if leaked else ())


def audit_file(
    file: Any,
    *,
    teacher: Any = None,
    scores: Scale | None = None,
    anchor: str | None = None,
    positive: str | None = None,
    split: str | None = None,
    held_out: Collection | None = None,
    report: str | Path | None = None,
    progress: Progress = SILENT,
    cache: str | Path | None = None,
    recipe: Recipe | Mapping[str, Any] | str | Path | None = None,
    **sections: Any,
) -> FileAudit:
    """Measure a file of negatives that somebody else mined, as it is.

    Without a teacher: what the texts alone say. With one: also false negatives, margins, and what is inverted. Its
    scores are kept in the store, so that `import_set` with the same teacher costs no inference.

    Args:
        held_out: the collection that a model trained on the file is to be evaluated on.
        report: write the report to this file, its plots beside it.
        The others are those of `import_set`.

    Raises:
        FoolsgoldError: bad input, one sentence.
    """
    name, listed = read_file(file, anchor=anchor, positive=positive, split=split, progress=progress)
    store = cache_folder(cache)
    with TemporaryDirectory(prefix="foolsgold-") as folder:
        mined = mine_listed(
            listed, name, collections=store / "imports", out=Path(folder), teacher=teacher, scores=scores,
            progress=progress, cache=cache, recipe=recipe, sections=sections,
        )  # fmt: skip
        given = _AsGiven(mined, listed.asked)
        measures = audit(given)
        if report is not None:
            write_report(given, measures, Path(report))
        return FileAudit(
            path=str(file) if isinstance(file, str | Path) else name,
            detected=listed.format.sentence,
            rows=listed.rows,
            queries=len(listed.queries),
            positives=len(listed.positives),
            negatives=len(listed.negatives),
            per_query=(int(listed.per_query.min()), listed.asked, int(listed.per_query.max())),
            repeated=listed.repeated,
            findings=tuple(_findings(mined, listed)),
            held_out=None if held_out is None else overlap_with(listed, held_out),
            measures=measures,
            notes=listed.notes,
        )


class _AsGiven:
    """An imported set as its file has it: as if all its candidates had been selected."""

    def __init__(self, mined: MinedFolder, asked: int) -> None:
        """asked: how many negatives per query the file was probably meant to have (`Listed.asked`)."""
        self.path, self.manifest, self.version = mined.path, mined.manifest, mined.version
        self.limits, self.positives, self.collection = mined.limits, mined.positives, mined.collection
        self.ledger_batches = mined.ledger_batches
        self._mined, self._asked = mined, asked

    @cached_property
    def negatives(self) -> pa.Table:
        """Every candidate, `records.negatives_schema`."""
        ledger, schema = self._mined.ledger(), negatives_schema([SOURCE])
        columns = {name: ledger[name] for name in schema.names if name not in ("source", "weight")}
        columns["source"] = pa.array([SOURCE] * len(ledger), pa.string())
        columns["weight"] = pa.array(np.ones(len(ledger), dtype=np.float32))
        return pa.table({name: columns[name] for name in schema.names}).cast(schema)

    @cached_property
    def queries(self) -> pa.Table:
        """Counts of each query with all its candidates selected, `records.queries_schema`."""
        table = self._mined.queries
        listed = table["candidates"].to_numpy()
        columns = {name: table[name] for name in table.column_names}
        columns["selected"] = pa.array(listed)
        columns["shortfall"] = pa.array(np.maximum(self._asked - listed, 0).astype(np.int32))
        return pa.table(columns).cast(queries_schema())


def _findings(mined: MinedSet, listed: Listed) -> Iterator[ListedKind]:
    counts = mined.manifest.counts
    total = len(listed.negatives)

    def finding(name: str, count: int, verdict: Verdict, meaning: str) -> ListedKind:
        return ListedKind(name, count, count / total, verdict if count else "pass", meaning)

    for reason, meaning in _EXCLUDED.items():
        yield finding(
            reason, counts.reasons.get("excluded", {}).get(reason, 0), "fail" if reason in _WRONG else "warn", meaning
        )
    if mined.manifest.teacher is not None:
        recipe, count = mined.manifest.recipe, counts.false_negative
        worst = recipe.audit.max_inverted
        bad: Verdict = "fail" if worst is not None and count > worst * total else "warn"
        yield finding("false_negative", count, bad, f"the teacher takes them for positives ({_above(recipe)})")
        yield finding("ambiguous", counts.ambiguous, "warn", "the teacher is in doubt")
    yield ListedKind("usable", counts.negative, counts.negative / total, "pass", "what `foolsgold import` would keep")


def _above(recipe: Recipe) -> str:
    high = recipe.decide.positive_above
    return "by the recipe's margins" if high is None else f"above decide.positive_above, {high:g}"
