"""An encoder that is loaded only when there is something to encode.

Importing torch and loading a model takes longer than a whole mining run whose vectors are in the store. What such a run
needs of an encoder are a few facts, and those are kept under CACHE/encoders, by everything that they follow from.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from foolsgold.errors import ModelError
from foolsgold.files import written_whole
from foolsgold.models.dtype import cpu_has_bfloat16
from foolsgold.models.encoders import load_encoder
from foolsgold.models.names import fetched, fingerprint, locate
from foolsgold.models.protocol import Encoder, Role, Similarity
from foolsgold.progress import Advance
from foolsgold.recipe import ModelSpec
from foolsgold.records import FloatArray

_LIBRARIES = ("foolsgold", "onnxruntime", "sentence-transformers", "torch", "transformers")


@dataclass(frozen=True)
class _Facts:
    """What `Encoder` says of itself, and its two prompts."""

    name: str
    fingerprint: str
    dimension: int
    similarity: Similarity
    dtype: str
    query: str
    document: str


class DescribedEncoder:
    """Implements `Encoder`: answers from what is known of a model, and loads it for the first text."""

    def __init__(self, facts: _Facts, spec: ModelSpec, file: Path) -> None:
        self.name, self.fingerprint, self.dimension = facts.name, facts.fingerprint, facts.dimension
        self.similarity, self.dtype = facts.similarity, facts.dtype
        self._prompts: dict[Role, str] = {"query": facts.query, "document": facts.document}
        self._spec = spec
        self._file = file
        self._encoder: Encoder | None = None

    def prompt(self, role: Role) -> str:
        """What is put before each text of that role."""
        return self._prompts[role]

    def encode(self, texts: Sequence[str], role: Role, advance: Advance) -> FloatArray:
        """float32 (n, dimension), by the model.

        Raises:
            ModelError: the model is not what was written down of it.
        """
        if self._encoder is None:
            self._encoder = load_encoder(self._spec)
        if self._encoder.fingerprint != self.fingerprint:
            self._file.unlink(missing_ok=True)
            raise ModelError(
                f"{self.name}: does not compute on this machine as it did when {self._file} was written, which is "
                "removed now; run the same command again"
            )
        return self._encoder.encode(texts, role, advance)


def described_encoder(spec: ModelSpec, cache: Path) -> Encoder:
    """`load_encoder`, but a model that was loaded before is not loaded again until a text has to be encoded.

    Raises:
        ModelError, MissingExtra: as `load_encoder`.
    """
    located = fetched(locate(spec.model), with_code=spec.trust_remote_code)
    file = cache / "encoders" / f"{fingerprint(located, spec.model_dump(), _surroundings())}.json"
    facts = _read(file)
    if facts is not None:
        return DescribedEncoder(facts, spec, file)
    encoder = load_encoder(spec)
    facts = _Facts(
        name=encoder.name,
        fingerprint=encoder.fingerprint,
        dimension=encoder.dimension,
        similarity=encoder.similarity,
        dtype=encoder.dtype,
        query=encoder.prompt("query"),
        document=encoder.prompt("document"),
    )
    # a cache that cannot be written costs the loading, and is warned of with the vectors
    with suppress(OSError), written_whole(file) as partial:
        partial.write_text(json.dumps(asdict(facts)), encoding="utf-8")
    return encoder


def _read(file: Path) -> _Facts | None:
    try:
        return _Facts(**json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _surroundings() -> list[Any]:
    """What a model's dtype and device follow from, as far as can be told without torch."""
    return [
        *(_version(library) for library in _LIBRARIES),
        sys.platform,
        cpu_has_bfloat16(),
        Path("/dev/nvidiactl").exists(),
        os.environ.get("CUDA_VISIBLE_DEVICES"),
    ]


def _version(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:
        return None
