from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foolsgold.collection import Texts, normalise


def chunked(texts: list[str], *cuts: int) -> Texts:
    """The same texts in chunks that end at the cuts."""
    bounds = [0, *sorted(cuts), len(texts)]
    ids = [f"d{row}" for row in range(len(texts))]
    columns = [
        pa.chunked_array([column[a:b] for a, b in pairwise(bounds)], pa.large_string()) for column in (ids, texts)
    ]
    return Texts(*columns)


@given(
    texts=st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=20),
    data=st.data(),
)
def test_chunks_make_no_difference(texts: list[str], data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(texts)), max_size=4))
    rows = data.draw(st.lists(st.integers(0, len(texts) - 1), max_size=30))
    one, many = chunked(texts), chunked(texts, *cuts)
    assert many.take(rows) == [texts[row] for row in rows]
    assert many.take_ids(rows) == [f"d{row}" for row in rows]
    assert many.digest == one.digest
    assert many.passage.tolist() == one.passage.tolist()
    assert many.subset(rows).take(range(len(rows))) == many.take(rows)
    assert many.find_texts(texts) == {text: texts.index(text) for text in texts}


@given(st.lists(st.sampled_from(["a", "A", " a", "b", "ﬁ", "fi", "", " \n"]), max_size=20))
def test_a_passage_is_the_first_row_with_the_same_normalised_text(texts: list[str]) -> None:
    same = [normalise(text) for text in texts]
    passage = chunked(texts).passage
    assert passage.dtype == np.int32
    assert passage.tolist() == [same.index(text) for text in same]


def test_a_row_that_is_not_there_is_an_error() -> None:
    texts = chunked(["a", "b"], 1)
    for row in (-1, 2):
        with pytest.raises(IndexError, match="column of 2"):
            texts.take([row])


def test_find_gives_rows_of_the_ids_that_are_there() -> None:
    texts = chunked(["a", "b", "c", "d"], 1, 3)
    assert texts.find(["d3", "d0", "nope", "d3"]) == {"d3": 3, "d0": 0}
    assert texts.find([]) == {}


def test_the_digest_tells_where_a_text_ends() -> None:
    assert chunked(["ab", "c"]).digest != chunked(["a", "bc"]).digest


def test_half_a_surrogate_pair_becomes_a_replacement_character() -> None:
    assert Texts.from_lists(["d"], ["cut \ud83d off"]).take([0]) == ["cut \ufffd off"]


def test_one_after_the_other_keeps_the_order() -> None:
    both = Texts.from_lists("ab", ["1", "2"]).followed_by(Texts.from_lists("c", ["3"]))
    assert both.take_ids(range(3)) == ["a", "b", "c"]
    assert both.take(range(3)) == ["1", "2", "3"]


def test_texts_and_ids_must_be_of_one_number() -> None:
    with pytest.raises(ValueError, match="1 ids but 2 texts"):
        Texts.from_lists(["a"], ["1", "2"])
