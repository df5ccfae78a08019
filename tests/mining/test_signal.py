"""What a run decides on, asked for in parts, so that neither texts nor a kill cost much."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from toy import TableTeacher, collection

from foolsgold.collection import Collection
from foolsgold.errors import TeacherError
from foolsgold.mining.signal import TeacherSignal
from foolsgold.progress import SILENT, Progress
from foolsgold.records import FloatArray

DOCS = {f"d{number}": f"text {'x' * (number * 7 % 10)} {number}" for number in range(10)}
SCORES: dict[str | tuple[str, str], float] = {text: 0.05 + 0.1 * number for number, text in enumerate(DOCS.values())}
ROWS = np.arange(10, dtype=np.int32)
QUERY = np.zeros(10, dtype=np.int32)


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foolsgold.mining.signal.CHUNK", 4)


def _toy() -> Collection:
    return collection(DOCS, {"q": "query"}, {"q": {"d3": 1}})


def _signal(teacher: TableTeacher, cache: Path, progress: Progress = SILENT) -> TeacherSignal:
    return TeacherSignal(teacher, "probability", "table", _toy(), cache, progress)


def test_scores_come_in_the_order_asked_for_whatever_the_order_they_were_made_in(tmp_path: Path) -> None:
    signal = _signal(TableTeacher(SCORES), tmp_path)
    shuffled = np.array([7, 2, 9, 0, 5, 2, 3, 1, 8, 6], dtype=np.int32)
    expected = [SCORES[f"text {'x' * (row * 7 % 10)} {row}"] for row in shuffled]
    np.testing.assert_allclose(signal.score(QUERY, shuffled, "score"), expected, rtol=1e-6)
    assert signal.calls() == {"teacher": 9, "reused": 1}


def test_the_positives_are_scored_by_row(tmp_path: Path) -> None:
    assert _signal(TableTeacher(SCORES), tmp_path).positives.values == pytest.approx([0.35])


def test_what_was_scored_before_a_failure_need_not_be_scored_again(tmp_path: Path) -> None:
    class Fails(TableTeacher):
        def score(self, pairs: Sequence[tuple[str, str]], progress: object = None) -> FloatArray:
            scores = super().score(pairs, progress)
            return scores if len(self.read) <= 8 else scores * np.float32("nan")

    with pytest.raises(TeacherError):
        _signal(Fails(SCORES), tmp_path).score(QUERY, ROWS, "score")
    again = _signal(TableTeacher(SCORES), tmp_path)
    again.score(QUERY, ROWS, "score")
    assert again.calls() == {"teacher": 2, "reused": 8}


def test_one_stage_counts_every_pair_as_it_is_scored(tmp_path: Path) -> None:
    class Counting:
        def __init__(self) -> None:
            self.stages: list[tuple[str, int, list[int]]] = []

        @contextmanager
        def stage(self, name: str, total: int) -> Iterator[Callable[[int], None]]:
            steps: list[int] = []
            self.stages.append((name, total, steps))
            yield steps.append

    class Reports(TableTeacher):
        def score(self, pairs: Sequence[tuple[str, str]], progress: Progress = SILENT) -> FloatArray:  # type: ignore[override]
            with progress.stage("one by one", len(pairs)) as advance:
                for _ in pairs:
                    advance(1)
            return super().score(pairs)

    counting = Counting()
    _signal(Reports(SCORES), tmp_path, counting).score(QUERY, ROWS, "score wave 1")
    ((name, total, steps),) = counting.stages
    assert (name, total, sum(steps)) == ("score wave 1", 10, 10)
    assert steps.count(1) == 10
