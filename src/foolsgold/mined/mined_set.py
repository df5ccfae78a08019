"""A mined set and the questions it answers: how good it is, what happened to a candidate, what changed.

`mined/<version>/` holds manifest.json (recipe, fingerprints, counts, warnings), negatives.parquet (what training
reads), ledger.parquet (every candidate and what became of it), queries.parquet (counts and flags of each query),
positives.parquet (what the sources and the teacher say of each known positive), audit.json, and with `relabel` also
relabelled.tsv (all judgements, the new positives among them, as a qrels file of a BEIR folder). `report`, which the
command line calls after mining, adds report.html with its plots (margins.png, ranks.png).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from foolsgold import auditing
from foolsgold.auditing import Audit
from foolsgold.collection import Collection
from foolsgold.errors import MinedSetError
from foolsgold.mined.diff import Diff
from foolsgold.mined.explain import Explanation
from foolsgold.mined.folder import MinedFolder
from foolsgold.mined.formats import Format, to_dataset
from foolsgold.recipe.html import html_table

if TYPE_CHECKING:
    from datasets import Dataset


class MinedSet(MinedFolder):
    """A mined set on disk: `negatives`, `ledger()`, `queries`, `positives`, `manifest`, and the questions below."""

    def __init__(self, path: str | Path, collection: Collection | None = None, audit: Audit | None = None) -> None:
        """Open a set's folder, or the newest set in a folder of sets.

        Args:
            path: the folder.
            collection: what was mined, for a set that was mined from a collection in memory.
            audit: the measures, where they are known already.

        Raises:
            MinedSetError: there is none, or its manifest cannot be read.
        """
        super().__init__(path, collection)
        self._audit = audit

    def audit(self) -> Audit:
        """Its measures and gates."""
        if self._audit is None:
            self._audit = auditing.audit(self)
        return self._audit

    def report(self, path: str | Path | None = None) -> Path:
        """Write the report, report.html in the set's folder or the given file, and its plots as PNG beside it."""
        target = self.path / "report.html" if path is None else Path(path)
        auditing.write_report(self, self.audit(), target)
        return target

    def explain(self, query_id: str, doc_id: str) -> Explanation:
        """The whole story of one candidate.

        Raises:
            MinedSetError: no such query, or no source proposed that document for it.
        """
        return Explanation.of(self, str(query_id), str(doc_id))

    def diff(self, other: MinedSet | str | Path) -> Diff:
        """What changed from this set to the other (or to the one in that folder)."""
        return Diff.between(self, other if isinstance(other, MinedSet) else MinedSet(other))

    def to_dataset(
        self,
        format: Format = "triplet",
        *,
        scores: bool = False,
        weights: bool = False,
        n: int | None = None,
    ) -> Dataset:
        """As a `datasets.Dataset` of texts, in the formats that sentence-transformers' losses read.

        See `foolsgold.mined.formats.to_dataset`.
        """
        return to_dataset(self, format, scores=scores, weights=weights, n=n)

    def __repr__(self) -> str:
        counts = self.manifest.counts
        return f"MinedSet({self.version}: {counts.selected:,} negatives for {counts.queries:,} queries, {self.path})"

    def _repr_html_(self) -> str:
        manifest, counts = self.manifest, self.manifest.counts
        rows: list[tuple[str, Any]] = [
            ("collection", manifest.collection.name),
            ("mined", manifest.created),
            ("queries", counts.queries),
            ("candidates", counts.candidates),
            ("excluded", counts.excluded),
            ("false negative", counts.false_negative),
            ("selected", counts.selected),
            *((f"selected from {source}", number) for source, number in counts.selected_by.items()),
            ("queries at budget", counts.queries_at_budget),
            ("teacher", manifest.teacher.model if manifest.teacher else "none"),
            *((gate.name.replace("_", " "), f"{gate.verdict}, {_number(gate.value)}") for gate in self.audit().gates),
            ("folder", self.path),
        ]
        return html_table(f"mined set {self.version}", ("", ""), rows)


def _number(value: float | None) -> str:
    return "not known" if value is None else f"{value:,.4g}"


def audit(mined_set: MinedSet | str | Path, collection: Collection | None = None) -> Audit:
    """The measures and gates of a mined set.

    Args:
        mined_set: the set, its folder, or a folder of sets (its newest).
        collection: what was mined, for a set that was mined from a collection in memory.

    Raises:
        MinedSetError: no set is there, or it cannot be read; a file of negatives, which `audit_file` measures.
    """
    if not isinstance(mined_set, MinedSet) and Path(mined_set).is_file():
        raise MinedSetError(f"{mined_set}: a file, not a mined set; audit_file measures a file of negatives")
    return _opened(mined_set, collection).audit()


def explain(mined_set: MinedSet | str | Path, query_id: str, doc_id: str) -> Explanation:
    """The whole story of one candidate of a mined set: who found it, its scores, the verdict and why.

    Raises:
        MinedSetError: no set, no such query in it, or no source proposed that document for it.
    """
    return _opened(mined_set).explain(query_id, doc_id)


def diff(old: MinedSet | str | Path, new: MinedSet | str | Path) -> Diff:
    """Show what changed between two mined sets: negatives, zones, recipe and models.

    Raises:
        MinedSetError: one of them is not a mined set, or cannot be read.
    """
    return _opened(old).diff(_opened(new))


def _opened(mined_set: MinedSet | str | Path, collection: Collection | None = None) -> MinedSet:
    if isinstance(mined_set, MinedSet) and collection is None:
        return mined_set
    return MinedSet(mined_set.path if isinstance(mined_set, MinedSet) else mined_set, collection)
