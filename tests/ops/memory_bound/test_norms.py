"""mt.ops.rms_norm and layer_norm against float64: what they have of weight, bias and residual; odd sizes; wrong use."""

from __future__ import annotations

import re

import numpy as np
import pytest

import minitile as mt
from minitile.ops import layer_norm, rms_norm
from minitile.ops.memory_bound.rows import RowPlan
from tests.ops.memory_bound.frames import bf16, close, exact, f16, f32, given, random

LONG = 40008  # registers do not hold it


def expected(x, centered, weight=None, bias=None):
    x = exact(x)
    x = x - x.mean(-1, keepdims=True) if centered else x
    y = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)
    y = y if weight is None else y * exact(weight)
    return y if bias is None else y + exact(bias)


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("dtype", [bf16, f16, f32])
@pytest.mark.parametrize("shape", [(1, 1), (5, 17), (3, 64), (2, 3, 1000), (2, 1001), (1, 4104), (1, LONG)])
def test_sizes(shape, dtype, centered):
    x, w, b = (random(n, *s, dtype=dtype) for n, s in enumerate((shape, shape[-1:], shape[-1:])))
    norm = layer_norm if centered else rms_norm
    y = norm(given(x), given(w), bias=given(b), eps=1e-5)
    close(y, expected(x, centered, w, b), dtype, 8.0 if dtype == f32 else 0.01)


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize(
    ("n", "has"), [*((72, has) for has in ("", "w", "b", "r", "wr", "wbr")), (LONG, ""), (LONG, "wbr")]
)
def test_optional_parts(n, has, centered):
    x, r = random(1, 3, n, dtype=bf16), random(2, 3, n, dtype=bf16)
    w, b = random(3, n), random(4, n)
    norm = layer_norm if centered else rms_norm
    options = {"residual": given(r)} if "r" in has else {}
    options |= {"weight": given(w)} if "w" in has else {}
    options |= {"bias": given(b)} if "b" in has else {}
    y = norm(given(x), eps=1e-5, **options)
    if "r" in has:
        y, z = y
        x = (x.astype(f32) + r.astype(f32)).astype(bf16)
        assert (exact(z) == exact(x)).all()
    close(y, expected(x, centered, w if "w" in has else None, b if "b" in has else None), bf16, 0.01)


@pytest.mark.parametrize(
    "plan", [RowPlan(8, 256, 128), RowPlan(1, 256, 32), RowPlan(2, 768, 128), RowPlan(2, 512, 64, 2, 2)]
)
@pytest.mark.parametrize("centered", [False, True])
def test_plans(plan, centered):
    x, w = random(1, 5, 256, dtype=bf16), random(2, 256, dtype=bf16)
    norm = layer_norm if centered else rms_norm
    close(norm(given(x), given(w), eps=1e-5, plan=plan), expected(x, centered, w), bf16, 0.01)
    y, z = norm(given(x), given(w), residual=given(x), eps=1e-5, plan=plan)
    assert (exact(z) == exact(x + x)).all()
    close(y, expected(x + x, centered, w), bf16, 0.01)


def test_far_from_zero():
    x = (1000 + random(1, 2, 512)).astype(f32)
    close(layer_norm(given(x)), expected(x, True), f32, 1000.0)


def test_not_finite():
    x = random(1, 3, 40)
    x[0, 3], x[1, 5] = np.nan, np.inf
    for norm in (rms_norm, layer_norm):
        y = exact(norm(given(x)))
        assert np.isnan([*y[0], y[1, 5]]).all()
        assert np.isfinite(y[2]).all()


def test_no_elements():
    assert rms_norm(given(random(5, 0, 8))).shape == (0, 8)
    assert layer_norm(given(random(5, 3, 0))).shape == (3, 0)


def test_wrong_use():
    x = random(8, 4, 8)
    for call, message in (
        (lambda: rms_norm(x, x), r"weight is f32 of shape \(4, 8\)"),
        (lambda: rms_norm(x, np.ones(8)), "a number for each of 8 columns, of f32, bf16, f16"),
        (lambda: layer_norm(x, random(1, 8), random(1, 9)), r"bias is f32 of shape \(9,\)"),
        (lambda: rms_norm(x, residual=x[:2]), r"residual has shape \(2, 8\)"),
        (lambda: rms_norm(x.astype(np.int32)), "x is i32"),
    ):
        with pytest.raises(mt.MinitileError) as error:
            call()
        assert re.search(message, f"{error.value.message} {error.value.hint}")  # its text shows this line too
        assert "test_norms.py" in str(error.value)
