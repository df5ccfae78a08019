"""Which format a file of mined negatives has."""

from __future__ import annotations

from foolsgold.collection.rows import Rows
from foolsgold.errors import CollectionError
from foolsgold.exchange.formats import READERS
from foolsgold.exchange.formats.reading import Table, TableFormat, Unclear

KNOWN = "\n".join(
    [
        "formats recognised by their columns:",
        *(f"  {columns:<57}{whose}" for reader in READERS.values() for columns, whose in reader.columns),
        "--anchor and --positive name columns that have other names",
    ]
)


def detect(rows: Rows, anchor: str | None = None, positive: str | None = None) -> TableFormat:
    """The format of a table.

    anchor, positive: the columns of queries and of positives, where their names are not the usual ones.

    Raises:
        CollectionError: no known format; no negatives in it; several columns that could each be the one.
    """
    table = Table(rows, anchor, positive)
    try:
        formats = (reader.read(table) for reader in READERS.values())
        return next(format for format in formats if format is not None)
    except Unclear as unclear:
        raise CollectionError(f"{unclear}{KNOWN}") from None
