"""What `import foolsgold as fg` has: one list, whatever else is imported and in whatever order."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
from toy import TableTeacher, collection, run_file

import foolsgold as fg
from foolsgold.errors import MinedSetError

_MODULES = {"compat", "search"}
_ORDER = """
import importlib, pkgutil, sys
import foolsgold as fg
names = [module.name for module in pkgutil.walk_packages(fg.__path__, "foolsgold.") if "__main__" not in module.name]
for name in sorted(names, reverse=sys.argv[1] == "down"):
    try:
        importlib.import_module(name)
    except ImportError:  # of an extra that is not installed
        pass
print(*(name for name in fg.__all__ if type(getattr(fg, name)).__name__ == "module"))
"""


def test_all_dir_and_the_documented_names_are_the_same() -> None:
    assert sorted(fg.__all__) == fg.__all__
    assert set(dir(fg)) == {*fg.__all__, "__version__"}
    assert all(getattr(fg, name) is not None for name in fg.__all__)
    design = (Path(__file__).parents[1] / "docs" / "design.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"\bfg\.([A-Za-z_]+)", design))
    assert documented <= set(fg.__all__)
    assert {name for name in fg.__all__ if name.islower()} <= documented
    assert all(inspect.getdoc(getattr(fg, name)) for name in fg.__all__)


@pytest.mark.parametrize("order", ["up", "down"])
def test_no_public_function_is_shadowed_by_a_module_whatever_is_imported_first(order: str) -> None:
    done = subprocess.run([sys.executable, "-c", _ORDER, order], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == _MODULES


def test_audit_explain_and_diff_take_a_set_or_its_folder(tmp_path: Path) -> None:
    what = collection({"p": "one", "a": "two", "b": "three"}, {"q": "count"}, {"q": {"p": 1}})
    mined = fg.mine(
        what,
        retriever=None,
        teacher=TableTeacher({"one": 0.9, "two": 0.8, "three": 0.1}),
        sources={"run": {"path": str(run_file(tmp_path / "run", {"q": ["a", "b"]}))}},
        out=tmp_path / "mined",
    )
    assert fg.audit(mined.path, what) == fg.audit(mined) == mined.audit()
    assert str(fg.explain(mined.path, "q", "a")) == str(mined.explain("q", "a"))
    assert fg.diff(mined, mined.path).kept == [("q", "b")]
    file = tmp_path / "negatives.jsonl"
    file.write_text("{}\n")
    with pytest.raises(MinedSetError, match="a file, not a mined set; audit_file measures a file of negatives"):
        fg.audit(file)
