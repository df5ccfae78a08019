from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from foolsgold.collection import load_collection
from foolsgold.errors import CollectionError, MissingExtra
from foolsgold.recipe import CollectionSpec

Write = Callable[..., Path]

PAIRS = "query,positive\na,x\nb,y\n"


def test_a_path_alone_is_enough(beir: Write, file: Write) -> None:
    folder, pairs = beir(), file("pairs.csv", PAIRS)
    assert load_collection(str(folder)).digest == load_collection(f"beir:{folder}").digest
    assert load_collection(pairs).digest == load_collection(f"pairs:{pairs}").digest


def test_a_recipe_section_is_loaded_with_its_options(file: Write) -> None:
    spec = CollectionSpec.model_validate({"pairs": {"path": str(file("pairs.csv", PAIRS))}, "limit": 1})
    assert len(load_collection(spec).queries) == 1
    assert len(load_collection(spec, limit=2).queries) == 2


def test_a_loaded_collection_is_returned_as_it_is(file: Write) -> None:
    some = load_collection(file("pairs.csv", PAIRS))
    assert load_collection(some) is some
    with pytest.raises(CollectionError, match="limit cannot be changed in a collection that is loaded"):
        load_collection(some, limit=1)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("nowhere", "'nowhere' is not a collection: there is no such file or folder; a collection is one of"),
        ("bier:data", "did you mean beir?"),
        ("beir:", "names nothing after the colon"),
        (3, "int is not a collection"),
        ("pairs:nowhere.csv", "nowhere.csv: no such file"),
    ],
)
def test_what_is_not_a_collection_is_told_the_forms(spec: object, message: str) -> None:
    with pytest.raises(CollectionError, match=message) as caught:
        load_collection(spec)
    if not str(spec).startswith("pairs:"):
        assert all(
            form in str(caught.value) for form in ("beir:FOLDER", "pairs:FILE", "hf:NAME", "ir_datasets:NAME", "demo")
        )


def test_options_that_cannot_be_are_errors(beir: Write, file: Write) -> None:
    with pytest.raises(CollectionError, match="limit: Input should be greater than or equal to 1"):
        load_collection(file("pairs.csv", PAIRS), limit=0)
    with pytest.raises(CollectionError, match="anchor, positive and corpus are for collections of pairs only"):
        load_collection(beir(), anchor="query")


def test_a_hub_dataset_that_cannot_be_had_is_an_error_that_says_what_works() -> None:
    # another process, since the datasets library reads this setting when it is imported
    code = (
        "from foolsgold.collection import load_collection; from foolsgold.errors import CollectionError\n"
        "try: load_collection('hf:nobody/nothing')\n"
        "except CollectionError as error: print(error)"
    )
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    told = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout
    assert told.startswith("hf:nobody/nothing, split 'train': cannot be loaded")
    assert "what works without the hub: beir:FOLDER, pairs:FILE, demo" in told


def test_loading_needs_neither_torch_nor_datasets(beir: Write) -> None:
    code = (
        "import sys; from foolsgold.collection import load_collection\n"
        f"load_collection({str(beir())!r}); print([m for m in ('torch', 'datasets') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_ir_datasets_not_installed_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ir_datasets", None)
    with pytest.raises(MissingExtra, match=r"pip install 'foolsgold\[ir-datasets\]'"):
        load_collection("ir_datasets:beir/scifact/train")


def test_ir_datasets_collections_are_read(tmp_path: Path) -> None:
    ir_datasets = pytest.importorskip("ir_datasets")
    from ir_datasets.datasets.base import Dataset
    from ir_datasets.formats import TrecQrels, TsvDocs, TsvQueries
    from ir_datasets.util import LocalDownload

    def local(name: str, text: str) -> LocalDownload:
        (tmp_path / name).write_text(text)
        return LocalDownload(tmp_path / name)

    docs = TsvDocs(local("docs.tsv", "d1\tfool's gold\nd2\tgold\n"))
    queries = TsvQueries(local("queries.tsv", "q1\tpyrite?\nq2\tgold?\n"), lang="en")
    qrels = TrecQrels(local("qrels", "q1 0 d1 2\nq1 0 d2 1\nq2 0 d9 1\n"), {})
    ir_datasets.registry.register("foolsgold-gold", Dataset(docs))
    ir_datasets.registry.register("foolsgold-gold/train", Dataset(docs, queries, qrels))

    gold = load_collection("ir_datasets:foolsgold-gold", split="train", relevant_from=2)
    assert gold.digest == load_collection("ir_datasets:foolsgold-gold/train", relevant_from=2).digest
    assert gold.documents.take([0, 1]) == ["fool's gold", "gold"]
    assert gold.positives(0).tolist() == [0]
    assert gold.grade.tolist() == [2, 1]
    assert gold.notes == ("judgements that name an unknown query or document: 1, left out",)
    with pytest.raises(CollectionError, match="it has no queries, qrels; name one of its parts"):
        load_collection("ir_datasets:foolsgold-gold")
    with pytest.raises(CollectionError, match="no such dataset"):
        load_collection("ir_datasets:foolsgold-nothing")
