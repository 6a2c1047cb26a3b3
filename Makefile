# Everything runs in an environment of its own, made on first use. It needs Python ≥ 3.11 and pip, and nothing else.
PYTHON ?= python3
VENV ?= .venv
INTERPRETER_VENV ?= .venv-interpreter
BENCH_VENV ?= .venv-bench
AUDIT_VENV ?= .venv-audit
# "only" refuses to install anything that requirements/ci.txt does not pin.
LOCK ?= auto
# torch without CUDA is enough for Triton's interpreter, and smaller: a wheel of it may be named here.
TORCH ?= torch==2.13.0
ARGS ?=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
LINT := $(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports
BENCH := NUMBA_CACHE_DIR='$(CURDIR)/build/numba-bench' $(BENCH_VENV)/bin/python
PEERS := graphlearning==1.7.5 scikit-network leidenalg igraph networkx mtkahypar kahip pymetis umap-learn pynndescent hdbscan

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-interpreter test-faults test-label-kills test-rank-kills fuzz lock audit lint bench bench-scale bench-distributed test-gpu bench-gpu docs clean

help:  ## this list
	@echo 'make TARGET [PYTHON=python3.12] [VENV=.venv] [ARGS="..."]'
	@grep -E '^[a-z-]+:.*## ' $(firstword $(MAKEFILE_LIST)) | sed -E 's/^([a-z-]+):.*## (.*)/  \1\t\2/' | expand -t 15

# What is imported is kept as bytecode in the environment, which pip has left to the first run, whatever the user's shell says.
demo: $(VENV)/.runtime  ## cluster 1797 images of digits, without and with one label per class
	@PYTHONDONTWRITEBYTECODE= $(BIN)/tautcut demo $(ARGS)

# A fresh cache of compiled kernels, so that the time of the suite is what it is on a new machine. Those that most tests use
# are compiled beside lint, which needs one core. Files begin in the order of tests/conftest.py.
test: $(VENV)/.dev  ## lint, then the whole suite and the docstring examples, with coverage
	@rm -rf build/numba
	@export NUMBA_CACHE_DIR='$(CURDIR)/build/numba'; \
		$(BIN)/python tests/usual_kernels.py & \
		$(LINT) && $(BIN)/python -m pytest --cov --doctest-modules --ignore=src/tautcut/kernels/gpu \
			--ignore=src/tautcut/kernels/ranks --ignore=src/tautcut/ranks/run.py \
			-n 2 --dist loadfile --no-loadscope-reorder tests src $(ARGS); \
		status=$$?; wait; exit $$status

# What needs torch counts for coverage here, and here alone.
test-interpreter: $(INTERPRETER_VENV)/.torch  ## what needs torch: the GPU's programs in Triton's interpreter, several processes
	@mkdir -p build
	@NUMBA_CACHE_DIR='$(CURDIR)/build/numba' COVERAGE_FILE='$(CURDIR)/build/coverage-interpreter' \
		$(INTERPRETER_VENV)/bin/python -m pytest --cov --cov-config=tests/kernels/gpu/coverage.toml \
		-n 2 --dist loadfile --no-loadscope-reorder \
		tests/kernels/gpu tests/kernels/ranks tests/ranks/processes tests/docs/test_many_machines.py $(ARGS)

# Signals at random moments of commands, and every step of every output failing in turn; what happened is in the log.
test-faults: $(VENV)/.dev  ## 100 kills and interrupts (ARGS="--kills 500 --first 1000"), and outputs that fail
	@PYTHONPATH=src NUMBA_CACHE_DIR='$(CURDIR)/build/numba-faults' $(BIN)/python tests/hostile/faults.py $(ARGS)

# The labelling page is killed while two tabs answer, and has to know every answer that it acknowledged.
test-label-kills: $(VENV)/.dev  ## 100 kills of the labelling page (ARGS="--kills 500 --first 1000")
	@PYTHONPATH=src NUMBA_CACHE_DIR='$(CURDIR)/build/numba-faults' $(BIN)/python tests/hostile/labelling.py $(ARGS)

# Runs over several processes are killed, all of them or one, and have to end as if nothing had happened.
test-rank-kills: $(INTERPRETER_VENV)/.torch  ## 30 kills of runs over many processes (ARGS="--kills 100 --first 1000")
	@NUMBA_CACHE_DIR='$(CURDIR)/build/numba' $(INTERPRETER_VENV)/bin/python tests/hostile/ranks.py $(ARGS)

fuzz: $(VENV)/.dev  ## fresh cases for the fuzzers: ARGS="--minutes 30"; one of them again: ARGS="--case cli:123"
	@NUMBA_CACHE_DIR='$(CURDIR)/build/numba-fuzz' OMP_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python -m hostile $(ARGS)

# Extras stay in the pins: pip takes a dependency on coverage[toml] for another one than coverage, and refuses it unpinned as
# soon as a newer version is out.
lock: $(AUDIT_VENV)/.tools  ## the newest versions that pyproject.toml allows, with hashes, into requirements/ci.txt
	@$(AUDIT_VENV)/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
		--no-strip-extras --custom-compile-command 'make lock' --extra dev --extra build pyproject.toml \
		--output-file requirements/ci.txt

audit: $(AUDIT_VENV)/.tools $(VENV)/.dev  ## known vulnerabilities of what is locked; its licences into docs/licences.md
	@$(AUDIT_VENV)/bin/python requirements/audit.py $(BIN)/python

lint: $(VENV)/.dev  ## style, types and import contracts
	@$(LINT)

# Data comes from the folder that TAUTCUT_DATA names.
bench: $(BENCH_VENV)/.peers  ## the kernels, then every peer on the same graphs; results in docs/results
	@rm -rf build/numba-bench
	@$(BENCH) benchmarks/kernels.py
	@$(BENCH) benchmarks/run.py $(ARGS)

bench-scale: $(BENCH_VENV)/.peers  ## threads; neighbours beside peers; features to labels, 10 k to 1 M points; results in docs/results
	@rm -rf build/numba-bench
	@$(BENCH) benchmarks/threads.py
	@$(BENCH) benchmarks/neighbors.py
	@$(BENCH) benchmarks/scale.py $(ARGS)
	@$(BENCH) benchmarks/aims.py

# Runs over ranks on this machine; parts of it, on a quiet one: ARGS="--only strong", weak, halo, memory, answers, model.
bench-distributed: $(INTERPRETER_VENV)/.torch  ## a sharded graph over 1 to 8 ranks, and the paper model; results in docs/results
	@NUMBA_CACHE_DIR='$(CURDIR)/build/numba-distributed' $(INTERPRETER_VENV)/bin/python benchmarks/distributed.py $(ARGS)

# The machine with the GPU has its own Python with torch, Triton, NumPy, SciPy and pytest; nothing is installed for these.
# What needs more (whole fits: scikit-learn, moves: numba) is skipped there, and says so.
test-gpu:  ## the GPU's engine against the reference and whole fits, on a machine with an NVIDIA GPU
	@PYTHONPATH=src $(PYTHON) -m pytest -p no:cacheprovider -rs tests/kernels/gpu $(ARGS)

bench-gpu:  ## the GPU's engine; results in docs/results
	@PYTHONPATH=src $(PYTHON) benchmarks/gpu.py $(ARGS)

docs: $(VENV)/.docs  ## the site, in build/docs: tutorials, gallery (its examples are run), API, results
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo 'build/docs/index.html'

clean:  ## remove the environments and everything that was built
	rm -rf $(VENV) $(INTERPRETER_VENV) $(BENCH_VENV) $(AUDIT_VENV) build dist htmlcov .coverage .coverage.* \
		.hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# ---------------------------------------------------------------- environments
# The demo needs the package alone; a stamp for each set of dependencies, renewed when pyproject.toml changes.

$(VENV)/.created $(INTERPRETER_VENV)/.created $(BENCH_VENV)/.created $(AUDIT_VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "tautcut needs Python 3.11 or newer; '$(PYTHON)' is `$(PYTHON) --version 2>&1`." \
			'Name another one: make PYTHON=python3.12' >&2; exit 1; }
	@$(PYTHON) -m venv $(@D) || { \
		echo "'$(PYTHON) -m venv $(@D)' failed. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@touch $@

$(VENV)/.runtime: pyproject.toml | $(VENV)/.created
	@echo 'Installing tautcut in $(VENV) (once) ...'
	@$(PIP) install --no-compile --editable .
	@touch $@

# What is locked, checked by its hashes. Where the lock file does not fit (this platform or Python has no such wheel), what
# pyproject.toml allows; but never where a hash is wrong.
# pip compiles to bytecode on one core, which takes longer than all else it does: that is left to all of them, without the
# tests of others.
$(VENV)/.dev: pyproject.toml requirements/ci.txt | $(VENV)/.created
	@echo 'Installing tautcut and its tests in $(VENV) (once) ...'
	@mkdir -p build
	@if $(PIP) install --no-compile --require-hashes --requirement requirements/ci.txt 2>build/lock.log; then \
		$(PIP) install --no-deps --no-build-isolation --editable .; \
	elif [ '$(LOCK)' = only ] || grep -q 'DO NOT MATCH THE HASHES' build/lock.log; then \
		cat build/lock.log >&2; exit 1; \
	else \
		echo 'requirements/ci.txt does not fit here (build/lock.log says why): installing what pyproject.toml allows.'; \
		$(PIP) install --no-compile --editable '.[dev]'; \
	fi
	@$(BIN)/python -W ignore -m compileall -qq -j 0 -x '/tests?/' $(VENV)/lib || true
	@touch $@ $(VENV)/.runtime

# torch in an environment that has all of the other one by a line of a .pth file: half of the time, and the same versions.
$(INTERPRETER_VENV)/.torch: $(VENV)/.dev | $(INTERPRETER_VENV)/.created
	@echo 'Installing torch and Triton in $(INTERPRETER_VENV), beside what $(VENV) has (once) ...'
	@site='import sysconfig; print(sysconfig.get_path("purelib"))'; \
		echo "import site; site.addsitedir('$$($(BIN)/python -c "$$site")')" \
		> "$$($(INTERPRETER_VENV)/bin/python -c "$$site")/tests.pth"
	@$(INTERPRETER_VENV)/bin/python -m pip --quiet --disable-pip-version-check install --no-compile '$(TORCH)' triton
	@touch $@

$(VENV)/.docs: pyproject.toml | $(VENV)/.created
	@echo 'Installing tautcut and the tools of its site in $(VENV) (once) ...'
	@$(PIP) install --editable '.[docs]'
	@touch $@ $(VENV)/.runtime

$(BENCH_VENV)/.peers: pyproject.toml | $(BENCH_VENV)/.created
	@echo 'Installing tautcut and its peers in $(BENCH_VENV) (once) ...'
	@$(BENCH_VENV)/bin/python -m pip --quiet --disable-pip-version-check install --editable . $(PEERS)
	@touch $@

$(AUDIT_VENV)/.tools: pyproject.toml | $(AUDIT_VENV)/.created
	@echo 'Installing the tools that lock and audit in $(AUDIT_VENV) (once) ...'
	@$(AUDIT_VENV)/bin/python -m pip --quiet --disable-pip-version-check install pip-audit pip-licenses uv
	@touch $@
