"""Runs of other engines: what Elasticsearch, PLAID or anything else retrieved, as a TREC run file or parquet."""

from __future__ import annotations

import hashlib
import math
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from foolsgold.collection.collection import Collection
from foolsgold.collection.lines import Problems, numbered_lines
from foolsgold.collection.texts import Texts
from foolsgold.errors import SourceError
from foolsgold.files import written_whole
from foolsgold.progress import SILENT, Progress
from foolsgold.records import FloatArray, Hits, IntArray, LongArray

_COLUMNS = ("query_id", "doc_id", "score")
_LARGEST = float(np.finfo(np.float32).max)


class RunSource:
    """Proposes what a run file lists, by its scores; ranks in the file are not read, as trec_eval does not read them.

    path: TREC lines `query-id Q0 doc-id rank score tag`, or parquet with query_id, doc_id and score.
    notes: what was passed over, one sentence each: ids that the collection does not have, pairs listed twice.

    Raises:
        SourceError: no such file, broken lines, a score that is not finite, no line with ids of the collection.
    """

    def __init__(self, name: str, path: str | Path, collection: Collection) -> None:
        self.name = name
        self.path = Path(path)
        if not self.path.is_file():
            raise SourceError(f"{self.path}: no such run file")
        run = _read_parquet(self.path) if self.path.suffix.lower() == ".parquet" else _read_trec(self.path)
        if not len(run.score):
            raise SourceError(
                f"{self.path}: empty; a run lists query-id Q0 doc-id rank score tag, one document per line"
            )
        query, unknown_queries = _rows_of(run.query_ids, run.query, collection.queries)
        doc, unknown_docs = _rows_of(run.doc_ids, run.doc, collection.documents)
        known = (query >= 0) & (doc >= 0)
        if not known.any():
            raise SourceError(
                f"{self.path}: no line has a query and a document of {collection.name}, split {collection.split} (the "
                f"first: query {run.query_ids[0]!r}, document {run.doc_ids[0]!r}); is it the run of another collection?"
            )
        notes = [
            f"{self.path.name}: {what} that the collection does not have: {len(ids):,}, skipped (as {ids[0]!r})"
            for what, ids in (("queries", unknown_queries), ("documents", unknown_docs))
            if ids
        ]
        self._hits, n_doubled = _sorted(query[known], doc[known], run.score[known], len(collection.queries))
        if n_doubled:
            notes.append(
                f"{self.path.name}: documents listed more than once for a query: {n_doubled:,}, the best score counts"
            )
        self.notes = tuple(notes)

    def retrieve(self, queries: IntArray, depth: int, progress: Progress = SILENT) -> Hits:
        """The first `depth` documents of each query in the run; none for a query that it does not have."""
        del progress
        starts = self._hits.offsets[queries]
        counts = np.minimum(self._hits.offsets[queries + 1] - starts, depth)
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        chosen = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], counts)
        return Hits(offsets, self._hits.rows[chosen], self._hits.scores[chosen])

    def score(self, queries: IntArray, docs: IntArray) -> FloatArray | None:
        """None: a run knows only the pairs that it lists."""
        del queries, docs
        return None

    def describe(self) -> dict[str, Any]:
        """Its kind, path, and the SHA-256 of the file."""
        with self.path.open("rb") as file:
            return {"kind": "run", "path": str(self.path), "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def write_run(
    path: str | Path, lists: Iterable[tuple[str, Iterable[tuple[str, float]]]], tag: str = "foolsgold"
) -> int:
    """Write what an engine found as a TREC run, `query-id Q0 doc-id rank score tag`; returns the number of lines.

    Args:
        path: the file; it is there whole or not at all.
        lists: (query id, [(document id, score), ...]) for each query; a higher score is better, in any order.

    Raises:
        SourceError: an id that is empty or has white space, which parts the columns; a score that is not finite; a file
            that cannot be written.
    """
    target = Path(path)
    lines = 0
    with written_whole(target, SourceError) as partial, partial.open("w", encoding="utf-8") as file:
        for query_id, found in lists:
            for rank, (doc_id, score) in enumerate(sorted(found, key=lambda hit: -hit[1]), 1):
                for own_id in (query_id, doc_id):
                    if len(own_id.split()) != 1:
                        raise SourceError(f"{target}: the id {own_id!r} cannot be in a run: it has white space")
                if not math.isfinite(score):
                    raise SourceError(f"{target}: query {query_id!r}, document {doc_id!r}: the score is {score}")
                file.write(f"{query_id} Q0 {doc_id} {rank} {float(score)!r} {tag}\n")
                lines += 1
    return lines


class _Run(NamedTuple):
    """A run as columns: query and doc (int64) are indices into the ids, score is float32."""

    query_ids: list[str]
    doc_ids: list[str]
    query: LongArray
    doc: LongArray
    score: FloatArray


def _read_trec(path: Path) -> _Run:
    problems = Problems(path, error=SourceError)
    run = _collect(_trec_lines(path, problems), problems)
    problems.check()
    return run


def _trec_lines(path: Path, problems: Problems) -> Iterator[tuple[int, str, str, str]]:
    for number, line in numbered_lines(path, error=SourceError):
        fields = line.split()
        if len(fields) == 6:
            yield number, fields[0], fields[2], fields[4]
        elif fields:
            problems.add(number, f"{len(fields)} columns; a TREC run line has six: query-id Q0 doc-id rank score tag")


def _read_parquet(path: Path) -> _Run:
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowInvalid, OSError) as problem:
        raise SourceError(f"{path}: not a parquet file that can be read ({problem})") from None
    lacking = [column for column in _COLUMNS if column not in file.schema_arrow.names]
    if lacking:
        there = ", ".join(file.schema_arrow.names)
        raise SourceError(f"{path}: no column {', '.join(lacking)}; a run has {', '.join(_COLUMNS)} (columns: {there})")
    problems = Problems(path, "row", SourceError)
    records = (record for batch in file.iter_batches(columns=list(_COLUMNS)) for record in batch.to_pylist())
    lines = ((number, *(record[column] for column in _COLUMNS)) for number, record in enumerate(records, 1))
    run = _collect(lines, problems)
    problems.check()
    return run


def _collect(lines: Iterable[tuple[int, Any, Any, Any]], problems: Problems) -> _Run:
    """(number, query id, document id, score) as columns; each id is held once, since runs have millions of lines."""
    query_ids: dict[str, int] = {}
    doc_ids: dict[str, int] = {}
    query, doc, score = array("q"), array("q"), array("f")
    for number, query_id, doc_id, written in lines:
        try:
            value = float(written)
        except (TypeError, ValueError):
            value = math.nan
        if not abs(value) <= _LARGEST:  # false for NaN too
            problems.add(number, f"the score {written!r} is not a finite number")
        elif query_id is None or doc_id is None:
            problems.add(number, "an id is null; each row needs query_id and doc_id")
        else:
            query.append(query_ids.setdefault(str(query_id), len(query_ids)))
            doc.append(doc_ids.setdefault(str(doc_id), len(doc_ids)))
            score.append(value)
    return _Run(
        list(query_ids),
        list(doc_ids),
        np.array(query, dtype=np.int64),
        np.array(doc, dtype=np.int64),
        np.array(score, dtype=np.float32),
    )


def _rows_of(ids: list[str], column: LongArray, texts: Texts) -> tuple[LongArray, list[str]]:
    """The row of each entry of a column of indices into `ids`, -1 for one that is not there; the ids that are not."""
    there = texts.find(ids)
    rows = np.array([there.get(own_id, -1) for own_id in ids], dtype=np.int64)
    return rows[column], [own_id for own_id in ids if own_id not in there]


def _sorted(query: npt.NDArray[Any], doc: npt.NDArray[Any], score: FloatArray, n_queries: int) -> tuple[Hits, int]:
    """The hits of all queries, each document once with its best score, and how many were dropped for that."""
    order = np.lexsort((-score, doc, query))
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = (query[order[1:]] != query[order[:-1]]) | (doc[order[1:]] != doc[order[:-1]])
    kept = order[first]
    kept = kept[np.lexsort((doc[kept], -score[kept], query[kept]))]
    offsets = np.concatenate([[0], np.cumsum(np.bincount(query[kept], minlength=n_queries))]).astype(np.int64)
    return Hits(offsets, doc[kept].astype(np.int32), score[kept]), len(order) - len(kept)
