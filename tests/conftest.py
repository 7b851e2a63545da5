"""Shared switches: `MINITILE_GPU=1` lets tests marked `gpu` run; `--bless` rewrites golden expectations; `--shard` and
`--resume` choose a part of the tests (shards.py). Of long sweeps over parameters a part is quick (sweeps.py)."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

from tests.shards import Shards, add_options
from tests.sweeps import FEW, thin_out

# Spills are errors in the tests. Not in run tests on a GPU, whose odd sizes and types are there to be right.
if os.environ.get("MINITILE_GPU") != "1":
    os.environ.setdefault("MINITILE_STRICT", "1")

# On a GPU JAX takes three quarters of the memory as soon as it is there, of which other processes' tests need some.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

# Between passes every definition dominates its uses, in whatever the tests compile.
os.environ.setdefault("MINITILE_VERIFY", "scopes")

# Where a case of a test is a program that is simulated: of a long sweep, how many cases are quick (None: so many
# that each value of each parameter occurs). Whole examples and operations take longest; on a GPU all cases run.
THINNED = {
    "backends": None,
    "examples": FEW,
    "language": None,
    "lowering": None,
    "ops": FEW,
    "sim": None,
    "transforms": None,
}
TESTS = Path(__file__).parent

# Programs and their simulation are many small objects, of which few are garbage that only the collector finds: looking
# for it after every 700 of them is a tenth of the time.
gc.set_threshold(20_000, 20, 50)


def pytest_sessionfinish() -> None:
    gc.freeze()  # pytest collects five times at its end, from millions of objects of which none is of interest any more


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bless", action="store_true", help="rewrite the expectations of golden and file tests")
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Shards(config), "shards")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("MINITILE_GPU") == "1":
        return
    for name, most in THINNED.items():
        thin_out([item for item in items if item.path.is_relative_to(TESTS / name)], most)
    thin_out([item for item in items if "few_cases" in item.keywords])
    skip = pytest.mark.skip(reason="needs a GPU: set MINITILE_GPU=1")
    for item in items:
        if "gpu" in item.keywords:
            item.add_marker(skip)


@pytest.fixture
def bless(request: pytest.FixtureRequest) -> bool:
    """True when the run should write what it finds as the new expectation (`pytest --bless`)."""
    return bool(request.config.getoption("--bless"))
