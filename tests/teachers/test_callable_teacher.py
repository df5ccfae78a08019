import sys
import textwrap

import numpy as np
import pytest

from foolsgold.errors import ModelError, TeacherError
from foolsgold.recipe import TeacherSpec
from foolsgold.teachers.load import load_teacher


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a module into the current folder, under a name no other test has imported."""
    monkeypatch.chdir(tmp_path)
    written = []

    def write(source: str, name: str = "grader") -> None:
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(source), encoding="utf-8")
        sys.modules.pop(name, None)
        written.append(name)

    yield write
    for name in written:
        sys.modules.pop(name, None)


LENGTHS = "def score(pairs):\n    return [len(q) - len(d) for q, d in pairs]\n"
PAIRS = [("abc", "d"), ("a", "bcde")]


def test_a_function_in_the_current_folder_is_a_teacher(write):
    write(LENGTHS)
    teacher = load_teacher(TeacherSpec(model="grader:score", scale="logit"))
    scores = teacher.score(PAIRS)
    assert scores.tolist() == [2.0, -3.0]
    assert scores.dtype == np.float32
    assert teacher.score([]).shape == (0,)


@pytest.mark.parametrize("scale", ["logit", "probability", "cosine"])
def test_its_scale_is_the_one_the_recipe_declares(write, scale):
    write("def score(pairs):\n    return [0.5] * len(pairs)\n")
    assert load_teacher(TeacherSpec(model="grader:score", scale=scale)).scale == scale


def test_the_function_gets_at_most_a_batch_of_tuples_with_the_prompt_before_the_query(write):
    write(
        """
        calls = []
        def score(pairs):
            calls.append(pairs)
            return [0.0] * len(pairs)
        """
    )
    load_teacher(TeacherSpec(model="grader:score", prompt="Q: ", batch_size=2)).score([("a", "b")] * 5)
    assert [len(call) for call in sys.modules["grader"].calls] == [2, 2, 1]
    assert sys.modules["grader"].calls[2] == [("Q: a", "b")]


def test_a_method_of_an_object_is_a_function_too(write):
    write("class Grader:\n    def score(self, pairs):\n        return [1] * len(pairs)\n\ngrader = Grader()\n")
    assert load_teacher(TeacherSpec(model="grader:grader.score")).score(PAIRS).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("no_such_module:score", "no module no_such_module, neither installed nor in the current folder"),
        ("grader:grade", r"grader has no grade \(it has: score\)"),
        ("grader:N", "is a int, not a function"),
        ("grader:", "named module:function"),
        ("grader", "named module:function"),
    ],
)
def test_a_name_that_means_no_function_is_refused_when_loading(write, name, problem):
    write(LENGTHS + "N = 3\n")
    with pytest.raises(ModelError, match=problem):
        load_teacher(TeacherSpec(model=name, kind="callable"))


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("import no_such_package_here\n", "needs no_such_package_here, which is not installed"),
        ("1 / 0\n", "raised ZeroDivisionError"),
        ("def score(pairs:\n", "raised SyntaxError"),
    ],
)
def test_a_module_that_cannot_be_imported_says_why(write, source, problem):
    write(source)
    with pytest.raises(ModelError, match=problem):
        load_teacher(TeacherSpec(model="grader:score"))


def test_what_the_function_raises_is_wrapped_and_chained(write):
    write("def score(pairs):\n    raise KeyError('no such key')\n")
    with pytest.raises(TeacherError, match=r"teacher grader:score raised KeyError: 'no such key'") as error:
        load_teacher(TeacherSpec(model="grader:score")).score(PAIRS)
    assert isinstance(error.value.__cause__, KeyError)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("[0.5]", "gave 1 scores for 2 pairs"),
        ("[0.5, float('nan')]", "not a finite probability"),
        ("[0.5, 7]", "7.0 for"),
    ],
)
def test_a_wrong_answer_names_the_function(write, body, problem):
    write(f"def score(pairs):\n    return {body}\n")
    with pytest.raises(TeacherError, match=rf"teacher grader:score:? .*{problem}"):
        load_teacher(TeacherSpec(model="grader:score")).score(PAIRS)


def test_the_fingerprint_changes_with_the_source_the_function_and_the_prompt(write):
    def fingerprint(source, model="grader:score", **settings):
        write(source)
        return load_teacher(TeacherSpec(model=model, scale="logit", **settings)).fingerprint

    two = LENGTHS + LENGTHS.replace("score", "other")
    assert fingerprint(LENGTHS) == fingerprint(LENGTHS)
    assert len({fingerprint(LENGTHS), fingerprint(two), fingerprint(two, "grader:other")}) == 3
    assert fingerprint(LENGTHS, prompt="Q: ") != fingerprint(LENGTHS)


def test_a_function_with_a_fingerprint_of_its_own_is_known_by_that(write):
    def fingerprint(source):
        write(source)
        return load_teacher(TeacherSpec(model="grader:score", scale="logit")).fingerprint

    own = "score.fingerprint = 'weights 7'\n"
    assert fingerprint(LENGTHS + own) == fingerprint("# another comment\n" + LENGTHS + own)
    assert fingerprint(LENGTHS + own) != fingerprint(LENGTHS + own.replace("7", "8"))


def test_the_current_folder_does_not_stay_on_the_path(write):
    write(LENGTHS)
    before = list(sys.path)
    load_teacher(TeacherSpec(model="grader:score", scale="logit"))
    assert sys.path == before
