"""mt.ops.softmax and log_softmax against float64: each form of plan, odd sizes, NaN and infinities, wrong use."""

from __future__ import annotations

import re

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.ops import log_softmax, log_softmax_backward, softmax, softmax_backward
from minitile.ops.memory_bound.rows import RowPlan, row_plans
from tests.ops.memory_bound.frames import bf16, close, exact, f16, f32, given, random

LONG = 40008  # registers do not hold it


def expected(x, log):
    x = exact(x)
    x = x - np.max(x, axis=-1, keepdims=True, initial=-np.inf)
    total = np.sum(np.exp(x), axis=-1, keepdims=True)
    return x - np.log(total) if log else np.exp(x) / total


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("dtype", [bf16, f16, f32])
@pytest.mark.parametrize("shape", [(1, 1), (5, 17), (3, 64), (2, 3, 1000), (2, 1001), (1, 4104), (1, LONG)])
def test_sizes(shape, dtype, log):
    x = random(1, *shape, dtype=dtype)
    y = (log_softmax if log else softmax)(given(x))
    close(y, expected(x, log), dtype, 1.0 if log else 1e-30)


@pytest.mark.parametrize(
    "plan",
    [
        RowPlan(8, 256, 128),
        RowPlan(4, 512, 64),
        RowPlan(1, 256, 32),
        RowPlan(1, 512, 64),
        RowPlan(2, 768, 128),
        RowPlan(1, 256, 32, 2, 2),
        RowPlan(2, 512, 64, 3, 1),
    ],
)
def test_plans(plan):
    x = random(2, 5, 256, dtype=bf16)
    close(softmax(given(x), plan=plan), expected(x, False), bf16)


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("dtype", [bf16, f16, f32])
@pytest.mark.parametrize("shape", [(5, 17), (2, 3, 1000), (2, 1001), (1, LONG)])
def test_backward(shape, dtype, log):
    dy = random(1, *shape, dtype=dtype)
    y = expected(random(2, *shape), log).astype(dtype)
    d, e = exact(dy), exact(y)
    right = d - np.exp(e) * d.sum(-1, keepdims=True) if log else e * (d - (e * d).sum(-1, keepdims=True))
    found = (log_softmax_backward if log else softmax_backward)(given(dy), given(y))
    close(found, right, dtype, np.abs(right).max() / 8)


@pytest.mark.parametrize("plan", [RowPlan(8, 256, 128), RowPlan(1, 256, 32, 2, 2)])
def test_backward_plans(plan):
    d, y = random(1, 5, 256, dtype=bf16), expected(random(2, 5, 256), False).astype(bf16)
    e = exact(y)
    right = e * (exact(d) - (e * exact(d)).sum(-1, keepdims=True))
    close(softmax_backward(given(d), given(y), plan=plan), right, bf16, np.abs(right).max() / 8)


def test_large_values():
    x = (1e30 * random(3, 2, 300)).astype(bf16)
    close(softmax(given(x)), expected(x, False), bf16)
    x = np.stack([np.full(24, 65504.0), np.linspace(65000, 65504, 24)]).astype(f16)
    close(softmax(given(x)), expected(x, False), f16)


@pytest.mark.parametrize("n", [24, LONG])
def test_not_finite(n):
    x = random(4, 4, n)
    x[0, 3], x[1, 5], x[2, 7] = np.nan, np.inf, -np.inf
    x[3] = -np.inf
    y, z = exact(softmax(given(x))), exact(log_softmax(given(x)))
    for rows in (y, z):
        assert np.isnan(rows[[0, 3]]).all()
        assert np.isfinite(np.delete(rows[2], 7)).all()
    assert np.isnan(y[1, 5])
    assert (y[2, 7], z[2, 7]) == (0, -np.inf)


def test_no_elements():
    assert softmax(given(random(5, 0, 8))).shape == (0, 8)
    assert softmax(given(random(5, 3, 0))).shape == (3, 0)


def test_out_and_strides():
    x = random(6, 6, 40, dtype=f32)
    out = given(np.zeros((6, 40), f32))
    assert softmax(given(x), out=out) is out
    close(out, expected(x, False), f32)
    assert softmax(out, out=out) is out
    wide = given(random(7, 6, 80))
    close(softmax(wide[:, 8:48]), expected(exact(wide[:, 8:48]), False), f32)


@pytest.mark.parametrize("dtype", [T.bfloat16, T.float32])
@pytest.mark.parametrize("n", [1, 3, 17, 255, 256, 257, 1000, 1024, 2048, 4096, 5000, 8192, 12288, 32768])
def test_plans_hold_their_rows(n, dtype):
    for tensors in (1, 2):
        for plan in row_plans(n, dtype, tensors):
            assert n <= plan.columns <= max(1.5 * n, 2 * n - 1)
            assert plan.rows * plan.columns <= 64 * plan.threads
            assert plan.rows * plan.columns * dtype.bytes * plan.stages * tensors <= 227 * 1024


def test_waves_of_64_lanes(monkeypatch):
    monkeypatch.setenv("MINITILE_TARGET", "gfx942")
    for n in (17, 1536):
        x = random(9, 3, n, dtype=bf16)
        close(softmax(x), expected(x, False), bf16)


def test_wrong_use():
    x = random(8, 4, 8)
    for call, message in (
        (lambda: softmax([1.0]), "x: list is no array"),
        (lambda: softmax(x.astype(np.float64)), "x is f64"),
        (lambda: softmax(x, out=np.zeros((4, 9), f32)), r"out is f32 of shape \(4, 9\)"),
        (lambda: softmax(x, out=np.zeros((4, 16), f32)[:, ::2]), "with gaps"),
        (lambda: softmax(np.ones((), f32)), "no dimensions"),
    ):
        with pytest.raises(mt.MinitileError) as error:
            call()
        assert re.search(message, f"{error.value.message} {error.value.hint}")  # its text shows this line too
        assert "test_softmax.py" in str(error.value)
