"""Loading the models that sentence-transformers runs, the same way for all four kinds of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from foolsgold.errors import MissingExtra, ModelError
from foolsgold.models.dtype import fastest_dtype
from foolsgold.models.names import Located, fetched
from foolsgold.recipe import ModelSpec, TeacherSpec

Kind = Literal["SentenceTransformer", "SparseEncoder", "MultiVectorEncoder", "CrossEncoder"]


def fetched_for_torch(
    located: Located, spec: ModelSpec | TeacherSpec, what: str = "a model that is not an ONNX folder"
) -> Located:
    """The model with its files on this machine, if torch is there to run it.

    Raises:
        MissingExtra: it is not; says `what` needs it. ModelError: as `fetched`.
    """
    try:
        import sentence_transformers  # noqa: F401
    except ImportError:
        raise MissingExtra("torch", f"{spec.model} ({what})") from None
    return fetched(located, with_code=spec.trust_remote_code)


def load_model(kind: Kind, folder: Path, spec: ModelSpec | TeacherSpec, **more: Any) -> tuple[Any, str]:
    """A model on its device, ready to run, and the dtype that it computes in: the fastest the device runs well if auto.

    more: handed to its constructor.

    Raises:
        ModelError: sentence-transformers cannot load it, in one sentence.
    """
    import sentence_transformers
    import torch

    from foolsgold.models.packed import pack_linear_layers

    try:
        with without_bars():
            model: Any = getattr(sentence_transformers, kind)(
                str(folder),
                device=spec.device,
                trust_remote_code=spec.trust_remote_code,
                local_files_only=not spec.trust_remote_code,
                # Transformers would unpickle a .bin where there is no safetensors file.
                model_kwargs={"use_safetensors": True, "dtype": torch.float32},
                **more,
            )
        static = model.transformers_model is None
        if spec.max_length is not None and not static:
            model.max_seq_length = min(spec.max_length, model.max_seq_length or spec.max_length)
        dtype = fastest_dtype(model.device, static=static) if spec.dtype == "auto" else spec.dtype
        model.to(getattr(torch, dtype))
        if dtype == "bfloat16" and model.device.type == "cpu":
            pack_linear_layers(model)
        model.eval()
    except Exception as error:  # whatever a folder's configuration makes three libraries raise
        if "trust_remote_code" in str(error):
            raise ModelError(
                f"{spec.model}: needs Python code that comes with the model; read it, and set trust_remote_code: true "
                "if you want it to be run"
            ) from None
        said = " ".join(str(error).split())[:300] or type(error).__name__
        raise ModelError(f"{spec.model}: sentence-transformers cannot load it ({said})") from None
    return model, dtype


@contextmanager
def without_bars() -> Iterator[None]:
    """Without transformers' own progress bars, which would run through foolsgold's."""
    from transformers.utils import logging as transformers_logging

    logging: Any = transformers_logging  # its functions have no types
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
