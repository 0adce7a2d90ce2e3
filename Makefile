# Two commands do everything: `make demo` and `make test`. Each prepares .venv by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml CMakeLists.txt $(wildcard kernels/*.cpp kernels/*.hpp)

.PHONY: demo test check tests bench format clean

demo: $(VENV)/installed
	$(BIN)/python -m prototag

test: check tests

check: $(VENV)/developed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

tests: $(VENV)/developed
	$(BIN)/python -m pytest

bench: $(VENV)/benched
	$(BIN)/python -m benchmarks.coding

format: $(VENV)/developed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"

# Built in place without isolation, so that a change of a kernel recompiles that kernel alone.
$(VENV)/installed: $(BIN)/python $(SOURCES)
	$(BIN)/python -m pip install --quiet --group build
	$(BIN)/python -m pip install --quiet --no-build-isolation --editable .
	touch $@

$(VENV)/developed: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --group test --group lint
	touch $@

$(VENV)/benched: $(VENV)/developed
	$(BIN)/python -m pip install --quiet --group bench
	touch $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
