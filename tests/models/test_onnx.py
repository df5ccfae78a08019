import json

import numpy as np
import pytest

from foolsgold.errors import ModelError
from foolsgold.models.onnx import OnnxModel, Tokens

TABLE = {"[PAD]": [9.0, 9.0], "a": [1.0, 0.0], "b": [0.0, 1.0], "c": [2.0, 2.0]}


def test_a_batch_is_padded_to_its_longest_and_fed_only_what_the_graph_takes(make_onnx_folder):
    model = OnnxModel(make_onnx_folder(TABLE))
    output = model.run(model.tokenize(["a b c", "c"]))["last_hidden_state"]
    np.testing.assert_array_equal(output[0], [[1, 0], [0, 1], [2, 2]])
    np.testing.assert_array_equal(output[1], [[2, 2], [9, 9], [9, 9]])


def test_run_all_gives_every_input_once_whatever_their_order(make_onnx_folder):
    model = OnnxModel(make_onnx_folder(TABLE), threads=2)
    texts = [" ".join("abc"[i % 3] for i in range(n)) for n in (5, 1, 3, 3, 2, 8, 1)]
    tokens = model.tokenize(texts)
    seen = []
    for rows, outputs in model.run_all(tokens, batch_size=2):
        for row, output in zip(rows, outputs["last_hidden_state"], strict=True):
            seen.append(int(row))
            alone = model.run([tokens[row]])["last_hidden_state"][0]
            np.testing.assert_array_equal(output[: len(alone)], alone)
    assert sorted(seen) == list(range(len(texts)))


def test_a_tokenisers_own_padding_and_length_do_not_count(make_onnx_folder):
    folder = make_onnx_folder(TABLE)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["padding"] = {
        "strategy": {"Fixed": 16}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0,
        "pad_token": "[PAD]",
    }  # fmt: skip
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert [len(tokens) for tokens in OnnxModel(folder, max_length=2).tokenize(["a", "a b c"])] == [1, 2]


def test_a_pair_that_is_too_long_loses_tokens_of_its_longer_half(make_onnx_folder):
    model = OnnxModel(make_onnx_folder(TABLE), max_length=4)
    (tokens,) = model.tokenize_pairs([("a", "b b b b b b")])
    assert tokens.ids.tolist() == [1, 2, 2, 2]
    assert tokens.types.tolist() == [0, 1, 1, 1]


def test_text_is_never_cut_beyond_the_positions_that_a_model_has(make_onnx_folder, caplog):
    folder = make_onnx_folder(TABLE)
    (folder / "config.json").write_text('{"max_position_embeddings": 4}')
    assert OnnxModel(folder).max_length == 4
    assert OnnxModel(folder, max_length=3).max_length == 3
    assert not caplog.records
    assert OnnxModel(folder, max_length=512).max_length == 4
    assert "max_length is 512 but the model has 4 positions" in caplog.text


def test_no_inputs_are_no_batches(make_onnx_folder):
    assert list(OnnxModel(make_onnx_folder(TABLE)).run_all([])) == []


def test_half_a_surrogate_pair_can_be_tokenised(make_onnx_folder):
    model = OnnxModel(make_onnx_folder(TABLE))
    assert [len(tokens) for tokens in model.tokenize(["a \ud800"])] == [2]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: (folder / "model.onnx").unlink(), "has no model.onnx"),
        (lambda folder: (folder / "model.onnx").write_bytes(b"<html>"), "not a model that onnxruntime can load"),
        (lambda folder: (folder / "model.onnx").write_bytes(b""), "not a model that onnxruntime can load"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "has no tokenizer.json"),
        (lambda folder: (folder / "tokenizer.json").write_text("{}"), "not a tokeniser"),
        (lambda folder: (folder / "config.json").write_text("{"), "config.json: cannot be read as JSON"),
    ],
)
def test_a_folder_that_is_no_model_is_a_sentence(make_onnx_folder, spoil, message):
    folder = make_onnx_folder(TABLE)
    spoil(folder)
    with pytest.raises(ModelError, match=message):
        OnnxModel(folder)


def test_a_model_of_something_other_than_text_is_a_sentence(make_onnx_folder):
    with pytest.raises(ModelError, match="wants an input 'pixel_values'"):
        OnnxModel(make_onnx_folder(TABLE, extra_input="pixel_values"))


def test_a_token_outside_the_vocabulary_is_a_sentence(make_onnx_folder):
    with pytest.raises(ModelError, match="cannot be run"):
        OnnxModel(make_onnx_folder(TABLE)).run([Tokens(np.array([99], dtype=np.int32))])
