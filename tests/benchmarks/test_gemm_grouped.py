"""The cases of the benchmark of groups, as far as they need no GPU."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import gemm_grouped

from minitile.ops.grouped_gemm import SCALED


def test_cases_by_name():
    cases = gemm_grouped.parse([]).cases
    assert [str(case) for case in cases] == list(gemm_grouped.CASES)
    assert {case.form for case in cases} == set(gemm_grouped.FORMS)
    assert set(gemm_grouped.DEEPGEMM) <= set(gemm_grouped.CASES)
    for case in cases:
        count, rows = (int(x) for x in case.name.replace("~", "x").split("x"))
        assert len(case.sizes) == count
        assert sum(case.sizes) == count * rows
        assert case.flops == 2.0 * count * rows * case.n * case.k


def test_uneven_sizes():
    """The same ones each time; some groups are empty, and the others differ."""
    sizes = gemm_grouped.uneven(20, 100)
    assert sizes == gemm_grouped.uneven(20, 100)
    assert sizes[4] == sizes[9] == 0
    assert len(set(sizes)) > 10


@pytest.mark.parametrize("text", ["rows", "rows:4x8:1", "lines:4x8:1x1", "batch:4~8:1x1", "rows:x:1x1"])
def test_what_is_no_case(text):
    with pytest.raises(argparse.ArgumentTypeError):
        gemm_grouped.parse_case(text)


def test_plans_are_for_their_kernels():
    plans = (*gemm_grouped.PLANS, *gemm_grouped.PLANS_FP8, *gemm_grouped.PLANS_ALONG_K)
    assert all(plan.blocks and plan.split == 1 and not plan.swap for plan in plans)
    assert all(plan.block_K == SCALED and SCALED % plan.block_N == 0 for plan in gemm_grouped.PLANS_FP8)
