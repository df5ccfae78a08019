"""Linear layers in bfloat16 on a CPU, whose weights are laid out once as oneDNN multiplies them. Imports torch.

torch's own layers lay them out again for each batch. This is the operator that torch's compiler emits, but needs no C++
compiler here.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

_TOKENS = 2_048  # of a batch that the layout is best for; any number runs


def pack_linear_layers(model: nn.Module) -> None:
    """Let each bfloat16 `nn.Linear` of a model on a CPU run from a packed copy of its weight.

    For inference only: a layer's `weight` stays, for code that looks at it, but changing it changes nothing.
    """
    operators = torch.ops.mkldnn
    if not hasattr(operators, "_linear_pointwise") or not operators._is_mkldnn_bf16_supported():
        return
    for layer in model.modules():
        if type(layer) is nn.Linear and layer.weight.dtype == torch.bfloat16:
            layer.forward = _packed(layer)  # type: ignore[assignment]


def _packed(layer: nn.Linear) -> Callable[[torch.Tensor], torch.Tensor]:
    weight = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach(), _TOKENS)
    bias = None if layer.bias is None else layer.bias.detach()

    def forward(inputs: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = torch.ops.mkldnn._linear_pointwise(inputs, weight, bias, "none", [], "")
        return output

    return forward
