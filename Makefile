# `make run` and `make test` need Python 3.11+ and make; they create the virtual environment themselves.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
PROTOS := $(shell cd protos && find . -name '*.proto' | sort | sed 's|^\./||')
GEN     = --python_out=$(1) --grpc_python_out=$(1) --mypy_out=quiet:$(1) --mypy_grpc_out=quiet,only_async:$(1)
WORKERS ?= 2

.PHONY: run test check fmt lint types contracts protos protos-check bench clean

run: $(READY)  ## the whole plane in one process
	$(BIN)/taskplane dev $(ARGS)

test: $(READY)
	$(BIN)/python -m pytest -q -n $(WORKERS) $(ARGS)

check: lint types contracts protos-check test

$(READY): pyproject.toml deploy/constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check -c deploy/constraints.txt -e '.[dev]'
	touch $@

fmt: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(READY)
	$(BIN)/mypy
	$(BIN)/pyright

contracts: $(READY)
	$(BIN)/lint-imports

protos: $(READY)
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m grpc_tools.protoc -Iprotos $(call GEN,protos) $(PROTOS)

protos-check: $(READY)
	@new=$$(mktemp -d) && trap 'rm -rf "$$new"' EXIT && \
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m grpc_tools.protoc -Iprotos $(call GEN,$$new) $(PROTOS) && \
	diff -r -x '*.proto' -x __init__.py -x py.typed -x __pycache__ protos "$$new" && echo "generated code is in sync"

bench: $(READY)
	$(BIN)/python -m bench $(ARGS)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .taskplane build dist
