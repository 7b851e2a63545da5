"""mt.ops.rms_norm_backward and layer_norm_backward against float64: what there is of weight and bias; odd sizes."""

from __future__ import annotations

import re

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from examples.support import USE_GPU
from minitile.ops import layer_norm_backward, rms_norm_backward
from minitile.ops.memory_bound.norms_backward import GradientPlan, gradient_plan
from tests.ops.memory_bound.frames import bf16, close, exact, f16, f32, given, random

LONG = 20008  # registers do not hold its sums


def expected(dy, x, centered, weight=None, dsum=None):
    x, dy = exact(x), exact(dy)
    x = x - x.mean(-1, keepdims=True) if centered else x
    scale = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)
    x = x * scale
    d = dy if weight is None else dy * exact(weight)
    dx = d - x * (d * x).mean(-1, keepdims=True)
    dx = (dx - d.mean(-1, keepdims=True) if centered else dx) * scale
    rows = tuple(range(x.ndim - 1))
    return dx if dsum is None else dx + exact(dsum), (dy * x).sum(rows), dy.sum(rows)


def check(found, right, dtypes):
    for result, values, dtype in zip(found, right, dtypes, strict=True):
        if result is not None:
            close(result, values, dtype, 16.0 if dtype == f32 else 0.02)


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("dtype", [bf16, f16, f32])
@pytest.mark.parametrize("shape", [(1, 8), (5, 17), (2, 3, 1000), (5, 1001), (2, 4104)])
def test_sizes(shape, dtype, centered):
    x, dy, w = (random(n, *s, dtype=dtype) for n, s in enumerate((shape, shape, shape[-1:])))
    backward = layer_norm_backward if centered else rms_norm_backward
    found = backward(given(dy), given(x), given(w), bias=True, eps=1e-5)
    check(found, expected(dy, x, centered, w), [dtype] * 3)


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize(("n", "has"), [(72, ""), (72, "w"), (72, "b"), (72, "wbs"), (LONG, "wbs")])
def test_optional_parts(n, has, centered):
    x, dy, s = (random(seed, 3, n, dtype=bf16) for seed in (1, 2, 3))
    w = random(4, n) if "w" in has else None
    backward = layer_norm_backward if centered else rms_norm_backward
    options = {"dsum": given(s)} if "s" in has else {}
    found = backward(given(dy), given(x), None if w is None else given(w), bias="b" in has, eps=1e-5, **options)
    assert [one is not None for one in found] == [True, "w" in has, "b" in has]
    check(found, expected(dy, x, centered, w, s if "s" in has else None), [bf16, f32, bf16 if w is None else f32])


@pytest.mark.parametrize(
    "plan",
    [
        GradientPlan(1, 256, 32, True, 2, 1, 2),
        GradientPlan(1, 512, 64, False, 3, 1, 3),
        GradientPlan(2, 256, 32, False, 2, 1, 2),
        GradientPlan(2, 512, 64, True, 3, 1, 4),
    ],
)
@pytest.mark.parametrize("centered", [False, True])
def test_plans(plan, centered, monkeypatch):
    if not USE_GPU:
        monkeypatch.setenv("MINITILE_TARGET", "sm_90a")  # has clusters
    n = plan.cluster * plan.columns if plan.exact else 250
    x, dy, w = random(1, 13, n, dtype=bf16), random(2, 13, n, dtype=bf16), random(3, n)
    backward = layer_norm_backward if centered else rms_norm_backward
    found = backward(given(dy), given(x), given(w), bias=True, eps=1e-5, plan=plan)
    check(found, expected(dy, x, centered, w), [bf16, f32, f32])


def test_rows_of_zeros():
    x = np.zeros((3, 8), f32)
    dx, dw, _ = rms_norm_backward(given(x), given(x), given(np.ones(8, f32)), eps=1e-5)
    assert (exact(dx) == 0).all()
    assert (exact(dw) == 0).all()


def test_no_rows():
    dx, dw, db = layer_norm_backward(given(random(1, 0, 8)), given(random(1, 0, 8)), given(random(1, 8)))
    assert exact(dx).shape == (0, 8)
    assert (exact(dw) == 0).all()
    assert (exact(db) == 0).all()


@pytest.mark.parametrize("dtype", [T.bfloat16, T.float32])
@pytest.mark.parametrize("centered", [False, True])
def test_plans_fit(dtype, centered):
    for n in (1, 17, 1000, 1024, 4096, 5000, 8192, 12288, 65536):
        for tensors in (2, 3):
            plan = gradient_plan(n, dtype, centered, tensors)
            assert plan is not None
            assert plan.cluster * plan.columns >= n
            assert plan.exact == (plan.cluster * plan.columns == n)
            assert plan.columns * dtype.bytes * plan.stages * tensors * plan.resident <= 227 * 1024
            assert plan.clusters * plan.cluster <= 132 * plan.resident
    assert gradient_plan(1 << 20, dtype, centered) is None


def test_no_columns():
    x, w = random(9, 4, 0), random(9, 0)
    assert [y.shape for y in layer_norm_backward(x, x, w)] == [(4, 0), (0,), (0,)]


def test_wrong_use():
    x = random(8, 4, 8)
    for call, message in (
        (lambda: rms_norm_backward(x[:2], x), r"dy has shape \(2, 8\)"),
        (lambda: layer_norm_backward(x, x, x), r"weight is f32 of shape \(4, 8\)"),
        (lambda: layer_norm_backward(x, x, x[0], bias=x[0]), "bias is an array"),
    ):
        with pytest.raises(mt.MinitileError) as error:
            call()
        assert re.search(message, f"{error.value.message} {error.value.hint}")  # its text shows this line too
        assert "test_norms_backward.py" in str(error.value)
