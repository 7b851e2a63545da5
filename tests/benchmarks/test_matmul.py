"""The benchmark's problems and plans, as far as they need no GPU."""

from __future__ import annotations

import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import fit_matmul
import matmul

import minitile.language as T
from minitile.backends.nvidia.program import PtxProgram
from minitile.driver.jit import Kernel
from minitile.ops import multiply
from minitile.ops.machine import H200
from minitile.ops.model import estimate
from minitile.ops.plan import HILBERT, Plan, Problem


def test_thirty_problems_the_same_ones_each_time():
    cases = matmul.draw(30)
    assert cases == matmul.draw(30)
    assert len(set(cases)) == 30
    assert {case.form for case in cases} == {"NN", "NT", "TN", "TT"}
    assert any(any(case.problem.ragged) for case in cases)
    assert min(min(c.m, c.n, c.k) for c in cases) < 128
    assert max(max(c.m, c.n, c.k) for c in cases) > 8192
    assert all(fit_matmul.problem_of(str(case)) == case.problem for case in cases)


def test_plans_to_tune_with(monkeypatch):
    monkeypatch.setenv("MINITILE_TARGET", "sm_90a")
    monkeypatch.setattr(multiply, "machine_of_device", lambda index: H200)
    for case in matmul.draw(30):
        found = matmul.plans(case.problem)
        assert found
        for plan in found:
            assert fit_matmul.plan_of(str(plan)) == plan
            assert estimate(case.problem, plan, H200) > 0


def test_plans_beyond_the_candidates(monkeypatch):
    """Two teams and one; operands padded and as they lie; split-K added up in both ways; other orders of tiles."""
    monkeypatch.setenv("MINITILE_TARGET", "sm_90a")
    monkeypatch.setattr(multiply, "machine_of_device", lambda index: H200)
    large = matmul.plans(Problem(4096, 4096, 4096))
    assert {p.teams for p in large if p.blocks} == {1, 2}
    assert {p.teams for p in large if not p.blocks} == {1}
    assert {8, 16, HILBERT} <= {p.panel for p in large}
    ragged = matmul.plans(Problem(2048, 2048, 4095))
    assert {(True, False), (False, False)} <= {p.pad for p in ragged}
    assert {p.together for p in matmul.plans(Problem(256, 256, 8192)) if p.split > 1} == {False, True}


def test_plans_drawn_at_random():
    """The same ones each time; as many as asked for; for few rows swapped ones are among them."""
    for problem in (Problem(4096, 4096, 4096), Problem(48, 4096, 4096), Problem(333, 777, 999, True, True)):
        found = matmul.drawn(problem, 20)
        assert found == matmul.drawn(problem, 20)
        assert len(set(found)) == 20
        assert found != matmul.drawn(problem, 20, seed=1)
    assert any(p.swap for p in matmul.drawn(Problem(48, 4096, 4096), 20))


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("pad", [False, True])
def test_what_is_compiled_ahead_is_what_runs(monkeypatch, together, pad):
    """The kernel's text, which is the key of the cache."""
    monkeypatch.setenv("MINITILE_TARGET", "sm_90a")
    problem, plan = Problem(70, 64, 33), Plan(64, 32, 32, 3, 128, split=2, pad=(pad, False), together=together)
    ahead: list[str] = []
    launched: list[str] = []
    monkeypatch.setattr(PtxProgram, "assemble", lambda self, arch: ahead.append(self.text))
    multiply.assembled(problem, T.bfloat16, T.bfloat16, plan)
    monkeypatch.setattr(Kernel, "__call__", lambda self, *args: launched.append(self.executable(*args).text))
    a, b = np.zeros((70, 33), ml_dtypes.bfloat16), np.zeros((33, 64), ml_dtypes.bfloat16)
    multiply.matmul(a, b, plan=plan)
    assert len(launched) == 1 + pad + (not together)
    assert ahead == launched[pad : pad + 1]
