# make run and make test need nothing but Python 3.11: they make their own
# environment in .venv, and again only when setup.cfg has changed.

# A distribution's Python is built with profile-guided optimisation, which saves a
# tenth of the CPU of a request; one compiled in place mostly is not. So the system's
# is taken where it is new enough and can make environments.
SYSTEM_PYTHON := $(shell /usr/bin/python3 -c 'import sys, ensurepip, venv; \
	sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo /usr/bin/python3)
PYTHON ?= $(or $(SYSTEM_PYTHON),python3)
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/pip --disable-pip-version-check install --quiet
NODE := tests/e2e/node
CHECKED := $(wildcard smgproxy loadtest tests)

# The Node client's test: only where npm is, and where there is such a test.
ifneq ($(wildcard $(NODE)/package.json),)
ifneq ($(shell command -v npm),)
NODE_STAMP := $(NODE)/node_modules/.installed
endif
endif

.PHONY: run test test-engine lint bench clean
# Two pips in one environment trip over each other.
.NOTPARALLEL:
.DELETE_ON_ERROR:

run: $(VENV)/.installed-run
	$(BIN)/smg launch --simulated-workers 2 $(ARGS)

test: $(VENV)/.installed-test $(NODE_STAMP)
	$(BIN)/python -m pytest $(ARGS)

# make test-engine ENGINE_URL=http://127.0.0.1:8000
test-engine: $(VENV)/.installed-test
	@test -n "$(ENGINE_URL)" || { \
	    echo "make test-engine needs ENGINE_URL=http://HOST:PORT" >&2; exit 1; }
	ENGINE_URL="$(ENGINE_URL)" $(BIN)/python -m pytest -m real_engine $(ARGS)

lint: $(VENV)/.installed-test $(VENV)/.installed-lint
	$(BIN)/python -m flake8 $(CHECKED)
	$(BIN)/python -m isort --check --diff $(CHECKED)
	$(BIN)/python -m mypy $(CHECKED)

bench: $(VENV)/.installed-loadtest
	$(BIN)/python -m loadtest $(ARGS)

clean:
	rm -rf $(VENV) .bench $(NODE)/node_modules build dist *.egg-info
	rm -rf .mypy_cache .pytest_cache .hypothesis .coverage .coverage.* htmlcov
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.installed-run: setup.cfg pyproject.toml | $(BIN)/pip
	$(PIP_INSTALL) --editable .
	@touch $@

$(VENV)/.installed-%: setup.cfg pyproject.toml | $(BIN)/pip
	$(PIP_INSTALL) --editable ".[$*]"
	@touch $@

# An environment that was only half made (no ensurepip) must not stay.
$(BIN)/pip:
	@command -v $(PYTHON) >/dev/null || { \
	    echo "smgproxy needs Python 3.11 or newer: $(PYTHON) not found;" \
	    "try make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "smgproxy needs Python 3.11 or newer: $(PYTHON) is older;" \
	    "try make PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(NODE)/node_modules/.installed: $(NODE)/package.json
	cd $(NODE) && npm install --no-package-lock --no-audit --no-fund
	@touch $@
