"""mt.ops.top_k against a stable sort: ties, NaN, infinities, rows in registers and in parts, odd sizes, wrong use."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest

import minitile as mt
from minitile.language import bfloat16
from minitile.ops import top_k
from minitile.ops.memory_bound.rows import RowPlan
from minitile.ops.memory_bound.top_k import constants, select
from tests.ops.memory_bound.frames import bf16, exact, f16, f32, given, random


def expected(x, k, largest=True):
    """The first of equal ones first, NaN over all."""
    x = exact(x)
    keys = np.where(np.isnan(x), np.inf, x), np.isnan(x)
    if largest:
        keys = -keys[0], ~keys[1]
    at = np.lexsort((np.broadcast_to(np.arange(x.shape[-1]), x.shape), keys[0], keys[1]), axis=-1)[..., :k]
    return np.take_along_axis(x, at, -1), at


def right(x, k, largest=True, **more):
    values, indices = top_k(given(x), k, largest=largest, **more)
    want, at = expected(x, k, largest)
    np.testing.assert_array_equal(exact(indices), at)
    np.testing.assert_array_equal(exact(values), want)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", [bf16, f16, f32])
@pytest.mark.parametrize(
    ("shape", "k"), [((1, 1), 1), ((5, 17), 17), ((3, 64), 3), ((2, 3, 1000), 8), ((2, 1001), 64), ((1, 4104), 5)]
)
def test_sizes(shape, k, dtype, largest):
    right(random(1, *shape, dtype=dtype), k, largest)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", [bf16, f16, f32])
def test_ties(dtype, largest):
    """Few different numbers; zeros of both signs are equal."""
    x = np.random.default_rng(2).integers(-2, 3, (6, 200)).astype(dtype)
    x[0] = np.where(np.arange(200) % 3, 0.0, -0.0)
    x[1] = 5
    right(x, 20, largest)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", [bf16, f32])
def test_not_finite(dtype, largest):
    x = random(3, 6, 100, dtype=dtype)
    x[0, 3], x[0, 90], x[1, 5], x[2, 7] = np.nan, -np.nan, np.inf, -np.inf
    x[3], x[4], x[5, 10:] = np.nan, -np.inf, np.nan
    right(x, 12, largest)


@pytest.mark.parametrize("dtype", [f16, f32])
def test_smallest_numbers(dtype):
    """Subnormal ones, and neighbours."""
    tiny = np.finfo(dtype).smallest_subnormal
    x = (np.arange(-40, 41) * tiny).astype(dtype)[None]
    x = np.concatenate([x, np.nextafter(np.ones((1, 81), dtype), np.sign(x) * 2).astype(dtype)])
    right(np.random.default_rng(4).permuted(x, axis=1), 30)


@pytest.mark.parametrize("plan", [RowPlan(8, 256, 128), RowPlan(4, 512, 64), RowPlan(1, 256, 32), RowPlan(2, 768, 128)])
def test_plans(plan):
    right(random(5, 9, 250, dtype=bf16), 6, plan=plan)


@pytest.mark.parametrize(("n", "k"), [(16385, 64), (40003, 3)])
def test_long_rows(n, k):
    """In parts; equal elements in several of them."""
    right(np.random.default_rng(6).integers(-3000, 3000, (2, n)).astype(f32), k)


def test_waves_of_64_lanes(monkeypatch):
    """Rows that an odd number of warps would hold."""
    pytest.importorskip("llvmlite")
    monkeypatch.setenv("MINITILE_TARGET", "gfx942")
    x = random(8, 2, 4500)
    for found, wanted in zip(top_k(x, 3), expected(x, 3), strict=True):
        np.testing.assert_array_equal(found, wanted)


def awkward(dtype, n):
    """Rows on which a bound by maxima finds too many candidates, too few, or the right ones."""
    rng = np.random.default_rng(9)
    x = rng.standard_normal((8, n)).astype(dtype)
    x[0], x[1], x[2] = 3, np.sort(x[1]), np.sort(x[2])[::-1]
    x[3] = rng.integers(0, 2, n)
    x[4] = np.where(rng.integers(0, n, n) < 20, x[4], 0)
    x[5, rng.integers(0, n, 9)], x[5, rng.integers(0, n, 9)] = np.nan, -np.inf
    x[6], x[6, n // 2] = -np.inf, np.inf
    x[7], x[7, -3:] = np.nan, 1
    return x


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", [bf16, f16, f32])
@pytest.mark.parametrize(("n", "k"), [(2053, 1), (2048, 8), (1021, 64)])
def test_awkward_rows(n, k, dtype, largest):
    right(awkward(dtype, n), k, largest)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942"])
@pytest.mark.parametrize(("n", "k", "part"), [(1024, 8, 8192), (64, 64, 8192), (300, 5, 64)])
def test_awkward_rows_on(n, k, part, target, monkeypatch):
    pytest.importorskip("llvmlite") if target.startswith("gfx") else None
    monkeypatch.setenv("MINITILE_TARGET", target)
    monkeypatch.setattr(sys.modules["minitile.ops.memory_bound.top_k"], "PART", part)
    x = awkward(bf16, n)
    for largest in (True, False):
        values, indices = top_k(x, k, largest=largest)
        want, at = expected(x, k, largest)
        np.testing.assert_array_equal(indices, at)
        np.testing.assert_array_equal(exact(values), want)


def test_few_candidates():
    """Of random rows the bound leaves so few elements that the search bit by bit is seldom."""
    plans = [
        constants(n, bfloat16, k, True, None) for n, k in ((4096, 8), (8192, 50), (256, 8), (1024, 64), (65536, 50))
    ]
    for plan in plans:
        assert reached(random(10, 50, math.prod(plan["shares"])), plan) <= plan["space"] // 2 + plan["k"]


def reached(x, plan):
    """The mean number of elements of a row that are not below the bound, as the docstring of `bound` has it."""
    groups = plan["shares"][3]
    maxima = x.reshape(-1, *plan["shares"]).max((2, 3, 6))
    nth = math.ceil(plan["k"] / groups)
    low = np.sort(maxima.transpose(0, 2, 1, 3).reshape(len(x), groups, -1))[:, :, -nth].min(1)
    return (x >= low[:, None]).sum(1).mean()


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(("n", "merged"), [(400, True), (1025, True), (1025, False)])
@pytest.mark.parametrize("k", [1, 7, 16])
def test_parts(n, k, merged, largest, monkeypatch):
    """Merged, or rows anew: equal elements, NaN and infinities in several of them."""
    monkeypatch.setattr(sys.modules["minitile.ops.memory_bound.top_k"], "PART", 64)
    if not merged:
        monkeypatch.setattr(sys.modules["minitile.ops.memory_bound.top_k"], "MERGED", 0)
    x = awkward(bf16, n)
    right(np.concatenate([x, np.random.default_rng(11).integers(-9, 9, (2, n)).astype(bf16)]), k, largest)


@pytest.mark.parametrize("n", [337, 400, 1025])
def test_a_short_last_part(n, monkeypatch):
    """It has k elements: what stands for one that is not there would be greater than these."""
    monkeypatch.setattr(sys.modules["minitile.ops.memory_bound.top_k"], "PART", 64)
    right(-1 - np.abs(random(8, 2, n)), 20)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942", "gfx950"])
def test_targets(target):
    pytest.importorskip("llvmlite") if target.startswith("gfx") else None
    from minitile.language import float16

    x, k = random(7, 5, 300, dtype=f16), 7
    y, at = np.zeros((5, k), f16), np.zeros((5, k), np.int64)
    specs = mt.spec(x.shape, "float16"), mt.spec(y.shape, "float16"), mt.spec(y.shape, "int64")
    select.compile(*specs, target=target, **constants(300, float16, k, True, None)).simulate(x, y, at)
    np.testing.assert_array_equal(at, expected(x, k)[1])
    np.testing.assert_array_equal(y.astype(np.float64), expected(x, k)[0])


def test_no_rows_and_what_does_not_fit():
    values, indices = top_k(given(random(8, 0, 8)), 2)
    assert values.shape == indices.shape == (0, 2)
    for k in (0, 9, -1):
        with pytest.raises(mt.MinitileError, match=f"k is {k}"):
            top_k(given(random(8, 2, 8)), k)
    with pytest.raises(mt.MinitileError, match="there is none that fits, for rows of 0 elements"):
        top_k(given(random(8, 2, 0)), 1)
    with pytest.raises(mt.MinitileError, match=r"k is 2\.0"):
        top_k(given(random(8, 2, 8)), 2.0)
    with pytest.raises(mt.MinitileError, match="k is 65"):
        top_k(given(random(8, 2, 80)), 65)
