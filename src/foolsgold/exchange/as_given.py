"""An imported set as its file gives it: every negative that the file lists, whatever foolsgold makes of it."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyarrow as pa

from foolsgold.exchange.importing import SOURCE
from foolsgold.mined.folder import MinedFolder
from foolsgold.records import negatives_schema, queries_schema


class AsGiven:
    """The same folder, read as if all its candidates had been selected: what the audit of a file measures."""

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
