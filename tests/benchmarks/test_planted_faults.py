"""The script that plants faults in a GEMM: each does what its name says, and a quarter lost is a quarter of NaN."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import pytest

pytest.importorskip("llvmlite")
sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import planted_faults

SIZE = (256, 256, 192)
FAULTS = dict(planted_faults.FAULTS)


@cache
def kernel():
    return planted_faults.compiled(*SIZE)


def outcome(name, schedule="lazy"):
    text = FAULTS[name](kernel().text)
    assert text != kernel().text or name == "nothing"
    return planted_faults.run(kernel(), text, *SIZE, schedule)


def test_the_kernel_is_right():
    found = outcome("nothing", "random")
    assert (found.wrong, found.nan, found.found) == (0, 0, ())


@pytest.mark.parametrize(
    ("name", "rows", "columns"), [("a quarter of A's copies lost", 64, 256), ("a quarter of B's copies lost", 256, 64)]
)
def test_a_quarter_lost_is_a_quarter_of_nan(name, rows, columns):
    """Every sum of these rows or columns takes in what was never written."""
    found = outcome(name)
    assert (found.wrong, found.nan, found.rows, found.columns) == (0.25, 0.25, rows, columns)
    assert found.found == ("uninitialised",)


def test_a_late_quarter_is_one_only_if_memory_is_slow():
    assert outcome("the last quarter late: vmcnt(1)").nan == 0.25
    fast = outcome("the last quarter late: vmcnt(1)", "eager")
    assert fast.wrong == 0
    assert fast.found == ("missing_wait (RAW)",)


@pytest.mark.parametrize("name", ["kp of A and B do not match", "halves of B exchanged"])
def test_wrong_fragments_are_wrong_everywhere_and_no_nan(name):
    found = outcome(name)
    assert found.wrong > 0.9
    assert found.nan == 0
    assert found.found == ()


def test_a_barrier_removed_is_a_race():
    assert {"missing_barrier (RAW)", "missing_barrier (WAR)"} <= set(outcome("the barrier removed").found)
