"""A file's texts as a collection on disk, and its negatives as a run over it: from there on, importing is mining."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from foolsgold.errors import MinedSetError
from foolsgold.exchange.formats.writing import write_lines
from foolsgold.exchange.listed import Listed
from foolsgold.files import written_once
from foolsgold.records import LongArray

RUN = "negatives.parquet"


def write_collection(listed: Listed, parent: Path, name: str) -> Path:
    """A BEIR folder with the file's queries, documents and positives, and `RUN` beside them; returns its path.

    Its own name ends with a hash of the content, so that the same file is written once.

    Raises:
        MinedSetError: the folder cannot be written.
    """
    folder = parent / f"{name}-{_digest(listed)[:12]}"

    def write(partial: Path) -> None:
        for name, texts in (("corpus", listed.documents), ("queries", listed.queries)):
            rows = zip(texts.ids.to_pylist(), texts.texts.to_pylist(), strict=True)
            write_lines(partial / f"{name}.jsonl", ({"_id": own_id, "text": text} for own_id, text in rows))
        (partial / "qrels").mkdir()
        with (partial / "qrels" / "train.tsv").open("w", encoding="utf-8") as file:
            file.write("query-id\tcorpus-id\tscore\n")
            queries = listed.queries.take_ids(listed.positives.query)
            for query, doc in zip(queries, listed.documents.take_ids(listed.positives.doc), strict=True):
                file.write(f"{query}\t{doc}\t1\n")
        pairs = listed.negatives
        table = {
            "query_id": listed.queries.ids_of(pairs.query),
            "doc_id": listed.documents.ids_of(pairs.doc),
            # the first that a query lists ranks first; scores of the file are no ranks: they may say anything
            "score": pa.array((-_place_in_query(listed)).astype(np.float32)),
        }
        pq.write_table(pa.table(table), partial / RUN, compression="zstd")

    try:
        return written_once(folder, write)
    except OSError as error:
        raise MinedSetError(f"{folder}: cannot be written ({error}); name another folder with --out") from None


def _place_in_query(listed: Listed) -> LongArray:
    """int64 (n_negatives): 0 for the first negative that a query lists, 1 for the second, ..."""
    query = listed.negatives.query
    order = np.argsort(query, kind="stable")
    begins = np.searchsorted(query[order], query[order])
    place = np.empty(len(query), dtype=np.int64)
    place[order] = np.arange(len(query)) - begins
    return place


def _digest(listed: Listed) -> str:
    digest = sha256(listed.queries.digest.encode() + listed.documents.digest.encode())
    for pairs in (listed.positives, listed.negatives):
        digest.update(np.int64(len(pairs)).tobytes() + pairs.query.tobytes() + pairs.doc.tobytes())
    return digest.hexdigest()
