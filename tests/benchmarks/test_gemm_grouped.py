"""The cases of the benchmark of groups, as far as they need no GPU."""

from __future__ import annotations

import argparse
import importlib
import json
import math
from pathlib import Path

import pytest

from minitile.ops.grouped_gemm import SCALED
from minitile.ops.grouped_plans import Many, estimate
from minitile.ops.machine import H200

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "gemm_grouped_h200.json"


@pytest.fixture
def gemm_grouped():
    return importlib.import_module("gemm_grouped")


def test_cases_by_name(gemm_grouped):
    cases = gemm_grouped.parse([]).cases
    assert [str(case) for case in cases] == list(gemm_grouped.CASES)
    assert {case.form for case in cases} == set(gemm_grouped.FORMS)
    assert set(gemm_grouped.DEEPGEMM) <= set(gemm_grouped.CASES)
    for case in cases:
        count, rows = (int(x) for x in case.name.replace("~", "x").split("x"))
        assert len(case.sizes) == count
        assert sum(case.sizes) == count * rows
        assert case.flops == 2.0 * count * rows * case.n * case.k


def test_uneven_sizes(gemm_grouped):
    """The same ones each time; some groups are empty, and the others differ."""
    sizes = gemm_grouped.uneven(20, 100)
    assert sizes == gemm_grouped.uneven(20, 100)
    assert sizes[4] == sizes[9] == 0
    assert len(set(sizes)) > 10


@pytest.mark.parametrize("text", ["rows", "rows:4x8:1", "lines:4x8:1x1", "batch:4~8:1x1", "rows:x:1x1"])
def test_what_is_no_case(gemm_grouped, text):
    with pytest.raises(argparse.ArgumentTypeError):
        gemm_grouped.parse_case(text)


def test_plans_are_for_their_kernels(gemm_grouped):
    plans = (*gemm_grouped.PLANS, *gemm_grouped.PLANS_FP8, *gemm_grouped.PLANS_ALONG_K)
    assert all(plan.blocks and plan.split == 1 and not plan.swap for plan in plans)
    assert all(plan.block_K == SCALED and SCALED % plan.block_N == 0 for plan in gemm_grouped.PLANS_FP8)


def many(case):
    """What the model is asked."""
    groups, rows = len(case.sizes), sum(case.sizes) // len(case.sizes)
    if case.form == "gradients":
        return Many(groups, case.n, case.k, rows, transpose_a=True, kind="along k")
    kind, size = ("scaled", 1) if case.scaled else ("plain", 2)
    return Many(
        groups, rows, case.n, case.k, transpose_b=True, size=size, kind=kind, uneven=case.form.startswith("rows")
    )


@pytest.mark.parametrize(("plans", "least"), [("PLANS", 0.98), ("PLANS_FP8", 0.98), ("PLANS_ALONG_K", 0.98)])
def test_the_model_finds_plans_near_to_the_fastest_that_was_measured(gemm_grouped, plans, least):
    """Geometric mean over the cases of the chosen plan's speed, as a share of the fastest one's; none is far off."""
    by_name = {str(plan): plan for plan in getattr(gemm_grouped, plans)}
    measured = {}
    for one in json.loads(RESULTS.read_text())["tried"]:
        if one["config"] in by_name and one["tflops"]:
            speeds = measured.setdefault(one["case"], {})
            plan = by_name[one["config"]]
            speeds[plan] = max(one["tflops"], speeds.get(plan, 0.0))
    shares = []
    for name, speeds in measured.items():
        problem = many(gemm_grouped.parse_case(name))
        chosen = min(speeds, key=lambda plan: estimate(problem, plan, H200))
        shares.append(speeds[chosen] / max(speeds.values()))
    assert len(shares) >= 3
    assert math.prod(shares) ** (1 / len(shares)) > least
    assert min(shares) > 0.94
