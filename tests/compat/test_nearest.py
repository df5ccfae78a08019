"""Search by a model's own similarity: in blocks, exact, and by the inner product only where it is one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from foolsgold.compat import nearest
from foolsgold.compat.nearest import Nearest
from foolsgold.progress import SILENT


class Model:
    """Compares by whatever function of two matrices it is given."""

    def __init__(self, similarity: Any) -> None:
        self.similarity = similarity
        self.similarity_pairwise = lambda a, b: np.diag(similarity(a, b))


def inner(a: Any, b: Any) -> Any:
    return a @ b.T


def manhattan(a: Any, b: Any) -> Any:
    return -np.abs(a[:, None] - b[None]).sum(axis=2)


def few_values(a: Any, b: Any) -> Any:
    return np.round(4 * manhattan(a, b)) / 4


@pytest.fixture
def vectors() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    made = rng.normal(size=(130, 8)).astype(np.float32)
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    return made[:30], made[30:]


@pytest.mark.parametrize("similarity", [inner, manhattan, few_values])
@pytest.mark.parametrize("products", [30, 1000, 1 << 24])  # documents 1, 33, and all at a time
def test_the_k_best_are_found_whatever_the_similarity(
    similarity: Any, products: int, vectors: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nearest, "_PRODUCTS", products)
    queries, documents = vectors
    scores, rows = Nearest(Model(similarity), documents, queries).search(7, SILENT)
    whole = similarity(queries, documents)
    order = np.argsort(-whole, axis=1, kind="stable")[:, :7]
    np.testing.assert_array_equal(rows, order)
    np.testing.assert_allclose(scores, np.take_along_axis(whole, order, axis=1), atol=1e-6)


@pytest.mark.parametrize("similarity", [inner, manhattan])
def test_pairs_have_the_scores_that_search_gives_them(similarity: Any, vectors: Any) -> None:
    queries, documents = vectors
    found = Nearest(Model(similarity), documents, queries)
    scores, rows = found.search(5, SILENT)
    of_queries = np.repeat(np.arange(len(queries), dtype=np.int32), 5)
    again = found.pairs(of_queries, rows.ravel())
    np.testing.assert_allclose(again, scores.ravel(), atol=0 if similarity is inner else 1e-6)


def test_vectors_that_are_not_of_length_one_are_compared_as_the_model_says(vectors: Any) -> None:
    queries, documents = vectors
    longer = documents * np.linspace(1, 3, len(documents))[:, None].astype(np.float32)

    def cosine(a: Any, b: Any) -> Any:
        return a @ (b / np.linalg.norm(b, axis=1, keepdims=True)).T

    _, rows = Nearest(Model(cosine), longer, queries).search(5, SILENT)
    _, expected = Nearest(Model(inner), documents, queries).search(5, SILENT)
    np.testing.assert_array_equal(rows, expected)


def test_more_are_asked_for_than_there_are(vectors: Any) -> None:
    queries, documents = vectors
    for similarity in (inner, manhattan):
        scores, rows = Nearest(Model(similarity), documents[:3], queries).search(10, SILENT)
        assert scores.shape == rows.shape == (30, 3)
