"""From a recipe to its sources."""

from __future__ import annotations

from pathlib import Path

from foolsgold.collection import Collection
from foolsgold.models.names import locate
from foolsgold.recipe import ModelSpec, Recipe, SourceSpec
from foolsgold.sources.protocol import Source


def build_sources(recipe: Recipe, collection: Collection, cache: Path) -> dict[str, Source]:
    """One source for each of the recipe's, in its order. Models are loaded and indexes built when first used.

    Raises:
        ModelError: a model's folder or package is not there (a hub id is only looked up when it is loaded).
        SourceError: a run cannot be read; an index of more lists than the documents are enough for.
        MissingExtra: an index, but no faiss.
    """
    for name, spec in recipe.sources.items():
        if recipe.kind_of(name) in ("dense", "sparse", "multivector"):
            locate(_model(spec, recipe).model)
    return {name: _build(name, spec, recipe, collection, cache) for name, spec in recipe.sources.items()}


def _build(name: str, spec: SourceSpec, recipe: Recipe, collection: Collection, cache: Path) -> Source:
    # imported where it is built: a run of BM25 alone loads no model runtime
    match recipe.kind_of(name):
        case "random":
            from foolsgold.sources.random import RandomSource

            return RandomSource(name, len(collection.documents), recipe.seed)
        case "bm25":
            from foolsgold.sources.bm25 import BM25Source

            return BM25Source(name, spec, collection)
        case "run":
            from foolsgold.sources.run import RunSource

            assert spec.path is not None  # the recipe says so
            return RunSource(name, spec.path, collection)
        case "dense":
            from foolsgold.sources.dense import DenseSource

            return DenseSource(name, spec, _model(spec, recipe), collection, cache, seed=recipe.seed)
        case "sparse":
            from foolsgold.sources.sparse import SparseSource

            return SparseSource(name, spec, collection, cache)
        case "multivector":
            from foolsgold.sources.multivector import MultiVectorSource

            return MultiVectorSource(name, spec, collection, cache)


def _model(spec: SourceSpec, recipe: Recipe) -> ModelSpec:
    model = spec.model or recipe.retriever
    assert model is not None  # the recipe says so
    return model
