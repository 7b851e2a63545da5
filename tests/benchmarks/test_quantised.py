"""benchmarks/quantised.py without a GPU: the plans that it measures, and what it makes of times."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import quantised
import serving
from serving_operations import OPERATIONS

from minitile.ops.machine import H200


@pytest.mark.parametrize("kind", [*quantised.ORDER, "mxfp4:16"])
def test_plans_are_possible(kind):
    """Each once, the default one first, in shared memory, with whole groups and steps for each block of a cluster."""
    for case in quantised.cases_of([kind], [f"{n}x{k}" for n, k in serving.LAYERS]):
        found = quantised.plans(case, H200)
        assert found[0] == OPERATIONS[case.kind].plan(case.m, case.n, case.k, H200)
        assert len(found) == len({str(plan) for plan in found}) < 60
        for plan in found:
            assert plan.threads in (plan.block_N, plan.block_N * 2)
            assert plan.block_N % (plan.parts * 8) == 0
            if case.kind == "fp8":
                assert plan.share == 1 or (plan.parts == 1 and -(-case.m // plan.block_M) % plan.share == 0)
            else:
                assert plan.block_K % (32 if case.kind == "mxfp4" else quantised.GROUP) == 0
                assert plan.parts == 1 or case.k // plan.block_K >= 2 * plan.parts
        assert len(found) > 7 or kind == "mxfp4:16"


def test_what_is_worth_most_comes_first():
    first, *_, last = quantised.cases_of(quantised.ORDER, ["64x128", "128x256"])
    assert (str(first), str(last)) == ("w4a16 1 × 64x128", "w4a16 64 × 128x256")
    assert quantised.cases_of(["w4a16 64 zeros:8"], ["64x128"])[0].kind in OPERATIONS


def test_what_cannot_be_compiled_says_so():
    plan = OPERATIONS["w4a16"].plan(16, 128, 256, H200)
    assert quantised.compile_one("w4a16", 16, 128, 256, plan) == ""
    wrong = quantised.compile_one("w4a16", 16, 128, 256, plan._replace(stages=200))  # at most 16
    assert wrong.startswith("LanguageError: num_stages is 200")


def row(plan, ratio, default=False):
    return {"plan": plan, "default": default, "of bf16": ratio, "us": 8 / ratio, "spread": 0.0, "error": 0.0}


def test_means():
    """Of the best plan of each case, which may be the default one; and of the default ones alone."""
    known = {
        "w4a16 16 × 64x128": {"rows": [row("a", 2.0), row("b", 1.0, True), row("bf16", 1.0)], "tried": {"c": "hangs"}},
        "w4a16 16 × 128x128": {"rows": [row("b", 4.0, True), row("bf16", 1.0)], "tried": {}},
        "fp8 16 × 64x128": {},
    }
    lines = quantised.means(known)
    assert f"| w4a16 16 | best | {math.sqrt(8):.3f} | 2.000 | 2 |" in lines
    assert "| w4a16 16 | default | 2.000 | 1.000 | 2 |" in lines
    assert len(lines) == 4
    assert quantised.line("x", known["w4a16 16 × 64x128"]) == (
        "x: bf16 8.00 µs | a 4.00 µs (2.00) | default b 8.00 µs (1.00) | 1 without a result"
    )
    assert len(quantised.table(known)) == 2 + 5 + 1 + 4
