"""Jaccard similarity of shingles, against plain Python sets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foolsgold.collection import Texts, normalise
from foolsgold.search import shingles
from foolsgold.search.shingles import jaccard, jaccard_at_least

PAIRED = [
    ("abcdef", "abcdef", 1.0),
    ("abc def", "ABC \n DEF", 1.0),
    ("abcdef", "abcdeg", 1 / 3),
    ("abcdef", "uvwxyz", 0.0),
    ("abc", "abc", 1.0),
    ("abc", "abd", 0.0),
    ("abc", "abcdef", 0.0),
    ("", "", 1.0),
    ("", "abcdef", 0.0),
    ("na" * 5, "na" * 100, 1.0),
]


def by_sets(a: str, b: str, n: int) -> float:
    a, b = normalise(a), normalise(b)
    if min(len(a), len(b)) < n:
        return float(a == b)
    left, right = ({text[i : i + n] for i in range(len(text) - n + 1)} for text in (a, b))
    return len(left & right) / len(left | right)


@pytest.mark.parametrize(("a", "b", "similarity"), PAIRED)
def test_similarities_worked_out_by_hand(a: str, b: str, similarity: float) -> None:
    assert jaccard([a, b], np.array([0]), np.array([1])).tolist() == [pytest.approx(similarity)]


def test_repeating_a_text_does_not_make_it_another() -> None:
    # Its length does change, a hundredfold: a bound on lengths would throw the pair away.
    assert jaccard_at_least(["na" * 5, "na" * 500], np.array([0]), np.array([1]), 0.95).tolist() == [True]


@settings(max_examples=80, deadline=None)
@given(
    texts=st.lists(st.text(alphabet="abc Ä\n", max_size=25), min_size=1, max_size=8),
    n=st.integers(1, 6),
    threshold=st.floats(0, 1),
    data=st.data(),
)
def test_both_agree_with_sets(texts: list[str], n: int, threshold: float, data: st.DataObject) -> None:
    row = st.integers(0, len(texts) - 1)
    pairs = data.draw(st.lists(st.tuples(row, row), max_size=20))
    left, right = np.array([a for a, _ in pairs], np.int32), np.array([b for _, b in pairs], np.int32)
    expected = np.array([by_sets(texts[a], texts[b], n) for a, b in pairs], dtype=np.float32)
    found = jaccard(texts, left, right, n)
    assert found.dtype == np.float32
    assert np.array_equal(found, expected)
    assert np.array_equal(jaccard_at_least(texts, left, right, threshold, n), expected >= np.float32(threshold))


def test_pairs_are_compared_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcd"), 12)) for _ in range(40)]
    left, right = rng.integers(0, 40, 300), rng.integers(0, 40, 300)
    whole = jaccard(words, left, right, 2), jaccard_at_least(words, left, right, 0.5, 2)
    monkeypatch.setattr(shingles, "_PAIRS", 16)
    assert np.array_equal(jaccard(words, left, right, 2), whole[0])
    assert np.array_equal(jaccard_at_least(words, left, right, 0.5, 2), whole[1])


def test_texts_of_a_collection_are_taken_by_row() -> None:
    texts = Texts.from_lists(["x", "y", "z"], ["abcdef", "something else", "abcdef"])
    assert jaccard(texts, np.array([0, 0]), np.array([2, 1])).tolist() == [1, 0]
    assert jaccard_at_least(texts, np.array([0, 0]), np.array([2, 1]), 0.95).tolist() == [True, False]


def test_no_pairs_give_no_similarities() -> None:
    none = np.array([], dtype=np.int32)
    assert jaccard(["a"], none, none).shape == jaccard_at_least(["a"], none, none, 0.5).shape == (0,)
