import numpy as np
import pytest
from tiny_models import cross_encoder

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
