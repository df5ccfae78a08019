"""DPR: question, positive_ctxs, hard_negative_ctxs (Karpukhin et al. 2020). Only read."""

from __future__ import annotations

from foolsgold.exchange.formats.reading import Reader, Table, TableFormat, listed


def _read(table: Table) -> TableFormat | None:
    return listed(table, "DPR") if any(column.endswith("_ctxs") for column in table.negatives) else None


READER = Reader((("question, positive_ctxs, hard_negative_ctxs", "DPR"),), _read)
