# Commands of gpuherd. `make demo` and `make test` are the two that a newcomer needs.
# Both need only Python >= 3.11, make and python3-venv; everything else they fetch themselves.

SHELL := /bin/bash
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
# Left out of the quick round: what starts real parts, or takes long.
QUICK := not (slow or long or ray or broker or prometheus or system or gpu)

.DEFAULT_GOAL := help
.PHONY: help setup packages demo test test-fast test-long fuzz lint format types arch bench docs proto lock clean

help: ## Show this list.
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | while IFS=$$'\t' read -r name text; do \
	  printf '%-10s %s\n' "$$name" "$$text"; done

setup: ## Make .venv from requirements/dev.txt; does nothing when it is up to date.
	@scripts/venv.sh $(PYTHON) .venv requirements/dev.txt

packages: ## As root: install the Debian packages that tests use, starting no daemon. Else: say what lacks.
	@scripts/debian_packages.sh

demo: ## Play the main job on real Ray with simulated GPUs; ends by itself.
	@scripts/demo.sh $(PYTHON)

test: setup packages ## Every test except the longest ones, with a table of times.
	@$(BIN)/python scripts/stages.py

test-fast: setup ## Unit, property and documentation tests; at most 90 s.
	@$(BIN)/pytest -q -m "$(QUICK)" tests/unit tests/property tests/docs

test-long: setup packages ## The longest tests only.
	@$(BIN)/python scripts/stages.py --long

fuzz: setup ## A million mutated gossip packets; about five minutes.
	@$(BIN)/python scripts/fuzz.py

lint: setup ## Format and lint rules.
	@$(BIN)/ruff format --no-cache --check .
	@$(BIN)/ruff check --no-cache .

format: setup ## Rewrite files as lint wants them.
	@$(BIN)/ruff check --fix-only -q .
	@$(BIN)/ruff format .

types: setup ## mypy, strict.
	@$(BIN)/mypy

arch: setup ## Who may import whom, and the shape of the house.
	@$(BIN)/lint-imports
	@$(BIN)/pytest -q tests/docs/test_house.py

bench: setup ## Every bench, each with its budget beside the figure.
	@for file in $$(grep -l '^if __name__' bench/*.py); do \
	  name=$$(basename $$file .py); \
	  echo "== bench.$$name"; $(BIN)/python -m bench.$$name || exit 1; \
	done

docs: setup ## Write docs/reference anew.
	@$(BIN)/python scripts/reference.py

proto: setup ## Generate gcs_pb2 anew with the pinned compiler.
	@$(BIN)/python -m grpc_tools.protoc -Icore --python_out=core --pyi_out=core gpuherd/shell/gcs.proto

lock: ## Resolve requirements/*.txt anew; needs uv.
	@scripts/lock.sh

clean: ## Remove what the other commands made.
	@rm -rf .venv .venv-demo .cache .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
