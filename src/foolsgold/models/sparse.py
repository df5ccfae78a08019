"""A learned sparse encoder: a weight for each term of the vocabulary, most of them zero."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from foolsgold.errors import ModelError
from foolsgold.models.batches import length_batches
from foolsgold.models.describe import describe, own_similarity
from foolsgold.models.names import fingerprint, locate
from foolsgold.models.protocol import Role
from foolsgold.models.torch_model import fetched_for_torch, load_model
from foolsgold.progress import Advance
from foolsgold.recipe import ModelSpec

_BATCHES_A_CALL = 8  # between two reports of progress


class SparseModel:
    """A SparseEncoder of sentence-transformers (SPLADE, inference-free models, sparse autoencoders).

    similarity: dot, or cosine, for which vectors are brought to length 1. dimension: terms of the vocabulary.
    """

    def __init__(self, spec: ModelSpec) -> None:
        located = fetched_for_torch(locate(spec.model), spec, "a sparse encoder")
        about = describe(located.files, spec.model)
        if not about.is_sparse:  # sentence-transformers would put a random sparse head on it
            raise ModelError(
                f"{spec.model}: is {about.what}, not a sparse encoder; name a SPLADE model or another SparseEncoder"
            )
        self.name = spec.model
        self._model, dtype = load_model("SparseEncoder", located.files, spec)
        self._batch_size = spec.batch_size or 32
        self.similarity = own_similarity(self._model.similarity_fn_name, spec.model)
        # Asked of a vector: a SPLADE model without a modules.json names the width of its hidden layer.
        self.dimension = int(self._model.encode_document(["dimension"], show_progress_bar=False).shape[1])
        self.fingerprint = fingerprint(located, "sparse", self._model.max_seq_length, self.similarity, dtype)

    def encode(self, texts: Sequence[str], role: Role, advance: Advance) -> Any:
        """float32 scipy CSR (n, dimension) in the order of `texts`, term indices ascending, no stored zeros.

        Raises:
            ModelError: a weight is NaN or infinite.
        """
        encode = self._model.encode_query if role == "query" else self._model.encode_document
        batches = list(
            length_batches([len(t) for t in texts], size=self._batch_size * _BATCHES_A_CALL, max_tokens=None)
        )
        parts: list[Any] = []
        for rows in batches:
            output = encode([texts[row] for row in rows], batch_size=self._batch_size, show_progress_bar=False)
            parts.append(_to_csr(output, len(rows), self.dimension))
            advance(len(rows))
        vectors = stacked(parts, self.dimension)[np.argsort(np.concatenate([np.empty(0, np.int64), *batches]))]
        if not np.isfinite(vectors.data).all():
            raise ModelError(f"{self.name}: gives weights that are not finite numbers; use another model")
        if self.similarity == "cosine":
            lengths = np.sqrt(np.asarray(vectors.multiply(vectors).sum(axis=1)).ravel())
            vectors = sparse.diags(1 / np.where(lengths == 0, 1, lengths)) @ vectors
        vectors = vectors.tocsr().astype(np.float32)
        vectors.eliminate_zeros()
        vectors.sort_indices()
        return vectors


def stacked(parts: Sequence[Any], terms: int) -> Any:
    """CSR matrices of so many terms, one below the other; of no rows where there are none."""
    nothing: Any = sparse.csr_matrix(np.empty((0, terms), dtype=np.float32))
    below: Any = sparse.vstack
    return below([nothing, *parts], format="csr")


def _to_csr(output: Any, n: int, dimension: int) -> Any:
    coalesced = output.coalesce().cpu()
    rows, terms = coalesced.indices().numpy()
    return sparse.csr_matrix((coalesced.values().float().numpy(), (rows, terms)), shape=(n, dimension))
