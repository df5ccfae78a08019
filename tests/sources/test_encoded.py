"""Exact search of an encoded collection, wherever it runs."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from foolsgold.sources import encoded as module
from foolsgold.sources.encoded import EncodedCollection, search_device

torch = pytest.importorskip("torch", reason="searching on a device needs the extra torch")


@pytest.fixture
def vectors() -> EncodedCollection:
    rng = np.random.default_rng(3)
    documents, queries = (rng.standard_normal((n, 16)).astype(np.float32) for n in (500, 20))
    return EncodedCollection(documents, queries, {})


def on(device: str, monkeypatch) -> list[str | None]:
    """Let every search run on this device; returns the devices that `top_k` is asked for."""
    asked: list[str | None] = []
    search = module.top_k

    def recorded(*args, device=None, **named):
        asked.append(device)
        return search(*args, device=device, **named)

    monkeypatch.setattr(module, "search_device", lambda named, products: device)
    monkeypatch.setattr(module, "top_k", recorded)
    return asked


def test_a_device_finds_what_the_cpu_s_own_search_finds(vectors, monkeypatch):
    scores, rows = vectors.nearest(7, np.array([3, 1]))
    asked = on("cpu", monkeypatch)
    on_device = vectors.nearest(7, np.array([3, 1]))
    assert asked == ["cpu"]
    np.testing.assert_array_equal(on_device[0], scores)
    np.testing.assert_array_equal(on_device[1], rows)


def test_where_a_device_cannot_search_the_cpu_does(vectors, monkeypatch, caplog):
    expected = vectors.nearest(7)
    asked = on("cuda:99", monkeypatch)
    with caplog.at_level(logging.WARNING):
        found = vectors.nearest(7)
    assert asked == ["cuda:99", None]
    assert "cuda:99 cannot be searched on" in caplog.text
    np.testing.assert_array_equal(found[1], expected[1])


@pytest.mark.parametrize(
    ("named", "products", "gpus", "expected"),
    [
        ("cpu", 10**12, 2, None),
        ("cuda", 1, 2, "cuda"),
        ("cuda:1", 1, 2, "cuda:1"),
        ("cuda:2", 1, 2, None),
        ("cuda", 1, 0, None),
        (None, 1, 2, None),
        (None, 10**12, 2, "cuda"),
        (None, 10**12, 0, None),
    ],
)
def test_cuda_is_taken_where_it_is_there_and_named_or_worth_it(named, products, gpus, expected, monkeypatch):
    monkeypatch.setattr(module.Path, "exists", lambda path: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    assert search_device(named, products) == expected
