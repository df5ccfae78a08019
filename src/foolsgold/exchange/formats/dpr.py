"""DPR: question, positive_ctxs, hard_negative_ctxs (Karpukhin et al. 2020). Only read."""

from __future__ import annotations

from foolsgold.exchange.formats.reading import Form, Reader, Table, listed


def _read(table: Table) -> Form | None:
    return listed(table, "DPR") if any(column.endswith("_ctxs") for column in table.negatives) else None


READER = Reader((("question, positive_ctxs, hard_negative_ctxs", "DPR"),), _read)
