"""Writing a mined set: tables block by block into a hidden folder, which gets its name when it is whole."""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from foolsgold.auditing import Audit
from foolsgold.collection import Collection
from foolsgold.errors import MinedSetError
from foolsgold.mined.folder import MinedFolder, newest, schemas
from foolsgold.recipe.manifest import Manifest

_STALE_SECONDS = 86_400
# Sections of the recipe that a set does not depend on: the digest stands for the collection, the others are training's.
_NOT_MINED_BY = ("collection", "student", "schedule", "remine", "evaluation")


class SetWriter:
    """`add` tables, `write` the manifest, `publish` the set with its audit; without the last nothing is left."""

    def __init__(self, out: Path, sources: list[str]) -> None:
        self.out = out
        self._schemas = schemas(sources)

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

    def write(self, manifest: Manifest, collection: Collection) -> MinedFolder:
        """Write the manifest, with the version and parent that the set gets, and open what will be published."""
        for writer in self._writers.values():
            writer.close()
        version = self._version(manifest)
        parent = newest(self.out, other_than=version)
        whole = manifest.model_copy(update={"version": version, "parent": parent.name if parent else None})
        self._write_json("manifest.json", whole.plain(), ensure_ascii=False, default=str)
        written = MinedFolder(self._folder, collection)
        if manifest.recipe.relabel:
            write_qrels(written.collection, self._folder / "relabelled.tsv")
        return written

    def publish(self, written: MinedFolder, audit: Audit) -> Path:
        """Add the audit, and give the set its place.

        A set with the same content that is there already is renewed file by file: its tables are the same bytes, unless
        they were damaged, and what the manifest says of the run and of where the collection is may differ.
        """
        self._write_json("audit.json", audit.to_json())
        folder = self.out / written.version
        try:
            if folder.is_dir():
                for path in sorted(self._folder.iterdir(), key=lambda path: path.name == "manifest.json"):
                    os.replace(path, folder / path.name)
            else:
                os.replace(self._folder, folder)
        except OSError as error:
            raise MinedSetError(f"{folder}: cannot put the mined set here ({error}); name another --out") from None
        return folder

    def _write_json(self, name: str, facts: Mapping[str, Any], **options: Any) -> None:
        (self._folder / name).write_text(json.dumps(facts, indent=2, **options) + "\n", encoding="utf-8")

    def _version(self, manifest: Manifest) -> str:
        """A hash of what was mined and of all it depends on, not of when, where or how fast."""
        facts = manifest.plain()
        recipe = {section: value for section, value in facts["recipe"].items() if section not in _NOT_MINED_BY}
        depends = [recipe, manifest.collection.digest, facts["sources"], facts["teacher"]]
        digest = sha256(json.dumps(_without_places(depends), sort_keys=True, default=str).encode())
        digest.update((self._folder / "negatives.parquet").read_bytes())
        return digest.hexdigest()[:12]


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


def write_qrels(collection: Collection, path: Path) -> None:
    """All judgements of a collection as qrels/SPLIT.tsv of a BEIR folder."""
    queries = collection.queries.take_ids(collection.judged_query)
    documents = collection.documents.take_ids(collection.judged_doc)
    with path.open("w", encoding="utf-8") as file:
        file.write("query-id\tcorpus-id\tscore\n")
        for query, document, grade in zip(queries, documents, collection.grade.tolist(), strict=True):
            file.write(f"{query}\t{document}\t{grade}\n")
