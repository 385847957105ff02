# `make demo` shows what nutime does; `make test` shows that it works. Both set themselves up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
# Python keeps what it compiles, whatever the environment says: tests start dozens of processes that import torch.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test lint dist dist-check test-oldest test-newest clean

demo: $(READY)
	$(BIN)/nutime demo

# Most tests keep one core busy: two processes, one thread each, need half the time of one with two.
# Files are run in their order: by default xdist runs those with few tests last, and they are the longest.
test: $(READY) lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Most of what is installed is never imported: what is, is compiled then.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

# The wheel and the source distribution.
dist: $(READY)
	rm -rf dist
	$(BIN)/python -m hatchling build -d dist

# Both installed into empty environments and tried there without a network; the steps of the Dockerfile too.
dist-check: dist
	$(BIN)/python -m pytest -m slow tests/install

# The oldest versions that pyproject.toml allows, or the newest there are, in an environment of their own. Exporting
# to ONNX needs a newer torch, so it is not part of it.
EXTRAS := archives,pretrain,explore,hub,serve,ray,test
TESTED := tests/test_encoder.py tests/test_hub.py tests/estimators tests/data tests/batch tests/serve tests/explore/test_explore_state.py
test-oldest: RESOLUTION := lowest-direct
test-newest: RESOLUTION := highest
test-oldest test-newest:
	$(PYTHON) -m venv --clear $(VENV)-$@
	$(VENV)-$@/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(VENV)-$@/bin/uv pip install --quiet --python $(VENV)-$@/bin/python --resolution $(RESOLUTION) -e '.[$(EXTRAS)]'
	OMP_NUM_THREADS=1 $(VENV)-$@/bin/python -m pytest $(TESTED)

clean:
	rm -rf $(VENV) $(VENV)-test-oldest $(VENV)-test-newest dist demo-output
