"""Late interaction (ColBERT): a vector for each token, and MaxSim to compare a query's with a document's.

Khattab and Zaharia, "ColBERT", SIGIR 2020, section 3: a marker token tells queries from documents, a short query is
filled up with [MASK] tokens whose vectors count too, and a document's punctuation does not count. Each model's own
configuration says which of these it was trained with.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from threadpoolctl import ThreadpoolController

from foolsgold.errors import ModelError
from foolsgold.models.batches import length_batches
from foolsgold.models.describe import ModelFolder, describe
from foolsgold.models.known import known
from foolsgold.models.names import Located, fingerprint, locate
from foolsgold.models.onnx import OnnxModel, Tokens
from foolsgold.models.protocol import Role
from foolsgold.models.torch_model import fetched_for_torch, load_model
from foolsgold.models.vectors import NotFinite, to_unit_length
from foolsgold.progress import Advance, no_steps
from foolsgold.recipe import ModelSpec
from foolsgold.records import FloatArray

_blas = ThreadpoolController()


class LateInteraction(Protocol):
    """Turns texts into the vectors of their tokens.

    fingerprint: changes whenever the vectors could: weights, tokeniser, lengths, markers, prompts, dtype.
    """

    name: str
    fingerprint: str
    dimension: int

    def encode(self, texts: Sequence[str], role: Role, advance: Advance) -> list[FloatArray]:
        """For each text float32 (tokens, dimension), at least one row, each of length 1.

        The one row of a text of which no token counts is zero: it is similar to nothing.
        """
        ...


def load_late_interaction(spec: ModelSpec) -> LateInteraction:
    """The model that a recipe names: an ONNX folder with onnxruntime, anything else with sentence-transformers.

    Raises:
        ModelError: the model cannot be found or loaded, or is not a late-interaction model.
        MissingExtra: it needs torch.
    """
    located = locate(spec.model)
    return OnnxLateInteraction(located, spec) if located.is_onnx else TorchLateInteraction(located, spec)


def max_sim(query: FloatArray, document: FloatArray) -> float:
    """MaxSim divided by the query's tokens: the mean over them of the cosine to the document's nearest token.

    query, document: float32 (tokens, dimension), rows of length 1. The mean, not ColBERT's sum: it ranks a query's
    documents the same way, and is a cosine itself, so that thresholds mean the same for short and long queries.
    """
    nearest: FloatArray = (query @ document.T).max(axis=1)
    return float(nearest.mean(dtype=np.float32))


def one_thread_a_product() -> AbstractContextManager[Any]:
    """Around `max_sim`: such small products are faster so, and their last bits the same on any number of threads."""
    limited: AbstractContextManager[Any] = _blas.limit(limits=1, user_api="blas")
    return limited


@dataclass(frozen=True)
class Markers:
    """How a ColBERT model wants its texts, from its own configuration.

    query, document: the marker token of each, put after the first special token; None: no marker.
    query_length: tokens a longer query is cut to, and a shorter one filled up to with [MASK]; None: neither.
    document_length: tokens a document is cut to; None: the model's limit.
    attend: whether the model looks at the masks. skipped: tokens of a document that do not count.
    """

    query: str | None = "[unused0]"
    document: str | None = "[unused1]"
    query_length: int | None = 32
    document_length: int | None = None
    attend: bool = False
    skipped: tuple[str, ...] = tuple(string.punctuation)

    @classmethod
    def of(cls, about: ModelFolder) -> Markers:
        """As PyLate's or ColBERT's own file in the folder says; ColBERT's defaults for what it leaves open.

        Raises:
            ModelError: neither file is there, so that it may be no late-interaction model at all.
        """
        pylate, colbert, demo = about.settings, about.colbert, known(about.name)
        # The demo folder says nothing. Measured on Cranfield, ColBERT's defaults are the best of six ways to run it.
        if not colbert and "query_prefix" not in pylate and not (demo and "colbert" in demo.model):
            raise ModelError(
                f"{about.name}: does not say how it marks queries and documents (no artifact.metadata, and no "
                "query_prefix in config_sentence_transformers.json), so it is not known to be a late-interaction model"
            )
        expands = pylate.get("do_query_expansion", True)
        return cls(
            query=pylate.get("query_prefix", colbert.get("query_token_id", cls.query)) or None,
            document=pylate.get("document_prefix", colbert.get("doc_token_id", cls.document)) or None,
            query_length=(pylate.get("query_length") or colbert.get("query_maxlen") or 32) if expands else None,
            document_length=pylate.get("document_length") or colbert.get("doc_maxlen"),
            attend=bool(pylate.get("attend_to_expansion_tokens", colbert.get("attend_to_mask_tokens", cls.attend))),
            skipped=tuple(pylate.get("skiplist_words", cls.skipped if colbert.get("mask_punctuation", True) else ())),
        )


class OnnxLateInteraction:
    """A folder with model.onnx and tokenizer.json whose output is one vector per token. Imports no torch."""

    def __init__(self, located: Located, spec: ModelSpec) -> None:
        self.name = spec.model
        markers = Markers.of(describe(located.files, spec.model))
        self._model = OnnxModel(located.files, max_length=spec.max_length or markers.document_length)
        self._output = _token_output(self._model, spec.model)
        self._batch_size = spec.batch_size
        self._prompts: dict[Role, str] = {"query": spec.query_prompt or "", "document": spec.document_prompt or ""}
        self._markers: dict[Role, int | None] = {
            "query": self._token(markers.query),
            "document": self._token(markers.document),
        }
        self._mask = self._token("[MASK]") or self._token("<mask>")
        self._query_length = min(markers.query_length, self._model.max_length) if markers.query_length else None
        self._attend = markers.attend
        skipped = {self._model.tokenizer.token_to_id(word) for word in markers.skipped} - {None}
        self._skipped = np.array(sorted(skipped), dtype=np.int32)
        self._model.tokenizer.enable_truncation(self._model.max_length - 1)  # leaves room for the marker
        self.dimension = self.encode(["dimension"], "document", no_steps)[0].shape[1]
        self.fingerprint = fingerprint(
            located, "onnx late interaction", self._model.max_length, markers, sorted(self._prompts.items())
        )

    def encode(self, texts: Sequence[str], role: Role, advance: Advance) -> list[FloatArray]:
        """For each text float32 (tokens, dimension), rows of length 1."""
        tokens = [self._marked(each, role) for each in self._model.tokenize([self._prompts[role] + t for t in texts])]
        vectors: list[FloatArray] = [np.empty((0, 0), dtype=np.float32)] * len(texts)
        for rows, outputs in self._model.run_all(tokens, batch_size=self._batch_size):
            for position, row in enumerate(rows):
                output = outputs[self._output][position, : len(tokens[row])]
                counts = True if role == "query" else ~np.isin(tokens[row].ids, self._skipped)
                vectors[row] = _finished(output[np.broadcast_to(counts, len(output))], self.name, int(row))
            advance(len(rows))
        return vectors

    def _marked(self, tokens: Tokens, role: Role) -> Tokens:
        """With the role's marker after the first token; a query cut or filled up to its length."""
        ids, marker, length = tokens.ids, self._markers[role], self._query_length
        if role == "query" and length is not None:
            room = length - (marker is not None)
            ids = np.append(ids[: room - 1], ids[-1:]) if len(ids) > room else ids
        if marker is not None:
            ids = np.insert(ids, 1, marker)
        if role == "document" or self._mask is None or length is None:
            return Tokens(ids)
        masks = np.full(length - len(ids), self._mask, dtype=np.int32)
        attended = np.concatenate([np.ones_like(ids), np.full_like(masks, self._attend)])
        return Tokens(np.append(ids, masks), attended=attended)

    def _token(self, token: str | None) -> int | None:
        """A marker's id; None where the tokeniser does not know it (PyLate's end with a space)."""
        if token is None:
            return None
        ids = [self._model.tokenizer.token_to_id(spelling) for spelling in (token, token.strip())]
        return next((found for found in ids if found is not None), None)


class TorchLateInteraction:
    """A MultiVectorEncoder of sentence-transformers, which reads PyLate's and ColBERT's own folders too."""

    def __init__(self, located: Located, spec: ModelSpec) -> None:
        located = fetched_for_torch(located, spec)
        about = describe(located.files, spec.model)
        if not about.is_late_interaction:  # sentence-transformers would put a random projection on it
            raise ModelError(
                f"{spec.model}: is {about.what}, not a late-interaction model; "
                "name a ColBERT model saved by sentence-transformers, PyLate or ColBERT itself"
            )
        self.name = spec.model
        self._prompts: dict[Role, str | None] = {"query": spec.query_prompt, "document": spec.document_prompt}
        self._model, dtype = load_model("MultiVectorEncoder", located.files, spec)
        self._batch_size = spec.batch_size or 32
        self.dimension = self.encode(["dimension"], "document", no_steps)[0].shape[1]
        self.fingerprint = fingerprint(
            located, "torch late interaction", self._model.max_seq_length, dtype, sorted(self._prompts.items())
        )

    def encode(self, texts: Sequence[str], role: Role, advance: Advance) -> list[FloatArray]:
        """For each text float32 (tokens, dimension), rows of length 1."""
        encode = self._model.encode_query if role == "query" else self._model.encode_document
        prompt = {} if self._prompts[role] is None else {"prompt": self._prompts[role]}
        vectors: list[FloatArray] = [np.empty((0, 0), dtype=np.float32)] * len(texts)
        for rows in length_batches([len(text) for text in texts], size=self._batch_size, max_tokens=None):
            outputs = encode(
                [texts[row] for row in rows],
                batch_size=self._batch_size,
                convert_to_numpy=True,
                show_progress_bar=False,
                **prompt,
            )
            for row, output in zip(rows, outputs, strict=True):
                vectors[row] = _finished(np.asarray(output, dtype=np.float32), self.name, int(row))
            advance(len(rows))
        return vectors


def _finished(vectors: FloatArray, model: str, position: int) -> FloatArray:
    if not np.isfinite(vectors).all():
        raise NotFinite(model, f"text {position}", position)
    if not len(vectors):
        return np.zeros((1, vectors.shape[1]), dtype=np.float32)
    return to_unit_length(vectors.copy())


def _token_output(model: OnnxModel, name: str) -> str:
    for output in ("token_embeddings", "last_hidden_state", "output"):
        if output in model.outputs and len(model.output_shape(output)) == 3:
            return output
    raise ModelError(
        f"{name}: has no output with one vector per token (it has: {', '.join(model.outputs)}), "
        "so it is not a late-interaction model"
    )
