"""Collections: corpus, queries and judgements, and the readers that make them."""

from foolsgold.collection.collection import Collection
from foolsgold.collection.load import load_collection
from foolsgold.collection.texts import Texts, normalise

__all__ = ["Collection", "Texts", "load_collection", "normalise"]
