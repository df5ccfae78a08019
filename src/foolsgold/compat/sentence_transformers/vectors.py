"""The embeddings of queries and documents, by the model's own methods, and where they are kept."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import numpy as np

from foolsgold.compat.sentence_transformers.contents import fingerprint
from foolsgold.files import written_whole
from foolsgold.records import FloatArray, text_key

log = logging.getLogger("foolsgold.compat.sentence_transformers")

_Kind = Literal["query", "corpus"]


@dataclass(frozen=True)
class Prompt:
    """As `encode` takes them: a prompt, or the name of one of the model's, or neither for the model's default."""

    text: str | None
    name: str | None


@contextmanager
def pool_of(model: Any, use_multi_process: list[str] | bool) -> Iterator[Any]:
    """The model's pool of processes, stopped whatever happens; None without `use_multi_process`."""
    if not use_multi_process:
        yield None
        return
    pool = model.start_multi_process_pool(
        target_devices=None if isinstance(use_multi_process, bool) else use_multi_process
    )
    try:
        yield pool
    finally:
        model.stop_multi_process_pool(pool)


class Embeddings:
    """What the model makes of texts, of length 1, and the folder that keeps it between runs.

    A file is named by what the vectors follow from: the model's contents, the prompt, the texts and their order.
    """

    def __init__(
        self,
        model: Any,
        cache_folder: str | None,
        *,
        batch_size: int,
        use_multi_process: list[str] | bool,
        verbose: bool,
    ) -> None:
        self._model = model
        self._batch_size = batch_size
        self._use_multi_process = use_multi_process
        self._verbose = verbose
        self._folder = None if cache_folder is None else Path(cache_folder)
        self._contents = fingerprint(model) if self._folder else None
        if self._folder and self._contents is None:
            log.warning(
                "%s is no torch module, so that its weights cannot be told from others'; its embeddings are not kept "
                "in cache_folder",
                type(model).__name__,
            )

    def of(
        self, documents: list[str], document_prompt: Prompt, queries: list[str], query_prompt: Prompt
    ) -> tuple[FloatArray, FloatArray]:
        """Documents' (n, d) and queries' (q, d) vectors: arrays, or read-only memory maps of what was kept."""
        query_file = self._file("query", queries, query_prompt)
        corpus_file = self._file("corpus", documents, document_prompt)
        of_queries = self._kept("query", query_file, len(queries))
        of_documents = self._kept("corpus", corpus_file, len(documents))
        if of_queries is None or of_documents is None:
            with pool_of(self._model, self._use_multi_process) as pool:
                new_documents = new_queries = None
                if of_documents is None:
                    new_documents = self._encoded(self._model.encode_document, documents, document_prompt, pool)
                if of_queries is None:
                    new_queries = self._encoded(self._model.encode_query, queries, query_prompt, pool)
            of_queries = self._keep("query", query_file, new_queries) if of_queries is None else of_queries
            of_documents = self._keep("corpus", corpus_file, new_documents) if of_documents is None else of_documents
        return of_documents, of_queries

    def _encoded(self, encode: Any, texts: list[str], prompt: Prompt, pool: Any) -> FloatArray:
        vectors: FloatArray = encode(
            texts,
            pool=pool,
            batch_size=self._batch_size,
            normalize_embeddings=True,
            convert_to_numpy=True,
            show_progress_bar=True,
            prompt_name=prompt.name,
            prompt=prompt.text,
        )
        return vectors

    def _file(self, kind: _Kind, texts: list[str], prompt: Prompt) -> Path | None:
        if self._folder is None or self._contents is None:
            return None
        self._folder.mkdir(parents=True, exist_ok=True)
        key = sha256(repr((self._contents, prompt.text, prompt.name)).encode())
        for text in texts:
            key.update(text_key(text))
        return self._folder / f"{kind}_embeddings_{key.hexdigest()}.npy"

    def _kept(self, kind: _Kind, file: Path | None, size: int) -> FloatArray | None:
        if file is None or not file.exists():
            return None
        try:
            vectors: FloatArray = np.load(file, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            log.warning("%s cannot be read (%s); the texts are encoded again", file, error)
            return None
        if vectors.ndim != 2 or len(vectors) != size:
            log.warning("%s holds %s vectors, not %d; the texts are encoded again", file, vectors.shape, size)
            return None
        if self._verbose:
            print(f"[Cache] Loaded {kind} embeddings from {file} (shape={vectors.shape})")
        return vectors

    def _keep(self, kind: _Kind, file: Path | None, vectors: Any) -> FloatArray:
        """Write the file whole or not at all."""
        kept: FloatArray = np.asarray(vectors)
        if file is not None:
            with written_whole(file) as partial, partial.open("wb") as opened:
                np.save(opened, kept, allow_pickle=False)
            if self._verbose:
                print(f"[Cache] Saved {kind} embeddings to {file}")
        return kept
