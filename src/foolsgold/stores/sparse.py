"""The store of sparse vectors: CACHE/sparse_vectors/KEY/{data, indices, indptr}.npy, encoded once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from foolsgold.collection.texts import Texts
from foolsgold.models.protocol import Role
from foolsgold.models.sparse import SparseModel, stacked
from foolsgold.progress import SILENT, Progress
from foolsgold.stores.kept import encoded_parts, folder_of, kept

_ARRAYS = ("data", "indices", "indptr")


def encode_sparse(model: SparseModel, texts: Texts, role: Role, *, cache: Path, progress: Progress = SILENT) -> Any:
    """float32 scipy CSR (n, terms), term indices ascending, encoded once for all runs."""

    def make() -> Any:
        return stacked(list(encoded_parts(model, texts, role, progress)), model.dimension)

    def write(folder: Path) -> None:
        vectors = make()
        for name in _ARRAYS:
            np.save(folder / f"{name}.npy", getattr(vectors, name))

    def read(folder: Path) -> Any:
        arrays: Any = tuple(np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in _ARRAYS)
        return sparse.csr_matrix(arrays, shape=(len(texts), model.dimension), copy=False)

    return kept(folder_of(cache, "sparse_vectors", model, role, texts), "sparse vectors are", write, read, make)
