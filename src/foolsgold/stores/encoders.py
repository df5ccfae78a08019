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
from dataclasses import dataclass
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


@dataclass
class DescribedEncoder:
    """Implements `Encoder`: answers from the facts that are known of a model, and loads it for the first text.

    file: where the facts are kept.
    """

    name: str
    fingerprint: str
    dimension: int
    similarity: Similarity
    dtype: str
    prompts: dict[Role, str]
    spec: ModelSpec
    file: Path
    _encoder: Encoder | None = None

    def prompt(self, role: Role) -> str:
        """What is put before each text of that role."""
        return self.prompts[role]

    def encode(self, texts: Sequence[str], role: Role, advance: Advance) -> FloatArray:
        """float32 (n, dimension), by the model.

        Raises:
            ModelError: the model does not match the facts that were kept.
        """
        if self._encoder is None:
            self._encoder = load_encoder(self.spec)
        if self._encoder.fingerprint != self.fingerprint:
            self.file.unlink(missing_ok=True)
            raise ModelError(
                f"{self.name}: does not compute on this machine as it did when {self.file} was written, which is "
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
    with suppress(OSError, ValueError, TypeError):  # not there yet, or damaged
        return DescribedEncoder(**json.loads(file.read_text(encoding="utf-8")), spec=spec, file=file)
    encoder = load_encoder(spec)
    facts: dict[str, Any] = {
        name: getattr(encoder, name) for name in ("name", "fingerprint", "dimension", "similarity", "dtype")
    }
    facts["prompts"] = {"query": encoder.prompt("query"), "document": encoder.prompt("document")}
    # a cache that cannot be written costs the loading, and is warned of with the vectors
    with suppress(OSError), written_whole(file) as partial:
        partial.write_text(json.dumps(facts), encoding="utf-8")
    return encoder


def _surroundings() -> list[Any]:
    """What a model's dtype and device follow from, as far as that is known without torch."""
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
