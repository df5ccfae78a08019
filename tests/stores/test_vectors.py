import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from foolsgold.collection.texts import Texts
from foolsgold.models.encoders import load_encoder
from foolsgold.models.vectors import NotFinite
from foolsgold.recipe import ModelSpec
from foolsgold.stores import vectors as store
from foolsgold.stores.vectors import encode_all

TABLE = {"[PAD]": [9.0, 9.0], "a": [3.0, 4.0], "b": [3.0, -4.0], "nan": [np.nan, 0.0]}


class Counting:
    """A real encoder that remembers what it was asked to encode."""

    def __init__(self, folder: Path) -> None:
        self._encoder = load_encoder(ModelSpec(model=str(folder), pooling="mean"))
        self.name = self._encoder.name
        self.fingerprint = self._encoder.fingerprint
        self.dimension = self._encoder.dimension
        self.similarity = self._encoder.similarity
        self.dtype = self._encoder.dtype
        self.prompt = self._encoder.prompt
        self.encoded: list[str] = []

    def encode(self, texts, role, advance):
        self.encoded += texts
        return self._encoder.encode(texts, role, advance)


class Recording:
    """Progress that adds up."""

    def __init__(self) -> None:
        self.stages: dict[str, list[int]] = {}

    def stage(self, name, total):
        from contextlib import nullcontext

        self.stages[name] = [total, 0]

        def advance(steps: int) -> None:
            self.stages[name][1] += steps

        return nullcontext(advance)


@pytest.fixture
def encoder(make_onnx_folder) -> Counting:
    return Counting(make_onnx_folder(TABLE))


def texts_of(n: int) -> Texts:
    """n different texts of different lengths."""
    words = [" ".join("ab"[int(bit)] for bit in f"{i:b}") for i in range(n)]
    return Texts.from_lists((f"d{i}" for i in range(n)), words)


def plain(encoder: Counting, texts: Texts) -> np.ndarray:
    return encoder._encoder.encode(texts.take(range(len(texts))), "document", lambda steps: None)


def files(cache: Path) -> list[str]:
    return sorted(path.suffix for path in cache.rglob("*") if path.is_file() and path.suffix != ".lock")


def test_every_text_has_its_own_row_across_windows_and_parts(encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(store, "_WINDOW", 7)
    monkeypatch.setattr(store, "_PART", 3)
    vectors = encode_all(encoder, texts_of(40), "document", cache=tmp_path / "cache")
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors, plain(encoder, texts_of(40)))
    assert files(tmp_path / "cache") == [".done", ".npy"]  # nothing half-written is left


def test_a_second_call_reads_the_file_and_encodes_nothing(encoder, tmp_path):
    first = encode_all(encoder, texts_of(20), "document", cache=tmp_path)
    encoder.encoded.clear()
    second = encode_all(encoder, texts_of(20), "document", cache=tmp_path)
    assert encoder.encoded == []
    assert isinstance(second, np.memmap)
    assert not second.flags.writeable
    np.testing.assert_array_equal(first, second)


def test_other_texts_another_prompt_and_another_role_are_other_files(encoder, tmp_path):
    encode_all(encoder, texts_of(20), "document", cache=tmp_path)
    encode_all(encoder, texts_of(21), "document", cache=tmp_path)
    encode_all(encoder, texts_of(20), "query", cache=tmp_path)
    encoder.prompt = lambda role: "a "
    encode_all(encoder, texts_of(20), "query", cache=tmp_path)
    assert files(tmp_path) == [".done"] * 4 + [".npy"] * 4


def test_ids_do_not_matter_to_the_store(encoder, tmp_path):
    encode_all(encoder, Texts.from_lists(["x", "y"], ["a", "b"]), "document", cache=tmp_path)
    encode_all(encoder, Texts.from_lists(["p", "q"], ["a", "b"]), "document", cache=tmp_path)
    assert files(tmp_path) == [".done", ".npy"]


def test_a_text_that_occurs_again_is_encoded_once_even_in_another_window(encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(store, "_WINDOW", 3)
    texts = Texts.from_lists("1234567", ["a", "b", "a", "b b", "a", "b", "b a"])
    progress = Recording()
    vectors = encode_all(encoder, texts, "document", cache=tmp_path, progress=progress)
    assert sorted(encoder.encoded) == ["a", "b", "b a", "b b"]
    np.testing.assert_array_equal(vectors, plain(encoder, texts))
    assert progress.stages == {"encode documents": [7, 7]}


def test_no_texts_are_no_vectors(encoder, tmp_path):
    assert encode_all(encoder, Texts.from_lists([], []), "query", cache=tmp_path).shape == (0, 2)


_KILLED = """
import os, signal, sys
from pathlib import Path
sys.path[:0] = [{tests!r}, str(Path({tests!r}).parent)]
from pathlib import Path
from foolsgold.stores import vectors as store
from test_vectors import Counting, texts_of
store._WINDOW, store._PART = 16, 4
encoder = Counting(Path({folder!r}))
inner = encoder.encode
def encode(texts, role, advance):
    if len(encoder.encoded) >= 20:
        os.kill(os.getpid(), signal.SIGKILL)
    return inner(texts, role, advance)
encoder.encode = encode
store.encode_all(encoder, texts_of(40), "document", cache=Path({cache!r}))
"""


@pytest.mark.skipif(os.name == "nt", reason="needs SIGKILL")
def test_after_a_kill_only_what_was_not_written_is_encoded_again(make_onnx_folder, tmp_path, monkeypatch):
    folder, cache = make_onnx_folder(TABLE), tmp_path / "cache"
    script = _KILLED.format(tests=str(Path(__file__).parent), folder=str(folder), cache=str(cache))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert files(cache) == [".done", ".npy"]

    monkeypatch.setattr(store, "_WINDOW", 16)
    monkeypatch.setattr(store, "_PART", 4)
    encoder, progress = Counting(folder), Recording()
    vectors = encode_all(encoder, texts_of(40), "document", cache=cache, progress=progress)
    assert len(encoder.encoded) == 20
    np.testing.assert_array_equal(vectors, plain(encoder, texts_of(40)))
    assert progress.stages == {"encode documents": [40, 40]}
    assert not list(cache.rglob("*.partial.npy"))


def test_an_unfinished_file_of_other_parts_is_started_again(encoder, tmp_path, monkeypatch):
    partial_encoder(encoder, tmp_path, stop_after=8, monkeypatch=monkeypatch)
    monkeypatch.setattr(store, "_PART", 5)
    encoder.encoded.clear()
    vectors = encode_all(encoder, texts_of(20), "document", cache=tmp_path)
    assert len(encoder.encoded) == 20
    np.testing.assert_array_equal(vectors, plain(encoder, texts_of(20)))


@pytest.mark.parametrize("spoilt", ["*.done", "*.partial.npy"])
def test_an_unfinished_file_that_is_broken_is_started_again(encoder, tmp_path, monkeypatch, spoilt):
    partial_encoder(encoder, tmp_path, stop_after=8, monkeypatch=monkeypatch)
    (file,) = tmp_path.rglob(spoilt)
    file.write_bytes(file.read_bytes()[:10])
    encoder.encoded.clear()
    vectors = encode_all(encoder, texts_of(20), "document", cache=tmp_path)
    assert len(encoder.encoded) == 20
    np.testing.assert_array_equal(vectors, plain(encoder, texts_of(20)))


def partial_encoder(
    encoder: Counting, cache: Path, stop_after: int, monkeypatch: pytest.MonkeyPatch, n: int = 20
) -> None:
    """Leave an unfinished file behind."""
    monkeypatch.setattr(store, "_PART", 4)
    inner = encoder.encode

    def stopping(texts, role, advance):
        if len(encoder.encoded) >= stop_after:
            raise KeyboardInterrupt
        return inner(texts, role, advance)

    encoder.encode = stopping
    with pytest.raises(KeyboardInterrupt):
        encode_all(encoder, texts_of(n), "document", cache=cache)
    encoder.encode = inner
    assert files(cache) == [".done", ".npy"]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda content: content[: len(content) // 2],
        lambda content: content[:-1],
        lambda content: b"",
        lambda content: b"garbage" * 100,
        lambda content: content.replace(b"<f4", b"<i4"),
    ],
)
def test_a_broken_file_is_encoded_again(encoder, tmp_path, spoil):
    expected = np.array(encode_all(encoder, texts_of(20), "document", cache=tmp_path))
    (file,) = tmp_path.rglob("*.npy")
    file.write_bytes(spoil(file.read_bytes()))
    encoder.encoded.clear()
    np.testing.assert_array_equal(encode_all(encoder, texts_of(20), "document", cache=tmp_path), expected)
    assert len(encoder.encoded) == 20


@pytest.fixture
def windows_of_8(monkeypatch) -> None:
    monkeypatch.setattr(store, "_WINDOW", 8)
    monkeypatch.setattr(store, "_PART", 4)


def spoil(file: Path, row: int, value: float) -> None:
    vectors = np.lib.format.open_memmap(file, mode="r+")
    vectors[row] = value
    vectors.flush()


@pytest.mark.parametrize("value", [0.0, np.nan, 0.6])
def test_vectors_that_are_not_as_they_were_written_are_encoded_again(encoder, tmp_path, caplog, windows_of_8, value):
    expected = np.array(encode_all(encoder, texts_of(20), "document", cache=tmp_path))
    (file,) = tmp_path.rglob("*.npy")
    spoil(file, 9, value)
    encoder.encoded.clear()
    np.testing.assert_array_equal(encode_all(encoder, texts_of(20), "document", cache=tmp_path), expected)
    assert sorted(encoder.encoded) == sorted(texts_of(20).take(range(8, 16)))  # the window of row 9, and no other
    assert f"{file} has changed since it was written; 8 of its 20 vectors are encoded again" in caplog.text
    encoder.encoded.clear()
    encode_all(encoder, texts_of(20), "document", cache=tmp_path)
    assert encoder.encoded == []


def test_a_repeated_text_is_not_copied_from_a_vector_that_is_damaged(encoder, tmp_path, windows_of_8):
    texts = Texts.from_lists((f"d{i}" for i in range(16)), [*texts_of(8).take(range(8)), *texts_of(8).take(range(8))])
    expected = np.array(encode_all(encoder, texts, "document", cache=tmp_path))
    (file,) = tmp_path.rglob("*.npy")
    spoil(file, 3, 0)
    spoil(file, 11, 0)
    np.testing.assert_array_equal(encode_all(encoder, texts, "document", cache=tmp_path), expected)


@pytest.mark.parametrize("row", [1, 17])  # of a window that is complete, and of the one that is not
def test_an_unfinished_file_is_gone_on_with_but_for_what_is_damaged(encoder, tmp_path, monkeypatch, windows_of_8, row):
    partial_encoder(encoder, tmp_path, stop_after=20, monkeypatch=monkeypatch, n=40)
    (file,) = tmp_path.rglob("*.partial.npy")
    good = np.load(file)
    part = {1: 8, 17: 4}[row]
    (where,) = np.nonzero(good.any(axis=1))
    assert len(where) == 20
    spoil(file, row if row == 1 else int(where[where >= 16][0]), 0)
    encoder.encoded.clear()
    vectors = encode_all(encoder, texts_of(40), "document", cache=tmp_path)
    assert len(encoder.encoded) == 20 + part
    np.testing.assert_array_equal(vectors, plain(encoder, texts_of(40)))


@pytest.mark.parametrize("value", [0.0, np.nan])
def test_without_its_checksums_a_file_is_still_looked_at(encoder, tmp_path, value):
    expected = np.array(encode_all(encoder, texts_of(20), "document", cache=tmp_path))
    (file,), (marker,) = tmp_path.rglob("*.npy"), tmp_path.rglob("*.done")
    marker.unlink()
    encoder.encoded.clear()
    encode_all(encoder, texts_of(20), "document", cache=tmp_path)
    assert encoder.encoded == []
    spoil(file, 9, value)
    np.testing.assert_array_equal(encode_all(encoder, texts_of(20), "document", cache=tmp_path), expected)
    assert len(encoder.encoded) == 20


@pytest.mark.parametrize("content", [b"", b"{", b'{"window": 16384, "part": 1024, "crc32": [0]}', b"[]"])
def test_checksums_that_are_broken_themselves_vouch_for_nothing(encoder, tmp_path, content):
    expected = np.array(encode_all(encoder, texts_of(20), "document", cache=tmp_path))
    (marker,) = tmp_path.rglob("*.done")
    marker.write_bytes(content)
    encoder.encoded.clear()
    np.testing.assert_array_equal(encode_all(encoder, texts_of(20), "document", cache=tmp_path), expected)
    assert len(encoder.encoded) == 20


def test_a_cache_that_cannot_be_written_costs_a_warning(encoder, tmp_path, caplog):
    (tmp_path / "file").write_text("not a folder")
    vectors = encode_all(encoder, texts_of(20), "document", cache=tmp_path / "file")
    np.testing.assert_array_equal(vectors, plain(encoder, texts_of(20)))
    assert "kept in memory" in caplog.text


_ONE_OF_TWO = """
import sys, time
from pathlib import Path
sys.path[:0] = [{tests!r}, str(Path({tests!r}).parent)]
from pathlib import Path
from foolsgold.stores import vectors as store
from test_vectors import Counting, texts_of
store._PART = 4
encoder = Counting(Path({folder!r}))
inner = encoder.encode
def encode(texts, role, advance):
    time.sleep(0.1)
    return inner(texts, role, advance)
encoder.encode = encode
vectors = store.encode_all(encoder, texts_of(40), "document", cache=Path({cache!r}))
print(len(encoder.encoded), vectors.tobytes().hex())
"""


def test_two_processes_at_once_encode_once_and_agree(make_onnx_folder, tmp_path):
    folder, cache = make_onnx_folder(TABLE), tmp_path / "cache"
    script = _ONE_OF_TWO.format(tests=str(Path(__file__).parent), folder=str(folder), cache=str(cache))
    both = [subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    (encoded_a, vectors_a), (encoded_b, vectors_b) = (process.communicate()[0].split() for process in both)
    assert sorted([int(encoded_a), int(encoded_b)]) == [0, 40]
    assert vectors_a == vectors_b == plain(Counting(folder), texts_of(40)).tobytes().hex()


def test_nan_is_an_error_that_names_the_document(encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(store, "_WINDOW", 2)
    texts = Texts.from_lists(["w", "x", "y", "z"], ["a", "b", "a b a", "nan"])
    with pytest.raises(NotFinite, match=r"document 'z' \(row 3\)"):
        encode_all(encoder, texts, "document", cache=tmp_path)
