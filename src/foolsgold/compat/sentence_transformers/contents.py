"""A fingerprint of a model in memory: of what it holds now, whatever it was once loaded from."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any


def fingerprint(model: Any) -> str | None:
    """32 hexadecimal digits that change whenever a SentenceTransformer's vectors or a CrossEncoder's scores could.

    Covers weights, modules, tokeniser, lengths, prompts and activation. None where the object is no torch module, of
    which nothing can be known.
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
        **{
            name: getattr(model, name, None)
            for name in ("max_seq_length", "truncate_dim", "prompts", "default_prompt_name", "activation_fn")
        },
    }
    digest.update(json.dumps(about, sort_keys=True, default=repr).encode())
    return digest.hexdigest()[:32]


def _bytes_of(tensor: Any) -> memoryview:
    import torch

    return memoryview(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())


def _tokenizer(tokenizer: Any) -> Any:
    """What decides tokens, but for truncation and padding, which change with each call."""
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not callable(getattr(backend, "to_str", None)):
        return repr(tokenizer)
    return {key: value for key, value in json.loads(backend.to_str()).items() if key not in ("truncation", "padding")}
