"""Which rows make a batch: none whose positive answers another's query, and if asked queries of one topic together.

Two rows are in conflict if each would be trained to push away what the other, or the collection, calls relevant. A
sampler finds once how all rows fit into a fixed number of batches without one. Each epoch then has an order it would
like the rows in, by chance or by topic, and swaps rows between batches towards it, but never into a conflict. So every
row is seen once an epoch, every epoch has the same number of batches, and no wish can break a promise.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any, NamedTuple, Self

import numpy as np
from datasets import Dataset
from sentence_transformers.base.sampler import DefaultBatchSampler
from sentence_transformers.util import get_world_size

from foolsgold.collection.texts import first_of_equal, normalise
from foolsgold.errors import TrainingError
from foolsgold.records import BoolArray, FloatArray, IntArray, LongArray, pair_keys, text_key
from foolsgold.search.clusters import spherical_kmeans
from foolsgold.search.kernels import compiled
from foolsgold.training.rows import TrainingRows

Sampler = Callable[..., DefaultBatchSampler]

_MOST_CLUSTERS = 2000  # TAS-B's, for the 400,000 training queries of MS MARCO (Hofstätter et al., 2021, section 4.2)
_SWAPS = 10_000  # tries of finding room for a row by moving another, before there is one batch more
_CANDIDATES = 32  # rows that a place is offered to, before it keeps what it has


def no_duplicates(rows: TrainingRows | None = None) -> Sampler:
    """A `batch_sampler` of the trainer: random batches of `NoDuplicates`.

    rows: what the trainer's data set is of. Without, the texts of the data set's columns say what is a duplicate.
    """
    return _Sampler(partial(NoDuplicates, rows=rows))


def at_random(rows: TrainingRows) -> Sampler:
    """A `batch_sampler` of the trainer: random batches in which any rows may meet, `RandomBatches`.

    rows: what the trainer's data set is of.
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
    """A `batch_sampler` of the trainer: queries of one topic in a batch, `TopicBatchSampler`.

    rows: what the trainer's data set is of.
    query_vectors: float32 (n_queries, d), of the collection's queries by any encoder that is not in training.
    n_clusters: topics; None: one for as many queries as fill a batch, at most 2,000.
    clusters_per_batch: topics in a batch. seed: of the clustering.

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
        place[_tour(centroids)] = np.arange(len(centroids))
        return place[labels]

    return _Sampler(
        partial(TopicBatchSampler, rows=rows, topic_of_query=topic_of_query, clusters_per_batch=clusters_per_batch)
    )


class _Sampler:
    """What makes a sampler, without which it is pickled: the trainer writes its arguments into every checkpoint."""

    def __init__(self, make: Sampler | None) -> None:
        self._make = make

    def __call__(self, *given: Any, **settings: Any) -> DefaultBatchSampler:
        """The sampler of a data set.

        Raises:
            TrainingError: after unpickling.
        """
        if self._make is None:
            raise TrainingError("these arguments were read from a file, which holds no rows; set batch_sampler anew")
        return self._make(*given, **settings)

    def __getstate__(self) -> dict[str, None]:
        return {"_make": None}


class NoDuplicates(DefaultBatchSampler):
    """Random batches without conflicts, as equal in size as can be; every row once an epoch.

    Rows of a collection are in conflict where their queries or positives share a passage (ids and normalised texts), or
    the positive of one is a known positive of the other's query. Rows of any other data set, where a text of theirs is
    the same but for case and white space.

    With drop_last all batches are full, and other rows are left out each epoch. Several processes (torchrun) get as
    many batches each, of all rows: drop_last is not heeded there, as sentence-transformers sets it unasked for fear of
    uneven ends. A process that no row is left for repeats one. `len()` is the number of batches of every epoch, which
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
        self._starts, self._content = _plan(self._conflicts, batch_size, self._processes, drop_last)

    def _conflicts_of(self, dataset: Dataset, not_texts: list[str]) -> Conflicts:
        """Which rows must not meet; not_texts: columns to leave out in a data set that is not of `rows`."""
        if self._rows is not None:
            return Conflicts.of_rows(self._rows).take(self._number)
        return Conflicts.of_texts(dataset, not_texts)

    def __len__(self) -> int:
        return len(self._starts) - 1

    def set_epoch(self, epoch: int) -> None:
        """The batches of this epoch are next, and the rows' negatives are drawn anew."""
        super().set_epoch(epoch)
        if self._rows is not None:
            self._rows.set_epoch(epoch)

    def __iter__(self) -> Iterator[list[int]]:
        # The rows know better: accelerate hides the sampler of a run that goes on within an epoch from its trainer.
        rng = np.random.default_rng([self.seed, self.epoch if self._rows is None else self._rows.epoch])
        places, wanted = self._wish(rng)
        content = self._content.copy()
        _arrange(self._conflicts, content, self._starts, places, wanted)
        rounds = np.arange(len(self)).reshape(-1, self._processes)  # one batch a process, of one size but for a round
        for batch in rng.permutation(rounds).ravel().tolist():
            yield content[self._starts[batch] : self._starts[batch + 1]].tolist() or content[:1].tolist()

    def _wish(self, rng: np.random.Generator) -> tuple[LongArray, LongArray]:
        """Places, int64 (n), and the rows that they should have, int64 (n), both in the order of filling."""
        return np.arange(len(self._content)), rng.permutation(len(self._content))


class RandomBatches(NoDuplicates):
    """Random batches in which any rows may meet; else as `NoDuplicates`."""

    def _conflicts_of(self, dataset: Dataset, not_texts: list[str]) -> Conflicts:
        del not_texts
        return Conflicts.none(len(dataset))


class TopicBatchSampler(NoDuplicates):
    """Batches of queries on one topic, or a few (TAS-B: Hofstätter et al., SIGIR 2021); else as `NoDuplicates`.

    A topic's rows are drawn without replacement. What is too little to fill a batch, or a topic's share of one, is put
    together with what is left of the topics next to it.

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

    def _wish(self, rng: np.random.Generator) -> tuple[LongArray, LongArray]:
        if self._topic is None:
            return super()._wish(rng)
        shares = self._shares(rng)
        rows = np.lexsort((rng.random(len(self._topic)), self._topic))
        filled: list[LongArray] = []
        rest: dict[int, LongArray] = {}
        of_topic = np.split(rows, np.cumsum(np.bincount(self._topic))[:-1])
        for topic in rng.permutation(len(of_topic)).tolist():
            left = of_topic[topic]
            while len(filled) < len(shares) and len(left) >= len(shares[len(filled)]):
                share, left = np.split(left, [len(shares[len(filled)])])
                filled.append(share)
            rest[topic] = left
        tour = np.concatenate([rest[topic] for topic in sorted(rest)])
        tour = np.roll(tour, rng.integers(max(len(tour), 1)))
        places = np.concatenate([*shares, np.arange(self._starts[-1], len(rows))])
        return places, np.concatenate([*filled, tour])

    def _shares(self, rng: np.random.Generator) -> list[LongArray]:
        """The places of each batch, in parts for one topic each, all in a drawn order."""
        batches = itertools.pairwise(self._starts.tolist())
        shares = [
            part
            for begin, end in batches
            for part in np.array_split(np.arange(begin, end), min(self._per_batch, max(end - begin, 1)))
        ]
        return [shares[i] for i in rng.permutation(len(shares)).tolist()]


class Conflicts(NamedTuple):
    """What tells of any two of n rows whether they are in conflict.

    texts: int32 (n, c), a number for each text of a row; equal texts have equal numbers. No two rows that share one
    may meet, nor two of which one's last text is among the answers to the other.
    answers: int32, of all queries; those of row i are answers[begin[i]:end[i]], ascending.
    is_free: bool (n), whether a row is in conflict with none.
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
        is_free = (_sharing(texts) == texts.shape[1]) & (end - begin == 1)
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
                f"the data set has the columns {', '.join(dataset.column_names)}, and none of texts to compare; give "
                "no_duplicates the rows that it is of, or take another batch_sampler"
            )
        keys = bytearray()
        for name in columns:
            for text in dataset[name][:]:
                keys += text_key(normalise(text))
        numbers = first_of_equal(np.frombuffer(bytes(keys), dtype=np.uint64).reshape(-1, 2))
        texts = np.ascontiguousarray(numbers.reshape(len(columns), -1).T)
        none = np.zeros(len(texts), dtype=np.int64)
        return cls(texts, none, none, np.empty(0, dtype=np.int32), _sharing(texts) == texts.shape[1])

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


def _sharing(texts: IntArray) -> LongArray:
    """int64 (n): how often a row's texts occur in all rows, its own included."""
    counts: LongArray = np.bincount(texts.ravel())[texts].sum(axis=1)
    return counts


def _plan(conflicts: Conflicts, batch_size: int, processes: int, drop_last: bool) -> tuple[LongArray, LongArray]:
    """Batches without conflicts: the row in each place, int64 (n), and where batches start, int64 (batches + 1).

    As few as hold all rows, or are full where drop_last, a multiple of the number of processes. What comes after the
    last batch is left out.
    """
    n = len(conflicts.texts)
    # Rows with most conflicts first, while there is room everywhere.
    order = np.argsort(-_sharing(conflicts.texts) - (conflicts.end - conflicts.begin), kind="stable")
    rounds = n // (batch_size * processes) if drop_last else _needed(n, conflicts, batch_size, processes)
    while True:
        sizes = np.full(rounds * processes, batch_size) if drop_last else _even(n, rounds, processes)
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        content = np.full(n, -1, dtype=np.int64)
        if _place(conflicts, order, starts, content):
            return starts, content
        rounds += -1 if drop_last else 1 + rounds // 20


def _needed(n: int, conflicts: Conflicts, batch_size: int, processes: int) -> int:
    return -(-max(-(-n // batch_size), conflicts.most_alike) // processes)


def _even(n: int, rounds: int, processes: int) -> LongArray:
    """int64 (rounds * processes): n in as equal numbers as can be, larger ones first; so most rounds have one size."""
    count = rounds * processes
    sizes: LongArray = n // max(count, 1) + (np.arange(count) < n % max(count, 1)).astype(np.int64)
    return sizes


@compiled
def _fits(conflicts: Any, row: Any, content: Any, begin: Any, end: Any, but: Any) -> Any:
    """Whether a row is in conflict with none of content[begin:end], -1 for an empty place, but for one of them."""
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
        # A single answer is the row's own positive, which the texts have told of.
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


@compiled
def _place(conflicts: Any, order: Any, starts: Any, content: Any) -> Any:
    """Put each row, in that order, into a batch that has room and no conflict; whether all could be.

    content: int64 (n), -1 in all places before. What comes after the last batch is one more, which takes any row.
    """
    n, n_batches = len(content), len(starts) - 1
    ends = np.append(starts[1:], n)
    filled = starts.copy()  # up to where each batch is
    batch_of = np.empty(n, np.int64)
    for batch in range(n_batches + 1):
        batch_of[starts[batch] : ends[batch]] = batch
    are_open = np.flatnonzero(filled < ends)
    n_open = len(are_open)
    luck = 1
    for row in order:
        luck = _next(luck)
        found, moved = -1, -1
        for step in range(n_open):
            place = (luck + step) % n_open
            batch = are_open[place]
            if batch == n_batches or _fits(conflicts, row, content, starts[batch], filled[batch], -1):
                found = place
                break
        for _ in range(0 if found >= 0 else _SWAPS):  # another row makes room for it
            luck = _next(luck)
            moved = luck % n
            luck = _next(luck)
            place = luck % n_open
            old, new = batch_of[moved], are_open[place]
            if (
                content[moved] >= 0
                and old != new
                and (old == n_batches or _fits(conflicts, row, content, starts[old], ends[old], content[moved]))
                and (new == n_batches or _fits(conflicts, content[moved], content, starts[new], ends[new], -1))
            ):
                found = place
                break
        if found < 0:
            return False
        batch = are_open[found]
        if moved >= 0:
            content[filled[batch]], content[moved] = content[moved], row
        else:
            content[filled[batch]] = row
        filled[batch] += 1
        if filled[batch] == ends[batch]:
            n_open -= 1
            are_open[found] = are_open[n_open]
    return True


@compiled
def _arrange(conflicts: Any, content: Any, starts: Any, places: Any, wanted: Any) -> None:
    """Swap rows between batches so that the places, one after another, hold the rows wanted, one after another.

    A row that cannot go where it should is offered the places that follow; a place that none of the first so many rows
    can have keeps its own.

    content: int64 (n), a row for each place, without conflicts in any batch before and after.
    """
    n, n_batches = len(content), len(starts) - 1
    batch_of = np.full(n, n_batches, np.int64)
    for batch in range(n_batches):
        batch_of[starts[batch] : starts[batch + 1]] = batch
    place_of, turn_of = np.empty(n, np.int64), np.empty(n, np.int64)
    place_of[content], turn_of[wanted] = np.arange(n), np.arange(n)
    following, before = np.arange(1, n + 2), np.arange(-1, n)  # the turns still to come, as a chain; n ends it
    first = 0
    for place in places:
        old = content[place]
        chosen = old
        turn = first
        for _ in range(_CANDIDATES):
            if turn == n:
                break
            row = wanted[turn]
            if _can_swap(conflicts, content, starts, batch_of, place, place_of[row]):
                chosen = row
                break
            turn = following[turn]
        content[place_of[chosen]], place_of[old] = old, place_of[chosen]
        content[place], place_of[chosen] = chosen, place
        turn = turn_of[chosen]
        if turn == first:
            first = following[turn]
        else:
            following[before[turn]] = following[turn]
        before[following[turn]] = before[turn]


@compiled
def _can_swap(conflicts: Any, content: Any, starts: Any, batch_of: Any, one: Any, other: Any) -> Any:
    """Whether the rows in two places can change places."""
    a, b = batch_of[one], batch_of[other]
    if a == b:
        return True
    left_out = len(starts) - 1
    if a != left_out and not _fits(conflicts, content[other], content, starts[a], starts[a + 1], content[one]):
        return False
    return b == left_out or _fits(conflicts, content[one], content, starts[b], starts[b + 1], content[other])


@compiled
def _next(luck: Any) -> Any:
    """A random number from the one before: MINSTD (Park, Miller, Comm. ACM 1988)."""
    return luck * 48271 % 2147483647


def _tour(centroids: FloatArray) -> LongArray:
    """int64 (c): an order of the centroids, each followed by the most similar one of those that are left."""
    order = np.zeros(len(centroids), dtype=np.int64)
    left = np.ones(len(centroids), dtype=np.bool_)
    left[0] = False
    for place in range(1, len(centroids)):
        similar = np.where(left, centroids @ centroids[order[place - 1]], -np.inf)
        order[place] = similar.argmax()
        left[order[place]] = False
    return order
