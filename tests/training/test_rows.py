"""Training rows: which negatives a row has in which epoch, and what the loss is told of them."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sentence_transformers", reason="needs the torch extra")
pytest.importorskip("accelerate", reason="needs the torch extra")

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from table_student import static_student
from torch.utils.data import DataLoader
from toy import TableTeacher, collection, run_file

import foolsgold as fg
from foolsgold.errors import TrainingError
from foolsgold.mined.mined_set import MinedSet
from foolsgold.training.labels import RowLabels
from foolsgold.training.losses import MultipleNegativesRankingLoss
from foolsgold.training.rows import TrainingRows, balanced_order, tenths

DOCS = {"p1": "one", "p2": "two", "a": "three", "b": "four", "c": "five", "d": "six", "e": "seven", "x": "eight"}
QUERIES = {"q": "count", "r": "sum", "s": "alone"}
JUDGED = {"q": {"p1": 1, "p2": 1}, "r": {"p1": 1}, "s": {"x": 1}}
SCORES = {"p1": 0.9, "p2": 0.8, "a": 0.1, "b": 0.2, "c": 0.5, "d": 0.05, "e": 0.3, "x": 0.95}
LISTS = {"q": ["a", "b", "c", "d", "e"], "r": ["b"]}
ROW = {name: row for row, name in enumerate(DOCS)}


def _what() -> Any:
    return collection(DOCS, QUERIES, JUDGED)


def _mined(folder: Path, what: Any = None, lists: Any = LISTS, **sections: Any) -> MinedSet:
    folder.mkdir(parents=True, exist_ok=True)
    teacher = TableTeacher({DOCS[doc]: score for doc, score in SCORES.items()})
    settings = {
        "retriever": None,
        "teacher": teacher,
        "decide": {"negative_below": 0.35, "positive_above": 0.85, "ambiguous": "weight"},
        "select": {"strategy": "top", "per_query": 5},
        **sections,
    }
    return fg.mine(
        _what() if what is None else what,
        sources={"run": {"path": str(run_file(folder / "run.txt", lists))}},
        out=folder / "mined",
        **settings,
    )


@pytest.fixture(scope="module")
def mined(tmp_path_factory: pytest.TempPathFactory) -> MinedSet:
    return _mined(tmp_path_factory.mktemp("set"))


def _labels(rows: TrainingRows, of: Any = slice(None)) -> RowLabels:
    return RowLabels.unpack(torch.stack(rows.dataset[of]["label"]))


def _negatives(rows: TrainingRows, row: int) -> list[int]:
    """The document rows of the negatives drawn for a row, without repetitions."""
    labels = _labels(rows, [row])
    return labels.documents[0, 1:][labels.weights[0] > 0].tolist()


def test_a_row_is_a_query_and_a_positive_in_the_collections_order() -> None:
    rows = TrainingRows(_what())
    assert len(rows) == len(rows.dataset) == 4
    assert rows.dataset.column_names == ["row"]
    found = rows.dataset[:]
    assert (found["anchor"], found["positive"]) == (
        ["count", "count", "sum", "alone"],
        ["one", "two", "one", "eight"],
    )
    assert set(found) == {"anchor", "positive", "label"}
    assert rows.query_rows.tolist() == [0, 0, 1, 2]
    assert rows.positive_rows.tolist() == [ROW["p1"], ROW["p2"], ROW["p1"], ROW["x"]]


def test_the_texts_of_negatives_are_those_that_the_label_names(mined: MinedSet) -> None:
    rows = TrainingRows(_what(), mined, 3)
    found, labels = rows.dataset[:], _labels(rows)
    names = ["positive", "negative_1", "negative_2", "negative_3"]
    assert list(found) == ["anchor", *names, "label"]
    texts = rows.collection.documents
    for place, name in enumerate(names):
        assert found[name] == texts.take(labels.documents[:, place].numpy())


def test_weights_and_the_teachers_logits_ride_along(mined: MinedSet) -> None:
    labels = _labels(TrainingRows(_what(), mined, 5), [0])
    assert sorted(labels.documents[0, 1:].tolist()) == [ROW[name] for name in "abcde"]
    weights = dict(zip(labels.documents[0, 1:].tolist(), labels.weights[0].tolist(), strict=True))
    # The ambiguous zone is 0.35 to 0.85, and 0.5 in it weighs (0.85 - 0.5) / (0.85 - 0.35).
    assert weights == pytest.approx({ROW[name]: 0.7 if name == "c" else 1.0 for name in "abcde"})
    names = {row: name for name, row in ROW.items()}
    probability = torch.sigmoid(labels.scores[0]).tolist()
    assert probability == pytest.approx([SCORES[names[row]] for row in labels.documents[0].tolist()], abs=1e-6)


def test_a_row_with_too_few_negatives_repeats_one_without_weight_and_one_without_any_its_positive(
    mined: MinedSet,
) -> None:
    labels = _labels(TrainingRows(_what(), mined, 2), [2, 3])
    assert labels.documents.tolist() == [[ROW["p1"], ROW["b"], ROW["b"]], [ROW["x"]] * 3]
    assert labels.weights.tolist() == [[1, 0], [0, 0]]


def test_negatives_are_drawn_without_repetition_again_every_epoch_and_all_alike(mined: MinedSet) -> None:
    rows = TrainingRows(_what(), mined, 2)
    counts: Counter[int] = Counter()
    for epoch in range(1000):
        rows.set_epoch(epoch)
        drawn = _negatives(rows, 0)
        assert len(set(drawn)) == 2
        counts.update(drawn)
    # Each of five is drawn with probability 2/5: 400 times, s.d. 15.5.
    assert sorted(counts) == [ROW[name] for name in "abcde"]
    assert all(abs(count - 400) < 5 * 15.5 for count in counts.values())


def test_draws_follow_from_seed_epoch_and_row_whatever_else_is_in_the_batch(mined: MinedSet) -> None:
    rows, again, other = (TrainingRows(_what(), mined, 2, seed=seed) for seed in (1, 1, 2))
    alone = [_labels(rows, [row]).documents[0].tolist() for row in range(4)]
    again.set_epoch(5)
    again.set_epoch(0)
    assert _labels(again, [3, 0, 2, 1]).documents.tolist() == [alone[row] for row in (3, 0, 2, 1)]
    differ = []
    for epoch in range(20):
        rows.set_epoch(epoch)
        other.set_epoch(epoch)
        differ.append(_negatives(rows, 0) != _negatives(other, 0))
    assert any(differ)
    differ = []
    for epoch in range(20):
        rows.set_epoch(epoch)
        differ.append(set(_negatives(rows, 0)) != set(_negatives(rows, 1)))  # two positives of one query, one list
    assert any(differ)


def test_another_set_takes_the_place_of_the_first_in_the_same_data_set(tmp_path: Path, mined: MinedSet) -> None:
    rows = TrainingRows(_what(), mined, 2)
    dataset = rows.dataset
    rows.swap(_mined(tmp_path, lists={"s": ["d"], "q": ["a"]}), 1)
    labels = RowLabels.unpack(torch.stack(dataset[:]["label"]))
    assert labels.documents.tolist() == [
        [ROW["p1"], ROW["a"]],
        [ROW["p2"], ROW["a"]],
        [ROW["p1"], ROW["p1"]],
        [ROW["x"], ROW["d"]],
    ]
    rows.swap(None, 0)
    assert set(dataset[:]) == {"anchor", "positive", "label"}


def test_negatives_mined_beside_one_positive_are_of_that_row_alone(tmp_path: Path) -> None:
    decide = {
        "positive_reference": "each", "negative_below": None, "positive_above": None, "absolute_margin": 0.35,
    }  # fmt: skip
    each = _mined(tmp_path, lists={"q": ["c", "e"]}, decide=decide)
    rows = TrainingRows(_what(), each, 2)
    # c, at 0.5, is far enough below p1, at 0.9, but not below p2, at 0.8.
    assert [sorted(_negatives(rows, row)) for row in range(4)] == [[ROW["c"], ROW["e"]], [ROW["e"]], [], []]


def test_a_set_of_another_collection_is_refused(mined: MinedSet) -> None:
    other = collection({**DOCS, "a": "changed"}, QUERIES, JUDGED)
    with pytest.raises(TrainingError, match="was mined from toy, split train, as it was then"):
        TrainingRows(other, mined, 2)


def test_a_relabelled_set_goes_with_its_collection_before_and_after(tmp_path: Path) -> None:
    teacher = TableTeacher({DOCS[doc]: 0.99 if doc == "c" else score for doc, score in SCORES.items()})
    relabelled = _mined(tmp_path, teacher=teacher, relabel=True)
    assert len(TrainingRows(_what(), relabelled, 2)) == 4
    rows = TrainingRows(relabelled.collection, relabelled, 2)
    assert len(rows) == 5  # c is a positive of q now
    assert ROW["c"] in rows.positive_rows
    assert ROW["c"] not in _labels(rows).documents[:, 1:]


def test_a_number_of_negatives_that_has_no_prompts_is_refused(mined: MinedSet) -> None:
    for n in (-1, 65):
        with pytest.raises(TrainingError, match=f"n is {n}; a row has from 0 to 64 negatives"):
            TrainingRows(_what(), mined, n)


def test_prompts_are_of_columns_and_only_where_there_are_some() -> None:
    rows = TrainingRows(_what())
    assert rows.prompts(None, "") == {}
    assert rows.prompts("query: ", None) == {"anchor": "query: "}
    both = rows.prompts("query: ", "passage: ")
    assert (both["anchor"], both["positive"], both["negative_64"], len(both)) == (
        "query: ", "passage: ", "passage: ", 66,
    )  # fmt: skip


@pytest.mark.parametrize("persistent", [False, True])
def test_workers_see_the_epoch(mined: MinedSet, persistent: bool) -> None:
    rows = TrainingRows(_what(), mined, 2)
    loader: Any = DataLoader(
        rows.dataset, batch_size=2, num_workers=2, persistent_workers=persistent, collate_fn=lambda batch: batch,
        multiprocessing_context="fork",
    )  # fmt: skip
    for epoch in range(3):
        rows.set_epoch(epoch)
        loaded = [row["label"].tolist() for batch in loader for row in batch]
        assert loaded == [label.tolist() for label in rows.dataset[:]["label"]]


def test_rows_can_be_pickled_and_a_copied_data_set_follows_the_epoch(mined: MinedSet) -> None:
    rows = TrainingRows(_what(), mined, 2)
    copied = rows.dataset.select([1, 0])
    for epoch in range(5):
        rows.set_epoch(epoch)
        wanted = [label.tolist() for label in rows.dataset[:]["label"]]
        assert [label.tolist() for label in pickle.loads(pickle.dumps(rows)).dataset[:]["label"]] == wanted
        assert [label.tolist() for label in copied[:]["label"]] == [wanted[1], wanted[0]]


def test_a_plain_trainer_with_its_own_batch_sampler_draws_anew_every_epoch(tmp_path: Path, mined: MinedSet) -> None:
    rows = TrainingRows(_what(), mined, 2)
    student, seen = static_student(), []

    class Noting(MultipleNegativesRankingLoss):
        def forward(self, features: Any, labels: Any = None) -> Any:
            seen.extend(labels.tolist())
            return super().forward(features, labels)

    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(tmp_path), num_train_epochs=4, per_device_train_batch_size=1, use_cpu=True, save_strategy="no",
        report_to="none", disable_tqdm=True,
    )  # fmt: skip
    SentenceTransformerTrainer(model=student, args=arguments, train_dataset=rows.dataset, loss=Noting(student)).train()
    wanted = []
    for epoch in range(4):
        rows.set_epoch(epoch)
        wanted.append(sorted(label.tolist() for label in rows.dataset[:]["label"]))
    assert [sorted(seen[4 * epoch : 4 * epoch + 4]) for epoch in range(4)] == wanted
    assert wanted[0] != wanted[1]


def test_a_balanced_draw_needs_a_teacher(tmp_path: Path) -> None:
    without = _mined(tmp_path, teacher=None, decide={"negative_below": None, "positive_above": None})
    with pytest.raises(TrainingError, match="mined without one; draw uniformly"):
        TrainingRows(_what(), without, 2, draw="balanced")


def test_balanced_rows_draw_the_lone_hard_negative_as_often_as_all_easy_ones(tmp_path: Path) -> None:
    docs = {"p": "positive", "hard": "hard", **{f"e{i}": f"easy {i}" for i in range(9)}}
    what = collection(docs, {"q": "query"}, {"q": {"p": 1}})
    scores = {"positive": 0.9, "hard": 0.3, **{f"easy {i}": 0.01 + i / 1e5 for i in range(9)}}
    mined = fg.mine(
        what, retriever=None, teacher=TableTeacher(scores), out=tmp_path / "mined",
        sources={"run": {"path": str(run_file(tmp_path / "run.txt", {"q": list(docs)[1:]}))}},
        decide={"negative_below": 0.35, "positive_above": 0.85}, select={"strategy": "top", "per_query": 10, "cap": 10},
    )  # fmt: skip
    hard = list(docs).index("hard")
    drawn = {}
    for draw in ("uniform", "balanced"):
        rows = TrainingRows(what, mined, 1, draw=draw)  # type: ignore[arg-type]
        drawn[draw] = 0
        for epoch in range(400):
            rows.set_epoch(epoch)
            drawn[draw] += _negatives(rows, 0) == [hard]
    assert abs(drawn["uniform"] - 40) < 5 * 6  # one of ten; s.d. 6
    assert abs(drawn["balanced"] - 200) < 5 * 10  # one of two tenths that are not empty; s.d. 10


def test_tenths_are_of_the_range_of_each_row() -> None:
    nan = np.nan
    margins = np.array([0, 1, 5, 9.9, 10, -3, -2, 4, 4, nan, nan], dtype=np.float32)
    owner = np.array([0, 0, 0, 0, 0, 1, 1, 2, 2, 2, 3])
    assert tenths(margins, owner, 5).tolist() == [0, 1, 5, 9, 9, 0, 9, 0, 0, 10, 10]


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.lists(st.one_of(st.integers(0, 30), st.just(None)), max_size=12), min_size=1, max_size=6),
    st.integers(1, 8),
    st.integers(0, 2**32),
)
def test_a_balanced_draw_is_an_order_of_each_rows_own_negatives(
    lists: list[list[int | None]], n: int, seed: int
) -> None:
    margins = np.array([np.nan if m is None else m for of in lists for m in of], dtype=np.float32)
    owner = np.repeat(np.arange(len(lists)), [len(of) for of in lists])
    rng = np.random.default_rng(seed)
    keys, chance = (rng.integers(0, 2**64, size, dtype=np.uint64) for size in (len(lists), len(margins)))
    order = balanced_order(margins, owner, keys, chance, n)
    assert sorted(order.tolist()) == list(range(len(margins)))
    assert (np.diff(owner[order]) >= 0).all()


def test_a_balanced_draw_takes_each_open_tenth_alike() -> None:
    margins = np.array([0, 0.1, 0.2, 0.3, 5, 10, 10], dtype=np.float32)  # tenths 0 (four), 5 (one), 9 (two)
    b = 3000
    owner = np.repeat(np.arange(b), len(margins))
    rng = np.random.default_rng(3)
    keys, chance = (rng.integers(0, 2**64, size, dtype=np.uint64) for size in (b, len(owner)))
    order = balanced_order(np.tile(margins, b), owner, keys, chance, 3).reshape(b, -1) % len(margins)
    tenth = tenths(margins, np.zeros(7, dtype=np.int64), 1)[order]
    first = np.bincount(tenth[:, 0], minlength=10)[[0, 5, 9]]
    assert (abs(first - 1000) < 5 * 26).all()  # s.d. 26
    after_the_lone_one = tenth[tenth[:, 0] == 5, 1]
    assert set(after_the_lone_one) == {0, 9}  # its tenth is empty then, and redrawn
    assert abs((after_the_lone_one == 0).mean() - 0.5) < 5 * 0.5 / len(after_the_lone_one) ** 0.5
    of_the_easy = np.bincount(order[tenth[:, 0] == 0, 0], minlength=4)
    assert (abs(of_the_easy - of_the_easy.sum() / 4) < 5 * 14).all()  # s.d. 14
