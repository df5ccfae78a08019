"""Spherical k-means: against plain Lloyd in numpy, and whatever must not change the answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from foolsgold.errors import SourceError
from foolsgold.progress import Advance
from foolsgold.search.clusters import spherical_kmeans

faiss = pytest.importorskip("faiss", reason="needs the faiss extra")


def clustered(seed: int, n: int, n_groups: int, dim: int, spread: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors around centres, float32 (n, dim), and the group of each."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((n_groups, dim))
    groups = rng.integers(0, n_groups, n)
    vectors = centres[groups] + spread * rng.standard_normal((n, dim))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32), groups


def lloyd(vectors: np.ndarray, n_clusters: int, iterations: int, seed: int = 13) -> tuple[np.ndarray, np.ndarray]:
    """Every vector compared with every centroid in every iteration, in float64, from the same vectors."""
    rows = np.sort(np.random.default_rng(seed).choice(len(vectors), n_clusters, replace=False))
    centroids = vectors[rows].astype(np.float64)
    labels = (vectors @ centroids.T).argmax(axis=1)
    for _ in range(iterations):
        for cluster in range(n_clusters):
            total = vectors[labels == cluster].sum(axis=0, dtype=np.float64)
            if total.any():
                centroids[cluster] = total / np.linalg.norm(total)
        labels = (vectors @ centroids.T).argmax(axis=1)
    return centroids, labels


def mean_cosine(vectors: np.ndarray, centroids: np.ndarray, labels: np.ndarray) -> float:
    return float((vectors * centroids[labels]).sum(axis=1).mean())


def test_with_many_clusters_the_mean_cosine_is_within_half_a_percent_of_lloyds() -> None:
    vectors, _ = clustered(2, 12_000, 150, 24, spread=1.5)
    found = mean_cosine(vectors, *spherical_kmeans(vectors, 150, iterations=12))
    assert found > 0.995 * mean_cosine(vectors, *lloyd(vectors, 150, 12))


def test_groups_that_lie_apart_are_found() -> None:
    vectors, groups = clustered(3, 600, 3, 40, spread=0.2)
    answers = [spherical_kmeans(vectors, 3, seed=seed) for seed in range(8)]  # some draws start two in one group
    _, labels = max(answers, key=lambda answer: mean_cosine(vectors, *answer))
    assert len({(group, label) for group, label in zip(groups, labels, strict=True)}) == 3


def test_each_vector_is_with_the_centroid_of_the_highest_cosine() -> None:
    vectors, _ = clustered(4, 5000, 100, 16)
    centroids, labels = spherical_kmeans(vectors, 100, iterations=5)
    cosines = vectors.astype(np.float64) @ centroids.T
    np.testing.assert_allclose(cosines[np.arange(len(labels)), labels], cosines.max(axis=1), atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(centroids, axis=1), 1, atol=1e-6)


def test_the_thread_count_changes_nothing() -> None:
    vectors, _ = clustered(5, 4000, 60, 32)
    usual = faiss.omp_get_max_threads()
    answers = []
    try:
        for threads in (1, 2):
            faiss.omp_set_num_threads(threads)
            answers.append(spherical_kmeans(vectors, 60, iterations=6))
    finally:
        faiss.omp_set_num_threads(usual)
    (centroids, labels), (same_centroids, same_labels) = answers
    assert np.array_equal(centroids, same_centroids)
    assert np.array_equal(labels, same_labels)


def test_a_seed_gives_the_same_clusters_again_and_another_seed_others() -> None:
    vectors, _ = clustered(6, 1000, 40, 8)
    first, again, other = (spherical_kmeans(vectors, 40, iterations=2, seed=seed)[0] for seed in (7, 7, 8))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_vectors_length_does_not_count() -> None:
    vectors, _ = clustered(8, 1500, 50, 16)
    lengths = 2.0 ** np.random.default_rng(0).integers(-20, 20, (1500, 1))  # powers of two round nothing
    centroids, labels = spherical_kmeans(vectors, 50, iterations=4)
    scaled_centroids, scaled_labels = spherical_kmeans((vectors * lengths).astype(np.float32), 50, iterations=4)
    np.testing.assert_allclose(scaled_centroids, centroids, atol=1e-6)
    assert np.array_equal(scaled_labels, labels)


def test_float16_in_a_memory_map_is_clustered_as_float32(tmp_path: Path) -> None:
    vectors = clustered(9, 900, 45, 16)[0].astype(np.float16)
    np.save(tmp_path / "vectors.npy", vectors)
    mapped = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    centroids, labels = spherical_kmeans(mapped, 45, iterations=4)
    expected_centroids, expected_labels = spherical_kmeans(vectors.astype(np.float32), 45, iterations=4)
    assert np.array_equal(centroids, expected_centroids)
    assert np.array_equal(labels, expected_labels)


@pytest.mark.parametrize("seed", range(6))
def test_clusters_that_start_from_equal_vectors_do_not_stay_empty(seed: int) -> None:
    distinct = np.eye(6, dtype=np.float32)
    vectors = np.repeat(distinct, [40, 3, 3, 3, 3, 3], axis=0)  # most draws start several clusters from the first
    centroids, labels = spherical_kmeans(vectors, 6, seed=seed)
    assert len(set(labels.tolist())) == 6
    assert mean_cosine(vectors, centroids, labels) == pytest.approx(1)


def test_where_fewer_vectors_differ_than_clusters_are_asked_for_some_stay_empty() -> None:
    vectors = np.repeat(np.eye(3, dtype=np.float32), 10, axis=0)
    centroids, labels = spherical_kmeans(vectors, 5)
    assert len(set(labels.tolist())) == 3
    np.testing.assert_allclose(np.linalg.norm(centroids, axis=1), 1, atol=1e-6)


def test_vectors_that_cancel_out_leave_their_centroid_where_it_is() -> None:
    vectors = np.array([[1, 0], [-1, 0]], dtype=np.float32)
    centroids, labels = spherical_kmeans(vectors, 1)
    assert centroids.tolist() in ([[1, 0]], [[-1, 0]])
    assert labels.tolist() == [0, 0]


def test_a_vector_of_zeros_is_in_the_first_cluster_and_moves_nothing() -> None:
    vectors, _ = clustered(10, 300, 40, 8)
    with_zeros = np.concatenate([vectors, np.zeros((5, 8), np.float32)])
    centroids, labels = spherical_kmeans(with_zeros, 40, iterations=3)
    expected_centroids, expected_labels = spherical_kmeans(vectors, 40, iterations=3)
    assert np.array_equal(centroids, expected_centroids)
    assert np.array_equal(labels, [*expected_labels, 0, 0, 0, 0, 0])


def test_as_many_clusters_as_vectors_is_each_its_own() -> None:
    vectors, _ = clustered(11, 50, 10, 16)
    centroids, labels = spherical_kmeans(vectors, 50)
    assert np.array_equal(labels, np.arange(50))
    np.testing.assert_allclose(centroids, vectors, atol=1e-6)


@pytest.mark.parametrize(
    ("vectors", "clusters", "iterations", "said"),
    [
        (np.eye(3), 4, 1, "4 clusters of 3 vectors that are not zero; ask for at most 3"),
        (np.zeros((9, 3)), 1, 1, "1 clusters of 0 vectors"),
        (np.ones(5), 1, 1, r"shape \(5,\)"),
        (np.eye(3), 0, 1, "n_clusters is 0"),
        (np.eye(3), True, 1, "n_clusters is True"),
        (np.eye(3), 2.0, 1, "n_clusters is 2.0"),
        (np.eye(3), 2, 0, "iterations is 0"),
        (np.array([[1, 0], [0, 1], [np.nan, 0], [np.inf, 0]]), 2, 1, "row 2 holds NaN or infinity"),
    ],
)
def test_what_cannot_be_clustered_is_refused(vectors: np.ndarray, clusters: int, iterations: int, said: str) -> None:
    with pytest.raises(SourceError, match=said):
        spherical_kmeans(vectors, clusters, iterations=iterations)


@pytest.mark.parametrize("iterations", [3, 1000])  # cut short, and until nothing changes
def test_progress_reaches_its_total(iterations: int) -> None:
    stages: list[tuple[str, int]] = []
    steps: list[int] = []

    class Told:
        @contextmanager
        def stage(self, name: str, total: int) -> Iterator[Advance]:
            stages.append((name, total))
            yield steps.append

    spherical_kmeans(clustered(12, 2000, 50, 8)[0], 50, iterations=iterations, progress=Told())
    assert stages == [("cluster", iterations)]
    assert sum(steps) == iterations
