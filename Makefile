# Every target sets up what it needs: a virtual environment in .venv with the exact versions of constraints.txt.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# One thread: two OpenMP threads beside another busy process run ten times slower.
export OMP_NUM_THREADS ?= 1
export TOKENIZERS_PARALLELISM ?= false

.PHONY: demo test test-slow lint bench clean

demo: $(VENV)/installed  ## translate a letter, or TEXT=your.txt, with and without the memory
	$(BIN)/python runs/shipped/demo.py $(TEXT)

test: $(VENV)/installed  ## the test suite, under 8 minutes on two slow cores
	$(BIN)/python -m pytest -m "not slow"

test-slow: $(VENV)/installed  ## what takes longer
	$(BIN)/python -m pytest -m slow

lint: $(VENV)/installed
	$(BIN)/ruff check src tests runs
	$(BIN)/ruff format --check src tests runs
	$(BIN)/mypy

bench: $(VENV)/installed  ## ratios to the peers, side by side in one run
	$(BIN)/tram bench train
	$(BIN)/tram bench decode

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt pip setuptools
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet -c constraints.txt --editable ".[dev,plots,pretrained,files,serve]"
	touch $@

clean:
	rm -rf $(VENV)
