# One command on a fresh machine: `make demo` or `make test`. Each makes .venv by itself; PYTHON chooses the interpreter.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

MINUTES ?= 30
SHARD ?= 1/1
JOBS ?= auto
MUTANTS ?= 20000

.PHONY: demo quick test slow fuzz fuzz-text stress lint docs docs-serve clean

demo: $(VENV)/.ready
	$(BIN)/python examples/demo.py

# While you work: all of the language, the IR, layouts and passes, and of the rest what is cheap; under a minute on two
# cores. The whole emitters and simulators, and the examples on every target, are for `make test`.
QUICK := $(addprefix tests/,analysis errors filetests golden ir language layout tools transforms typing) \
  $(addprefix tests/driver/test_,cache.py dispatch.py jit.py target.py threads.py) \
  $(addprefix tests/runtime/test_,bind.py cuda.py launch.py tensor_map.py) \
  $(addprefix tests/examples/test_examples.py::test_,vector_add transpose softmax) tests/house/test_house.py
DEAR := $(addprefix tests/,language/test_hilbert.py language/test_length.py tools/test_autotune.py \
  transforms/test_integer_widths.py transforms/test_proxy_fence.py transforms/test_schedule.py)

quick: $(VENV)/.ready
	$(BIN)/python -m pytest -q -n auto --dist worksteal $(QUICK) $(addprefix --ignore=,$(DEAR))

test: $(VENV)/.ready
	$(BIN)/python -m pytest -q -n auto --dist worksteal

# The slow tests, or part SHARD of them, on JOBS processes. What has passed on this very tree is not run again.
slow: $(VENV)/.ready
	$(BIN)/python -m pytest -q -m slow --shard=$(SHARD) --resume -n $(JOBS) --dist worksteal

# Random programs for MINUTES minutes, on one process for each core but one.
fuzz: $(VENV)/.ready
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES) --jobs $$($(BIN)/python -c 'import os; print(max(1, (os.cpu_count() or 2) - 1))')

# Broken texts, MUTANTS in all; goes on where it stopped (the state is in build/fuzz).
fuzz-text: $(VENV)/.ready
	$(BIN)/python -m tests.fuzz.texts --mutants $(MUTANTS)

# Caches, helper processes and interrupts under stress: none of the results may be wrong. Goes on where it stopped (the
# state is in build/stress).
stress: $(VENV)/.ready
	$(BIN)/python -m tests.stress interrupts
	$(BIN)/python -m tests.stress results

lint: $(VENV)/.lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# The site, into build/site; a warning (a link that leads nowhere, say) is an error.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

docs-serve: $(VENV)/.docs
	$(BIN)/mkdocs serve

$(VENV)/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "minitile needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1 || echo not usable)." >&2; \
	  echo "Install one and say which: make $(MAKECMDGOALS) PYTHON=python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $@

$(VENV)/.lint: $(VENV)/.ready
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[lint]'
	@touch $@

$(VENV)/.docs: $(VENV)/.ready
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
