"""mt.ops.cumsum against float64: rows in registers and in pieces, both directions, odd sizes, the same bits."""

from __future__ import annotations

import numpy as np
import pytest

import minitile as mt
from minitile.language.math import dtype_of_name
from minitile.ops import cumsum
from minitile.ops.memory_bound.rows import RowPlan, row_plans
from minitile.ops.memory_bound.scans import PiecePlan, cumsum_pieces, cumsum_rows, piece_plan, row_constants
from tests.ops.memory_bound.frames import bf16, close, exact, f16, f32, given, random

WHOLE = {f32: 2.0**-24, bf16: 2.0**-8, f16: 2.0**-11}


def expected(x, reverse):
    x = exact(x)
    return np.flip(np.cumsum(np.flip(x, -1), -1), -1) if reverse else np.cumsum(x, -1)


def sums_are_right(y, x, dtype, reverse=False):
    """As exact as a sum of so many terms by halves can be."""
    y, size = exact(y), expected(np.abs(exact(x)), reverse)
    depth = 4 + np.log2(x.shape[-1] + 1)
    bound = WHOLE[dtype] * np.abs(expected(x, reverse)) + depth * 2.0**-24 * size + 2.0**-25
    assert (np.abs(y - expected(x, reverse)) <= bound).all()


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", [bf16, f16, f32])
@pytest.mark.parametrize("shape", [(1, 1), (5, 17), (3, 64), (2, 3, 1000), (2, 1001), (1, 4104)])
def test_rows(shape, dtype, reverse):
    x = random(1, *shape, dtype=dtype)
    sums_are_right(cumsum(given(x), reverse=reverse), x, dtype, reverse)


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_waves_of_64_lanes(target, monkeypatch):
    """Rows that an odd number of warps would hold."""
    pytest.importorskip("llvmlite")
    monkeypatch.setenv("MINITILE_TARGET", target)
    x = random(4, 2, 4500, dtype=f32)
    sums_are_right(cumsum(x), x, f32)


@pytest.mark.parametrize(
    "plan", [RowPlan(8, 256, 128), RowPlan(4, 512, 64), RowPlan(1, 256, 32), RowPlan(1, 512, 64), RowPlan(2, 768, 128)]
)
def test_plans(plan):
    x = random(2, 5, 256, dtype=f16)
    sums_are_right(cumsum(given(x), plan=plan), x, f16)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        (f32, (3, 1)),
        (bf16, (3, 700)),
        (f32, (5, 64)),
        (f32, (2, 64 * 32)),
        (f32, (2, 64 * 32 + 1)),
        (f16, (1, 64 * 65)),
        (f32, (1, 4999)),
    ],
)
def test_pieces(shape, dtype, reverse):
    """More groups of pieces than one, and one that is just full; fewer blocks than pieces, and more."""
    x = random(3, *shape, dtype=dtype)
    out = given(np.full_like(x, np.nan))
    for blocks in (1, 3, 1000):
        sums_are_right(cumsum(given(x), reverse=reverse, out=out, plan=PiecePlan(64, 32, blocks)), x, dtype, reverse)


def test_pieces_leave_no_block_idle():
    assert piece_plan(1, 1 << 28, 2) == PiecePlan(16384, 256, 264)
    assert piece_plan(1, 1 << 28, 4) == PiecePlan(8192, 256, 264)
    assert piece_plan(1, 1 << 22, 2) == PiecePlan(8192, 256, 264)  # 512 of them, not 256
    assert piece_plan(1, 40008, 2).threads == 128
    assert piece_plan(4096, 50257, 2).piece == 6144  # elements that stand alone
    assert piece_plan(1, 1 << 28, 2, 108).blocks == 216


@pytest.mark.parametrize("n", [40008, 70001])
def test_long_rows(n):
    """Registers do not hold them."""
    x = random(4, 2, n, dtype=bf16)
    sums_are_right(cumsum(given(x)), x, bf16)


@pytest.mark.parametrize(
    "target", ["sm_90a", "gfx950", *(pytest.param(each, marks=pytest.mark.slow) for each in ("sm_80", "gfx942"))]
)
def test_the_bits_do_not_depend_on_who_is_first(target):
    pytest.importorskip("llvmlite") if target.startswith("gfx") else None
    threads = 64
    x = random(5, 1, 64 * 70)
    specs = mt.spec(x.shape, "float32"), mt.spec(x.shape, "float32"), mt.spec((73,), "int64")
    compiled = cumsum_pieces.compile(*specs, target=target, piece=64, threads=threads, blocks=7)
    results = []
    for schedule, seed in (("lazy", 0), ("random", 1), ("random", 2), ("eager", 0)):
        y, state = np.full_like(x, np.nan), np.zeros(73, np.int64)
        compiled.simulate(x, y, state, schedule=schedule, seed=seed)
        results.append(y)
    sums_are_right(results[0], x, f32)
    for y in results[1:]:
        np.testing.assert_array_equal(y.view(np.uint32), results[0].view(np.uint32))


@pytest.mark.parametrize("dtype", ["bf16", "f32"])
@pytest.mark.parametrize("n", [1000, 2047, 4096, 16384, 1 << 28, (1 << 28) + 1])
def test_registers_do(n, dtype):
    """For half of the threads that a multiprocessor may have, if rows are whole vectors; for two blocks of pieces."""
    held = next((plan for plan in row_plans(n, dtype_of_name(dtype)) if not plan.stages), None)
    x, state = (
        mt.spec((4096 if held else 1, n), {"bf16": "bfloat16", "f32": "float32"}[dtype]),
        mt.spec((99999,), "int64"),
    )
    if held:
        constants = row_constants(held, n, dtype_of_name(dtype))
        compiled, blocks = cumsum_rows.compile(x, x, target="sm_90a", **constants), 1024 // held.threads
    else:
        constants = piece_plan(1, n, 4 if dtype == "f32" else 2)._asdict()
        compiled, blocks = cumsum_pieces.compile(x, x, state, target="sm_90a", **constants), 2
    if n % 2 and held:
        blocks = 1
    assert compiled.spills == 0
    assert blocks * constants["threads"] * compiled.registers <= 65536


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("n", [1 << 28, (1 << 28) + 1])
def test_pieces_on_older_gpus(n, size):
    x, state = mt.spec((1, n), {2: "bfloat16", 4: "float32"}[size]), mt.spec((99999,), "int64")
    plan = piece_plan(1, n, size, 108, large=False)
    assert cumsum_pieces.compile(x, x, state, target="sm_80", **plan._asdict()).spills == 0


@pytest.mark.gpu
def test_the_same_bits_each_time():
    x = given(random(6, 1, 10_000_000))
    first = cumsum(x)
    for _ in range(100):
        assert (cumsum(x) == first).all()


@pytest.mark.parametrize("n", [24, 40008])
def test_not_finite(n):
    x = random(7, 3, n)
    x[0, 3], x[1, 5], x[2, 7] = np.nan, np.inf, -np.inf
    x[1, 9] = -np.inf
    with np.errstate(invalid="ignore"):
        want = expected(x, False)
        found = exact(cumsum(given(x)))
    np.testing.assert_array_equal(np.isnan(found), np.isnan(want))
    np.testing.assert_array_equal(found[np.isinf(want)], want[np.isinf(want)])


def test_no_elements_out_and_strides():
    assert cumsum(given(random(8, 0, 8))).shape == (0, 8)
    assert cumsum(given(random(8, 3, 0))).shape == (3, 0)
    x = random(9, 6, 40)
    out = given(np.zeros((6, 40), f32))
    assert cumsum(given(x), out=out) is out
    sums_are_right(out, x, f32)
    again = exact(out).astype(f32)
    assert cumsum(out, out=out) is out
    close(out, expected(again, False), f32, 1e3)
    wide = random(10, 6, 80)
    sums_are_right(cumsum(given(wide)[:, 8:48]), wide[:, 8:48], f32)
    vector = random(11, 100)
    sums_are_right(cumsum(given(vector)), vector, f32)


def test_what_does_not_fit():
    with pytest.raises(mt.MinitileError, match="x is i32"):
        cumsum(given(np.zeros((2, 3), np.int32)))
    with pytest.raises(mt.MinitileError, match="out is f32"):
        cumsum(given(np.zeros((2, 3), f32)), out=given(np.zeros((3, 2), f32)))
