"""Nearest neighbours in an embedding model's space."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from foolsgold.collection.collection import Collection
from foolsgold.errors import SourceError
from foolsgold.progress import SILENT, Progress
from foolsgold.recipe import DenseSpec, ModelSpec
from foolsgold.records import FloatArray, Hits, IntArray
from foolsgold.search import ann
from foolsgold.sources.encoded import EncodedCollection, encode_collection
from foolsgold.stores.encoders import described_encoder
from foolsgold.stores.kept import kept

_PAIRS_AT_ONCE = 16_384
_ROWS_AT_ONCE = 16_384
_SAMPLE = 200  # queries that an index's recall is measured on
_FILE = "index.faiss"
_log = logging.getLogger(__name__)


class DenseSource:
    """Implements `Source`: search by inner product, which is the cosine where the model compares by cosine.

    Exact, or with `index` in the recipe approximate: then only as much is searched as it takes to find `recall` of the
    exact hits of a sample of queries, and `describe` has what the sample showed. Scores are exact either way.

    The model is loaded, and all documents and queries are encoded into the store under `cache`, when they are first
    needed; the model is dropped after that, so that the teacher has its memory.

    Raises:
        SourceError: an index with more lists than can be learnt from the documents.
        MissingExtra: an index, but no faiss.
    """

    def __init__(
        self,
        name: str,
        spec: DenseSpec,
        model: ModelSpec,
        collection: Collection,
        cache: Path,
        *,
        seed: int = 13,
    ) -> None:
        self.name = name
        self._spec = spec
        self._seed = seed
        self._model = model
        self._collection = collection
        self._cache = cache
        self._vectors: EncodedCollection | None = None
        self._index: _Index | None = None
        if spec.index is not None:
            with _said_of(f"sources.{name}.index"):
                ann.check_size(spec.index, len(collection.documents))

    def retrieve(self, queries: IntArray, depth: int, progress: Progress = SILENT) -> Hits:
        """The `depth` nearest documents of each query; fewer where there are fewer, or an index finds fewer."""
        vectors = self._encoded(progress)
        if self._index is not None:
            return self._index.search.top_k(vectors.queries[queries], depth, self._index.effort, progress=progress)
        return Hits.from_top_k(*vectors.nearest(depth, queries, progress))

    def score(self, queries: IntArray, docs: IntArray) -> FloatArray:
        """float32 (n): the inner product (the cosine, where the model compares by it) of any pairs of rows."""
        vectors = self._encoded()
        return _products(vectors.queries, queries, vectors.documents, docs)

    def similarity(self, docs_a: IntArray, docs_b: IntArray) -> FloatArray:
        """float32 (n): the cosine of pairs of documents, whatever the model compares by."""
        vectors = self._encoded()
        documents = vectors.documents
        products = _products(documents, docs_a, documents, docs_b)
        if vectors.about["similarity"] == "cosine":
            return products
        lengths = np.sqrt(_products(documents, docs_a, documents, docs_a))
        lengths *= np.sqrt(_products(documents, docs_b, documents, docs_b))
        return np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)

    def describe(self) -> dict[str, Any]:
        """What it is, for the manifest. Encodes what has not been encoded."""
        about = {"kind": "dense", **self._encoded().about}
        return about if self._index is None else about | {"index": dict(self._index.about)}

    def _encoded(self, progress: Progress = SILENT) -> EncodedCollection:
        if self._vectors is None:
            encoder = described_encoder(self._model, self._cache)
            if self._spec.index is not None:
                with _said_of(f"sources.{self.name}.index"):  # before hours of encoding
                    ann.check_factory(self._spec.index, encoder.dimension)
            vectors = encode_collection(encoder, self._collection, self._cache, progress, self._model.device)
            self._index = self._indexed(vectors, self._cache / "embeddings" / encoder.fingerprint, progress)
            self._vectors = vectors
        return self._vectors

    def _indexed(self, vectors: EncodedCollection, folder: Path, progress: Progress) -> _Index | None:
        """The recipe's index, from `folder` or built into it, and how it is searched; None where search is exact."""
        spec, factory = self._spec, self._spec.index
        if factory is None:
            return None
        with _said_of(f"sources.{self.name}.index"):
            index = _index_of(factory, vectors.documents, self._seed, folder, progress)
        queries = vectors.queries
        size = min(_SAMPLE, len(queries))
        sample = np.sort(np.random.default_rng(self._seed).choice(len(queries), size, replace=False))
        effort = index.effort_for(spec.recall, queries[sample], spec.depth)
        if effort.recall < spec.recall:
            _log.warning(
                "%s: the index %s finds %.1f %% of the exact hits, whatever is searched, and recall is %g; "
                "take longer codes (PQ48x4fsr -> PQ96x4fsr, SQ8), or no index",
                self.name, factory, 100 * effort.recall, spec.recall,
            )  # fmt: skip
        about = {"factory": factory, "faiss": ann.version(), "target": spec.recall, "depth": spec.depth, "sample": size}
        return _Index(index, effort, {**about, **asdict(effort), "recall": round(effort.recall, 4)})


@dataclass(frozen=True)
class _Index:
    """about: for the manifest, with the recall that was measured."""

    search: ann.AnnIndex
    effort: ann.Effort
    about: dict[str, Any]


def _index_of(factory: str, documents: FloatArray, seed: int, folder: Path, progress: Progress) -> ann.AnnIndex:
    """The index of these very vectors: built once and kept, or only in memory where nothing can be written."""

    def build() -> ann.AnnIndex:
        return ann.AnnIndex.build(documents, factory, seed=seed, progress=progress)

    key = sha256(f"{factory} {seed} {ann.version()}".encode())
    for start in range(0, len(documents), _ROWS_AT_ONCE):
        key.update(np.ascontiguousarray(documents[start : start + _ROWS_AT_ONCE]).data)

    def write(partial: Path) -> None:
        build().save(partial / _FILE)

    def read(kept_folder: Path) -> ann.AnnIndex:
        return ann.AnnIndex.load(kept_folder / _FILE, documents)

    return kept(folder / f"{key.hexdigest()[:32]}.index", "the index is", write, read, build)


@contextmanager
def _said_of(place: str) -> Iterator[None]:
    """Name the field of the recipe that an error is about."""
    try:
        yield
    except SourceError as error:
        raise SourceError(f"{place}: {error}") from None


def _products(left: FloatArray, left_rows: IntArray, right: FloatArray, right_rows: IntArray) -> FloatArray:
    """float32 (n): inner products of pairs of rows, summed in float64 as `top_k` does; few rows are read at a time."""
    products = np.empty(len(left_rows), dtype=np.float32)
    for start in range(0, len(products), _PAIRS_AT_ONCE):
        part = slice(start, start + _PAIRS_AT_ONCE)
        a, b = left[left_rows[part]], right[right_rows[part]]
        products[part] = np.einsum("ij,ij->i", a, b, dtype=np.float64)
    return products
