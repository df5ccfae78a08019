"""What the audit measures: a mined set, or a file of negatives read as one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from foolsgold.collection import Collection
from foolsgold.recipe.manifest import Manifest
from foolsgold.rules.limits import Limits


class Subject(Protocol):
    """The tables of a set (`records`), and what they were mined from and by."""

    @property
    def path(self) -> Path:
        """Where it is, for errors."""
        ...

    @property
    def manifest(self) -> Manifest:
        """The recipe as it was run."""
        ...

    @property
    def version(self) -> str:
        """The set's name."""
        ...

    @property
    def limits(self) -> Limits:
        """The thresholds that its candidates were decided by."""
        ...

    @property
    def negatives(self) -> pa.Table:
        """`records.negatives_schema`."""
        ...

    @property
    def queries(self) -> pa.Table:
        """`records.queries_schema`."""
        ...

    @property
    def positives(self) -> pa.Table:
        """`records.positives_schema`."""
        ...

    @property
    def collection(self) -> Collection:
        """What was mined; raises MinedSetError where it cannot be opened."""
        ...

    def ledger_batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Some columns of the ledger, a piece at a time."""
        ...
