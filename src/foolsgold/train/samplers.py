"""Which rows make a batch: none that is another's positive, and if asked queries of one topic together.

Both samplers place every row in one of a fixed number of batches. A row has a wish, drawn or by topic, and takes the
nearest batch that has room and no row it conflicts with. Rows conflict where they share a passage as query or positive,
or where one's positive answers the other's query: in-batch negatives would be false.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from datasets import Dataset
from sentence_transformers.base.sampler import DefaultBatchSampler

from foolsgold.collection.texts import first_of_equal, normalise
from foolsgold.errors import TrainingError
from foolsgold.records import FloatArray, IntArray, LongArray, text_key
from foolsgold.search.clusters import spherical_kmeans
from foolsgold.search.kernels import compiled
from foolsgold.train.rows import TrainingRows

Sampler = Callable[..., DefaultBatchSampler]

_MOST_CLUSTERS = 2000  # TAS-B's number, for the 400,000 queries of MS MARCO (Hofstätter et al., 2021, section 4.2)


def no_duplicates(rows: TrainingRows | None = None) -> Sampler:
    """A `batch_sampler` of the trainer: random batches, without conflicts.

    rows: those that the trainer's data set is of, whose ids and known positives count. Without them the first two
    columns of text of whatever data set the trainer has are compared, as passages: white space and case do not matter.
    """
    return partial(NoDuplicates, _conflicts_of_rows(rows) if rows is not None else None)


def topics(
    rows: TrainingRows,
    query_vectors: FloatArray,
    *,
    n_clusters: int | None = None,
    clusters_per_batch: int = 1,
    seed: int = 13,
) -> Sampler:
    """A `batch_sampler` of the trainer: queries of one topic in a batch (TAS-B: Hofstätter et al., SIGIR 2021).

    query_vectors: float32 (n_queries, d), by any encoder that is not in training; they are clustered once.
    n_clusters: null: one for as many queries as fill a batch, at most 2,000. clusters_per_batch: topics in a batch.

    Raises:
        TrainingError: vectors of another number of queries. SourceError: more clusters than queries.
    """
    if len(query_vectors) != len(rows.collection.queries):
        raise TrainingError(
            f"{len(query_vectors):,} query vectors for {len(rows.collection.queries):,} queries; encode the queries of "
            "the collection that the rows are of, in their order"
        )
    return partial(
        TopicBatchSampler,
        _conflicts_of_rows(rows),
        rows.query_rows,
        query_vectors,
        n_clusters,
        clusters_per_batch,
        seed,
    )


@dataclass(frozen=True)
class Conflicts:
    """Rows by what they have in common.

    query, positive: int32 (n), numbers of passages; rows_of_query, rows_of_positive: int64 offsets and rows, the rows
    with each of those.
    """

    query: IntArray
    positive: IntArray
    rows_of_query: tuple[LongArray, LongArray]
    rows_of_positive: tuple[LongArray, LongArray]

    @classmethod
    def of(cls, query: npt.NDArray[Any], positive: npt.NDArray[Any]) -> Conflicts:
        """From a passage number of each row's query and positive, int (n)."""
        numbered = [np.unique(values, return_inverse=True)[1].astype(np.int32) for values in (query, positive)]
        return cls(numbered[0], numbered[1], _by_value(numbered[0]), _by_value(numbered[1]))

    def __len__(self) -> int:
        return len(self.query)


class NoDuplicates(DefaultBatchSampler):
    """Random batches without conflicts; every row once an epoch, in as many batches in every epoch.

    With drop_last, batches that are not full are left out. Under several processes there is a multiple of their number,
    of nearly equal size, so that all get as many.
    """

    def __init__(
        self,
        conflicts: Conflicts | None,
        dataset: Dataset,
        batch_size: int,
        drop_last: bool = False,
        valid_label_columns: list[str] | None = None,
        generator: Any = None,
        seed: int = 0,
    ) -> None:
        super().__init__(dataset, batch_size, drop_last, valid_label_columns, generator, seed)
        self._conflicts = conflicts or _conflicts_of_texts(dataset, valid_label_columns or [])
        if len(self._conflicts) != len(dataset):
            raise TrainingError(
                f"the sampler is of {len(self._conflicts):,} rows and the data set has {len(dataset):,}"
            )
        self._size = batch_size
        self.batch_size = None  # type: ignore[assignment]  # accelerate would leave out batches of another size
        self._processes = int(os.environ.get("WORLD_SIZE", "1"))
        n, most = len(self._conflicts), _most_alike(self._conflicts)
        self._n_batches = -(-max(-(-n // batch_size), most) // self._processes) * self._processes
        while n and _placed(self._conflicts, self._capacities(), *self._wishes(np.random.default_rng(0)))[1]:
            self._n_batches += self._processes

    def __len__(self) -> int:
        return sum(self._is_kept(size) for size in self._capacities().tolist())

    def __iter__(self) -> Iterator[list[int]]:
        rng = np.random.default_rng([self.seed, self.epoch])
        capacities = self._capacities()
        for _ in range(_TRIES):
            batch_of, crowded = _placed(self._conflicts, capacities, *self._wishes(rng))
            if not crowded:
                break
        order = np.argsort(batch_of, kind="stable")
        ends = np.cumsum(np.bincount(batch_of, minlength=len(capacities)))
        batches = np.split(order, ends[:-1])
        for place in rng.permutation(len(batches)).tolist():
            batch = rng.permutation(batches[place])
            if self._is_kept(int(capacities[place])):
                yield batch.tolist()

    def _is_kept(self, size: int) -> bool:
        return size > 0 and (not self.drop_last or size == self._size)

    def _capacities(self) -> LongArray:
        """int64 (n_batches): rows of each batch; full ones and a rest, or with several processes nearly equal ones."""
        n, count = len(self._conflicts), self._n_batches
        if self._processes == 1 and count == -(-n // self._size):
            sizes = np.full(count, self._size, dtype=np.int64)
            sizes[-1] = n - self._size * (count - 1)
            return sizes
        return np.full(count, n // count, dtype=np.int64) + (np.arange(count) < n % count)

    def _wishes(self, rng: np.random.Generator) -> tuple[LongArray, LongArray]:
        """The order in which rows are placed, and the batch that each would like, both int64 (n)."""
        capacities = self._capacities()
        wish = np.repeat(np.arange(len(capacities)), capacities)
        return rng.permutation(len(wish)), rng.permutation(wish)


class TopicBatchSampler(NoDuplicates):
    """Batches of queries of one topic, or of a few; else as `NoDuplicates`.

    What is left of a topic when no batch can be filled from it any more makes batches with what is left of the topics
    next to it.
    """

    def __init__(
        self,
        conflicts: Conflicts,
        query_rows: IntArray,
        query_vectors: FloatArray,
        n_clusters: int | None,
        clusters_per_batch: int,
        cluster_seed: int,
        dataset: Dataset,
        batch_size: int,
        *settings: Any,
        **more: Any,
    ) -> None:
        asked = np.unique(query_rows)
        n_clusters = n_clusters or max(1, min(_MOST_CLUSTERS, len(asked) // batch_size))
        centroids, labels = spherical_kmeans(query_vectors[asked], n_clusters, seed=cluster_seed)
        place = np.empty(len(centroids), dtype=np.int64)
        place[_tour(centroids)] = np.arange(len(centroids))
        self._topic = place[labels[np.searchsorted(asked, query_rows)]]  # int64 (n_rows), neighbours have near numbers
        self._per_batch = clusters_per_batch
        super().__init__(conflicts, dataset, batch_size, *settings, **more)

    def _wishes(self, rng: np.random.Generator) -> tuple[LongArray, LongArray]:
        capacities = self._capacities()
        piece = max(1, int(capacities.max()) // self._per_batch)
        order = np.lexsort((rng.random(len(self._topic)), self._topic))
        sizes = np.bincount(self._topic)
        within = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        is_whole = within < np.repeat(sizes // piece * piece, sizes)
        # Pieces of one topic in a drawn order, then the rest along the tour from a drawn place on.
        whole, rest = order[is_whole], np.roll(order[~is_whole], int(rng.integers(len(order))))
        pieces = rng.permutation(len(whole) // piece)
        ordered = np.concatenate([whole.reshape(-1, piece)[pieces].ravel(), rest])
        wish = np.empty(len(ordered), dtype=np.int64)
        wish[ordered] = np.repeat(np.arange(len(capacities)), capacities)
        return rng.permutation(len(wish)), wish


_TRIES = 8  # of placing an epoch's rows, until none has to go where there was no room


def _placed(conflicts: Conflicts, capacities: LongArray, order: LongArray, wish: LongArray) -> tuple[LongArray, int]:
    """The batch of each row, int64 (n), and how many rows had to be put where there was no room."""
    shared = _how_many_alike(conflicts)
    order = order[np.argsort(-shared[order], kind="stable")]  # those with most conflicts first, while all is open
    batch_of = np.full(len(conflicts), -1, dtype=np.int64)
    crowded = _place(
        order, wish, capacities.copy(), conflicts.query, conflicts.positive, *conflicts.rows_of_query,
        *conflicts.rows_of_positive, batch_of,
    )  # fmt: skip
    return batch_of, int(crowded)


@compiled
def _place(
    order: Any,
    wish: Any,
    room: Any,
    query: Any,
    positive: Any,
    query_offsets: Any,
    query_rows: Any,
    positive_offsets: Any,
    positive_rows: Any,
    batch_of: Any,
) -> Any:
    n_batches = len(room)
    closed = np.full(n_batches, -1, np.int64)  # the last row that conflicts with the batch
    crowded = 0
    for row in order:
        q, p = query[row], positive[row]
        # rows of the same query, and rows whose positive answers it
        for i in range(query_offsets[q], query_offsets[q + 1]):
            p2 = positive[query_rows[i]]
            for j in range(positive_offsets[p2], positive_offsets[p2 + 1]):
                if batch_of[positive_rows[j]] >= 0:
                    closed[batch_of[positive_rows[j]]] = row
        # rows of the same positive, and rows whose query it answers
        for i in range(positive_offsets[p], positive_offsets[p + 1]):
            q2 = query[positive_rows[i]]
            for j in range(query_offsets[q2], query_offsets[q2 + 1]):
                if batch_of[query_rows[j]] >= 0:
                    closed[batch_of[query_rows[j]]] = row
        best, emptiest = -1, -1
        for step in range(2 * n_batches):
            batch = wish[row] + (step + 1) // 2 * (1 if step % 2 else -1)  # the wish, one after, one before, ...
            if batch < 0 or batch >= n_batches or closed[batch] == row:
                continue
            if room[batch] > 0:
                best = batch
                break
            if emptiest < 0 or room[batch] > room[emptiest]:
                emptiest = batch
        if best < 0:
            crowded += 1
            best = emptiest if emptiest >= 0 else wish[row]
        batch_of[row] = best
        room[best] -= 1
    return crowded


def _how_many_alike(conflicts: Conflicts) -> LongArray:
    """int64 (n): how many rows share each row's query or positive, itself counted."""
    return np.maximum(
        np.bincount(conflicts.query)[conflicts.query], np.bincount(conflicts.positive)[conflicts.positive]
    )


def _most_alike(conflicts: Conflicts) -> int:
    return int(_how_many_alike(conflicts).max(initial=0))


def _by_value(values: IntArray) -> tuple[LongArray, LongArray]:
    """Offsets, int64 (v + 1), and the places of each value 0 .. v - 1, ascending."""
    return (
        np.concatenate([[0], np.cumsum(np.bincount(values))]).astype(np.int64),
        np.argsort(values, kind="stable").astype(np.int64),
    )


def _conflicts_of_rows(rows: TrainingRows) -> Conflicts:
    collection = rows.collection
    return Conflicts.of(collection.queries.passage[rows.query_rows], collection.documents.passage[rows.positive_rows])


def _conflicts_of_texts(dataset: Dataset, label_columns: list[str]) -> Conflicts:
    columns = [name for name in dataset.column_names if name not in (*label_columns, "dataset_name")][:2]
    if len(columns) < 2:
        raise TrainingError(
            f"the data set has the columns {dataset.column_names}; without rows, no_duplicates compares two of texts"
        )
    passages = []
    for name in columns:
        keys = b"".join(text_key(normalise(str(text))) for text in dataset[name])
        passages.append(first_of_equal(np.frombuffer(keys, dtype=np.uint64).reshape(-1, 2)))
    return Conflicts.of(*passages)


def _tour(centroids: FloatArray) -> LongArray:
    """int64 (c): an order of the centroids in which each is near the one before, always the nearest not yet visited."""
    order = np.zeros(len(centroids), dtype=np.int64)
    left = np.ones(len(centroids), dtype=np.bool_)
    left[0] = False
    for place in range(1, len(centroids)):
        near = np.where(left, centroids @ centroids[order[place - 1]], -np.inf)
        order[place] = near.argmax()
        left[order[place]] = False
    return order
