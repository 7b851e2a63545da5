"""Which plans matmul_plans.py measures, and its file; measuring takes a GPU."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import matmul
import matmul_plans

from minitile.ops.choice import candidates
from minitile.ops.machine import H200


@pytest.mark.parametrize("words", ["NT:128x4096x1024", "TN:77x547x978", "NN:5x3x2"])
def test_plans_are_of_all_kinds_and_the_same_each_time(words):
    case = matmul.Case.of(words)
    found = matmul_plans.plans_of(case, 1)
    assert found == matmul_plans.plans_of(case, 1)
    assert len(set(found)) == len(found)
    most = matmul_plans.BEST + matmul_plans.OTHERS + matmul_plans.CHANGED + matmul_plans.DRAWN
    assert 2 < len(found) <= most
    if case.m > 100:
        assert {plan.together for plan in found} == {plan.split > 1 for plan in found} == {True, False}


def test_plans_with_one_thing_changed():
    """Where threads copy there are no teams; one team has a warpgroup for each 64 rows, two of them for 256."""
    for words in ("TN:266x5040x38", "NT:3000x2000x256"):
        problem = matmul.Case.of(words).problem
        known = list(candidates(problem, H200, True, matmul.SHARED))
        new = [plan for old in known for plan in matmul.changed(problem, old)]
        assert {plan.teams for plan in new} == ({1} if any(problem.ragged) else {1, 2})
        for plan in new:
            rows = plan.block_N if plan.swap else plan.block_M
            assert plan.threads == (256 if plan.teams == 2 or rows == 256 else rows * 2), plan


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "times.json.xz"
    assert matmul_plans.read(path) == {}
    times = {"NT 1x2x3": {"64x8x64, 8 stages, 128 threads": 1.25}}
    matmul_plans.write(path, times)
    assert matmul_plans.read(path) == times
