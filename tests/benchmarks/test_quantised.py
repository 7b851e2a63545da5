"""benchmarks/quantised.py without a GPU: the plans that it measures, and what it makes of times."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import quantised


@pytest.mark.parametrize("rows", quantised.ROWS)
def test_plans_are_possible(rows):
    """Each once, in shared memory, with whole groups and at least two steps for each block of a cluster."""
    for n, k in quantised.LAYERS:
        case = quantised.Case(rows, n, k)
        found = quantised.plans(case, 132)
        assert len(set(found)) == len(found) == len({str(plan) for plan in found})
        for plan in found:
            assert plan.block_K % quantised.GROUP == 0
            assert plan.threads in (plan.block_N, plan.block_N * 2)
            assert plan.stages * (plan.block_N * plan.block_K // 2 + plan.block_M * plan.block_K * 2) < quantised.SHARED
            assert plan.parts == 1 or k // plan.block_K >= 2 * plan.parts
        fp8 = quantised.plans_fp8(case, 132)
        assert len(set(fp8)) == len(fp8) == len({str(plan) for plan in fp8})


def test_what_cannot_be_compiled_says_so():
    case = quantised.Case(16, 128, 256)
    assert quantised.compile_quantised(case, quantised.default(case, 132), "int4", 128, False) == ""
    wrong = quantised.QuantisedPlan(16, 64, 128, stages=200)  # at most 16
    assert quantised.compile_quantised(case, wrong, "int4", 128, False).startswith("LanguageError: num_stages is 200")


def test_means():
    """Of the best plan of each case, which may be the default one; and of the default ones alone."""

    def rows(best, standard):
        return {
            "rows": [
                {"contender": "W4A16", "of bf16": best},
                {"contender": "W4A16 (default)", "of bf16": standard},
            ]
        }

    lines = quantised.means({"16x64x128": rows(2.0, 1.0), "16x128x128": rows(3.9, 4.0), "8x64x128": {}})
    assert f"| 16 | W4A16 | {math.sqrt(8):.3f} | 2.000 |" in lines
    assert "| 16 | W4A16 (default) | 2.000 | 1.000 |" in lines
