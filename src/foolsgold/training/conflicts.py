"""Which rows must not meet in a batch: one of them would be trained to push away what the other calls relevant."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from datasets import Dataset

from foolsgold.collection.texts import first_of_equal, normalise
from foolsgold.errors import TrainingError
from foolsgold.records import BoolArray, IntArray, LongArray, pair_keys, text_key
from foolsgold.search.kernels import compiled
from foolsgold.training.rows import TrainingRows


class Conflicts(NamedTuple):
    """Says of any two of n rows whether they are in conflict.

    texts: int32 (n, c), a number for each text of a row; equal texts have equal numbers. No two rows that share one
    may meet, nor two of which one's last text is among the answers to the other.
    answers: int32, of all queries; those of row i are answers[begin[i]:end[i]], ascending.
    is_free: bool (n), whether a row has no conflict at all.
    """

    texts: IntArray
    begin: LongArray
    end: LongArray
    answers: IntArray
    is_free: BoolArray

    @classmethod
    def of_rows(cls, rows: TrainingRows) -> Self:
        """By queries, positives and known positives; the query is the first text, the positive the second."""
        collection = rows.collection
        keys = [collection.queries.keys[rows.query_rows], collection.documents.keys[rows.positive_rows]]
        texts = first_of_equal(np.concatenate(keys)).reshape(2, -1).T
        number = np.full(len(collection.documents), -1, dtype=np.int32)
        number[rows.positive_rows] = texts[:, 1]
        offsets, documents = collection.answers
        query = np.repeat(np.arange(len(collection.queries)), np.diff(offsets))
        pairs = np.unique(pair_keys(query, number[documents]))
        ends = np.cumsum(np.bincount(pairs >> 32, minlength=len(collection.queries)))
        end = ends[rows.query_rows]
        begin = np.concatenate([[0], ends])[rows.query_rows]
        is_free = (sharing(texts) == texts.shape[1]) & (end - begin == 1)
        return cls(np.ascontiguousarray(texts), begin, end, (pairs & 0xFFFFFFFF).astype(np.int32), is_free)

    @classmethod
    def of_texts(cls, dataset: Dataset, not_texts: list[str]) -> Self:
        """By all columns of texts but some."""
        columns = [
            name
            for name, feature in dataset.features.items()
            if name not in not_texts and getattr(feature, "dtype", None) in ("string", "large_string")
        ]
        if not columns:
            raise TrainingError(
                f"the data set has the columns {', '.join(dataset.column_names)}, and none has texts to compare; "
                "give no_duplicates the rows of the data set, or use another batch_sampler"
            )
        keys = bytearray()
        for name in columns:
            for text in dataset[name][:]:
                keys += text_key(normalise(text))
        numbers = first_of_equal(np.frombuffer(bytes(keys), dtype=np.uint64).reshape(-1, 2))
        texts = np.ascontiguousarray(numbers.reshape(len(columns), -1).T)
        none = np.zeros(len(texts), dtype=np.int64)
        return cls(texts, none, none, np.empty(0, dtype=np.int32), sharing(texts) == texts.shape[1])

    @classmethod
    def none(cls, n: int) -> Self:
        """Of n rows that may all meet."""
        nothing = np.zeros(n, dtype=np.int64)
        texts = np.arange(n, dtype=np.int32)[:, np.newaxis]
        return cls(texts, nothing, nothing, np.empty(0, dtype=np.int32), np.ones(n, dtype=np.bool_))

    def take(self, rows: LongArray) -> Conflicts:
        """Those of some rows."""
        return Conflicts(self.texts[rows], self.begin[rows], self.end[rows], self.answers, self.is_free[rows])

    @property
    def most_alike(self) -> int:
        """The largest number of rows with one text, which need as many batches."""
        texts = np.sort(self.texts, axis=1)
        is_first = np.ones(texts.shape, dtype=np.bool_)
        is_first[:, 1:] = texts[:, 1:] != texts[:, :-1]
        return int(np.bincount(texts[is_first]).max(initial=0))


def sharing(texts: IntArray) -> LongArray:
    """int64 (n): how often a row's texts occur in all rows, its own included."""
    counts: LongArray = np.bincount(texts.ravel())[texts].sum(axis=1)
    return counts


@compiled
def fits(conflicts: Any, row: Any, content: Any, begin: Any, end: Any, but: Any) -> Any:
    """Whether a row is in conflict with none of content[begin:end], -1 for an empty place, leaving out `but`."""
    if conflicts.is_free[row]:
        return True
    texts, answers = conflicts.texts, conflicts.answers
    width = texts.shape[1]
    low, high = conflicts.begin[row], conflicts.end[row]
    for place in range(begin, end):
        other = content[place]
        if other < 0 or other in (row, but):
            continue
        for i in range(width):
            for j in range(width):
                if texts[row, i] == texts[other, j]:
                    return False
        # A single answer is the row's own positive, which is among the texts.
        if high - low > 1 and _holds(answers, low, high, texts[other, width - 1]):
            return False
        low_of_other, high_of_other = conflicts.begin[other], conflicts.end[other]
        if high_of_other - low_of_other > 1 and _holds(answers, low_of_other, high_of_other, texts[row, width - 1]):
            return False
    return True


@compiled
def _holds(answers: Any, low: Any, high: Any, text: Any) -> Any:
    """Whether a text is in answers[low:high], which ascend."""
    last = high
    while low < high:
        middle = (low + high) // 2
        if answers[middle] < text:
            low = middle + 1
        else:
            high = middle
    return low < last and answers[low] == text
