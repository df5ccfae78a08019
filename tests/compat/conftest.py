"""A small world for `mine_hard_negatives`: real models over the words of `tiny_models`, and texts that no two share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sentence_transformers", reason="needs the torch extra: sentence-transformers is the oracle")


@pytest.fixture(scope="session")
def retriever() -> Any:
    from table_student import static_student

    return static_student()


@pytest.fixture(scope="session")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    import tiny_models
    from sentence_transformers import CrossEncoder

    folder: Path = tiny_models.cross_encoder(tmp_path_factory.mktemp("models") / "cross")
    return CrossEncoder(str(folder), device="cpu")


@pytest.fixture(scope="session")
def texts() -> list[str]:
    """150 texts of 4 to 8 words, no two of the same words, so that no two vectors are equal."""
    from tiny_models import WORDS

    rng = np.random.default_rng(5)
    made: dict[tuple[str, ...], None] = {}
    while len(made) < 150:
        made[tuple(sorted(rng.choice(WORDS, rng.integers(4, 9))))] = None
    return [" ".join(rng.permutation(words)) for words in made]


@pytest.fixture(scope="session")
def single(texts: list[str]) -> Any:
    """40 queries with a positive each."""
    from datasets import Dataset

    return Dataset.from_dict({"question": texts[:40], "answer": texts[40:80], "other": texts[80:120]})


@pytest.fixture(scope="session")
def several(texts: list[str]) -> Any:
    """20 queries: some with one positive, some with two or three, one of them twice, not side by side."""
    from datasets import Dataset

    rows = [(row % 20, 40 + row) for row in range(36)] + [(3, 80), (3, 43), (5, 45)]
    return Dataset.from_dict({"question": [texts[q] for q, _ in rows], "answer": [texts[d] for _, d in rows]})
