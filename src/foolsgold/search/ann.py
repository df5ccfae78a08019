"""Approximate search through faiss, for corpora that exact search takes too long for.

Only the candidates are approximate. They are more than asked for, and are scored and ordered as `top_k` would: a
document that is found has its exact score, and its exact place among those that are found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from foolsgold.errors import MissingExtra, SourceError
from foolsgold.progress import SILENT, Progress
from foolsgold.records import FloatArray, Hits, IntArray
from foolsgold.search.dense import top_k
from foolsgold.search.kernels import compiled, dot
from foolsgold.search.threads import Threads

_MIN_PER_LIST = 39  # faiss's ClusteringParameters.min_points_per_centroid: with fewer, lists are noise
_TRAINED_ON = 64  # documents a list that lists are learnt from
_MIN_TRAINED_ON = 65_536  # what product quantisers are learnt from: 256 documents for each of 256 codes
_ADDED_AT_ONCE = 65_536
_FETCH = (1, 2, 4, 8, 16, 32)  # so many times the documents asked for are scored exactly
_PIECE = 16  # queries a thread takes at a time


@dataclass(frozen=True)
class Effort:
    """How much of an index is looked at, and what that found.

    n_probe: lists searched a query, None for an index without lists.
    fetch: documents scored exactly a query, in multiples of those asked for.
    recall: share of the exact top k that was found, over all queries of a sample; of documents that tie for the last
    place any counts.
    """

    n_probe: int | None
    fetch: int
    recall: float


class AnnIndex:
    """A faiss index of `documents`, float32 (n, d), an array or a memory map: compared by inner product."""

    def __init__(self, index: Any, documents: FloatArray) -> None:
        self._index = index
        self._documents = np.asarray(documents)

    @classmethod
    def build(cls, documents: FloatArray, factory: str, *, seed: int, progress: Progress = SILENT) -> AnnIndex:
        """Learn lists and codes from a sample drawn with `seed`, and add all documents, some at a time.

        Raises:
            SourceError: as `check_factory` and `check_size`, or faiss cannot learn from so few documents.
            MissingExtra: faiss is not installed.
        """
        index = _empty(factory, documents.shape[1])
        check_size(factory, len(documents))
        size = max(_TRAINED_ON * _lists(factory), _MIN_TRAINED_ON)
        rows = np.arange(len(documents))
        if len(documents) > size:
            rows = np.sort(np.random.default_rng(seed).choice(len(documents), size, replace=False))
        with progress.stage("index dense", len(documents)) as advance:
            try:
                index.train(np.ascontiguousarray(documents[rows]))
            except (RuntimeError, MemoryError) as error:
                raise SourceError(
                    f"{factory}: {_reason(error)}; take a smaller index, or none: exact search of {len(documents):,} "
                    "documents is quick"
                ) from None
            for start in range(0, len(documents), _ADDED_AT_ONCE):
                block = np.ascontiguousarray(documents[start : start + _ADDED_AT_ONCE])
                index.add(block)
                advance(len(block))
        return cls(index, documents)

    def save(self, path: Path) -> None:
        """Write the index, without the documents.

        Raises:
            OSError: it cannot be written.
        """
        try:
            _faiss().write_index(self._index, str(path))
        except RuntimeError as error:
            raise OSError(_reason(error)) from None

    @classmethod
    def load(cls, path: Path, documents: FloatArray) -> AnnIndex:
        """The index that was saved of these documents.

        Raises:
            SourceError: the file is not one, or not of so many documents.
        """
        try:
            index = _faiss().read_index(str(path))
        except RuntimeError as error:
            raise SourceError(f"{path}: cannot be read ({_reason(error)}); delete its folder") from None
        if (index.ntotal, index.d) != documents.shape:
            raise SourceError(f"{path}: is the index of other vectors; delete its folder")
        return cls(index, documents)

    def effort_for(self, recall: float, queries: FloatArray, k: int) -> Effort:
        """The least effort, by lists, then documents scored, that finds this share of the exact top k of `queries`.

        Where none does, the one that finds most.
        """
        k = min(k, len(self._documents))
        last = top_k(queries, self._documents, k)[0][:, -1:]
        best: Effort | None = None
        for n_probe in self._probes():
            for fetch in _FETCH:
                rows = self._candidates(queries, k, n_probe, fetch)
                found = ((rows >= 0) & (self._scores(queries, rows) >= last)).sum(axis=1)
                effort = Effort(n_probe, fetch, float(np.minimum(found, k).mean() / k))
                if best is None or effort.recall > best.recall:
                    best = effort
                if effort.recall >= recall:
                    return effort
        assert best is not None
        return best

    def top_k(self, queries: FloatArray, k: int, effort: Effort, *, progress: Progress = SILENT) -> Hits:
        """At most k documents a query, with the inner products that `search.top_k` gives; ties by row.

        Fewer where the lists that were searched hold fewer.
        """
        with progress.stage("search dense", len(queries)) as advance:
            rows = self._candidates(queries, k, effort.n_probe, effort.fetch)
            scores = self._scores(queries, rows)
            order = np.lexsort((rows, np.where(rows < 0, np.inf, -scores)), axis=1)[:, :k]
            rows, scores = np.take_along_axis(rows, order, axis=1), np.take_along_axis(scores, order, axis=1)
            advance(len(queries))
        return Hits.from_top_k(scores, rows, keep=rows >= 0)

    def _probes(self) -> Iterator[int | None]:
        """Numbers of lists to try: 1, 2, 4, ... and all."""
        lists = _faiss().try_extract_index_ivf(self._index)
        if lists is None:
            yield None
            return
        n_probe = 1
        while n_probe < lists.nlist:
            yield n_probe
            n_probe *= 2
        yield lists.nlist

    def _candidates(self, queries: FloatArray, k: int, n_probe: int | None, fetch: int) -> IntArray:
        """int32 (q, up to k * fetch): rows in faiss's order, and -1 after the last one where a query has fewer."""
        wanted = min(k * fetch, len(self._documents))
        # a graph (HNSW) gives no more than it has visited, whether it is the index or finds the lists of one
        settings = {"nprobe": n_probe, "efSearch": wanted, "quantizer_efSearch": n_probe and 2 * n_probe}
        space = _faiss().ParameterSpace()
        space.initialize(self._index)
        for i in range(space.parameter_ranges.size()):
            name = space.parameter_ranges.at(i).name
            if settings.get(name) is not None:
                space.set_index_parameter(self._index, name, settings[name])
        return np.asarray(self._index.search(np.ascontiguousarray(queries), wanted)[1], dtype=np.int32)

    def _scores(self, queries: FloatArray, rows: IntArray) -> FloatArray:
        """float32, of the shape of `rows`: inner products; whatever is there where the row is -1 means nothing."""
        scores = np.zeros(rows.shape, dtype=np.float32)

        def score(part: slice) -> None:
            _score(queries[part], self._documents, rows[part], scores[part])

        with Threads() as threads:
            threads.spread(score, len(rows), _PIECE, lambda _: None)
        return scores


def check_factory(factory: str, dimension: int) -> None:
    """Raise SourceError where faiss cannot build this index of vectors of so many dimensions."""
    _empty(factory, dimension)


def check_size(factory: str, n_documents: int) -> None:
    """Raise SourceError where an index has more lists than so many documents can fill, MissingExtra without faiss."""
    _faiss()
    lists = _lists(factory)
    if n_documents < lists * _MIN_PER_LIST:
        fewer = 1 << max(0, (n_documents // _MIN_PER_LIST).bit_length() - 1)
        instead = f"take IVF{fewer}, or no index" if fewer >= 16 else "take no index"
        raise SourceError(
            f"{factory} has {lists:,} lists, which takes at least {lists * _MIN_PER_LIST:,} documents, and there are "
            f"{n_documents:,}; {instead}: exact search of so few is quick"
        )


@compiled
def _score(queries: Any, documents: Any, rows: Any, scores: Any) -> None:
    for query in range(len(rows)):
        for place in range(rows.shape[1]):
            if rows[query, place] >= 0:
                scores[query, place] = dot(queries[query], documents[rows[query, place]])


def _lists(factory: str) -> int:
    """The lists of an inverted file (IVF4096, IVF64k); 0 of an index that is none."""
    named = re.search(r"(?:^|,)IVF(\d+)([kM]?)", factory)
    return int(named[1]) * {"": 1, "k": 1 << 10, "M": 1 << 20}[named[2]] if named else 0


def _empty(factory: str, dimension: int) -> Any:
    faiss = _faiss()
    try:
        return faiss.index_factory(dimension, factory, faiss.METRIC_INNER_PRODUCT)
    except (RuntimeError, MemoryError) as error:
        raise SourceError(
            f"{factory}: faiss cannot build this index of vectors of {dimension} dimensions by inner product "
            f"({_reason(error)}); a common one is IVF4096,PQ48x4fsr"
        ) from None


def _reason(error: RuntimeError | MemoryError) -> str:
    """What faiss says, without the place in its code and, where it says more, the condition that failed."""
    said = " ".join(re.split(r" at \S+:\d+: ", str(error))[-1].removeprefix("Error: ").split())
    return re.sub(r"^'.*' failed: (?=.)", "", said)


def version() -> str:
    """Of faiss: what an index is may change with it."""
    return str(_faiss().__version__)


def _faiss() -> Any:
    return require_faiss("a dense source with an index")


def require_faiss(purpose: str) -> Any:
    """The module faiss. Raises MissingExtra, which names the purpose, where it is not installed."""
    try:
        return import_module("faiss")
    except ImportError:
        raise MissingExtra("faiss", purpose) from None
