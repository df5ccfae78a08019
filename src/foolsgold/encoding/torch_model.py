"""Loading the models that sentence-transformers runs, the same way for all four kinds of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from foolsgold.encoding.dtype import fastest_dtype
from foolsgold.errors import ModelError

Kind = Literal["SentenceTransformer", "SparseEncoder", "MultiVectorEncoder", "CrossEncoder"]


def load_model(
    kind: Kind,
    folder: Path,
    name: str,
    *,
    device: str | None,
    dtype: str,
    max_length: int | None,
    trust_remote_code: bool,
    **more: Any,
) -> tuple[Any, str]:
    """A model on its device, ready to run, and the dtype that it computes in.

    Args:
        name: what the user calls it, for errors. device: a torch device, None for the best there is.
        dtype: `auto` for the fastest that the device runs well. max_length: tokens, None for the model's own limit.
        more: handed to its constructor.

    Raises:
        ModelError: sentence-transformers cannot load it, in one sentence.
    """
    import sentence_transformers
    import torch

    try:
        with _without_bars():
            model: Any = getattr(sentence_transformers, kind)(
                str(folder),
                device=device,
                trust_remote_code=trust_remote_code,
                local_files_only=not trust_remote_code,
                # Transformers would unpickle a .bin where there is no safetensors file.
                model_kwargs={"use_safetensors": True, "dtype": torch.float32},
                **more,
            )
        static = model.transformers_model is None
        if max_length is not None and not static:
            model.max_seq_length = min(max_length, model.max_seq_length or max_length)
        chosen = fastest_dtype(model.device, static=static) if dtype == "auto" else dtype
        model.to(getattr(torch, chosen))
        model.eval()
    except Exception as error:  # whatever a folder's configuration makes three libraries raise
        if "trust_remote_code" in str(error):
            raise ModelError(
                f"{name}: needs Python code that comes with the model; read it, and set trust_remote_code: true "
                "if you want it to be run"
            ) from None
        said = " ".join(str(error).split())[:300] or type(error).__name__
        raise ModelError(f"{name}: sentence-transformers cannot load it ({said})") from None
    return model, chosen


@contextmanager
def _without_bars() -> Iterator[None]:
    """Without transformers' own progress bar, which would run through foolsgold's."""
    from transformers.utils import logging as transformers_logging

    logging: Any = transformers_logging  # its functions have no types
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
