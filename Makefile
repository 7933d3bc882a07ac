# `make demo` and `make test` are all that a newcomer needs; both set up .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DOCS_STAMP := $(VENV)/.docs-installed

.PHONY: venv demo test lint format docs tutorials bench fuzz audit

venv: $(STAMP)

# The stamp makes a second call install nothing until the requirements change.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "sagpool needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: venv
	$(BIN)/sagpool demo

# Two processes of one thread each are twice as fast as one of two threads. Without reordering,
# the slow tests of the bench come first, and no process waits for the other at the end.
test: venv
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

lint: venv
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: venv
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

# The site, in build/docs. A warning is an error: a dead link or anchor, a docstring that cannot be read.
docs: $(DOCS_STAMP)
	@rm -rf build/docs/_modules  # Sphinx would keep pages of source code without new anchors
	$(BIN)/python -m sphinx --quiet --fail-on-warning -d build/doctrees docs build/docs
	@echo "The site is in build/docs/index.html."

$(DOCS_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@

# Executes the notebooks of docs/tutorials and writes their outputs into them.
tutorials: venv
	$(BIN)/python scripts/tutorials.py

# Speed and memory against PyG; needs SAGPOOL_DATA.
bench: venv
	@for script in $$(grep -l argparse benchmarks/*.py); do echo "== $$script"; $(BIN)/python $$script || exit 1; done

# Malformed inputs for everything that reads; a few minutes.
fuzz: venv
	OMP_NUM_THREADS=1 $(BIN)/python scripts/fuzz.py

# Known vulnerabilities of the installed packages; skipped without pip-audit or a network.
audit: venv
	@$(BIN)/python scripts/audit.py
