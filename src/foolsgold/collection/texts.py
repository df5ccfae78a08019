"""Ids and texts of a corpus or of queries, in Arrow, so that millions of them need no Python objects."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from foolsgold.errors import MinedSetError
from foolsgold.records import BoolArray, IntArray, text_key

_BATCH = 65_536
_HALF_PAIR = re.compile("[\ud800-\udfff]")


class Texts:
    """n texts with their ids. A text is named by its row everywhere else.

    ids, texts: Arrow string arrays of n rows without nulls, in memory or mapped from a file.
    """

    def __init__(self, ids: pa.ChunkedArray, texts: pa.ChunkedArray) -> None:
        if len(ids) != len(texts):
            raise ValueError(f"{len(ids)} ids but {len(texts)} texts")
        self.ids = _large(ids)
        self.texts = _large(texts)

    @classmethod
    def from_lists(cls, ids: Iterable[str], texts: Iterable[str]) -> Texts:
        """From Python strings, of the same number."""
        return cls(pa.chunked_array([strings(list(ids))]), pa.chunked_array([strings(list(texts))]))

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: Sequence[int] | npt.NDArray[Any]) -> list[str]:
        """The texts of the given rows, in that order."""
        return list(_take(self.texts, rows).to_pylist())

    def take_ids(self, rows: Sequence[int] | npt.NDArray[Any]) -> list[str]:
        """The ids of the given rows, in that order."""
        return list(_take(self.ids, rows).to_pylist())

    def ids_of(self, rows: Sequence[int] | npt.NDArray[Any]) -> pa.Array:
        """The ids of the given rows, in that order, in Arrow."""
        return _take(self.ids, rows)

    def subset(self, rows: Sequence[int] | npt.NDArray[Any]) -> Texts:
        """A new Texts with the given rows, in that order, in memory."""
        return Texts(pa.chunked_array([_take(self.ids, rows)]), pa.chunked_array([_take(self.texts, rows)]))

    def followed_by(self, others: Texts) -> Texts:
        """A new Texts with all of these and then all of `others`; nothing is copied."""
        return Texts(
            pa.chunked_array([*self.ids.chunks, *others.ids.chunks], pa.large_string()),
            pa.chunked_array([*self.texts.chunks, *others.texts.chunks], pa.large_string()),
        )

    def batches(self, size: int = _BATCH) -> Iterable[list[str]]:
        """All texts in row order, `size` at a time, so that the whole corpus is never in Python memory."""
        for start in range(0, len(self), size):
            yield self.texts.slice(start, size).to_pylist()

    @cached_property
    def rows(self) -> dict[str, int]:
        """The row of each id: a Python dict of all of them. To look up some of many, `find` needs far less memory."""
        return {key: row for row, key in enumerate(self.ids.to_pylist())}

    def find(self, ids: Iterable[str]) -> dict[str, int]:
        """The row of each of the given ids that exists. One pass over the ids' column, in Arrow."""
        return _find(self.ids, ids)

    def rows_of(self, ids: pa.ChunkedArray, what: str = "document") -> IntArray:
        """int32 (n): the row of each of many ids of a mined set's column, which may repeat; what: for the error.

        Raises:
            MinedSetError: an unknown id.
        """
        encoded = pa.concat_arrays(ids.cast(pa.large_string()).chunks or [pa.array([], pa.large_string())])
        encoded = encoded.dictionary_encode()
        wanted = encoded.dictionary.to_pylist()
        found = self.find(wanted)
        if missing := next((name for name in wanted if name not in found), None):
            raise MinedSetError(f"{what} {missing!r} of the mined set is not in its collection; mine the set again")
        rows: IntArray = np.array([found[name] for name in wanted], dtype=np.int32)[encoded.indices.to_numpy()]
        return rows

    def find_texts(self, texts: Iterable[str]) -> dict[str, int]:
        """The first row of each of the given texts that exists in exactly this spelling."""
        return _find(self.texts, texts)

    @cached_property
    def keys(self) -> npt.NDArray[np.uint64]:
        """uint64 (n, 2): a hash of each normalised text, so that texts of two Texts can be compared (rule 9)."""
        keys = bytearray()
        for batch in self.batches():
            for text in batch:
                keys += text_key(normalise(text))
        return np.frombuffer(bytes(keys), dtype=np.uint64).reshape(-1, 2)

    @cached_property
    def passage(self) -> IntArray:
        """int32 (n): the first row with the same normalised text. Rows of equal passage are one passage (rule 9)."""
        return first_of_equal(self.keys)

    @cached_property
    def empty(self) -> BoolArray:
        """Which texts are nothing but white space: bool (n)."""
        nothing = np.frombuffer(text_key(""), dtype=np.uint64)
        return np.asarray((self.keys == nothing).all(axis=1))

    @cached_property
    def lengths(self) -> IntArray:
        """int32 (n): characters of each text."""
        return np.asarray(pc.utf8_length(self.texts)).astype(np.int32)

    @cached_property
    def digest(self) -> str:
        """A hash of all ids and texts, hexadecimal; it does not depend on how they are chunked."""
        digest = sha256()
        for column in (self.ids, self.texts):
            for start in range(0, len(column), _BATCH):
                for part in _bytes_of(pa.concat_arrays(column.slice(start, _BATCH).chunks)):
                    digest.update(part)
        return digest.hexdigest()


def first_of_equal(keys: npt.NDArray[np.uint64]) -> IntArray:
    """int32 (n): for each row of keys, uint64 (n, 2), the first row that is equal to it."""
    order = np.lexsort((keys[:, 1], keys[:, 0]))  # stable: rows of equal key stay in ascending order
    starts = np.ones(len(keys), dtype=np.bool_)
    starts[1:] = (keys[order[1:]] != keys[order[:-1]]).any(axis=1)
    first = np.empty(len(keys), dtype=np.int32)
    first[order] = order[starts][np.cumsum(starts) - 1]
    return first


def normalise(text: str) -> str:
    """A text as compared for equality: NFKC, case folded, white space collapsed (design, rule 9)."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def strings(values: list[str]) -> pa.Array:
    r"""Python strings as an Arrow array.

    Half a surrogate pair (a JSON escape such as \ud83d cut off from its other half) is no character and cannot be
    stored; it becomes U+FFFD.
    """
    try:
        return pa.array(values, pa.large_string())
    except UnicodeEncodeError:
        return pa.array([_HALF_PAIR.sub("\ufffd", value) for value in values], pa.large_string())


def _large(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column if column.type == pa.large_string() else column.cast(pa.large_string())


def _take(column: pa.ChunkedArray, rows: Sequence[int] | npt.NDArray[Any]) -> pa.Array:
    """The given rows of a column, chunk by chunk: Arrow's own take first copies all chunks into one."""
    wanted = np.asarray(rows, dtype=np.int64)
    if not len(wanted):
        return pa.array([], column.type)
    ends = np.cumsum([len(chunk) for chunk in column.chunks])
    if wanted.min() < 0 or wanted.max() >= len(column):
        raise IndexError(f"rows {wanted.min()} to {wanted.max()} of a column of {len(column)}")
    chunk_of = np.searchsorted(ends, wanted, side="right")
    order = np.argsort(chunk_of, kind="stable")
    used, counts = np.unique(chunk_of, return_counts=True)
    pieces = []
    for number, mine in zip(used.tolist(), np.split(order, np.cumsum(counts)[:-1]), strict=True):
        chunk = column.chunk(number)
        pieces.append(chunk.take(pa.array(wanted[mine] - (ends[number] - len(chunk)))))
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return pa.concat_arrays(pieces).take(pa.array(back))


def _find(column: pa.ChunkedArray, values: Iterable[str]) -> dict[str, int]:
    asked = strings(list(dict.fromkeys(values)))
    rows = np.flatnonzero(np.asarray(pc.is_in(column, value_set=asked)))
    found: dict[str, int] = {}
    for value, row in zip(_take(column, rows).to_pylist(), rows.tolist(), strict=True):
        found.setdefault(value, row)
    return found


def _bytes_of(array: pa.Array) -> Iterator[Any]:
    """What a string array holds, whatever its offsets: the length of each text, then all of them in a row."""
    _, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int64)[array.offset : array.offset + len(array) + 1]
    yield np.diff(bounds).tobytes()
    if data is not None:
        yield memoryview(data)[bounds[0] : bounds[-1]]
