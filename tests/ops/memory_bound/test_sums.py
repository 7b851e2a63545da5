"""mt.ops.column_sums against float64: dtypes, odd sizes, each form of plan, the same bits again, wrong use."""

from __future__ import annotations

import numpy as np
import pytest

import minitile as mt
from minitile.language.math import dtype_of_name
from minitile.ops import column_sums
from minitile.ops.memory_bound import sums
from minitile.ops.memory_bound.sums import SumPlan, last_plan, sum_plan, sums_at_once
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


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942", "gfx950"])
def test_who_ends_last_adds_up(target):
    """In any order of the blocks, the same bits; the counters are zeros again."""
    pytest.importorskip("llvmlite") if target.startswith("gfx") else None
    x, n = random(7, 67, 100, dtype=f32), 100
    parts, done, y = np.zeros((3, n), f32), np.zeros(2, np.int32), np.zeros(n, f32)
    constants = {"rows": 2, "columns": 64, "ahead": 2, "threads": 64, "split": 3}
    compiled = sums_at_once.compile(x, parts, done, y, target=target, **constants)
    results = []
    for schedule, seed in (("lazy", 0), ("random", 1), ("random", 2), ("eager", 0)):
        y[...] = parts[...] = np.nan
        compiled.simulate(x, parts, done, y, schedule=schedule, seed=seed)
        assert not done.any()
        results.append(y.copy())
    np.testing.assert_allclose(results[0], x.astype(float).sum(0), rtol=1e-5, atol=1e-5)
    for y in results[1:]:
        np.testing.assert_array_equal(y.view(np.int32), results[0].view(np.int32))


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("n", [8191, 8192])
def test_registers_do_for_two_blocks(n, dtype):
    x, parts, done, y = (
        mt.spec(shape, kind)
        for shape, kind in (((8192, n), dtype), ((8, n), "float32"), ((1024,), "int32"), ((n,), "float32"))
    )
    plan = sum_plan(8192, n, dtype_of_name({"bfloat16": "bf16", "float32": "f32"}[dtype]).bytes, n == 8192)
    compiled = sums_at_once.compile(x, parts, done, y, target="sm_90a", split=plan.parts, **plan.constants)
    assert compiled.spills == 0
    assert compiled.registers <= 128


def test_without_counters(monkeypatch):
    """Two launches."""
    monkeypatch.setattr(sums, "counters", lambda x, count: None)
    monkeypatch.setattr(sums, "sums_at_once", None)
    check(random(2, 150, 136, dtype=bf16), plan=SumPlan(2, 64, 1, 64, 3))


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
