# make run starts the app, make check does the fast checks, make test all of them; each does its own set-up.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: run check test

run: .venv/installed
	$(BIN)/streamlit run app.py

check: SELECTED = -m "not slow"
check test: .venv/installed-tests
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check .
	$(BIN)/bandit --quiet --recursive --configfile pyproject.toml oal_engine ui pages home.py app.py
	$(BIN)/python -m pytest -n auto --dist loadscope --no-loadscope-reorder $(SELECTED)

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "OAL Studio needs Python 3.11 or newer. Say which with: make PYTHON=python3.12 run"; exit 1; }
	$(PYTHON) -m venv .venv

.venv/installed: requirements.txt .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	$(BIN)/python -c 'from ui.warm_up import practise; practise()'  # compiles what the demo runs
	touch $@

.venv/installed-tests: requirements-test.txt .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-test.txt
	touch $@
