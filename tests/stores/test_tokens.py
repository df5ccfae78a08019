"""Token vectors on disk: encoded once, and again where they are not as they were written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from foolsgold.collection.texts import Texts
from foolsgold.stores.tokens import encode_tokens

TEXTS = Texts.from_lists(["d0", "d1", "d2"], ["a b", "b", "a a a"])


class Letters:
    """A vector of two numbers for each word."""

    fingerprint = "letters"
    dimension = 2

    def __init__(self) -> None:
        self.encoded = 0

    def encode(self, texts, role, advance):
        self.encoded += len(texts)
        table = {"a": [0.6, 0.8], "b": [1.0, 0.0]}
        return [np.array([table[word] for word in text.split()], dtype=np.float32) for text in texts]


def encode(model: Letters, cache: Path) -> list[list[list[float]]]:
    vectors = encode_tokens(model, TEXTS, "document", cache=cache)  # type: ignore[arg-type]
    return [vectors.of(row).round(3).tolist() for row in range(len(vectors))]


def zeroed(content: bytes) -> bytes:
    return content[:-8] + bytes(8)


@pytest.mark.parametrize("name", ["vectors.f16", "offsets.npy", "dimension.npy"])
@pytest.mark.parametrize("spoil", [zeroed, lambda content: content[:-2], lambda content: b"", None])
def test_files_that_are_not_as_they_were_written_are_written_again(tmp_path, caplog, name, spoil):
    model = Letters()
    expected = encode(model, tmp_path)
    assert len(expected[2]) == 3
    (file,) = tmp_path.rglob(name)
    if spoil is None:
        file.unlink()
    else:
        file.write_bytes(spoil(file.read_bytes()))
    assert encode(model, tmp_path) == expected
    assert model.encoded == 6
    assert f"{file.parent} has changed since it was written; it is written again" in caplog.text
    assert encode(model, tmp_path) == expected
    assert model.encoded == 6


def test_whole_files_are_read_and_nothing_is_encoded(tmp_path, caplog):
    first, second = Letters(), Letters()
    assert encode(first, tmp_path) == encode(second, tmp_path)
    assert (first.encoded, second.encoded) == (3, 0)
    assert not caplog.records
