"""Low-rank adapters in a student (Hu et al., LoRA, ICLR 2022).

peft puts them into the model in place. A checkpoint holds only the adapters. In a model that is saved to be used they
are merged into the weights, so it opens like any other model, without peft and without the model it was trained from.
"""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from torch import Tensor

from foolsgold.errors import MissingExtra, ModelError
from foolsgold.recipe import LoraSpec

FILE = "adapters.safetensors"


def add_adapters(model: SentenceTransformer, lora: LoraSpec) -> None:
    """Freeze the model, and put adapters, which are trained, beside some of its layers.

    Raises:
        ModelError: not a transformer, or one without the layers named. MissingExtra: peft is not installed.
    """
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError:
        raise MissingExtra("lora", "student.lora (adapters)") from None
    transformer = model.transformers_model
    if transformer is None:
        raise ModelError("student.lora: adapters are for transformers, and this student has none; set lora: null")
    config = LoraConfig(
        r=lora.r, lora_alpha=lora.alpha, lora_dropout=lora.dropout, target_modules=lora.target_modules
    )  # fmt: skip
    try:
        inject_adapter_in_model(config, transformer)
    except ValueError as error:
        said = " ".join(str(error).split())
        raise ModelError(f"student.lora: {said[:200]}; name the layers in student.lora.target_modules") from None


def merged(model: SentenceTransformer) -> SentenceTransformer:
    """A copy of the model with the adapters merged into its weights."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    plain = deepcopy(model)
    for parent in list(plain.modules()):
        for name, layer in list(parent.named_children()):
            if isinstance(layer, BaseTunerLayer):
                layer.merge()
                setattr(parent, name, layer.get_base_layer())
    transformer = plain.transformers_model
    if transformer is not None and hasattr(transformer, "peft_config"):
        del transformer.peft_config
    return plain


def save_adapters(model: SentenceTransformer, folder: Path) -> None:
    """Write the weights that are trained, by name."""
    save_file(_trained(model), str(folder / FILE))


def load_adapters(model: SentenceTransformer, folder: Path) -> None:
    """Put what `save_adapters` wrote into a model with the same adapters."""
    found = load_file(str(folder / FILE))
    for name, weights in _trained(model).items():
        weights.copy_(found[name])


def _trained(model: SentenceTransformer) -> dict[str, Tensor]:
    return {name: weights.detach() for name, weights in model.named_parameters() if weights.requires_grad}
