"""FlagEmbedding: query, pos, neg, and pos_scores, neg_scores, prompt (examples/finetune/embedder/README.md)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from foolsgold.exchange.formats.reading import Reader, Table, TableFormat, listed
from foolsgold.exchange.formats.writing import Exported, Options, Writer, json_lines, scores_of
from foolsgold.exchange.rows import Row
from foolsgold.mined.mined_set import MinedSet


def _read(table: Table) -> TableFormat | None:
    if table.negatives and (table.columns.positive == "pos" or "neg" in table.negatives):
        return listed(table, "FlagEmbedding")
    return None


def _write(mined: MinedSet, out: Path, options: Options) -> Exported:
    """{query, pos, neg, pos_scores, neg_scores, prompt, type} (FlagEmbedding, examples/finetune/embedder/README.md)."""

    def record(row: Row) -> Mapping[str, Any]:
        values: dict[str, Any] = {
            "query": row.query,
            "pos": [passage.text for passage in row.positives],
            "neg": [passage.text for passage in row.negatives],
        }
        if options.scores:
            values |= {"pos_scores": scores_of(row.positives), "neg_scores": scores_of(row.negatives)}
        if options.prompt is not None:
            values["prompt"] = options.prompt
        return values | {"type": "normal"}

    return json_lines(mined, out, options, record)


READER = Reader((("query, pos, neg", "FlagEmbedding"),), _read)
WRITER = Writer(_write, ".jsonl", "FlagEmbedding, as `--train_data`", ("scores", "prompt"))
