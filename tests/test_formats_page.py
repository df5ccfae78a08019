"""The example of docs/formats.md runs as it stands, and its tables name what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from foolsgold.exchange.formats import WRITERS

PAGE = (Path(__file__).parents[1] / "docs" / "formats.md").read_text(encoding="utf-8")


def test_the_python_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    exec("\n".join(blocks), {})
    assert "duplicate_of_positive 1" in capsys.readouterr().out
    assert (tmp_path / "clean.jsonl").exists()


def test_every_form_of_export_has_its_row() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| (?!form)", PAGE.split("## Out again")[1], flags=re.MULTILINE)
    assert rows[1:] == list(WRITERS)  # the first is the table's head
