# `make demo` and `make test` set up everything they need in .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PROCESSES := 2
SOAK := /tmp/soak

.PHONY: setup demo test test-all fuzz lint bench peers soak clean

setup: $(VENV)/.complete

$(VENV)/.complete: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: setup
	$(BIN)/subgraft run configs/quickstart.yaml

# Every process of the tests would compile the package again.
unexport PYTHONDONTWRITEBYTECODE

# Tests that start Ray have the machine to themselves; the others run side by side, a module in one process.
PARALLEL := -n $(PROCESSES) --dist loadfile
WITH_RAY = $(shell grep --recursive --files-with-matches --include='test_*.py' pytest.mark.ray tests)  # half a minute less to collect

test: setup
	$(BIN)/python -m pytest $(PARALLEL) -m "not slow and not ray"
	$(BIN)/python -m pytest -m "not slow and ray" $(WITH_RAY)

test-all: setup
	SUBGRAFT_REQUIRE_DATA=1 $(BIN)/python -m pytest $(PARALLEL) -m "not ray"
	SUBGRAFT_REQUIRE_DATA=1 $(BIN)/python -m pytest -m ray $(WITH_RAY)

# How many times 10,000 inputs, new ones each time; `make test-all` tries a hundredth, always the same ones.
FUZZ := 1

fuzz: setup
	SUBGRAFT_FUZZ=$(FUZZ) $(BIN)/python -m pytest $(PARALLEL) --timeout 7200 tests/fuzz

lint: setup
	$(BIN)/ruff check platform jobs tests benchmarks studies docs
	$(BIN)/ruff format --check platform jobs tests benchmarks studies docs
	$(BIN)/mypy

# Within half an hour on two cores: a table for each question, and the same as JSON in OUT.
OUT := bench

bench: setup
	$(BIN)/python benchmarks/run_all.py --out $(OUT)

# What other packages are for the same, for `make bench`: outside of the environment, which their requirements do not fit.
PEERS := deepfocus==1.0.1 wechsel==0.0.4 mergekit==0.1.5
NEEDED := entmax fastdist numba llvmlite fasttext datasets print-on-steroids immutables dill multiprocess xxhash

peers: setup
	$(BIN)/python -m pip install --quiet --no-deps --target .peers $(PEERS) $(NEEDED)

# Small runs in one home for up to three hours, with kills and garbage collections; SOAK= is an absent or empty folder.
soak: setup
	$(BIN)/python benchmarks/soak.py --out $(SOAK)

clean:
	rm -rf .subgraft dist .pytest_cache .mypy_cache .ruff_cache
