"""Batches: every row once, none with a false negative in it, as many as promised."""

from __future__ import annotations

import pickle
from collections import Counter
from itertools import combinations, permutations
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sentence_transformers", reason="needs the torch extra")
pytest.importorskip("accelerate", reason="needs the torch extra")

import toy
from accelerate.data_loader import BatchSamplerShard, SkipBatchSampler
from datasets import Dataset
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foolsgold.collection.texts import normalise
from foolsgold.errors import SourceError, TrainingError
from foolsgold.training import samplers
from foolsgold.training.rows import TrainingRows
from foolsgold.training.samplers import NoDuplicates, at_random, no_duplicates, topics

Batches = list[list[int]]


def _rows(pairs: list[tuple[int, int]]) -> TrainingRows:
    """Rows of (query, document). Every third document, and every fifth query, has the text of the one before it."""
    documents = {f"d{i}": f"text {i - 1}".upper() if i % 3 == 2 else f"text {i}" for _, i in pairs}
    queries = {f"q{i}": f"  query {i - 1}" if i % 5 == 4 else f"query {i}" for i, _ in pairs}
    judged: dict[str, dict[str, int]] = {}
    for query, document in pairs:
        judged.setdefault(f"q{query}", {})[f"d{document}"] = 1
    return TrainingRows(toy.collection(documents, queries, judged))


def _distinct(n: int) -> TrainingRows:
    return _rows([(5 * i, 3 * i) for i in range(n)])


def _sampler(make: Any, data: Dataset, batch_size: int, epoch: int = 0, drop_last: bool = False) -> Any:
    made = make(data, batch_size=batch_size, drop_last=drop_last, valid_label_columns=["label"], generator=None, seed=5)
    made.set_epoch(epoch)
    return made


def _conflicts(rows: TrainingRows, batches: Batches) -> list[tuple[int, int]]:
    """Rows of one batch that are in conflict by the definition, from texts."""
    texts = [normalise(text) for text in rows.collection.documents.take(rows.positive_rows)]
    asked = [normalise(text) for text in rows.collection.queries.take(rows.query_rows)]
    answers: dict[str, set[str]] = {}
    for query, text in zip(asked, texts, strict=True):
        answers.setdefault(query, set()).add(text)
    return [
        (one, other)
        for batch in batches
        for one, other in permutations(batch, 2)
        if asked[one] == asked[other] or texts[one] in answers[asked[other]]  # a row's own positive is an answer too
    ]


def _seen_once(rows: TrainingRows, batches: Batches) -> bool:
    """Whether each row is in one batch; the first of the plan again where there are fewer rows than batches."""
    seen = Counter(row for batch in batches for row in batch)
    spare = max(0, len(batches) - len(rows))
    return set(seen) == set(range(len(rows))) and seen.total() == len(rows) + spare


def _by_topic(rows: TrainingRows, **settings: Any) -> Any:
    vectors = np.random.default_rng(1).normal(size=(len(rows.collection.queries), 8)).astype(np.float32)
    return topics(rows, vectors, **settings)


MAKERS = {
    "no_duplicates": no_duplicates,
    "topics": _by_topic,
    "two topics a batch": lambda rows: _by_topic(rows, clusters_per_batch=2),
}

_PAIRS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 18)), min_size=3, max_size=50, unique=True)


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pairs=_PAIRS, batch_size=st.integers(1, 9), processes=st.integers(1, 3), epoch=st.integers(0, 3))
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_every_row_is_seen_once_and_no_batch_has_a_conflict(
    make: Any,
    pairs: list[tuple[int, int]],
    batch_size: int,
    processes: int,
    epoch: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(samplers, "get_world_size", lambda: processes)
    rows = _rows(pairs)
    sampler = _sampler(make(rows), rows.dataset, batch_size, epoch)
    batches = list(sampler)
    assert _seen_once(rows, batches)
    assert len(sampler) == len(batches)
    assert len(batches) % processes == 0
    assert all(1 <= len(batch) <= batch_size for batch in batches)
    assert _conflicts(rows, batches) == []


@settings(deadline=None, max_examples=25)
@given(pairs=_PAIRS, batch_size=st.integers(1, 9), epoch=st.integers(0, 3))
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_with_drop_last_all_batches_are_full_and_still_without_conflicts(
    make: Any, pairs: list[tuple[int, int]], batch_size: int, epoch: int
) -> None:
    rows = _rows(pairs)
    sampler = _sampler(make(rows), rows.dataset, batch_size, epoch, drop_last=True)
    batches = list(sampler)
    seen = [row for batch in batches for row in batch]
    assert len(seen) == len(set(seen))
    assert [len(batch) for batch in batches] == [batch_size] * len(sampler)
    assert _conflicts(rows, batches) == []


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_the_same_seed_and_epoch_give_the_same_batches_and_another_of_either_others(make: Any) -> None:
    rows = _distinct(50)
    first = list(_sampler(make(rows), rows.dataset, 8))
    assert list(_sampler(make(rows), rows.dataset, 8)) == first
    again = _sampler(make(rows), rows.dataset, 8, epoch=1)
    assert list(again) != first
    again.set_epoch(0)
    assert list(again) == first
    assert list(make(rows)(rows.dataset, batch_size=8, drop_last=False, seed=6)) != first


def test_rows_meet_by_chance_alone_where_nothing_is_in_conflict() -> None:
    rows = _distinct(12)
    sampler = _sampler(no_duplicates(rows), rows.dataset, 4)
    met: Counter[tuple[int, int]] = Counter()
    for epoch in range(600):
        sampler.set_epoch(epoch)
        met.update(pair for batch in sampler for pair in combinations(sorted(batch), 2))
    # Each of 66 pairs meets with probability 3/11: 163.6 of 600 times, s.d. 10.9.
    assert len(met) == 66
    assert min(met.values()) > 163.6 - 5 * 10.9
    assert max(met.values()) < 163.6 + 5 * 10.9


def test_no_batch_is_much_smaller_than_another() -> None:
    rows = _distinct(50)
    assert Counter(len(batch) for batch in _sampler(no_duplicates(rows), rows.dataset, 8)) == {7: 6, 8: 1}


def test_drop_last_leaves_out_other_rows_every_epoch() -> None:
    rows = _distinct(50)
    sampler = _sampler(no_duplicates(rows), rows.dataset, 8, drop_last=True)
    left_out = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        left_out.append(set(range(50)) - {row for batch in sampler for row in batch})
    assert [len(rows) for rows in left_out] == [2, 2]
    assert left_out[0] != left_out[1]


def test_there_are_as_many_batches_as_a_query_has_positives() -> None:
    rows = _rows([(0, 3 * i) for i in range(10)] + [(5 * i, 300) for i in range(1, 3)])
    assert len(_sampler(no_duplicates(rows), rows.dataset, 6)) == 10


def test_a_positive_of_another_rows_query_is_in_another_batch_though_neither_text_is_shared() -> None:
    # Query 0 has documents 0 and 3, query 5 has 3 and 6: rows (0, 0) and (5, 3) share nothing, but 3 answers query 0.
    rows = _rows([(0, 0), (0, 3), (5, 3), (5, 6), (10, 9), (15, 12), (20, 15), (25, 18)])
    for epoch in range(20):
        batches = list(_sampler(no_duplicates(rows), rows.dataset, 2, epoch))
        assert len(batches) == 4
        assert not any({0, 2} <= set(batch) for batch in batches)


def test_a_query_that_is_the_positive_of_another_row_is_in_another_batch() -> None:
    documents = {"a": "same", "b": "other", "c": "third", "d": "fourth"}
    queries = {"a": "first", "b": "Same ", "c": "what", "d": "why"}
    rows = TrainingRows(toy.collection(documents, queries, {key: {key: 1} for key in "abcd"}))
    for epoch in range(20):
        batches = list(_sampler(no_duplicates(rows), rows.dataset, 2, epoch))
        assert not any({0, 1} <= set(batch) for batch in batches)


def test_a_part_of_the_rows_in_another_order_is_compared_by_what_it_holds() -> None:
    rows = _rows([(0, 0), (0, 3), (5, 9), (10, 12), (15, 15)])
    part = rows.dataset.select([4, 1, 2, 0])  # 1 and 3 are rows of query 0
    for epoch in range(20):
        assert not any({1, 3} <= set(batch) for batch in _sampler(no_duplicates(rows), part, 2, epoch))


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pairs=_PAIRS, batch_size=st.integers(1, 9), processes=st.integers(2, 3))
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_accelerate_hands_every_process_as_many_batches_and_loses_no_row(
    make: Any, pairs: list[tuple[int, int]], batch_size: int, processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samplers, "get_world_size", lambda: processes)
    rows = _rows(pairs)
    # The trainer sets drop_last itself under several processes.
    sampler = _sampler(make(rows), rows.dataset, batch_size, drop_last=True)
    shards = [BatchSamplerShard(sampler, processes, i, even_batches=False) for i in range(processes)]
    given_out = [list(shard) for shard in shards]
    assert {len(batches) for batches in given_out} == {len(shard) for shard in shards} == {len(sampler) // processes}
    assert _seen_once(rows, [batch for batches in given_out for batch in batches])
    # One process waits for another with a larger batch in one step at most.
    assert sum(len({len(batch) for batch in step}) > 1 for step in zip(*given_out, strict=True)) <= 1


def test_a_run_that_goes_on_within_an_epoch_sees_the_rest_of_that_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samplers, "get_world_size", lambda: 2)
    rows = _distinct(40)
    whole = list(BatchSamplerShard(_sampler(no_duplicates(rows), rows.dataset, 5, epoch=3), 2, 1, even_batches=False))
    rows.set_epoch(0)
    fresh = no_duplicates(rows)(rows.dataset, batch_size=5, drop_last=False, seed=5)
    resumed = SkipBatchSampler(BatchSamplerShard(fresh, 2, 1, even_batches=False), 2)  # passes no epoch on
    rows.set_epoch(3)
    assert list(resumed) == whole[2:]


def test_a_process_that_no_row_is_left_for_repeats_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samplers, "get_world_size", lambda: 4)
    rows = _distinct(3)
    batches = list(_sampler(no_duplicates(rows), rows.dataset, 2))
    assert [len(batch) for batch in batches] == [1] * 4
    assert _seen_once(rows, batches)


def test_a_users_own_texts_are_compared_without_white_space_and_case() -> None:
    data = Dataset.from_dict(
        {
            "anchor": ["a", "b", "c", "d", "e", "f"],
            "positive": ["One  two", "one two", "three", "four", "five", "six"],
            "negative": ["seven", "eight", "D ", "nine", "ten", "Eleven"],
            "label": ["same"] * 6,
        }
    )
    for epoch in range(20):
        batches = list(_sampler(no_duplicates(), data, 3, epoch))
        assert len(batches) == 2
        assert sorted(row for batch in batches for row in batch) == [0, 1, 2, 3, 4, 5]
        assert not any({0, 1} <= set(batch) or {2, 3} <= set(batch) for batch in batches)


def test_an_evaluation_data_set_of_texts_is_compared_by_its_texts() -> None:
    data = Dataset.from_dict({"anchor": ["a", "a", "b", "c"], "positive": ["1", "2", "3", "4"]})
    rows = _distinct(9)
    for make in (no_duplicates(rows), _by_topic(rows)):
        batches = list(_sampler(make, data, 2))
        assert sorted(row for batch in batches for row in batch) == [0, 1, 2, 3]
        assert not any({0, 1} <= set(batch) for batch in batches)


def test_a_users_data_set_without_texts_is_refused() -> None:
    with pytest.raises(TrainingError, match="has the columns number, and none has texts"):
        _sampler(no_duplicates(), Dataset.from_dict({"number": [1]}), 2)


def test_the_class_itself_is_a_batch_sampler() -> None:
    data = Dataset.from_dict({"anchor": ["a", "a"], "positive": ["1", "2"]})
    assert sorted(_sampler(NoDuplicates, data, 2)) == [[0], [1]]


def _topics_on_a_circle(n: int, per_topic: int) -> Any:
    angle = np.repeat(np.arange(n), per_topic) / n * 2 * np.pi
    return np.stack([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32)


def test_a_batch_holds_queries_of_one_topic_where_topics_are_large_enough() -> None:
    rows = _distinct(64)
    vectors, topic = _topics_on_a_circle(4, 16), np.repeat(np.arange(4), 16)
    one = topics(rows, vectors, n_clusters=4)
    assert [len(set(topic[batch])) for batch in _sampler(one, rows.dataset, 8)] == [1] * 8
    two = topics(rows, vectors, n_clusters=4, clusters_per_batch=2)
    counts = [sorted(Counter(topic[batch].tolist()).values()) for batch in _sampler(two, rows.dataset, 8)]
    assert all(count in ([4, 4], [8]) for count in counts)  # the same topic may be drawn twice
    assert [4, 4] in counts


def test_queries_of_a_topic_meet_others_of_it_every_epoch() -> None:
    rows = _distinct(64)
    make = topics(rows, _topics_on_a_circle(4, 16), n_clusters=4)
    first, second = ({frozenset(batch) for batch in _sampler(make, rows.dataset, 8, epoch=epoch)} for epoch in range(2))
    assert not first & second


def test_small_topics_are_filled_up_from_the_topics_next_to_them() -> None:
    rows = _distinct(24)
    topic = np.repeat(np.arange(8), 3)
    sampler = _sampler(topics(rows, _topics_on_a_circle(8, 3), n_clusters=8), rows.dataset, 6)
    spans = []
    for epoch in range(5):
        sampler.set_epoch(epoch)
        for batch in sampler:
            found = np.unique(topic[batch])
            gaps = np.diff([*found, found[0] + 8])  # around the circle
            spans.append(8 - int(gaps.max()))  # from the first of a batch's topics to the last
    # Six rows are all of two topics, or of three next to each other; where the tour began it may jump.
    assert set(spans) <= {1, 2, 3, 4}
    assert np.mean(np.array(spans) <= 2) >= 0.75


def test_clusters_are_by_default_one_for_a_batch_of_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    real = samplers.spherical_kmeans

    def noted(vectors: Any, n_clusters: int, **settings: Any) -> Any:
        asked.append(n_clusters)
        return real(vectors, n_clusters, **settings)

    monkeypatch.setattr(samplers, "spherical_kmeans", noted)
    rows = _distinct(50)
    make = _by_topic(rows)
    for batch_size in (8, 8, 64):
        _sampler(make, rows.dataset, batch_size)
    assert asked == [6, 1]  # once a batch size


def test_what_topics_cannot_be_made_of_is_refused() -> None:
    rows = _distinct(24)
    with pytest.raises(TrainingError, match="5 query vectors for 24 queries"):
        topics(rows, np.ones((5, 2), dtype=np.float32))
    with pytest.raises(TrainingError, match="at least one topic"):
        _by_topic(rows, clusters_per_batch=0)
    with pytest.raises(SourceError, match="ask for at most 24"):
        _sampler(_by_topic(rows, n_clusters=30), rows.dataset, 4)


def test_a_checkpoint_does_not_hold_the_rows_of_its_sampler() -> None:
    rows = _rows_for_pickling()
    for sampler in (no_duplicates(rows), topics(rows, np.eye(3, 4, dtype=np.float32))):
        written = pickle.dumps(sampler)
        assert len(written) < 200
        with pytest.raises(TrainingError, match="set batch_sampler again"):
            pickle.loads(written)(rows.dataset, 2)


def _rows_for_pickling() -> TrainingRows:
    texts = {f"{i}": f"text {i}" for i in range(3)}
    return TrainingRows(toy.collection(texts, texts, {name: {name: 1} for name in texts}))


def test_random_batches_are_as_few_as_can_be_whatever_the_rows_share() -> None:
    rows = _rows([(5 * i, 0) for i in range(50)])  # all with one positive
    made = _sampler(at_random(rows), rows.dataset, 8)
    assert len(made) == 7
    batches = list(made)
    assert sorted(row for batch in batches for row in batch) == list(range(50))
    assert {len(batch) for batch in batches} == {7, 8}
    made.set_epoch(1)
    assert list(made) != batches
