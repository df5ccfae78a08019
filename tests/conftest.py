"""Every test has stores of its own; nothing is read from or left in the user's cache."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx_models import bge, make_onnx_folder

__all__ = ["bge", "make_onnx_folder"]


# Real models, whole programs, several processes: `make test-fast` leaves these out. Paths as pytest prints them.
SLOW = (
    "test_docs.py",
    "test_howto_runs.py",
    "test_public_names.py::test_no_public_function",
    "test_readme.py",
    "test_real_models.py",
    "calibration/test_calibrate.py::test_the_command",
    "collection/test_beir.py::test_real_collections",
    "collection/test_demo.py",
    "commands/",
    "compat/test_as_theirs.py",
    "compat/test_differences.py::test_a_drawn_candidate",
    "evaluation/test_evaluate.py::test_a_transformer_agrees",
    "findings/test_runs.py",
    "label/test_server.py",
    "label/test_choose.py::test_list_prints",
    "mining/test_mine.py::test_lazy_scoring",
    "models/test_torch_encoder.py",
    "risk/test_command.py",
    "teachers/test_cross_encoder.py",
    "teachers/test_on_ray.py",
    "training/test_adapters.py",
    "training/test_build.py",
    "training/test_distributed_",
    "training/test_evaluation.py",
    "training/test_memory_bank.py",
    "training/test_rounds.py",
    "training/test_settings.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.removeprefix("tests/").startswith(SLOW):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOOLSGOLD_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real collections beside the checkout; tests that need it skip where it is not there."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("needs the collections in ../shared/data, which are not part of the project")
    return folder
