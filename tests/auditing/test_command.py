"""`foolsgold audit`, as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import typer
from typer.testing import CliRunner, Result

from foolsgold.commands.audit import audit
from foolsgold.errors import GateFailed, MinedSetError
from foolsgold.mined.mined_set import MinedSet

if TYPE_CHECKING:
    from conftest import Mining

app = typer.Typer()
app.command()(audit)


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})


@pytest.fixture
def mined(mining: Mining) -> MinedSet:
    # two of three negatives are found: a warning, no failure
    scores = {"p": 0.9, "a": 0.1, "b": 0.2, "c": 0.95}
    return mining({"run": {"q": ["a", "c"], "r": ["a", "b"]}}, scores, select={"strategy": "top", "per_query": 2})


def test_a_table_and_exit_0_when_no_gate_fails(mined: MinedSet) -> None:
    done = _run(str(mined.path.parent))
    assert done.exit_code == 0
    assert "negatives            3" in done.stdout
    assert "pass    min_mean_margin 4.12 (limit 2)" in done.stdout  # (4.3944 + 4.3944 + 3.5835) / 3
    assert "warn    min_fill 0.5 (limit 0.8): raise sources.*.depth" in done.stdout


def test_json_is_one_object_with_every_measure(mined: MinedSet) -> None:
    done = _run(str(mined.path), "--json")
    answer = json.loads(done.stdout)
    assert answer["version"] == mined.version
    assert answer["passed"] is True
    assert answer["fill_rate"] == 0.5
    assert {gate["name"]: gate["verdict"] for gate in answer["gates"]}["min_fill"] == "warn"


def test_a_failed_gate_is_an_error_after_the_table(mining: Mining) -> None:
    mined = mining({"run": {"q": ["a"]}}, {"p": 0.9, "a": 0.2}, audit={"min_mean_margin": 50.0})
    done = _run(str(mined.path))
    assert isinstance(done.exception, GateFailed)
    assert done.exception.exit_code == 1
    assert "more than the limit: min mean margin (see above)" in str(done.exception)
    assert "fail    min_mean_margin" in done.stdout


def test_strict_takes_a_warning_for_a_failure(mined: MinedSet) -> None:
    done = _run(str(mined.path), "--strict")
    assert isinstance(done.exception, GateFailed)
    assert "min fill" in str(done.exception)


def test_the_report_is_written_anew_or_elsewhere(mined: MinedSet, tmp_path: Path) -> None:
    page = mined.path / "report.html"
    page.unlink()
    done = _run(str(mined.path), "--report", "--report-to", str(tmp_path / "page.html"))
    assert done.exit_code == 0
    assert done.stdout.count("written to") == 2
    assert page.exists()
    assert (tmp_path / "page.html").exists()


def test_a_folder_without_a_set_is_said_to_be_none(tmp_path: Path) -> None:
    done = _run(str(tmp_path))
    assert isinstance(done.exception, MinedSetError)
    assert "no mined set here" in str(done.exception)
