from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from foolsgold.errors import TrainingError
from foolsgold.training.labels import NOBODYS, RowLabels, is_packed, pack


@given(st.integers(1, 4), st.integers(0, 3), st.integers(0, 2**31))
def test_what_was_packed_comes_out_bit_by_bit(b: int, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    query = rng.integers(0, 2**31, b, dtype=np.int32)
    documents = rng.integers(0, 2**31, (b, 1 + n), dtype=np.int32)
    weights = rng.random((b, n), dtype=np.float32)
    scores = rng.normal(scale=1e3, size=(b, 1 + n)).astype(np.float32)
    scores[rng.random((b, 1 + n)) < 0.3] = np.nan
    labels = pack(query, documents, weights, scores)
    assert labels.shape == (b, 3 + 3 * n)
    assert is_packed(labels)
    found = RowLabels.unpack(labels)
    np.testing.assert_array_equal(found.query, query)
    np.testing.assert_array_equal(found.documents, documents)
    np.testing.assert_array_equal(found.weights, weights)
    np.testing.assert_array_equal(found.scores, scores)


def test_a_document_of_weight_0_has_no_id() -> None:
    labels = pack(np.array([7]), np.array([[3, 4, 4]]), np.array([[0.5, 0.0]]), np.zeros((1, 3)))
    assert RowLabels.unpack(labels).ids().tolist() == [[3, 4, NOBODYS]]


@pytest.mark.parametrize("labels", [None, torch.zeros(4, 3), torch.zeros(4, dtype=torch.int64)])
def test_the_labels_of_others_are_told_apart(labels: torch.Tensor | None) -> None:
    assert not is_packed(labels)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"query": np.array([1, 2])}, "for b rows of n negatives these are"),
        ({"documents": np.array([3, 4])}, "for b rows of n negatives these are"),
        ({"weights": np.ones((1, 2))}, "for b rows of n negatives these are"),
        ({"scores": np.zeros((1, 1))}, "for b rows of n negatives these are"),
        ({"documents": np.array([[3, -1]])}, "a negative row"),
        ({"weights": np.array([[-0.5]])}, "a weight that is negative or not finite"),
        ({"weights": np.array([[np.nan]])}, "a weight that is negative or not finite"),
    ],
)
def test_labels_that_do_not_fit_are_refused(changed: dict[str, np.ndarray], said: str) -> None:
    right = {
        "query": np.array([7]), "documents": np.array([[3, 4]]), "weights": np.ones((1, 1)), "scores": np.zeros((1, 2))
    }  # fmt: skip
    pack(**right)
    with pytest.raises(TrainingError, match=said):
        pack(**right | changed)
