# make run starts the app, make test runs the tests; both do all the set-up themselves, again and again without harm.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: run test

run: .venv/installed
	$(BIN)/streamlit run app.py

test: .venv/installed-tests
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check .
	$(BIN)/python -m pytest -n auto --dist loadscope --no-loadscope-reorder

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "OAL Studio needs Python 3.11 or newer. Say which with: make PYTHON=python3.12 run"; exit 1; }
	$(PYTHON) -m venv .venv

.venv/installed: requirements.txt .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	touch $@

.venv/installed-tests: requirements-test.txt .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-test.txt
	touch $@
