"""Students whose vectors are rows of a table: what a loss makes of them can be worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


class TableStudent(nn.Sequential):
    """Text i has row i of a float64 table as its vector."""

    def __init__(self, rows: int, dimensions: int = 5, seed: int = 0) -> None:
        super().__init__()
        made = np.random.default_rng(seed).normal(size=(rows, dimensions))
        self.table = nn.Parameter(torch.from_numpy(made))
        self.device = torch.device("cpu")

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"sentence_embedding": self.table[features["input_ids"]]}

    def __getitem__(self, index: int) -> nn.Module:
        return self

    def get_embedding_dimension(self) -> int:
        return self.table.shape[1]


def columns(*texts: Sequence[int]) -> list[dict[str, Tensor]]:
    """The features of a batch: queries, positives, negatives, each a list of texts' numbers."""
    return [{"input_ids": torch.tensor(column)} for column in texts]


def static_student(dimensions: int = 16, seed: int = 0) -> Any:
    """A real SentenceTransformer over the words of `tiny_models`."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tiny_models import VOCABULARY, tokenizer

    made = np.random.default_rng(seed).normal(size=(len(VOCABULARY), dimensions)).astype(np.float32)
    return SentenceTransformer(modules=[StaticEmbedding(tokenizer(), embedding_weights=made)], device="cpu")
