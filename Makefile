# make run starts the app. make check runs style, types and the rules of the code, make test all quick tests, make nightly
# the slow ones too, make release also the rare ones, and then it tags the version. Each does its own set-up.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: run check test nightly release

run: .venv/installed
	MALLOC_ARENA_MAX=2 $(BIN)/streamlit run app.py

check: SELECTED = tests/house -m "not slow and not rare"
test: SELECTED = -m "not slow and not rare"
nightly: SELECTED = -m "not rare"
check test nightly: .venv/installed-tests
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check .
	$(BIN)/python -m pytest -n auto --dist loadscope --no-loadscope-reorder $(SELECTED) $(OPTIONS)

release: VERSION = $(shell $(BIN)/python -c "import oal_engine; print(oal_engine.__version__)")
release: nightly
	grep --quiet "^## $(VERSION) (20" CHANGELOG.md
	$(BIN)/python -m pytest -m rare
	$(BIN)/python benchmarks/faults.py --seeds 10000
	git tag --annotate "v$(VERSION)" --message "OAL Studio $(VERSION)"

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "OAL Studio needs Python 3.11 or newer. Say which with: make PYTHON=python3.12 run"; exit 1; }
	$(PYTHON) -m venv .venv

.venv/installed: requirements.txt .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -r requirements.txt
	touch $@

.venv/installed-tests: requirements-test.txt .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -r requirements-test.txt
	touch $@
