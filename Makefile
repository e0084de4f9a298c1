# Every target sets up what it needs; a second run finds it done.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
READY := $(VENV)/.ready
CODE := $(wildcard src tests conformance benchmarks hack)
EXAMPLES := $(wildcard examples/*)
PAGES := $(wildcard *.md docs/*.md docs/*/*.md examples/*/*.md)

.DEFAULT_GOAL := help
.PHONY: help demo test check format conformance bench bench-core bench-transport bench-e2e control-plane \
	test-control-plane fuzz soak lock clean

help: ## Show what each target does
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY) ## Decide a small cluster and show which pod goes where, and why
	@$(VENV)/bin/stowplan demo

test: $(READY) ## Run every test that needs nothing but Python
	@$(RUN) -m pytest -m "not control_plane"

check: $(READY) ## Check format, lint, types, layers and the commands that pages name
	$(VENV)/bin/ruff format --check $(CODE) $(EXAMPLES)
	$(VENV)/bin/ruff check $(CODE) $(EXAMPLES)
	$(VENV)/bin/mypy $(CODE)
	$(foreach example,$(EXAMPLES),MYPYPATH=$(example)/src $(VENV)/bin/mypy $(example) &&) true
	$(VENV)/bin/lint-imports
	$(RUN) hack/check_readme.py $(PAGES)

format: $(READY) ## Rewrite the code the way the format check wants it
	$(VENV)/bin/ruff format $(CODE) $(EXAMPLES)
	$(VENV)/bin/ruff check --fix $(CODE) $(EXAMPLES)

conformance: $(READY) ## Compare every answer with kube-scheduler's (CASES="FILE ..." picks some)
	@$(RUN) -m conformance $(CASES)

bench: bench-core ## Run every benchmark that needs nothing but Python

bench-core: $(READY) ## Measure decisions per second of the core alone (ARGS="..." is handed on)
	@$(RUN) -m benchmarks.core $(ARGS)

bench-transport: $(READY) ## Measure what a request and a watch event cost (ARGS="--check" holds them to their budgets)
	@$(RUN) -m benchmarks.transport $(ARGS)

bench-e2e: $(READY) control-plane ## Measure on a real API server, beside kube-scheduler (ARGS="--quick" for a first look)
	@$(RUN) -m benchmarks.e2e $(ARGS)

fuzz: $(READY) ## Try objects that make little sense on a cluster that must not mind (ARGS="--inputs N --seed N")
	@$(RUN) -m tests.fuzz $(ARGS)

soak: $(READY) control-plane ## Schedule 20,000 pods while everything around fails (ARGS="..." is handed on)
	@$(RUN) -m tests.soak $(ARGS)

control-plane: ## Build kube-apiserver, kube-scheduler, kubectl and etcd for tests (needs Go)
	@hack/control-plane/build.sh

test-control-plane: $(READY) ## Run the tests that need a real API server
	@$(RUN) -m pytest -m control_plane

lock: $(READY) ## Pin the newest versions that pyproject.toml allows
	$(RUN) -m pip install --quiet uv
	$(VENV)/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
		--group dev --custom-compile-command "make lock" --output-file requirements/dev.txt pyproject.toml
	$(VENV)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
		--constraint requirements/dev.txt --custom-compile-command "make lock" --output-file requirements/run.txt pyproject.toml

clean: ## Remove the virtual environment and everything generated (the control plane's cache stays)
	rm -rf $(VENV) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp is written last, so an interrupted set-up starts again. Nothing here comes unpinned from the network:
# the package itself is linked with the pinned build backend, without its own resolving.
$(READY): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("stowplan needs Python 3.11 or newer; this is " \
		+ sys.version.split()[0] + ". Name another with: make PYTHON=/path/to/python3.11")'
	@echo "Setting up $(VENV) (once) ..."
	@test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	@$(RUN) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(RUN) -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	@touch $@
