"""`foolsgold check`, as a user calls it; and that what foolsgold itself writes and shows passes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import typer
import yaml
from typer.testing import CliRunner, Result

import foolsgold as fg
from foolsgold.commands.check import check
from foolsgold.errors import FoolsgoldError, GateFailed, RecipeError
from foolsgold.findings import RULES
from foolsgold.recipe.template import commented_recipe

if TYPE_CHECKING:
    from conftest import Mine

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "check.md"

app = typer.Typer()
app.command()(check)


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """Dense candidates, and nothing to tell false negatives by."""
    file = tmp_path / "recipe.yaml"
    file.write_text("teacher: null\n")
    return file


def test_an_error_is_told_at_its_place_with_its_remedy_and_ends_with_1(recipe: Path) -> None:
    done = _run(str(recipe))
    assert isinstance(done.exception, GateFailed)
    assert str(done.exception) == f"{recipe}: 1 error (FG001)"
    lines = done.stdout.splitlines()
    assert lines[0] == f"{recipe}: teacher: FG001 dense candidates, and no teacher or margin to tell false negatives by"
    assert lines[1] == "    Set `teacher`, or at least `decide.relative_margin`."
    assert re.fullmatch(r"1 error, 1 warning, \d not checked \(--verbose says why\)", lines[-1])


def test_a_warning_alone_ends_with_0(recipe: Path) -> None:
    recipe.write_text("seed: 1\n")
    done = _run(str(recipe))
    assert done.exit_code == 0
    assert "FG008" in done.stdout
    assert "not checked" not in done.stdout.replace("(--verbose", "").splitlines()[0]


def test_verbose_says_what_was_not_checked_and_why(recipe: Path) -> None:
    assert f"{recipe}: FG014 not checked: only a mined set can tell" in _run(str(recipe), "--verbose").stdout


def test_rules_are_chosen_by_their_codes(recipe: Path) -> None:
    assert _run(str(recipe), "--ignore", "FG001").exit_code == 0
    done = _run(str(recipe), "--select", "FG019,FG02")
    assert done.exit_code == 0
    assert "FG019" in done.stdout
    assert "FG001" not in done.stdout
    with pytest.raises(FoolsgoldError, match="FG109: no rule has this code"):
        fg.check(recipe, ignore=["FG109"])


def test_json_is_one_object(recipe: Path) -> None:
    answer = json.loads(_run(str(recipe), "--json").stdout)
    assert answer["errors"] == 1
    assert answer["findings"][0]["code"] == "FG001"
    assert answer["findings"][0]["place"] == f"{recipe}: teacher"
    assert {"code", "place", "why"} == answer["unchecked"][0].keys()


def test_fields_of_the_recipe_can_be_replaced(recipe: Path) -> None:
    assert _run(str(recipe), "--set", "decide.relative_margin=0.9").exit_code == 0


def test_a_rule_explains_itself() -> None:
    done = _run("--explain", "fg003")
    assert done.exit_code == 0
    assert done.stdout.startswith("FG003 no-curriculum (warning)\n")
    assert "ANCE" in done.stdout
    assert json.loads(_run("--explain", "FG003", "--json").stdout)["level"] == "warning"


def test_a_checklist_is_answered_from_the_set(mine: Mine) -> None:
    mined = mine({"q": ["a", "b"]}, {"p": 0.95, "a": 0.01, "b": 0.02})
    done = _run("--checklist", str(mined.path))
    assert isinstance(done.exception, GateFailed)
    assert "yes     A teacher is picked" in done.stdout
    assert "to do: " in done.stdout
    answers = json.loads(_run("--checklist", str(mined.path), "--json").stdout)["answers"]
    assert len(answers) == 8
    assert {"question", "said", "evidence", "to_do"} == answers[0].keys()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "nothing to check"),
        (["none.yaml"], "none.yaml: no such recipe"),
        (["none"], "nothing to check is here"),
        (["their.jsonl"], "foolsgold audit their.jsonl"),
        (["--explain", "FG999"], "no rule has this code"),
    ],
)
def test_a_mistake_is_one_sentence(
    arguments: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("their.jsonl").write_text("{}\n")
    done = _run(*arguments)
    assert isinstance(done.exception, FoolsgoldError)
    assert done.exception.exit_code == 2
    assert sentence in str(done.exception)


def test_a_threshold_that_no_recipe_can_have_is_bad_input(recipe: Path) -> None:
    recipe.write_text("decide: {negative_below: 3.0, positive_above: 5.0}\n")
    with pytest.raises(RecipeError, match="the teacher's scale is probability"):
        fg.check(recipe)


def test_the_recipe_that_init_writes_has_no_error(tmp_path: Path) -> None:
    file = tmp_path / "recipe.yaml"
    file.write_text(commented_recipe({"beir": "data/mine", "split": "train"}))
    assert fg.check(file).errors == []


def test_the_demos_recipe_has_no_error() -> None:
    from foolsgold.commands.demo import demo_recipe

    sections = demo_recipe(400, 3600).model_dump(exclude={"collection"})  # a thousand docstrings are long to read
    assert fg.check(sections).errors == []


def _recipes() -> list[tuple[str, str]]:
    """The whole recipes of the docs: YAML blocks that name a collection."""
    found = []
    for page in sorted((ROOT / "docs").rglob("*.md")):
        blocks = re.findall(r"^```yaml\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        found += [(page.name, block) for block in blocks if re.search("^collection:", block, flags=re.MULTILINE)]
    return found


@pytest.mark.parametrize(("page", "block"), _recipes())
def test_the_recipes_of_the_docs_have_no_error(page: str, block: str) -> None:
    found = fg.check(yaml.safe_load(block))
    assert found.errors == [], f"{page}: {found}"


def test_the_page_lists_every_rule_as_the_code_has_it() -> None:
    rows = re.findall(
        r"^\| (FG\d{3}) (\S+) \| (\S+) \| (.*) \| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert rows == [(rule.code, rule.name, rule.level, rule.why, rule.fix) for rule in RULES]


def test_codes_are_in_order_and_each_once() -> None:
    assert [rule.code for rule in RULES] == [f"FG{number:03}" for number in range(1, len(RULES) + 1)]
    assert len({rule.name for rule in RULES}) == len(RULES)
