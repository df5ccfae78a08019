"""Which rows make a batch: none whose positive answers another's query, and if asked queries of one topic together.

A sampler finds once how all rows fit into a fixed number of batches without conflicts (`batch_plan`). Each epoch then
has an order it would like the rows in, random or by topic, and swaps rows between batches towards it, but never into a
conflict (`shuffle`). So every row is seen once per epoch, and every epoch has the same number of batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np
from datasets import Dataset
from sentence_transformers.base.sampler import DefaultBatchSampler
from sentence_transformers.util import get_world_size

from foolsgold.errors import TrainingError
from foolsgold.records import FloatArray, IntArray
from foolsgold.search.clusters import spherical_kmeans
from foolsgold.training.batch_plan import batch_plan
from foolsgold.training.conflicts import Conflicts
from foolsgold.training.rows import TrainingRows
from foolsgold.training.shuffle import Order, arrange, random_order, similar_neighbours, topic_order

Sampler = Callable[..., DefaultBatchSampler]

_MOST_CLUSTERS = 2000  # TAS-B's, for the 400,000 training queries of MS MARCO (Hofstätter et al., 2021, section 4.2)


def no_duplicates(rows: TrainingRows | None = None) -> Sampler:
    """A `batch_sampler` of the trainer: random batches of `NoDuplicates`.

    rows: those of the trainer's data set. Without them, the texts of its columns say what is a duplicate.
    """
    return _Sampler(partial(NoDuplicates, rows=rows))


def at_random(rows: TrainingRows) -> Sampler:
    """A `batch_sampler` of the trainer: random batches in which any rows may meet, `RandomBatches`.

    rows: those of the trainer's data set.
    """
    return _Sampler(partial(RandomBatches, rows=rows))


def topics(
    rows: TrainingRows,
    query_vectors: FloatArray,
    *,
    n_clusters: int | None = None,
    clusters_per_batch: int = 1,
    seed: int = 13,
) -> Sampler:
    """A `batch_sampler` of the trainer: queries of one topic per batch, `TopicBatchSampler`.

    rows: those of the trainer's data set.
    query_vectors: float32 (n_queries, d), of the collection's queries by any encoder that is not in training.
    n_clusters: number of topics; None: one for each batch of queries, at most 2,000.
    clusters_per_batch: topics per batch. seed: of the clustering.

    Raises:
        TrainingError: vectors of another number of queries; clusters_per_batch below 1. As batches are made,
        SourceError: more clusters than queries.
    """
    if len(query_vectors) != len(rows.collection.queries):
        raise TrainingError(
            f"{len(query_vectors):,} query vectors for {len(rows.collection.queries):,} queries; encode the queries of "
            "the collection that the rows are of, in their order"
        )
    if clusters_per_batch < 1:
        raise TrainingError(f"clusters_per_batch is {clusters_per_batch}; a batch has queries of at least one topic")

    @cache  # the trainer makes a sampler in every call of train()
    def topic_of_query(batch_size: int) -> IntArray:
        wanted = n_clusters or max(1, min(_MOST_CLUSTERS, len(query_vectors) // batch_size))
        centroids, labels = spherical_kmeans(query_vectors, wanted, seed=seed)
        place = np.empty(len(centroids), dtype=np.int32)
        place[similar_neighbours(centroids)] = np.arange(len(centroids))
        return place[labels]

    return _Sampler(
        partial(TopicBatchSampler, rows=rows, topic_of_query=topic_of_query, clusters_per_batch=clusters_per_batch)
    )


class _Sampler:
    """Makes a sampler. It is pickled without its rows, as the trainer writes its arguments into every checkpoint."""

    def __init__(self, make: Sampler | None) -> None:
        self._make = make

    def __call__(self, *given: Any, **settings: Any) -> DefaultBatchSampler:
        """The sampler of a data set.

        Raises:
            TrainingError: after unpickling.
        """
        if self._make is None:
            raise TrainingError("these arguments were read from a file, which holds no rows; set batch_sampler again")
        return self._make(*given, **settings)

    def __getstate__(self) -> dict[str, None]:
        return {"_make": None}


class NoDuplicates(DefaultBatchSampler):
    """Random batches without conflicts, as equal in size as can be; every row once per epoch.

    Rows of a collection are in conflict where their queries or positives share a passage (ids and normalised texts), or
    the positive of one is a known positive of the other's query. Rows of any other data set, where a text of theirs is
    the same except for case and white space.

    With drop_last all batches are full, and other rows are left out each epoch. Several processes (torchrun) get as
    many batches each, of all rows: drop_last is ignored there, as sentence-transformers always sets it against uneven
    ends. A process that no row is left for repeats one. `len()` is the number of batches of every epoch, which
    follow from seed and epoch alone.

    Raises:
        TrainingError: a data set without texts.
    """

    def __init__(
        self,
        dataset: Dataset,
        batch_size: int,
        drop_last: bool = False,
        valid_label_columns: list[str] | None = None,
        generator: Any = None,
        seed: int = 0,
        *,
        rows: TrainingRows | None = None,
    ) -> None:
        self._processes = get_world_size()
        drop_last = drop_last and self._processes == 1
        super().__init__(dataset, batch_size, drop_last, valid_label_columns, generator, seed)
        if self._processes > 1:
            # accelerate drops batches of another size than this within the epoch, and none where there is none
            self.batch_size = None  # type: ignore[assignment]
        self._rows = rows if dataset.column_names == ["row"] else None  # an evaluation data set may have texts
        if self._rows is not None:
            self._number = np.asarray(dataset.with_format("numpy")["row"][:], dtype=np.int64)
        self._conflicts = self._conflicts_of(dataset, [*(valid_label_columns or []), "dataset_name"])
        self._starts, self._content = batch_plan(self._conflicts, batch_size, self._processes, drop_last)

    def _conflicts_of(self, dataset: Dataset, not_texts: list[str]) -> Conflicts:
        """Which rows must not meet; not_texts: columns to leave out in a data set that is not of `rows`."""
        if self._rows is not None:
            return Conflicts.of_rows(self._rows).take(self._number)
        return Conflicts.of_texts(dataset, not_texts)

    def __len__(self) -> int:
        return len(self._starts) - 1

    def set_epoch(self, epoch: int) -> None:
        """The batches of this epoch are next, and the rows' negatives are drawn again."""
        super().set_epoch(epoch)
        if self._rows is not None:
            self._rows.set_epoch(epoch)

    def __iter__(self) -> Iterator[list[int]]:
        # The rows know better: accelerate hides the sampler of a run that resumes within an epoch from its trainer.
        rng = np.random.default_rng([self.seed, self.epoch if self._rows is None else self._rows.epoch])
        content = self._content.copy()
        arrange(self._conflicts, content, self._starts, *self._order(rng))
        rounds = np.arange(len(self)).reshape(-1, self._processes)  # one batch a process, of one size but for a round
        for batch in rng.permutation(rounds).ravel().tolist():
            yield content[self._starts[batch] : self._starts[batch + 1]].tolist() or content[:1].tolist()

    def _order(self, rng: np.random.Generator) -> Order:
        return random_order(len(self._content), rng)


class RandomBatches(NoDuplicates):
    """Random batches in which any rows may meet; else as `NoDuplicates`."""

    def _conflicts_of(self, dataset: Dataset, not_texts: list[str]) -> Conflicts:
        del not_texts
        return Conflicts.none(len(dataset))


class TopicBatchSampler(NoDuplicates):
    """Batches of queries on one topic, or a few (TAS-B: Hofstätter et al., SIGIR 2021); else as `NoDuplicates`.

    A topic's rows are drawn without replacement; rows that do not fill a batch are put together with what is left
    of similar topics (see `shuffle`).

    topic_of_query: gives, for a batch size, the topic of each query of the collection, int32 (n_queries), numbered so
    that topics next to each other are similar.
    """

    def __init__(
        self,
        dataset: Dataset,
        batch_size: int,
        *settings: Any,
        rows: TrainingRows,
        topic_of_query: Callable[[int], IntArray],
        clusters_per_batch: int = 1,
        **named_settings: Any,
    ) -> None:
        super().__init__(dataset, batch_size, *settings, rows=rows, **named_settings)
        self._topic: IntArray | None = None
        if self._rows is not None:
            self._topic = topic_of_query(batch_size)[rows.query_rows[self._number]]
        self._per_batch = clusters_per_batch

    def _order(self, rng: np.random.Generator) -> Order:
        if self._topic is None:
            return super()._order(rng)
        return topic_order(self._topic, self._starts, self._per_batch, rng)
