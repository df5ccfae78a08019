"""A mined set: a versioned folder, how it is written, and the questions it answers.

`mined/<version>/` holds manifest.json (recipe, fingerprints, counts, warnings), negatives.parquet (what training
reads), ledger.parquet (every candidate and what became of it), queries.parquet (counts and flags a query),
positives.parquet (what the sources and the teacher say of each known positive), audit.json, and with `relabel` also
relabelled.tsv (all judgements, the new positives among them, as a qrels file of a BEIR folder). `report`, which the
command line calls after mining, adds report.html with its plots (margins.png, ranks.png).
"""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from foolsgold.auditing import Audit, audit, write_report
from foolsgold.collection import Collection, load_collection
from foolsgold.errors import CollectionError, MinedSetError
from foolsgold.mined.diff import Diff
from foolsgold.mined.explain import Explanation
from foolsgold.mined.formats import Format, to_dataset
from foolsgold.recipe import CollectionSpec
from foolsgold.recipe.html import html_table
from foolsgold.records import ledger_schema, negatives_schema, positives_schema, queries_schema
from foolsgold.rules.limits import Limits

if TYPE_CHECKING:
    from datasets import Dataset

_NEEDED = ("created", "collection", "seed", "sources", "teacher", "counts", "calls", "warnings", "notes", "recipe")
_STALE_SECONDS = 86_400
# Sections of the recipe that a set does not depend on: the digest stands for the collection, the others are training's.
_NOT_MINED_BY = ("collection", "student", "schedule", "remine", "evaluation")


class SetWriter:
    """Writes a mined set block by block into a hidden folder, and gives it its name only when it is whole."""

    def __init__(self, out: Path, sources: list[str]) -> None:
        self.out = out
        self._schemas = _schemas(sources)

    def __enter__(self) -> Self:
        try:
            self.out.mkdir(parents=True, exist_ok=True)
            for left in self.out.glob(".partial-*"):  # of runs that were killed
                if time.time() - left.stat().st_mtime > _STALE_SECONDS:
                    shutil.rmtree(left, ignore_errors=True)
            self._folder = self.out / f".partial-{uuid.uuid4().hex}"
            self._folder.mkdir()
        except OSError as error:
            raise MinedSetError(f"{self.out}: cannot write a mined set here ({error}); name another folder") from None
        self._writers = {
            name: pq.ParquetWriter(
                self._folder / f"{name}.parquet", schema, compression="zstd", write_page_checksum=True
            )
            for name, schema in self._schemas.items()
        }
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for writer in self._writers.values():
            writer.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def add(self, **tables: pa.Table) -> None:
        """Append the tables of one block of queries: negatives, ledger, queries and positives."""
        check_conservation(tables["queries"])
        for name, table in tables.items():
            self._writers[name].write_table(table.cast(self._schemas[name]))

    def finish(self, manifest: Mapping[str, Any], collection: Collection) -> Path:
        """Give the set its version and its place.

        A set with the same content that is there already is renewed file by file: its tables are the same bytes, unless
        they were damaged, and what the manifest says of the run and of where the collection is may differ.
        """
        for writer in self._writers.values():
            writer.close()
        version = self._version(manifest)
        folder = self.out / version
        parent = newest(self.out, other_than=version)
        facts = {"version": version, "parent": parent.name if parent else None, **manifest}
        text = json.dumps(facts, indent=2, ensure_ascii=False, default=str)
        (self._folder / "manifest.json").write_text(text + "\n", encoding="utf-8")
        mined = MinedSet(self._folder, collection)
        (self._folder / "audit.json").write_text(json.dumps(mined.audit().to_json(), indent=2) + "\n", encoding="utf-8")
        if manifest["recipe"]["relabel"]:
            write_qrels(mined.collection, self._folder / "relabelled.tsv")
        try:
            if folder.is_dir():
                for path in sorted(self._folder.iterdir(), key=lambda path: path.name == "manifest.json"):
                    os.replace(path, folder / path.name)
            else:
                os.replace(self._folder, folder)
        except OSError as error:
            raise MinedSetError(f"{folder}: cannot put the mined set here ({error}); name another --out") from None
        return folder

    def _version(self, manifest: Mapping[str, Any]) -> str:
        """A hash of what was mined and of all it depends on, not of when, where or how fast."""
        recipe = {section: value for section, value in manifest["recipe"].items() if section not in _NOT_MINED_BY}
        depends = [recipe, manifest["collection"]["digest"], manifest["sources"], manifest["teacher"]]
        digest = sha256(json.dumps(_without_places(depends), sort_keys=True, default=str).encode())
        digest.update((self._folder / "negatives.parquet").read_bytes())
        return digest.hexdigest()[:12]


def _schemas(sources: list[str]) -> dict[str, pa.Schema]:
    """Of the tables of a set, by name."""
    return {
        "negatives": negatives_schema(sources),
        "ledger": ledger_schema(sources),
        "queries": queries_schema(),
        "positives": positives_schema(sources),
    }


def _without_places(facts: Any) -> Any:
    """The same without where it ran, and without absolute paths: fingerprints beside them say what was there."""
    if isinstance(facts, Mapping):
        return {
            name: _without_places(value)
            for name, value in facts.items()
            if name != "ray_workers"
            and not (name in ("model", "name", "path") and isinstance(value, str) and Path(value).is_absolute())
        }
    return [_without_places(value) for value in facts] if isinstance(facts, list) else facts


def check_conservation(queries: pa.Table) -> None:
    """Design rule 1, on the counts of each query: every candidate is somewhere, and only once.

    Raises:
        AssertionError: a bug in foolsgold, never the user's doing.
    """
    counts = {
        name: queries[name].to_numpy() for name in queries.column_names if pa.types.is_integer(queries[name].type)
    }
    zones = ("excluded", "negative", "ambiguous", "false_negative", "unscored")
    if (counts["candidates"] != sum(counts[zone] for zone in zones)).any():
        raise AssertionError("candidates are not excluded + negative + ambiguous + false_negative + unscored")
    if (counts["eligible"] != counts["selected"] + counts["over_budget"]).any():
        raise AssertionError("eligible candidates are not selected + over_budget")


class MinedSet:
    """A mined set on disk. Small parts are read when asked for."""

    def __init__(self, path: str | Path, collection: Collection | None = None) -> None:
        """Open a set's folder, or the newest set in a folder of sets.

        Raises:
            MinedSetError: there is none, or its manifest cannot be read.
        """
        self.path = _set_folder(Path(path))
        try:
            self.manifest: dict[str, Any] = json.loads((self.path / "manifest.json").read_text(encoding="utf-8"))
            self.version: str = self.manifest["version"]
            for name in _NEEDED:
                self.manifest[name]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise MinedSetError(f"{self.path}: manifest.json cannot be read ({error}); mine the set again") from None
        self._collection = collection

    def __repr__(self) -> str:
        counts = self.manifest["counts"]
        return (
            f"MinedSet({self.version}: {counts['selected']:,} negatives for {counts['queries']:,} queries, {self.path})"
        )

    def _repr_html_(self) -> str:
        manifest, counts = self.manifest, self.manifest["counts"]
        rows: list[tuple[str, Any]] = [
            ("collection", manifest["collection"]["name"]),
            ("mined", manifest["created"]),
            *((name, counts[name]) for name in ("queries", "candidates", "excluded", "false_negative", "selected")),
            *((f"selected from {source}", number) for source, number in counts["selected_by"].items()),
            ("queries at budget", counts["queries_at_budget"]),
            ("teacher", (manifest["teacher"] or {}).get("model", "none")),
            *((gate.name, f"{gate.verdict}, {_number(gate.value)}") for gate in self.audit().gates),
            ("folder", self.path),
        ]
        return html_table(
            f"mined set {self.version}", ("", ""), ((name.replace("_", " "), said) for name, said in rows)
        )

    @cached_property
    def limits(self) -> Limits:
        """The thresholds that the candidates were decided by; sets of older versions do not have them written down."""
        if (written := self.manifest.get("limits")) is not None:
            return Limits(**written)
        teacher = self.manifest["teacher"]
        scores = pc.drop_null(self.positives["teacher_score"]).to_numpy()
        return Limits.of(
            self.manifest["recipe"]["decide"],
            scores,
            has_teacher=teacher is not None,
            calibrated=((teacher or {}).get("judge") or {}).get("threshold"),
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
            raise MinedSetError(f"{self.path}: ledger.parquet cannot be read ({error}); mine the set again") from None

    def _table(self, name: str, filters: list[tuple[str, str, str]] | None = None) -> pa.Table:
        sources = list(self.manifest["sources"])
        schema = _schemas(sources)[name]
        try:
            found = pq.read_table(self.path / f"{name}.parquet", filters=filters, page_checksum_verification=True)
        except (OSError, pa.ArrowException) as error:
            raise MinedSetError(f"{self.path}: {name}.parquet cannot be read ({error}); mine the set again") from None
        for field in schema:
            if field.name not in found.column_names or found.schema.field(field.name).type != field.type:
                raise MinedSetError(
                    f"{self.path}: {name}.parquet has no column {field.name} of {field.type}; mine the set again"
                )
        return found

    @cached_property
    def collection(self) -> Collection:
        """What was mined, with the new positives if the recipe said `relabel`.

        Raises:
            MinedSetError: it was made in memory and not given, or has changed since.
        """
        found = self._collection
        if found is None:
            spec = self.manifest["recipe"].get("collection")
            if spec is None:
                raise MinedSetError(
                    f"{self.path}: this set was mined from a collection in memory; "
                    "open it with MinedSet(path, collection=...)"
                )
            try:
                found = load_collection(CollectionSpec.model_validate(spec))
            except CollectionError as error:
                raise MinedSetError(
                    f"{error}; {self.path} was mined from it and opens with MinedSet(path, collection=...) too"
                ) from None
        if found.digest != self.manifest["collection"]["digest"]:
            raise MinedSetError(
                f"{self.path}: the collection {found.name} is not the one that was mined (its texts or judgements "
                "changed); mine again"
            )
        self._collection = found
        if not self.manifest["recipe"]["relabel"]:
            return found
        extra = self.relabelled
        return found.with_extra_positives(
            found.queries.rows_of(extra["query_id"], "query"), found.documents.rows_of(extra["doc_id"])
        )

    @cached_property
    def relabelled(self) -> pa.Table:
        """(query_id, doc_id, teacher_score) of the candidates that the teacher holds for positives, each pair once."""
        ledger = self.ledger()
        confident = ledger.filter(pc.equal(ledger["reason"].cast(pa.string()), "above_positive_threshold"))
        return (
            confident.select(["query_id", "doc_id", "teacher_score"])
            .group_by(["query_id", "doc_id"], use_threads=False)
            .aggregate([("teacher_score", "max")])
            .rename_columns(["query_id", "doc_id", "teacher_score"])
        )

    def explain(self, query_id: str, doc_id: str) -> Explanation:
        """The whole story of one candidate.

        Raises:
            MinedSetError: no such query, or no source proposed that document for it.
        """
        query_id, doc_id = str(query_id), str(doc_id)
        return Explanation.from_rows(self.ledger(query_id), query_id, doc_id, self.manifest, self.limits)

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

    def audit(self) -> Audit:
        """Its measures and gates."""
        return self._audit

    def report(self, path: str | Path | None = None) -> Path:
        """Write the report, report.html in the set's folder or the given file, and its plots as PNG beside it."""
        target = self.path / "report.html" if path is None else Path(path)
        write_report(self, target)
        return target

    @cached_property
    def _audit(self) -> Audit:
        return audit(self)

    def diff(self, other: MinedSet | str | Path) -> Diff:
        """What changed from this set to the other (or to the one in that folder)."""
        return Diff.between(self, other if isinstance(other, MinedSet) else MinedSet(other))


def _number(value: float | None) -> str:
    return "not known" if value is None else f"{value:,.4g}"


def write_qrels(collection: Collection, path: Path) -> None:
    """All judgements of a collection as qrels/SPLIT.tsv of a BEIR folder."""
    queries = collection.queries.take_ids(collection.judged_query)
    documents = collection.documents.take_ids(collection.judged_doc)
    with path.open("w", encoding="utf-8") as file:
        file.write("query-id\tcorpus-id\tscore\n")
        for query, document, grade in zip(queries, documents, collection.grade.tolist(), strict=True):
            file.write(f"{query}\t{document}\t{grade}\n")


def newest(out: Path, other_than: str = "") -> Path | None:
    """The folder of the set in `out` that was written last, but for that of one version."""
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
