"""What every source does, whatever it searches with."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from foolsgold.progress import SILENT, Progress
from foolsgold.records import FloatArray, Hits, IntArray


class Source(Protocol):
    """Proposes documents for queries. Queries and documents are rows of the collection it was built for."""

    name: str

    def retrieve(self, queries: IntArray, depth: int, progress: Progress = SILENT) -> Hits:
        """At most `depth` documents for each of `queries` (int32 rows), best first, ties by row, no row twice."""
        ...

    def score(self, queries: IntArray, docs: IntArray) -> FloatArray | None:
        """float32 (n): this source's own score of any pairs (rows, n each), or None where it can only retrieve."""
        ...

    def describe(self) -> dict[str, Any]:
        """What it is, for the manifest: names, settings, fingerprints."""
        ...


@runtime_checkable
class HasVectors(Protocol):
    """A source that can also compare documents with one another."""

    def similarity(self, docs_a: IntArray, docs_b: IntArray) -> FloatArray:
        """float32 (n): the cosine of pairs of documents (rows, n each)."""
        ...
