"""A collection as an embedding model's vectors, and exact search in them."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foolsgold.collection import Collection
from foolsgold.errors import SourceError
from foolsgold.models.protocol import Encoder
from foolsgold.progress import SILENT, Progress
from foolsgold.records import FloatArray, IntArray
from foolsgold.search import top_k
from foolsgold.stores.vectors import encode_all

_WORTH_STARTING_CUDA = 10**11  # products of two numbers: about a second of one processor
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EncodedCollection:
    """documents: float32 (n_documents, d); queries: float32 (n_queries, d); about: of the model that made them.

    device: as the recipe names it; None: the best there is.
    """

    documents: FloatArray
    queries: FloatArray
    about: dict[str, Any]
    device: str | None = None

    def nearest(
        self, k: int, queries: IntArray | None = None, progress: Progress = SILENT
    ) -> tuple[FloatArray, IntArray]:
        """`top_k` for some queries (rows; None: all), on a CUDA device or on the CPU, which give the same hits."""
        asked = self.queries if queries is None else self.queries[queries]
        device = search_device(self.device, asked.size * len(self.documents))
        if device is not None:
            try:
                return top_k(asked, self.documents, k, progress=progress, device=device)
            except (SourceError, RuntimeError) as error:  # what is wrong with the vectors is found again on the CPU
                _log.warning("%s cannot be searched on (%s); the CPU searches", device, error)
        return top_k(asked, self.documents, k, progress=progress)


def encode_collection(
    encoder: Encoder, collection: Collection, cache: Path, progress: Progress = SILENT, device: str | None = None
) -> EncodedCollection:
    """The vectors of all documents and queries, from the store under `cache` where they are there."""
    documents = encode_all(encoder, collection.documents, "document", cache=cache, progress=progress)
    queries = encode_all(encoder, collection.queries, "query", cache=cache, progress=progress)
    about = {
        "model": encoder.name,
        "fingerprint": encoder.fingerprint,
        "dtype": encoder.dtype,
        "query_prompt": encoder.prompt("query"),
        "document_prompt": encoder.prompt("document"),
        "similarity": encoder.similarity,
        "dimension": encoder.dimension,
    }
    return EncodedCollection(documents, queries, about, device)


def search_device(named: str | None, products: int) -> str | None:
    """The CUDA device that a search of so many products runs on; None: the CPU.

    named: the device that the recipe names. Where it names none, CUDA is taken if it is there and worth starting.
    """
    # before torch, which takes seconds to import
    if named is None and (products < _WORTH_STARTING_CUDA or not Path("/dev/nvidiactl").exists()):
        return None
    if named is not None and not named.startswith("cuda"):
        return None
    try:
        import torch
    except ImportError:
        return None
    there = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    wanted = named or "cuda"
    return wanted if wanted in there or (wanted == "cuda" and there) else None
