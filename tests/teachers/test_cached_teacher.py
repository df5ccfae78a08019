import os
import random
import signal
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foolsgold.errors import TeacherError
from foolsgold.stores.scores import ScoreStore
from foolsgold.teachers.cached import CachedTeacher


class Overlap:
    """Scores a pair with the letters its two texts share; keeps what it was asked."""

    scale = "logit"
    fingerprint = "overlap"

    def __init__(self):
        self.asked = []

    def score(self, pairs, progress=None):
        self.asked.append(list(pairs))
        return np.array([len(set(q) & set(d)) - 2.5 for q, d in pairs], dtype=np.float32)


class Answers:
    """Answers whatever it was told to."""

    fingerprint = "answers"

    def __init__(self, *answers, scale="logit"):
        self.answers = list(answers)
        self.scale = scale

    def score(self, pairs, progress=None):
        return self.answers.pop(0)


@pytest.fixture
def store(tmp_path):
    return ScoreStore(tmp_path / "scores.sqlite")


def test_a_pair_of_texts_is_scored_once_however_often_it_is_asked_for(store):
    teacher = Overlap()
    cached = CachedTeacher(teacher, store)
    pairs = [("abc", "cd"), ("abc", "xyz"), ("abc", "cd")]
    np.testing.assert_array_equal(cached.score(pairs), [-1.5, -2.5, -1.5])
    np.testing.assert_array_equal(cached.score(pairs[::-1]), [-1.5, -2.5, -1.5])
    assert teacher.asked == [[("abc", "cd"), ("abc", "xyz")]]
    assert (cached.calls, cached.reused) == (2, 4)


def test_a_second_run_asks_only_for_what_is_new(tmp_path):
    CachedTeacher(Overlap(), ScoreStore(tmp_path / "s.sqlite")).score([("ab", "bc")])
    teacher = Overlap()
    cached = CachedTeacher(teacher, ScoreStore(tmp_path / "s.sqlite"))
    cached.score([("ab", "bc"), ("ab", "c")])
    assert teacher.asked == [[("ab", "c")]]


def test_texts_that_differ_in_white_space_are_scored_apart(store):
    cached = CachedTeacher(Overlap(), store)
    cached.score([("ab", "b"), ("ab", "b ")])
    assert cached.calls == 2


def test_query_and_document_are_not_interchangeable(store):
    cached = CachedTeacher(Overlap(), store)
    cached.score([("ab", "b"), ("b", "ab")])
    assert cached.calls == 2


def test_another_fingerprint_is_scored_anew(store):
    CachedTeacher(Overlap(), store).score([("ab", "b")])
    other = Overlap()
    other.fingerprint = "overlap, another max length"
    cached = CachedTeacher(other, store)
    cached.score([("ab", "b")])
    assert cached.calls == 1


def test_no_pairs_give_no_scores(store):
    assert CachedTeacher(Overlap(), store).score([]).shape == (0,)


def test_texts_that_are_no_valid_unicode_can_be_scored(store):
    cached = CachedTeacher(Overlap(), store)
    assert cached.score([("a\ud800", "a"), ("a\ud800", "a")]).tolist() == [-1.5, -1.5]
    assert cached.calls == 1


@settings(deadline=None, max_examples=50)
@given(
    asked=st.lists(
        st.lists(st.tuples(st.sampled_from(["ab", "cd", "ef"]), st.text("abcdef", max_size=3)), max_size=12)
    ),
)
def test_cached_scores_equal_the_teacher_s_own_in_any_order_and_with_any_repeats(tmp_path_factory, asked):
    store = ScoreStore(tmp_path_factory.mktemp("store") / "s.sqlite")
    cached = CachedTeacher(Overlap(), store)
    for pairs in asked:
        np.testing.assert_array_equal(cached.score(pairs), Overlap().score(pairs))
    store.close()
    assert cached.calls == len({pair for pairs in asked for pair in pairs})
    assert cached.calls + cached.reused == sum(map(len, asked))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1e300])
def test_a_score_that_is_no_finite_number_names_its_pair_and_nothing_is_kept(store, value):
    cached = CachedTeacher(Answers([1.0, value], [1.0, 2.0]), store)
    pairs = [("q", "good"), ("why", "x" * 100)]
    with pytest.raises(TeacherError, match=r"1 of 2 scores .* query 'why', document 'x{60}\.\.\.'"):
        cached.score(pairs)
    assert cached.score(pairs).tolist() == [1.0, 2.0]
    assert cached.calls == 2


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ([1.0], r"gave 1 scores for 2 pairs; the first pair without one: query 'why', document 'b'"),
        ([1.0, 2.0, 3.0], "gave 3 scores for 2 pairs"),
        (1.0, r"shape \(\)"),
        ([[1.0], [2.0]], r"shape \(2, 1\)"),
        ([[1.0], [2.0, 3.0]], "one number per pair"),
        (["high", "low"], "one number per pair"),
        (None, "one number per pair"),
        ([None, 1.0], "one number per pair"),
    ],
)
def test_anything_but_one_number_a_pair_is_refused(store, answer, problem):
    with pytest.raises(TeacherError, match=problem):
        CachedTeacher(Answers(answer), store).score([("q", "a"), ("why", "b")])


@pytest.mark.parametrize("answer", [[1, 2], (1.0, 2.0), np.array([1.0, 2.0], np.float16)])
def test_lists_tuples_and_arrays_of_numbers_are_taken(store, answer):
    scores = CachedTeacher(Answers(answer), store).score([("q", "a"), ("q", "b")])
    assert scores.dtype == np.float32
    assert scores.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(("scale", "value"), [("probability", 1.5), ("probability", -0.1), ("cosine", 3.0)])
def test_a_score_outside_the_declared_scale_is_refused(store, scale, value):
    with pytest.raises(TeacherError, match=f"not a finite {scale}: .* query 'q', document 'b'"):
        CachedTeacher(Answers([0.5, value], scale=scale), store).score([("q", "a"), ("q", "b")])


def test_what_was_scored_before_a_failure_is_kept(store):
    cached = CachedTeacher(Answers([0.0, 1.0], [2.0, float("nan")], [2.0, 3.0]), store)
    cached.score([("q", "0"), ("q", "1")])
    with pytest.raises(TeacherError):
        cached.score([("q", "2"), ("q", "3")])
    assert cached.score([("q", str(n)) for n in range(4)]).tolist() == [0.0, 1.0, 2.0, 3.0]


KILLED = """
import os, signal, sys
from pathlib import Path
from foolsgold.teachers.cached import CachedTeacher
from foolsgold.stores.scores import ScoreStore

class Dies:
    scale, fingerprint, asked = "logit", "overlap", 0

    def score(self, pairs, progress=None):
        self.asked += 1
        if self.asked == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return [7.0] * len(pairs)

cached = CachedTeacher(Dies(), ScoreStore(Path(sys.argv[1])))
for start in range(0, 100, 10):
    cached.score([("q", str(n)) for n in range(start, start + 10)])
"""


def test_a_run_that_is_killed_loses_only_the_pairs_it_was_scoring(tmp_path):
    path = tmp_path / "s.sqlite"
    killed = subprocess.run([sys.executable, "-c", KILLED, os.fspath(path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    cached = CachedTeacher(Overlap(), ScoreStore(path))
    scores = cached.score([("q", str(n)) for n in range(100)])
    assert (cached.calls, cached.reused) == (80, 20)
    assert (scores[:20] == 7.0).all()


def test_progress_counts_every_pair_once_reused_or_not(store):
    class Counting:
        def __init__(self):
            self.stages = []

        @contextmanager
        def stage(self, name, total):
            self.stages.append([name, total, 0])

            def advance(steps):
                self.stages[-1][2] += steps

            yield advance

    class Reporting(Overlap):
        def score(self, pairs, progress=None):
            with progress.stage("inner", len(pairs)) as advance:
                advance(len(pairs))
            return super().score(pairs)

    pairs = [("q", str(n)) for n in range(7)]
    cached = CachedTeacher(Reporting(), store)
    cached.score(pairs[:3])
    progress = Counting()
    cached.score(random.Random(1).sample(pairs, 7), progress)
    assert progress.stages == [["score pairs", 7, 7]]
