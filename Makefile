# Every target installs what it needs; a second run skips what is done.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
READY := $(VENV)/.ready
USABLE := $(VENV)/.usable
SPARK := $(VENV)/.spark
# The peers pin an older NumPy: they and we are measured in an environment of their own.
BENCH := .venv-bench
PEERS := $(BENCH)/.ready
MEASURED = -c $(BENCH)/constraints.txt -r bench/peers.txt -e '.[fast,judge,arena,media]'
DEMO ?= tiltyard-demo
# KIND=voxel, svg or html: an arena of builds, drawings or pages instead of texts.
ARENA = $(DEMO)$(if $(KIND),-$(KIND))
# Two more than the number of cores: many tests wait for their own process, server or browser. They are forked from one
# process that collected all tests; whatever the machine's habit, what that one imports is compiled once and kept.
# (macOS refuses forks of a process that has used its frameworks, so there every worker collects the tests.)
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 2)
PARALLEL := $(if $(filter Darwin,$(shell uname)),-n $(WORKERS) --dist worksteal,-p tests.parallel --forks $(WORKERS))
COMPILE := $(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header --quiet

.PHONY: help demo arena test check format bench growth soak spark docs claims release lock clean

help:
	@echo "make demo    the full workflow in a minute: a judged tournament, its report, a live arena"
	@echo "make arena   open the demo's arena on localhost; with KIND=voxel, svg or html one of builds, drawings or pages"
	@echo "make test    run the tests; with WING=stats (or data/battles, arena, …) those of one part"
	@echo "make check   format, lint, types, import contracts"
	@echo "make bench   speed, memory and coverage, compared with other libraries"
	@echo "make soak    all tests, including those too long for every run"
	@echo "make spark   the test that counts battles on Spark (needs Java 17)"
	@echo "make docs    build the manual as a site, in site/"
	@echo "make claims  README's claims, measured again or held against their record"
	@echo "make release check, build and try a release; nothing is uploaded (DRAFT=1: while something does not agree yet)"
	@echo "make lock    update the locked development versions"

# $(call install,LOCK): install exactly the locked versions, with uv if available, otherwise with pip.
define install
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) uv 2>/dev/null && $(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r $(1) \
		|| $(PIP) --require-hashes -r $(1)
	@$(PIP) --no-deps --no-build-isolation -e .
endef

$(READY): requirements.lock pyproject.toml
	$(call install,requirements.lock)
	@touch $@ $(USABLE)

# What a user needs, without test tools: nobody should wait for a browser driver to see the demo.
$(USABLE): requirements-demo.lock pyproject.toml
	@echo "Setting up in $(VENV) …"
	$(call install,requirements-demo.lock)
	@touch $@

$(SPARK): $(READY)
	@$(PIP) 'pyspark>=4.0,<5'
	@touch $@

$(PEERS): $(READY) bench/peers.txt
	@test -x $(BENCH)/bin/python || $(PYTHON) -m venv $(BENCH)
	@grep '^[a-z].*==' requirements.lock | grep -v '^numpy==' | sed 's/ *\\$$//' > $(BENCH)/constraints.txt
	@if test -x $(BIN)/uv; then $(BIN)/uv pip install --quiet --python $(BENCH)/bin/python $(MEASURED); \
		else $(BENCH)/bin/python -m pip install --quiet $(MEASURED); fi
	@touch $@

demo: $(USABLE)
	@$(BIN)/tiltyard demo --out $(DEMO)
	@echo "Run 'make arena' to open its site on localhost and vote."

arena: $(USABLE)
	@test -f $(ARENA)/arena.db || $(BIN)/tiltyard demo --out $(ARENA) $(if $(KIND),--kind $(KIND))
	@$(BIN)/tiltyard arena serve --db sqlite:///$(ARENA)/arena.db

test: $(READY)
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest $(PARALLEL) -m "not soak" $(addprefix tests/,$(WING))

soak: $(READY)
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest $(PARALLEL) --hypothesis-profile soak

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# `make bench growth` measures how the cost grows with battles and votes.
bench: $(PEERS)
	$(BENCH)/bin/python -m bench $(filter-out bench,$(MAKECMDGOALS))

growth:
	@test -n "$(filter bench,$(MAKECMDGOALS))" || echo "Run 'make bench growth'."

spark: $(SPARK)
	TILTYARD_REQUIRE_SPARK=1 $(BIN)/python -m pytest tests/beyond/test_spark.py -k "$(ONLY)"

docs: $(READY)
	$(BIN)/python tools/command_reference.py
	$(BIN)/python tools/schemas.py
	$(BIN)/mkdocs build --quiet --strict

claims: $(READY) $(PEERS)
	$(BIN)/python tools/claims.py

release: $(READY)
	$(BIN)/python tools/release.py $(if $(DRAFT),--draft)

lock:
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) uv
	$(COMPILE) --extra dev -o requirements.lock
	$(COMPILE) --extra plot --extra arena --group build --constraint requirements.lock -o requirements-demo.lock

clean:
	rm -rf $(VENV) $(BENCH) $(DEMO) $(DEMO)-* site build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
