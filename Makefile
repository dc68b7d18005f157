# Everything a developer runs. `make test` is what CI runs.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin

# The first interpreter that starts and is new enough; constraints.txt was tested with 3.11.
PYTHON ?= $(shell for candidate in python3.11 python3.12 python3.13 python3; do \
	$$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $$candidate && break; done)

# The stamp's name carries the content of what it was made from: timestamps mean nothing in a clone.
STAMP := $(VENV)/.installed-$(shell cat pyproject.toml constraints.txt | cksum | cut -d' ' -f1)

# Of these packages every test is fast.
FAST_TESTS := $(wildcard tests/core tests/sampling tests/wire tests/config tests/test_*.py)
PYTEST := $(BIN)/pytest

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(STAMP) ## Create .venv and install everything (does nothing when nothing changed)

$(STAMP): pyproject.toml constraints.txt
	@[ -n "$(PYTHON)" ] || { echo "Python 3.11 or newer is needed; name one with PYTHON=..." >&2; exit 1; }
	[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV)
	# torch first and alone: no later package may pull in another build of it
	$(BIN)/python -m pip install --quiet "$$(grep '^torch==' constraints.txt)"
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[engine,cluster,report,dev]'
	rm -f $(VENV)/.installed-*
	touch $@

.PHONY: demo
demo: setup ## Serve the embedded models on this machine and show a generation
	$(BIN)/ssd demo

.PHONY: lint
lint: setup ## Lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

.PHONY: test
test: ## All that CI runs: set-up, lint, types, tests; prints where the time went
	@began=$$SECONDS; $(MAKE) setup; installed=$$SECONDS; $(MAKE) lint; linted=$$SECONDS; \
	$(PYTEST) -m 'not soak and not gpu' --durations=10 \
		--spent set-up=$$((installed - began)) --spent lint=$$((linted - installed))

.PHONY: check
check: lint ## Lint, types and the fast tests, in under two minutes
	$(PYTEST) -m 'not soak and not gpu' $(FAST_TESTS)

.PHONY: k8s-check
k8s-check: setup ## Check every manifest and Dockerfile; CRDS=DIR with RayCluster's schema adds that
	CRDS="$(CRDS)" $(PYTEST) tests/k8s -m 'not soak' -rs --durations=5

.PHONY: soak
soak: setup ## The long tests: hours
	$(PYTEST) -m soak --timeout 7200

PEERS := .venv-peers
PEERS_STAMP := $(PEERS)/.installed-$(shell cksum < benchmarks/peers/requirements.txt | cut -d' ' -f1)

$(PEERS_STAMP): benchmarks/peers/requirements.txt
	[ -x $(PEERS)/bin/python ] || $(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet "$$(grep '^torch==' $<)"
	$(PEERS)/bin/python -m pip install --quiet -r $<
	rm -f $(PEERS)/.installed-*
	touch $@

.PHONY: bench-peers
bench-peers: setup $(PEERS_STAMP) ## Beside transformers, llama.cpp and OpenVINO on the same pair: half an hour
	$(BIN)/python -m benchmarks.peers $(PEERS_ARGS)

.PHONY: proto
proto: setup ## Generate ssd/v1 and the reference in docs/api.md from protos/
	$(BIN)/python scripts/proto.py
	$(BIN)/python scripts/api_docs.py

.PHONY: example
example: setup ## Write examples/ssd.yaml from the settings
	$(BIN)/python -c 'from ssd.config import render_example; print(render_example(), end="")' \
		> examples/ssd.yaml

.PHONY: clean
clean: ## Remove .venv and all caches
	rm -rf $(VENV) .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
