# Every target sets up what it needs; second runs skip what is done.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
READY := $(VENV)/.ready
PEERS := $(VENV)/.peers

.PHONY: help demo test check format bench soak docs lock clean

help:
	@echo "make demo    rate a small battle file and draw its board"
	@echo "make test    run the tests"
	@echo "make check   format, lint, types, import contracts"
	@echo "make bench   speed, memory and coverage beside other libraries"
	@echo "make soak    the tests that are too long for every run"
	@echo "make docs    regenerate the command reference"
	@echo "make lock    resolve the development versions anew"

$(READY): requirements.lock pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) uv 2>/dev/null && $(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements.lock \
		|| $(PIP) --require-hashes -r requirements.lock
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

$(PEERS): $(READY) bench/peers.txt
	@$(PIP) -r bench/peers.txt
	@touch $@

demo: $(READY)
	@mkdir -p demo-out
	@$(BIN)/tiltyard rate examples/birds.jsonl --robustness --plot demo-out/birds.svg
	@$(BIN)/tiltyard rate examples/birds.jsonl --out demo-out/birds.json
	@echo
	@echo "The board above, as a chart and as a file: demo-out/birds.svg, demo-out/birds.json"
	@echo "Next: $(BIN)/tiltyard rate YOUR-BATTLES.jsonl, or read docs/ratings.md"

test: $(READY)
	$(BIN)/python -m pytest -n auto -m "not soak"

soak: $(READY)
	$(BIN)/python -m pytest -n auto

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(PEERS)
	$(BIN)/python -m bench

docs: $(READY)
	$(BIN)/python tools/command_reference.py

lock:
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) uv
	$(BIN)/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-annotate --no-header --quiet -o requirements.lock

clean:
	rm -rf $(VENV) demo-out build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
