"""The folder of one mined set, opened: its manifest, its tables, and the collection that was mined."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from foolsgold.collection import Collection, load_collection
from foolsgold.errors import CollectionError, MinedSetError
from foolsgold.recipe.manifest import Manifest
from foolsgold.records import ledger_schema, negatives_schema, positives_schema, queries_schema
from foolsgold.rules.limits import Limits


class MinedFolder:
    """A versioned folder of a mined set. Small tables are read when asked for."""

    def __init__(self, path: str | Path, collection: Collection | None = None) -> None:
        """Open a set's folder, or the newest set in a folder of sets.

        Raises:
            MinedSetError: there is none, or its manifest cannot be read.
        """
        self.path = _set_folder(Path(path))
        self.manifest = Manifest.read(self.path)
        self._collection = collection

    @property
    def version(self) -> str:
        """A hash of what was mined and of all it depends on."""
        return self.manifest.version

    @cached_property
    def limits(self) -> Limits:
        """The thresholds that the candidates were decided by; worked out again for sets of older versions."""
        if (written := self.manifest.limits) is not None:
            return Limits(**written)
        teacher = self.manifest.teacher
        return Limits.of(
            self.manifest.recipe.decide.model_dump(),
            pc.drop_null(self.positives["teacher_score"]).to_numpy(),
            has_teacher=teacher is not None,
            calibrated=teacher.judge.threshold if teacher and teacher.judge else None,
        )

    @cached_property
    def negatives(self) -> pa.Table:
        """The selected negatives, `records.negatives_schema`."""
        return self._table("negatives")

    @cached_property
    def queries(self) -> pa.Table:
        """Counts and flags of each query, `records.queries_schema`."""
        return self._table("queries")

    @cached_property
    def positives(self) -> pa.Table:
        """Scores of each known positive, `records.positives_schema`."""
        return self._table("positives")

    def ledger(self, query_id: str | None = None) -> pa.Table:
        """Every candidate (of one query, if named), `records.ledger_schema`."""
        return self._table("ledger", [("query_id", "=", query_id)] if query_id is not None else None)

    def ledger_batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Some columns of the ledger, a piece at a time: it may be larger than memory."""
        try:
            file = pq.ParquetFile(self.path / "ledger.parquet", page_checksum_verification=True)
            yield from file.iter_batches(columns=columns)
        except (OSError, pa.ArrowException) as error:
            raise self._unreadable("ledger", error) from None

    def _table(self, name: str, filters: list[tuple[str, str, str]] | None = None) -> pa.Table:
        try:
            found = pq.read_table(self.path / f"{name}.parquet", filters=filters, page_checksum_verification=True)
        except (OSError, pa.ArrowException) as error:
            raise self._unreadable(name, error) from None
        for field in schemas(list(self.manifest.sources))[name]:
            if field.name not in found.column_names or found.schema.field(field.name).type != field.type:
                raise MinedSetError(
                    f"{self.path}: {name}.parquet has no column {field.name} of {field.type}; mine the set again"
                )
        return found

    def _unreadable(self, table: str, error: Exception) -> MinedSetError:
        return MinedSetError(f"{self.path}: {table}.parquet cannot be read ({error}); mine the set again")

    @cached_property
    def collection(self) -> Collection:
        """What was mined, with the new positives if the recipe said `relabel`.

        Raises:
            MinedSetError: it was made in memory and not given, or has changed since.
        """
        found, spec = self._collection, self.manifest.recipe.collection
        if found is None and spec is None:
            raise MinedSetError(
                f"{self.path}: this set was mined from a collection in memory; "
                "open it with MinedSet(path, collection=...)"
            )
        if found is None:
            try:
                found = load_collection(spec)
            except CollectionError as error:
                raise MinedSetError(
                    f"{error}; {self.path} was mined from it and opens with MinedSet(path, collection=...) too"
                ) from None
        if found.digest != self.manifest.collection.digest:
            raise MinedSetError(
                f"{self.path}: the collection {found.name} is not the one that was mined (its texts or judgements "
                "changed); mine again"
            )
        self._collection = found
        if not self.manifest.recipe.relabel:
            return found
        extra = self.relabelled
        return found.with_extra_positives(
            found.queries.rows_of(extra["query_id"], "query"), found.documents.rows_of(extra["doc_id"])
        )

    @cached_property
    def relabelled(self) -> pa.Table:
        """(query_id, doc_id, teacher_score) of the candidates that count as new positives, each pair once."""
        ledger = self.ledger()
        confident = ledger.filter(pc.equal(ledger["reason"].cast(pa.string()), "above_positive_threshold"))
        return (
            confident.select(["query_id", "doc_id", "teacher_score"])
            .group_by(["query_id", "doc_id"], use_threads=False)
            .aggregate([("teacher_score", "max")])
            .rename_columns(["query_id", "doc_id", "teacher_score"])
        )


def schemas(sources: list[str]) -> dict[str, pa.Schema]:
    """Of the tables of a set, by name."""
    return {
        "negatives": negatives_schema(sources),
        "ledger": ledger_schema(sources),
        "queries": queries_schema(),
        "positives": positives_schema(sources),
    }


def newest(out: Path, other_than: str = "") -> Path | None:
    """The folder of the set in `out` that was written last, except that of one version."""
    sets = [path.parent for path in out.glob("*/manifest.json")]
    sets = [folder for folder in sets if not folder.name.startswith(".") and folder.name != other_than]
    return max(sets, key=lambda folder: (folder / "manifest.json").stat().st_mtime_ns, default=None)


def _set_folder(path: Path) -> Path:
    if (path / "manifest.json").exists():
        return path
    found = newest(path) if path.is_dir() else None
    if found is None:
        raise MinedSetError(f"{path}: no mined set here; `foolsgold mine --out {path}` makes one")
    return found
