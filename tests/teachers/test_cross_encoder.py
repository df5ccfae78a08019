import numpy as np
import pytest
from tiny_models import cross_encoder

from foolsgold.errors import ModelError
from foolsgold.recipe import TeacherSpec
from foolsgold.teachers.load import load_teacher
from foolsgold.teachers.scale import to_scale

PAIRS = [
    ("capital of france", "paris is the capital of france ."),
    ("bees make honey", "bread"),
    ("bees", "the bees make honey of flowers in the city of paris , a city in france"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return cross_encoder(tmp_path_factory.mktemp("models") / "ce")


def teacher(folder, **settings):
    return load_teacher(TeacherSpec(model=str(folder), **{"dtype": "float32", **settings}))


def test_logits_are_raw_though_the_model_s_own_default_is_a_sigmoid(folder):
    from sentence_transformers import CrossEncoder

    own = CrossEncoder(str(folder), device="cpu").predict(PAIRS)
    logits = teacher(folder).score(PAIRS)
    assert ((own > 0) & (own < 1)).all()  # the model would have applied it
    assert np.abs(logits).max() > 1
    # and one sigmoid, ours, gives what the model's own would have been
    np.testing.assert_allclose(to_scale(logits, "logit", "probability"), own, atol=1e-5)


def test_scores_come_in_the_order_of_the_pairs_whatever_the_batch(folder):
    together = teacher(folder).score(PAIRS * 9)
    np.testing.assert_allclose(together, np.tile(teacher(folder, batch_size=1).score(PAIRS), 9), atol=1e-4)
    assert together.dtype == np.float32
    assert teacher(folder).score([]).shape == (0,)


def test_the_prompt_goes_before_each_query(folder):
    asked = [("of the " + query, document) for query, document in PAIRS]
    np.testing.assert_allclose(teacher(folder, prompt="of the ").score(PAIRS), teacher(folder).score(asked), atol=1e-5)


def test_the_longest_text_is_cut_first_to_the_max_length(folder):
    long = "honey " * 100
    # [CLS] bees [SEP] and 5 words of the document and [SEP]
    np.testing.assert_allclose(
        teacher(folder, max_length=9).score([("bees", long)]),
        teacher(folder).score([("bees", "honey " * 5)]),
        atol=1e-5,
    )


def test_a_max_length_beyond_the_model_s_positions_is_cut_there(folder):
    assert np.isfinite(teacher(folder, max_length=4096).score([("bees", "honey " * 500)])).all()


def test_the_fingerprint_covers_weights_prompt_length_and_dtype(folder, tmp_path):
    fingerprints = {
        teacher(folder).fingerprint,
        teacher(folder, prompt="x").fingerprint,
        teacher(folder, max_length=9).fingerprint,
        teacher(folder, dtype="bfloat16").fingerprint,
    }
    assert len(fingerprints) == 4
    assert teacher(folder, batch_size=3).fingerprint == teacher(folder).fingerprint
    assert teacher(cross_encoder(tmp_path / "elsewhere")).fingerprint == teacher(folder).fingerprint


def fits(made, most):
    """Plant a fault: the device runs out of memory for batches of more than `most` pairs. Tells the sizes that ran."""
    import torch

    ran = []

    def refuse(module, inputs):
        size = len(inputs[0]["input_ids"])
        if size > most:
            raise torch.OutOfMemoryError("planted")
        ran.append(size)

    made._model.register_forward_pre_hook(refuse)
    return ran


@pytest.mark.parametrize("batch_size", [None, 64])
def test_a_batch_that_does_not_fit_is_halved_until_it_does_and_stays_so(folder, caplog, batch_size):
    pairs = [(f"{query} {'honey ' * (number % 7)}", document) for number in range(40) for query, document in PAIRS]
    limited = teacher(folder, batch_size=batch_size)
    ran = fits(limited, 3)
    np.testing.assert_allclose(limited.score(pairs), teacher(folder).score(pairs), atol=1e-4)
    assert sum(ran) == len(pairs)
    halvings = len(caplog.messages)
    assert halvings > 0
    assert "does not fit into the memory of cpu; halved" in caplog.text
    limited.score(pairs)
    assert len(caplog.messages) == halvings


def test_a_single_pair_that_does_not_fit_is_refused_with_the_remedy(folder):
    limited = teacher(folder)
    fits(limited, 0)
    with pytest.raises(ModelError, match="a single pair does not fit into the memory of cpu; set max_length lower"):
        limited.score(PAIRS)


def test_without_a_batch_size_a_gpu_s_batch_holds_as_many_tokens_whatever_the_length_of_its_pairs(folder):
    short, long = ("bees", "honey"), ("bees", "the bees make honey of flowers in paris " * 9)
    made = teacher(folder)
    made._batch_size = None  # as on a GPU
    ran = fits(made, 100_000)
    made.score([long] * 1024 * 8 + [short] * 14_000)
    # 64 tokens is the model's limit, and 9 characters make 5 tokens: 65,536 tokens are 1,024 and 13,107 pairs
    assert ran == [1024] * 8 + [13_107, 893]


def test_a_batch_size_of_the_recipe_is_kept(folder):
    made = teacher(folder, batch_size=3)
    ran = fits(made, 10_000)
    made.score(PAIRS * 3)
    assert ran == [3, 3, 3]


def test_in_bfloat16_logits_stay_within_its_rounding_of_float32(folder):
    full, half = teacher(folder).score(PAIRS), teacher(folder, dtype="bfloat16").score(PAIRS)
    assert half.dtype == np.float32
    assert (full != half).any()
    # 8 bits of mantissa, through two layers
    np.testing.assert_allclose(half, full, atol=0.05 * np.abs(full).max())


def test_auto_is_bfloat16_only_where_the_processor_multiplies_it(folder, monkeypatch):
    for has, dtype in ((True, "bfloat16"), (False, "float32")):
        monkeypatch.setattr("foolsgold.models.dtype.cpu_has_bfloat16", lambda has=has: has)
        assert teacher(folder, dtype="auto").fingerprint == teacher(folder, dtype=dtype).fingerprint
