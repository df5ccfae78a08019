"""Models in memory: embeddings and scores by their own methods, and what of them is kept between runs."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from foolsgold.collection.texts import Texts
from foolsgold.compat.nearest import array
from foolsgold.compat.pairs import Pairs
from foolsgold.files import written_whole
from foolsgold.progress import SILENT, Progress
from foolsgold.records import FloatArray, Scale, text_key
from foolsgold.stores.scores import ScoreStore
from foolsgold.teachers.cached import CachedTeacher, checked
from foolsgold.teachers.protocol import Pair, Teacher

log = logging.getLogger("foolsgold.compat.sentence_transformers")

_BATCHES_PER_CALL = 64  # between two reports of progress, and two commits to the store
_DECIDING = ("max_seq_length", "truncate_dim", "prompts", "default_prompt_name", "activation_fn")


class Prompt(NamedTuple):
    """As `encode` takes them: a prompt, or the name of one of the model's, or neither for the model's default."""

    text: str | None
    name: str | None


class Embeddings:
    """A model's vectors of texts, of length 1, and the folder that keeps them between runs.

    A file's name follows from the model's contents, the prompt, the texts and their order.
    """

    def __init__(
        self, model: Any, folder: str | None, batch_size: int, use_multi_process: list[str] | bool, verbose: bool
    ) -> None:
        self._model = model
        self._batch_size = batch_size
        self._use_multi_process = use_multi_process
        self._verbose = verbose
        self._contents = _kept_as(model, folder, "embeddings")
        self._folder = Path(folder) if folder and self._contents else None

    def of(self, pairs: Pairs, document_prompt: Prompt, query_prompt: Prompt) -> tuple[FloatArray, FloatArray]:
        """Documents' (n, d) and queries' (q, d) vectors: arrays, or read-only memory maps of what was kept."""
        roles = {"query": (pairs.queries, query_prompt), "corpus": (pairs.documents, document_prompt)}
        files = {role: self._file(role, *asked) for role, asked in roles.items()}
        found = {role: self._read(role, file, len(roles[role][0])) for role, file in files.items()}
        missing = [role for role in ("corpus", "query") if found[role] is None]
        if missing:
            methods = {"query": self._model.encode_query, "corpus": self._model.encode_document}
            with _pool_of(self._model, self._use_multi_process) as pool:
                for role in missing:
                    found[role] = self._encoded(methods[role], *roles[role], pool)
            for role in missing:
                self._write(role, files[role], found[role])
        return np.asanyarray(found["corpus"]), np.asanyarray(found["query"])

    def _encoded(self, encode: Any, texts: Texts, prompt: Prompt, pool: Any) -> FloatArray:
        vectors: FloatArray = encode(
            texts.texts.to_pylist(),
            pool=pool,
            batch_size=self._batch_size,
            normalize_embeddings=True,
            convert_to_numpy=True,
            show_progress_bar=True,
            prompt_name=prompt.name,
            prompt=prompt.text,
        )
        return vectors

    def _file(self, role: str, texts: Texts, prompt: Prompt) -> Path | None:
        if self._folder is None:
            return None
        key = sha256(repr((self._contents, prompt.text, prompt.name)).encode())
        for batch in texts.batches():
            for text in batch:
                key.update(text_key(text))
        return self._folder / f"{role}_embeddings_{key.hexdigest()}.npy"

    def _read(self, role: str, file: Path | None, size: int) -> FloatArray | None:
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
            print(f"[Cache] Loaded {role} embeddings from {file} (shape={vectors.shape})")
        return vectors

    def _write(self, role: str, file: Path | None, vectors: Any) -> None:
        if file is None:
            return
        with written_whole(file) as partial, partial.open("wb") as opened:
            np.save(opened, np.asarray(vectors), allow_pickle=False)
        if self._verbose:
            print(f"[Cache] Saved {role} embeddings to {file}")


class InMemory:
    """Implements `Teacher` by the cross-encoder's own `predict`.

    Its activation is applied, whatever it is, because the caller's thresholds are on the scale that it gives. That may
    not be a logit: all that is known of a score is that it is a finite number.
    """

    scale: Scale = "logit"

    def __init__(self, cross_encoder: Any, batch_size: int, pool: Any, contents: str) -> None:
        self.fingerprint = contents
        self._model = cross_encoder
        self._batch_size = batch_size
        self._pool = pool

    def score(self, pairs: Sequence[Pair], progress: Progress = SILENT) -> FloatArray:
        """float32 (n); pairs of nearly one length are run together, the longest first."""
        order = np.argsort([-len(query) - len(document) for query, document in pairs], kind="stable")
        scores = np.empty(len(pairs), dtype=np.float32)
        size = self._batch_size * _BATCHES_PER_CALL
        with progress.stage("Rescoring with CrossEncoder", len(pairs)) as advance:
            for start in range(0, len(order), size):
                rows = order[start : start + size]
                asked = [pairs[row] for row in rows]
                answer = self._model.predict(
                    asked, batch_size=self._batch_size, convert_to_tensor=True, pool=self._pool
                )
                scores[rows] = checked(array(answer), asked, self.scale, "the cross-encoder")
                advance(len(rows))
        return scores


@contextmanager
def teacher_of(
    cross_encoder: Any, wanted: bool, folder: str | None, batch_size: int, use_multi_process: list[str] | bool
) -> Iterator[Teacher | None]:
    """A cross-encoder as a teacher; a pair whose score is in the cache folder is not scored again.

    None without a cross-encoder, and with a warning where its scores are not `wanted`.
    """
    if cross_encoder is None or not wanted:
        if cross_encoder is not None:
            log.warning(
                "The `cross_encoder` is not used: it scores candidates only for a threshold (`absolute_margin`, "
                "`relative_margin`, `max_score`, `min_score`) or for `output_scores=True`."
            )
        yield None
        return
    contents = _kept_as(cross_encoder, folder, "scores")
    with _pool_of(cross_encoder, use_multi_process) as pool:
        teacher = InMemory(cross_encoder, batch_size, pool, contents or "")
        if folder and contents:
            with closing(ScoreStore(Path(folder) / "teacher_scores.sqlite")) as store:
                yield CachedTeacher(teacher, store)
        else:
            yield teacher


def fingerprint(model: Any) -> str | None:
    """32 hexadecimal digits that change whenever a SentenceTransformer's vectors or a CrossEncoder's scores could.

    They follow from what the model holds now, whatever it was loaded from: weights, modules, tokeniser, lengths,
    prompts and activation. None where the object is not a torch module, of which nothing can be known.
    """
    if not callable(getattr(model, "state_dict", None)):
        return None
    digest = sha256()
    for name, tensor in model.state_dict().items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(_bytes_of(tensor))
    backbone = getattr(getattr(model, "transformers_model", None), "config", None)
    about = {
        "modules": repr(model),
        "backbone": {} if backbone is None else {k: v for k, v in backbone.to_dict().items() if k != "_name_or_path"},
        "tokenizer": _tokenizer(getattr(model, "tokenizer", None)),
        **{name: getattr(model, name, None) for name in _DECIDING},
    }
    digest.update(json.dumps(about, sort_keys=True, default=repr).encode())
    return digest.hexdigest()[:32]


def _bytes_of(tensor: Any) -> memoryview:
    import torch

    return memoryview(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())


def _tokenizer(tokenizer: Any) -> Any:
    """What decides tokens: all except truncation and padding, which change with each call."""
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not callable(getattr(backend, "to_str", None)):
        return repr(tokenizer)
    return {key: value for key, value in json.loads(backend.to_str()).items() if key not in ("truncation", "padding")}


def _kept_as(model: Any, folder: str | None, what: Literal["embeddings", "scores"]) -> str | None:
    """The fingerprint under which what a model makes is kept; None where it is not kept."""
    contents = fingerprint(model) if folder else None
    if folder and contents is None:
        log.warning(
            "%s is not a torch module, so its weights cannot be compared with others; its %s are not kept in "
            "cache_folder",
            type(model).__name__,
            what,
        )
    return contents


@contextmanager
def _pool_of(model: Any, use_multi_process: list[str] | bool) -> Iterator[Any]:
    """The model's pool of processes, which is stopped whatever happens; None without `use_multi_process`."""
    if not use_multi_process:
        yield None
        return
    devices = None if isinstance(use_multi_process, bool) else use_multi_process
    pool = model.start_multi_process_pool(target_devices=devices)
    try:
        yield pool
    finally:
        model.stop_multi_process_pool(pool)
