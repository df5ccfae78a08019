import numpy as np
import pytest

from foolsgold.errors import RecipeError
from foolsgold.teachers.scale import check_scale, to_scale


def floats(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def test_logits_become_probabilities_by_one_sigmoid():
    # 1 / (1 + e^-x) worked out by hand: e^-2 = 0.135335, e^1 = 2.718282
    logits = floats(0.0, 2.0, -1.0, 100.0, -100.0)
    assert to_scale(logits, "logit", "probability") == pytest.approx([0.5, 0.880797, 0.268941, 1.0, 0.0], abs=1e-6)


def test_probabilities_become_log_odds():
    # ln(0.75 / 0.25) = ln 3 = 1.098612
    assert to_scale(floats(0.5, 0.75, 0.25), "probability", "logit") == pytest.approx(
        [0, 1.098612, -1.098612], abs=1e-5
    )


def test_certainty_becomes_a_finite_logit():
    # ln((1 - 1e-7) / 1e-7) = 16.118
    assert to_scale(floats(0.0, 1.0), "probability", "logit") == pytest.approx([-16.118, 16.118], abs=1e-2)


@pytest.mark.parametrize("scale", ["logit", "probability", "cosine"])
def test_a_scale_stays_as_it_is_when_it_is_the_one_wanted(scale):
    scores = floats(-0.5, 0.0, 0.25)
    np.testing.assert_array_equal(to_scale(scores, scale, scale), scores)


@pytest.mark.parametrize("have", ["logit", "probability"])
def test_probability_and_logit_are_each_other_s_inverse(have):
    other = "probability" if have == "logit" else "logit"
    scores = floats(0.1, 0.4, 0.9)
    assert to_scale(to_scale(scores, have, other), other, have) == pytest.approx(scores, abs=1e-5)


@pytest.mark.parametrize(
    ("have", "want"), [("cosine", "probability"), ("cosine", "logit"), ("logit", "cosine"), ("probability", "cosine")]
)
def test_a_cosine_is_neither_logit_nor_probability(have, want):
    with pytest.raises(RecipeError) as error:
        check_scale(have, want, "models/mine (bi_encoder)")
    assert f"teacher.scale is {want}" in str(error.value)
    assert f"models/mine (bi_encoder) scores on the scale {have}" in str(error.value)
    assert f"set teacher.scale: {have}" in str(error.value)


def test_every_conversion_gives_float32():
    assert {to_scale(floats(0.5), a, b).dtype for a, b in [("logit", "probability"), ("probability", "logit")]} == {
        np.dtype(np.float32)
    }
