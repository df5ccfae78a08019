PYTHON ?= python3
PIP_FLAGS ?= -q --disable-pip-version-check

.PHONY: demo install test test-fast check format schema docs clean

# The first minute with the project: a light environment (no torch), real models from a package, real text.
demo: .venv-demo/.done
	.venv-demo/bin/foolsgold demo

# Every extra, for tests and benchmarks.
install: .venv/.done

test: .venv/.done
	.venv/bin/python -m pytest -n auto --dist loadfile

# What a contributor runs between two edits: no real models, no documentation, no second process.
test-fast: .venv/.done
	.venv/bin/python -m pytest -n auto --dist loadfile -m "not slow"

check: .venv/.done
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/lint-imports

format: .venv/.done
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

# The documentation as a site, in site/: without any network, and any warning is an error.
docs: .venv/.done
	.venv/bin/mkdocs build --strict

# docs/recipe.schema.json, from the recipe's fields
schema: .venv/.done
	.venv/bin/python -c 'import json; from foolsgold.recipe import recipe_schema; print(json.dumps(recipe_schema(), indent=2))' > docs/recipe.schema.json

.venv-demo/.done: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "foolsgold needs Python 3.11 or newer; make PYTHON=python3.12 demo names another")'
	$(PYTHON) -m venv .venv-demo
	.venv-demo/bin/python -m pip install $(PIP_FLAGS) -e '.[demo]'
	touch $@

.venv/.done: pyproject.toml requirements-dev.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "foolsgold needs Python 3.11 or newer; make PYTHON=python3.12 test names another")'
	$(PYTHON) -m venv .venv
	.venv/bin/python -m pip install $(PIP_FLAGS) -r requirements-dev.txt -e '.[dev,docs,faiss,ir-datasets,label,llm,ray]'
	touch $@

clean:
	rm -rf .venv .venv-demo site .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
