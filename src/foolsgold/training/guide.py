"""Another embedding model's opinion of any query and document of a collection, by row (Solatorio, GISTEmbed, 2024).

Its vectors are made once, before training, as mining makes them: a batch then costs a matrix product instead of a
second model, whatever tokens and prompts that model wants, and on a static student too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor

from foolsgold.errors import TrainingError
from foolsgold.records import FloatArray


class Guide:
    """Similarities of rows, and which documents are too close to a query to be negatives of it.

    queries, documents: float32 (n_queries, d) and (n_documents, d), whose dot products are the similarities; they may
    be memory maps. margin: how far below the positive a document must be to count as a negative, absolute or as a
    share of the positive's similarity; 0 as in the paper.
    """

    def __init__(
        self,
        queries: FloatArray,
        documents: FloatArray,
        *,
        margin: float = 0.0,
        margin_strategy: Literal["absolute", "relative"] = "absolute",
    ) -> None:
        if queries.shape[1] != documents.shape[1]:
            raise TrainingError(
                f"the guide's queries have {queries.shape[1]} dimensions and its documents {documents.shape[1]}; "
                "encode both with one model"
            )
        self._queries, self._documents = queries, documents
        self._margin, self._is_relative = margin, margin_strategy == "relative"

    @classmethod
    def from_model(
        cls,
        model: SentenceTransformer,
        queries: Sequence[str],
        documents: Sequence[str],
        *,
        margin: float = 0.0,
        margin_strategy: Literal["absolute", "relative"] = "absolute",
    ) -> Self:
        """From all texts, in the order of their rows, with the model's own prompts and similarity."""
        unit = model.similarity_fn_name == "cosine"
        vectors = (
            model.encode_query(list(queries), normalize_embeddings=unit, convert_to_numpy=True),
            model.encode_document(list(documents), normalize_embeddings=unit, convert_to_numpy=True),
        )
        return cls(*vectors, margin=margin, margin_strategy=margin_strategy)

    def similarity(self, query: Tensor, document: Tensor) -> Tensor:
        """float32 (b, m), of query rows, int64 (b), and document rows, int64 (m)."""
        return _rows(self._queries, query) @ _rows(self._documents, document).T

    def prefers(self, query: Tensor, document: Tensor, positive: Tensor) -> Tensor:
        """bool (b, m): which documents, int64 (m), are closer than a query's positive, int64 (b), less the margin."""
        queries = _rows(self._queries, query)
        bar = (queries * _rows(self._documents, positive)).sum(dim=1, keepdim=True)
        bar = bar - self._margin * (bar.abs() if self._is_relative else 1.0)
        return queries @ _rows(self._documents, document).T > bar


def _rows(vectors: FloatArray, rows: Tensor) -> Tensor:
    chosen = np.asarray(vectors[rows.clamp(min=0).cpu().numpy()], dtype=np.float32)
    return torch.from_numpy(chosen).to(rows.device)
