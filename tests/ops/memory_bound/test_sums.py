"""mt.ops.column_sums against float64: dtypes, odd sizes, each form of plan, the same bits again, wrong use."""

from __future__ import annotations

import numpy as np
import pytest

import minitile as mt
from minitile.language.math import dtype_of_name
from minitile.ops import column_sums
from minitile.ops.memory_bound.sums import SumPlan, last_plan, partial_sums, sum_plan
from tests.ops.memory_bound.frames import bf16, exact, f16, f32, given, random


def check(x, columns=slice(None), **options):
    y = exact(column_sums(given(x)[..., columns], **options))
    x = x[..., columns]
    wide = exact(x).reshape(-1, x.shape[-1])
    assert y.shape == (x.shape[-1],)
    # What sums in f32 may be off by: of each addition 2^-24 of the sum so far, at most log2 of them and a block's own.
    assert np.all(np.abs(y - wide.sum(0)) <= 2.0**-22 * np.abs(wide).sum(0) + 1e-30)


@pytest.mark.parametrize("dtype", [bf16, f32])
@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (67, 17), (2, 150, 64), (1000, 33)])
def test_sizes(shape, dtype):
    check(random(1, *shape, dtype=dtype))


@pytest.mark.parametrize("columns", [slice(8, 80), slice(3, 50), slice(0, 100, 2)])
def test_rows_with_gaps(columns):
    check(random(6, 70, 100, dtype=bf16), columns)


def test_f16():
    check(random(1, 40, 72, dtype=f16))


@pytest.mark.parametrize(
    "plan",
    [
        SumPlan(2, 64, 1, 64, 3),
        SumPlan(4, 128, 2, 64, 5),
        SumPlan(8, 64, 4, 64, 1),
        SumPlan(16, 32, 8, 64, 2, 2),
        SumPlan(1, 64, 2, 64, 32),
        SumPlan(1, 64, 2, 64, 33),
    ],
)
def test_plans(plan):
    check(random(2, 150, 136, dtype=bf16), plan=plan)


def test_many_parts():
    """More than the last launch loads at once."""
    x = random(3, 400, 8, dtype=f32)
    parts = 150
    assert last_plan(parts).ahead * last_plan(parts).rows < parts
    check(x, plan=SumPlan(1, 32, 2, 64, parts))


def test_parts_share_the_rows():
    assert sum_plan(8192, 8192, 2) == SumPlan(8, 256, 8, 256, 8)
    assert sum_plan(16384, 4096, 2) == SumPlan(8, 256, 8, 256, 16)
    assert sum_plan(8192, 8192, 2, multiprocessors=108).parts == 6
    assert sum_plan(512, 4096, 2).ahead == 4  # 16 strips want as many groups
    assert sum_plan(64, 256, 2).ahead == 2
    assert sum_plan(10, 100000, 2).parts == 1
    assert sum_plan(1 << 20, 8, 2).fold == 32  # rows of 16 bytes
    assert sum_plan(8192, 8191, 2).fold == 8  # whose vectors are whole then
    assert sum_plan(8191, 8191, 2).fold == 1


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("n", [8191, 8192])
def test_registers_do_for_two_blocks(n, dtype):
    x, parts = mt.spec((8192, n), dtype), mt.spec((8, n), "float32")
    plan = sum_plan(8192, n, dtype_of_name({"bfloat16": "bf16", "float32": "f32"}[dtype]).bytes, n == 8192)
    compiled = partial_sums.compile(x, parts, target="sm_90a", **plan.constants)
    assert compiled.spills == 0
    assert compiled.registers <= 128


def test_same_bits_again():
    x = given(random(4, 500, 72, dtype=f32))
    first, second = (exact(column_sums(x)) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_not_a_number_stays_in_its_column():
    x = random(5, 40, 9)
    x[3, 4], x[5, 6] = np.nan, np.inf
    y = exact(column_sums(given(x)))
    assert np.isnan(y[4])
    assert y[6] == np.inf
    assert np.isfinite(np.delete(y, [4, 6])).all()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: column_sums(np.zeros((), f32)), "no dimensions"),
        (lambda: column_sums(np.zeros((3, 4), np.int32)), "x is i32"),
        (lambda: column_sums(np.zeros((3, 4), bf16), out=np.zeros(4, bf16)), "pass f32 of shape"),
    ],
)
def test_wrong_use(call, said):
    with pytest.raises(mt.MinitileError, match=said):
        call()
