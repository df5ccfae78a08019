"""Batches: every row once, none with a false negative in it, as many as promised."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sentence_transformers", reason="needs the torch extra")

import toy
from datasets import Dataset
from hypothesis import given, settings
from hypothesis import strategies as st

from foolsgold.errors import TrainingError
from foolsgold.train.rows import TrainingRows
from foolsgold.train.samplers import Conflicts, NoDuplicates, no_duplicates, topics


def _rows(pairs: list[tuple[int, int]]) -> TrainingRows:
    """Rows of (query, document); every third document's text is that of the one before it, but for case."""
    documents = {f"d{i}": f"text {i - (i % 3 == 2)}".upper() if i % 3 == 2 else f"text {i}" for _, i in pairs}
    queries = {f"q{i}": f"query {i}" for i, _ in pairs}
    judged: dict[str, dict[str, int]] = {}
    for query, document in pairs:
        judged.setdefault(f"q{query}", {})[f"d{document}"] = 1
    return TrainingRows(toy.collection(documents, queries, judged))


def _sampler(rows: TrainingRows, batch_size: int, epoch: int = 0, make: Any = no_duplicates, **settings: Any) -> Any:
    made = make(rows)(rows.dataset, batch_size=batch_size, drop_last=False, seed=5, **settings)
    made.set_epoch(epoch)
    return made


def _false_negatives(rows: TrainingRows, batch: list[int]) -> int:
    """Pairs of rows in a batch of which one's positive is a positive of the other's query, by text."""
    collection = rows.collection
    passage = collection.documents.passage
    answers: dict[int, set[int]] = {}
    for query, document in zip(rows.query_rows, rows.positive_rows, strict=True):
        answers.setdefault(int(query), set()).add(int(passage[document]))
    return sum(
        int(passage[rows.positive_rows[one]]) in answers[int(rows.query_rows[other])]
        for one in batch
        for other in batch
        if one != other
    )


_PAIRS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 18)), min_size=1, max_size=60, unique=True)


@settings(deadline=None, max_examples=60)
@given(_PAIRS, st.integers(2, 9), st.integers(0, 3))
def test_every_row_is_in_one_batch_and_no_batch_has_a_false_negative(
    pairs: list[tuple[int, int]], batch_size: int, epoch: int
) -> None:
    rows = _rows(pairs)
    sampler = _sampler(rows, batch_size, epoch)
    batches = list(sampler)
    assert sorted(row for batch in batches for row in batch) == list(range(len(rows)))
    assert len(sampler) == len(batches)
    assert all(_false_negatives(rows, batch) == 0 for batch in batches)


@settings(deadline=None, max_examples=30)
@given(_PAIRS, st.integers(2, 9), st.integers(1, 2))
def test_topic_batches_keep_the_same_promises(pairs: list[tuple[int, int]], batch_size: int, per_batch: int) -> None:
    rows = _rows(pairs)
    vectors = np.random.default_rng(1).normal(size=(len(rows.collection.queries), 8)).astype(np.float32)
    sampler = _sampler(rows, batch_size, make=lambda rows: topics(rows, vectors, clusters_per_batch=per_batch))
    batches = list(sampler)
    assert sorted(row for batch in batches for row in batch) == list(range(len(rows)))
    assert len(sampler) == len(batches)
    assert all(_false_negatives(rows, batch) == 0 for batch in batches)


def _distinct(n: int) -> TrainingRows:
    return _rows([(i, 3 * i) for i in range(n)])


def test_the_same_seed_and_epoch_give_the_same_batches_and_another_epoch_others() -> None:
    rows = _distinct(50)
    assert list(_sampler(rows, 8)) == list(_sampler(rows, 8))
    assert list(_sampler(rows, 8, epoch=1)) != list(_sampler(rows, 8))


def test_batches_are_full_but_for_the_last() -> None:
    sizes = sorted(len(batch) for batch in _sampler(_distinct(50), 8))
    assert sizes == [2, 8, 8, 8, 8, 8, 8]


def test_drop_last_leaves_out_what_is_not_full() -> None:
    rows = _distinct(50)
    sampler = no_duplicates(rows)(rows.dataset, batch_size=8, drop_last=True, seed=5)
    assert [len(batch) for batch in sampler] == [8] * 6
    assert len(sampler) == 6


def test_there_are_as_many_batches_as_one_passage_needs() -> None:
    rows = _rows([(0, 3 * i) for i in range(10)] + [(i, 300) for i in range(1, 3)])  # query 0 has ten positives
    assert len(list(_sampler(rows, 6))) == 10


def test_processes_get_as_many_batches_of_nearly_one_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    batches = list(_sampler(_distinct(50), 8))
    assert len(batches) == 8
    assert Counter(len(batch) for batch in batches) == {6: 6, 7: 2}


def test_a_users_own_texts_are_compared_without_white_space_and_case() -> None:
    data = Dataset.from_dict({"anchor": ["a", "b", "c", "d"], "positive": ["One  two", "one two", "three", "four"]})
    for epoch in range(10):
        sampler = no_duplicates()(data, batch_size=2, drop_last=False)
        sampler.set_epoch(epoch)
        batches = list(sampler)
        assert sorted(row for batch in batches for row in batch) == [0, 1, 2, 3]
        assert [0, 1] not in map(sorted, batches)


def test_a_users_data_without_two_columns_of_texts_is_refused() -> None:
    with pytest.raises(TrainingError, match="compares two of texts"):
        no_duplicates()(Dataset.from_dict({"text": ["a"]}), batch_size=2, drop_last=False)


def test_a_batch_holds_queries_of_one_topic_where_topics_are_large_enough() -> None:
    rows = _distinct(64)
    topic = np.arange(64) % 4
    vectors = np.eye(4, dtype=np.float32)[topic] + 0.01
    sampler = _sampler(rows, 8, make=lambda rows: topics(rows, vectors, n_clusters=4))
    assert [len(set(topic[batch])) for batch in sampler] == [1] * 8
    two = _sampler(rows, 8, make=lambda rows: topics(rows, vectors, n_clusters=4, clusters_per_batch=2))
    counts = [sorted(Counter(topic[batch].tolist()).values()) for batch in two]
    assert all(count in ([4, 4], [8]) for count in counts)
    assert [4, 4] in counts


def test_small_topics_are_filled_up_from_the_topics_next_to_them() -> None:
    rows = _distinct(24)
    angle = np.repeat(np.arange(8), 3) / 8 * np.pi  # eight topics of three queries on a half circle
    vectors = np.stack([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32)
    for batch in _sampler(rows, 6, make=lambda rows: topics(rows, vectors, n_clusters=8)):
        of = np.unique((np.arange(24) // 3)[batch])
        gaps = np.diff([*of, of[0] + 8])  # around the circle that the two ends of the tour close
        assert gaps.max() >= 8 - 3


def test_vectors_of_other_queries_are_refused() -> None:
    with pytest.raises(TrainingError, match="5 query vectors for 24 queries"):
        topics(_distinct(24), np.ones((5, 2), dtype=np.float32))


def test_a_sampler_of_other_rows_is_refused() -> None:
    with pytest.raises(TrainingError, match="the sampler is of 3 rows and the data set has 24"):
        NoDuplicates(Conflicts.of(np.arange(3), np.arange(3)), _distinct(24).dataset, 4)
