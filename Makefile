# Everything runs in an environment of its own, made on first use. It needs Python ≥ 3.11 and pip, and nothing else.
PYTHON ?= python3
VENV ?= .venv
ARGS ?=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test lint bench docs clean

help:  ## this list
	@echo 'make TARGET [PYTHON=python3.12] [VENV=.venv] [ARGS="..."]'
	@grep -E '^[a-z]+:.*## ' $(firstword $(MAKEFILE_LIST)) | sed -E 's/^([a-z]+):.*## (.*)/  \1\t\2/' | expand -t 10

demo: $(VENV)/.runtime  ## cluster 1797 images of digits, without and with one label per class
	@$(BIN)/tautcut demo $(ARGS)

# A fresh cache of compiled kernels: numba's own does not notice when a function that a kernel calls has changed.
test: lint  ## lint, then the whole suite and the docstring examples, with coverage
	@rm -rf build/numba
	@NUMBA_CACHE_DIR='$(CURDIR)/build/numba' \
		$(BIN)/python -m pytest --cov --doctest-modules tests src $(ARGS)

lint: $(VENV)/.dev  ## style, types and import contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: $(VENV)/.dev  ## time the kernels
	@$(BIN)/python benchmarks/kernels.py $(ARGS)

docs: $(VENV)/.docs  ## the API reference, in build/docs
	@$(BIN)/python -W error -m pdoc --docformat numpy --math --output-directory build/docs tautcut
	@echo 'build/docs/index.html'

clean:  ## remove the environment and everything that was built
	rm -rf $(VENV) build dist htmlcov .coverage .coverage.* \
		.hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# ---------------------------------------------------------------- environments
# The demo needs the package alone; a stamp for each set of dependencies, renewed when pyproject.toml changes.

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "tautcut needs Python 3.11 or newer; '$(PYTHON)' is `$(PYTHON) --version 2>&1`." \
			'Name another one: make PYTHON=python3.12' >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { \
		echo "'$(PYTHON) -m venv $(VENV)' failed. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@touch $@

$(VENV)/.runtime: pyproject.toml | $(VENV)/.created
	@echo 'Installing tautcut in $(VENV) (once) ...'
	@$(PIP) install --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/.created
	@echo 'Installing tautcut and its tests in $(VENV) (once) ...'
	@$(PIP) install --editable '.[dev]'
	@touch $@ $(VENV)/.runtime

$(VENV)/.docs: pyproject.toml | $(VENV)/.created
	@echo 'Installing tautcut and pdoc in $(VENV) (once) ...'
	@$(PIP) install --editable '.[docs]'
	@touch $@ $(VENV)/.runtime
