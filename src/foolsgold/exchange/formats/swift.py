"""ms-swift: messages, positive_messages, negative_messages; rows for embedding models, and for rerankers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from foolsgold.collection.columns import BadCell, shown, text_of
from foolsgold.collection.distinct import Entry
from foolsgold.exchange.formats.reading import Example, Reader, Table, TableFormat, not_read
from foolsgold.exchange.formats.writing import Exported, Options, Writer, json_lines
from foolsgold.exchange.rows import Row
from foolsgold.mined.mined_set import MinedSet

_COLUMNS = ("messages", "positive_messages", "negative_messages")


def _read(table: Table) -> TableFormat | None:
    """ms-swift's rows: the query is the last user message, each document the last message of a list of its own."""
    if not set(_COLUMNS) <= set(table.there):
        return None

    def read(record: Mapping[str, Any]) -> Example | None:
        query = _last_message(record.get("messages"), "messages")
        if query is None:
            return None
        sides = []
        for column in _COLUMNS[1:]:
            conversations = record.get(column) or []
            if not isinstance(conversations, list):
                raise BadCell(f"{column!r} is {shown(conversations)}; it must be a list of lists of messages")
            texts = (_last_message(conversation, column) for conversation in conversations)
            sides.append([Entry(text) for text in texts if text is not None])
        return Example(Entry(query), *sides)

    unread = [column for column in table.there if column not in _COLUMNS]
    return TableFormat(
        "ms-swift",
        _COLUMNS,
        "ms-swift: the last message of 'messages' is the query, those of 'positive_messages' the positives, those of "
        "'negative_messages' the negatives" + not_read(unread),
        read,
    )


def _last_message(conversation: Any, column: str) -> str | None:
    if not conversation:
        return None
    last = conversation[-1] if isinstance(conversation, list) else conversation
    if not isinstance(last, dict) or "content" not in last:
        raise BadCell(f"{column!r} is {shown(conversation)}; it must be a list of messages with 'role' and 'content'")
    return text_of(last["content"], column)


def _write(mined: MinedSet, out: Path, options: Options) -> Exported:
    """ms-swift's InfoNCE rows, one positive each (docs/source_en/BestPractices/Embedding.md)."""
    return json_lines(mined, out, options, lambda row: _messages(row, options, "user"), one_positive=True)


def _write_reranker(mined: MinedSet, out: Path, options: Options) -> Exported:
    """ms-swift's reranker rows (docs/source_en/BestPractices/Reranker.md)."""
    return json_lines(mined, out, options, lambda row: _messages(row, options, "assistant"))


def _messages(row: Row, options: Options, role: str) -> Mapping[str, Any]:
    system = [] if options.prompt is None else [{"role": "system", "content": options.prompt}]
    return {
        "messages": [*system, {"role": "user", "content": row.query}],
        "positive_messages": [[{"role": role, "content": passage.text}] for passage in row.positives],
        "negative_messages": [[{"role": role, "content": passage.text}] for passage in row.negatives],
    }


READER = Reader(((", ".join(_COLUMNS), "ms-swift"),), _read)
WRITER = Writer(_write, ".jsonl", "ms-swift, as `--dataset` of an embedding model", ("prompt",))
RERANKER = Writer(_write_reranker, ".jsonl", "ms-swift, as `--dataset` of a reranker", ("prompt",))
