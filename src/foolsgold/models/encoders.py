"""From the recipe's retriever section to an encoder."""

from __future__ import annotations

from foolsgold.models.names import locate
from foolsgold.models.protocol import Encoder
from foolsgold.recipe import ModelSpec


def load_encoder(spec: ModelSpec) -> Encoder:
    """The encoder that a recipe names: an ONNX folder with onnxruntime, anything else with sentence-transformers.

    Raises:
        ModelError: the model cannot be found or loaded, is not an embedding model, or does not say how it pools.
        MissingExtra: it needs torch.
    """
    located = locate(spec.model)
    # imported where it is needed: an ONNX folder loads no torch
    if located.is_onnx:
        from foolsgold.models.onnx_encoder import OnnxEncoder

        return OnnxEncoder(located, spec)
    from foolsgold.models.torch_encoder import TorchEncoder

    return TorchEncoder(located, spec)
