from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foolsgold.collection import Collection, demo, load_collection
from foolsgold.collection.demo import Docstring, docstrings, sample
from foolsgold.errors import CollectionError
from foolsgold.recipe import CollectionSpec

REST = "It says what the function does at some length, so that a reader of it alone can tell what was asked for.  " * 2
MODULE = f'''
def join(a, b):
    """Put one path after the other. Then stop here and do no more than that.

    {REST}
    """

class Box:
    """Hold any number of things.

    Notes
    -----
    {REST}
    """

    def open(self):
        """Lift the lid of the box slowly.

        {REST}
        """

    def _hidden(self):
        """Lift the lid of the box secretly.

        {REST}
        """

try:
    def found():
        """Found although it is inside a try.

        {REST}
        """
except ImportError:
    pass

def short():
    """Only one sentence, which is no pair."""

def undocumented():
    return "nothing"
'''


def test_a_docstring_becomes_its_first_sentence_and_the_rest(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(MODULE)
    found = {entry.name: entry for entry in docstrings([("pkg._impl.m", tmp_path / "m.py")])}
    assert sorted(found) == ["pkg.m.Box", "pkg.m.Box.open", "pkg.m.found", "pkg.m.join"]
    assert found["pkg.m.join"].summary == "Put one path after the other."
    assert found["pkg.m.join"].rest == "Then stop here and do no more than that.\n" + REST.strip()
    assert found["pkg.m.Box"].rest == "Notes\n" + REST.strip()  # without the line under the heading


def test_a_long_docstring_is_cut_between_words(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text('def f():\n    """A summary of this function.\n\n    ' + "word " * 500 + '"""\n')
    (entry,) = docstrings([("m", tmp_path / "m.py")])
    assert len(entry.rest) <= 1000
    assert set(entry.rest.split()) == {"word"}


def test_files_that_cannot_be_parsed_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(MODULE)
    (tmp_path / "broken.py").write_text("def f(:\n")
    (tmp_path / "bytes.py").write_bytes(b"\x00\xff")
    names = ("bytes", "broken", "good", "missing")
    found = docstrings([(name, tmp_path / f"{name}.py") for name in names])
    assert {entry.name.split(".")[0] for entry in found} == {"good"}


def test_two_files_with_one_public_name_keep_both(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(MODULE)
    names = [entry.name for entry in docstrings([("p._a", tmp_path / "m.py"), ("p._b", tmp_path / "m.py")])]
    assert {"p.join", "p._b.join"} < set(names)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("fghijk")), unique=True), st.integers(0, 20))
def test_a_sample_has_families_whole_and_is_no_larger_than_asked(parts: list[tuple[str, str]], n: int) -> None:
    entries = [Docstring(".".join(part), "summary", "rest") for part in sorted(parts)]
    taken = sample(entries, n)
    assert len(taken) <= n
    assert [entry for entry in entries if entry in taken] == taken
    sizes = Counter(entry.name[-1] for entry in entries)
    assert all(count == sizes[family] for family, count in Counter(entry.name[-1] for entry in taken).items())


@pytest.fixture(scope="module")
def found() -> list[Docstring]:
    return docstrings(demo._source_files())


@pytest.fixture
def parsed_once(found: list[Docstring], monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment's docstrings, which take seconds to parse, for every test that loads the demo."""
    monkeypatch.setattr(demo, "docstrings", lambda *_: found)


def test_the_environment_has_enough_to_show(found: list[Docstring]) -> None:
    names = {entry.name for entry in found}
    assert {"numpy.linalg.svd", "scipy.linalg.svd"} < names
    assert not any(name.startswith(("foolsgold", "test.", "numpy.tests")) for name in names)
    assert len(found) > 3000


@pytest.mark.usefixtures("parsed_once")
def test_the_demo_is_the_same_every_time_and_its_splits_share_no_query() -> None:
    train, again, test = load_collection("demo"), load_collection("demo"), load_collection("demo", split="test")
    assert train.digest == again.digest
    assert 3000 <= len(train.documents) <= demo.DOCUMENTS
    assert train.documents.digest == test.documents.digest
    ids = [set(some.queries.take_ids(range(len(some.queries)))) for some in (train, test)]
    assert not ids[0] & ids[1]
    assert 0.15 < len(ids[1]) / len(ids[0] | ids[1]) < 0.25
    assert train.spec == {"demo": True}


@pytest.mark.usefixtures("parsed_once")
def test_docstrings_with_one_first_sentence_are_positives_of_one_query() -> None:
    train = load_collection("demo")
    counts = Counter(train.queries.take(train.positive_query))
    assert counts.most_common(1)[0][1] > 1
    assert len(set(train.queries.take(range(len(train.queries))))) == len(train.queries)


@pytest.mark.usefixtures("parsed_once")
def test_a_document_does_not_hold_its_id_unless_its_docstring_does(found: list[Docstring]) -> None:
    train: Collection = load_collection(CollectionSpec(demo=500))
    rest = {entry.name: entry.rest for entry in found}
    assert train.documents.take(range(500)[: len(train.documents)]) == [rest[name] for name in train.documents.rows]


def test_the_demo_has_two_splits() -> None:
    with pytest.raises(CollectionError, match="demo: no split 'dev'; it has train, test"):
        load_collection("demo", split="dev")
