# Every target sets up what is missing first; `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ARGS ?=
# Releases of Spark for the smoke suite: the oldest that is supported, and the newest.
SPARK ?= 4.0.0 4.3.0

.DEFAULT_GOAL := help
.PHONY: help setup java run test test-long smoke check docs pictures minio lock clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) java ## virtual environment, locked dependencies, Java

$(STAMP): requirements.lock pyproject.toml lab/pyproject.toml scripts/setup-venv
	@scripts/setup-venv "$(PYTHON)" "$(VENV)"
	@touch $@

java:
	@scripts/find-java --install > /dev/null

run: setup ## the demo: bursts, workers that come and go, a live page (ARGS="--seconds 20" changes it)
	@$(BIN)/penstock run demo --seconds 60 $(ARGS)

test: setup ## tests, but for those with servers and JVMs of their own (ARGS="tests/core -k journal" narrows it)
	@$(BIN)/python -m pytest -n 3 --dist loadgroup --no-loadscope-reorder -m "not long" $(ARGS)

test-long: setup ## the rest: brokers, object stores, clusters that grow and shrink, drivers that are killed
	@$(BIN)/python -m pytest -n 2 --dist loadgroup --no-loadscope-reorder -m long $(ARGS)

smoke: java ## the smoke suite on the oldest and the newest Spark, in environments of their own (SPARK="4.1.4" names another)
	@for release in $(SPARK); do PYTHON="$(PYTHON)" scripts/smoke-spark $$release || exit 1; done

check: $(STAMP) ## lint, types, import contract, doctests
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python -m pytest -n 2 --dist loadfile --doctest-modules src/penstock lab/penstock_lab -p no:cacheprovider

docs: $(STAMP) ## the site, into build/site; broken links are errors
	@$(BIN)/python scripts/make-reference docs/reference
	@$(BIN)/zensical build --clean --strict

pictures: setup ## the pictures of README and site, from a real run of the demo (needs Chromium)
	@PENSTOCK_PICTURES="$(CURDIR)/docs/images" $(BIN)/python -m pytest tests/page/test_browser.py -k pictures -rP
	@$(MAKE) --no-print-directory docs
	@PENSTOCK_PICTURES="$(CURDIR)/docs/images" $(BIN)/python -m pytest tests/page/test_browser.py -k first_page

minio: $(STAMP) ## build an S3 server for the tests of object stores (needs Go, some minutes)
	@$(BIN)/python -m penstock.testing.s3

lock: ## pin the dependencies anew from pyproject.toml
	@$(PYTHON) -m venv $(VENV)/lock && $(VENV)/lock/bin/pip install -q uv && \
	  $(VENV)/lock/bin/uv pip compile pyproject.toml lab/pyproject.toml --group dev --universal --python-version 3.11 \
	    --generate-hashes --no-emit-package penstock --no-emit-index-url --no-header -q -o requirements.lock

clean: ## remove what the targets made
	@rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis penstock-runs
	@find src lab tests examples -name __pycache__ -type d -prune -exec rm -rf {} +
