"""The number format that a torch model computes in, where the recipe does not say."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

Dtype = Literal["float32", "bfloat16", "float16"]

_CPU_FLAGS = frozenset({"avx512_bf16", "amx_bf16"})


def fastest_dtype(device: Any, *, static: bool) -> Dtype:
    """bfloat16 where the device multiplies in it, else float32.

    device: a torch.device. static: a table of token vectors, which multiplies nothing: bfloat16 would only lose digits.
    """
    import torch

    if static:
        return "float32"
    if device.type == "cuda":
        return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    return "bfloat16" if device.type == "cpu" and cpu_has_bfloat16() else "float32"


def cpu_has_bfloat16(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether this machine's processor multiplies bfloat16; False where that is unknown (not Linux)."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    flags = next((line.split(":", 1)[1].split() for line in lines if line.startswith("flags") and ":" in line), [])
    return bool(_CPU_FLAGS.intersection(flags))
