"""Every test has stores of its own; nothing is read from or left in the user's cache."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx_models import bge, make_onnx_folder

__all__ = ["bge", "make_onnx_folder"]


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
