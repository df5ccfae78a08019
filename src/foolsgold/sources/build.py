"""From a recipe to its sources."""

from __future__ import annotations

from pathlib import Path

from foolsgold.collection import Collection
from foolsgold.models.names import locate
from foolsgold.recipe import (
    BM25Spec,
    DenseSpec,
    MultiVectorSpec,
    RandomSpec,
    Recipe,
    RunSpec,
    SourceSpec,
    SparseSpec,
)
from foolsgold.sources.protocol import Source


def build_sources(recipe: Recipe, collection: Collection, cache: Path) -> dict[str, Source]:
    """One source for each of the recipe's, in its order. Models are loaded and indexes built when first used.

    Raises:
        ModelError: a model's folder or package is not there (a hub id is only looked up when it is loaded).
        SourceError: a run cannot be read; an index of more lists than the documents are enough for.
        MissingExtra: an index, but no faiss.
    """
    for name in recipe.sources:
        if (model := recipe.model_of(name)) is not None:
            locate(model.model)
    return {name: _build(name, spec, recipe, collection, cache) for name, spec in recipe.sources.items()}


def _build(name: str, spec: SourceSpec, recipe: Recipe, collection: Collection, cache: Path) -> Source:
    # imported where it is built: a run of BM25 alone loads no model runtime
    match spec:
        case RandomSpec():
            from foolsgold.sources.random import RandomSource

            return RandomSource(name, len(collection.documents), recipe.seed)
        case BM25Spec():
            from foolsgold.sources.bm25 import BM25Source

            return BM25Source(name, spec, collection)
        case RunSpec():
            from foolsgold.sources.run import RunSource

            return RunSource(name, spec.path, collection)
        case DenseSpec():
            from foolsgold.sources.dense import DenseSource

            model = recipe.model_of(name)
            assert model is not None  # the recipe is valid
            return DenseSource(name, spec, model, collection, cache, seed=recipe.seed)
        case SparseSpec():
            from foolsgold.sources.sparse import SparseSource

            return SparseSource(name, spec, collection, cache)
        case MultiVectorSpec():
            from foolsgold.sources.multivector import MultiVectorSource

            return MultiVectorSource(name, spec, collection, cache)
