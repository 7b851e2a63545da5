"""mt.ops.swiglu and geglu, forward and backward, against float64: halves and pairs, odd sizes, wrong use."""

from __future__ import annotations

import math

import numpy as np
import pytest

import minitile as mt
from minitile.ops import geglu, geglu_backward, swiglu, swiglu_backward
from minitile.ops.memory_bound.arguments import Tile
from tests.ops.memory_bound.frames import HALF_ULP, bf16, exact, f16, f32, given, random

KINDS = ["swiglu", "none", "tanh"]


def forward(kind, x, up=None, **options):
    return swiglu(x, up, **options) if kind == "swiglu" else geglu(x, up, approximate=kind, **options)


def backward(kind, dy, x, up=None, **options):
    if kind == "swiglu":
        return swiglu_backward(dy, x, up, **options)
    return geglu_backward(dy, x, up, approximate=kind, **options)


def activation(kind, g):
    """act(g) and its derivative in float64."""
    if kind == "swiglu":
        s = 1 / (1 + np.exp(-g))
        return g * s, s * (1 + g * (1 - s))
    if kind == "tanh":
        t = np.tanh(math.sqrt(2 / math.pi) * (g + 0.044715 * g**3))
        slope = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * g**2)
        return g * (1 + t) / 2, (1 + t) / 2 + g * (1 - t * t) * slope / 2
    below = (1 + np.vectorize(math.erf, otypes=[float])(g / math.sqrt(2))) / 2
    return g * below, below + g * np.exp(-g * g / 2) / math.sqrt(2 * math.pi)


def near(y, expected, dtype, terms):
    """As near as rounding to dtype leaves it, of terms of that size."""
    bound = 1.3 * HALF_ULP[dtype] * np.maximum(np.abs(expected), terms * (2.0**-9 if dtype != f32 else 1.0)) + 2.0**-25
    assert exact(y).shape == expected.shape
    assert np.all(np.abs(exact(y) - expected) <= bound)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((1, 1), bf16), ((3, 17), bf16), ((2, 5, 64), bf16), ((3, 1000), f32), ((3, 17), f32), ((2, 40), f16)],
)
def test_halves(shape, dtype, kind):
    n = shape[-1]
    x, dy = random(1, *shape[:-1], 2 * n, dtype=dtype) * 3, random(2, *shape, dtype=dtype)
    x = x.astype(dtype)
    g, u, wide = exact(x)[..., :n], exact(x)[..., n:], exact(dy)
    act, slope = activation(kind, g)
    near(forward(kind, given(x)), act * u, dtype, np.abs(g * u))
    expected = np.concatenate([wide * u * slope, wide * act], -1)
    terms = np.concatenate([np.abs(wide * u) * (1 + np.abs(g)), np.abs(wide * g)], -1)
    near(backward(kind, given(dy), given(x)), expected, dtype, terms)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(0, 8), (7,), (3, 1001)])
def test_pairs(shape, kind):
    g, u, dy = (random(seed, *shape, dtype=bf16) for seed in range(3))
    act, slope = activation(kind, exact(g))
    near(forward(kind, given(g), given(u)), act * exact(u), bf16, np.abs(exact(g) * exact(u)))
    dg, du = backward(kind, given(dy), given(g), given(u))
    near(dg, exact(dy) * exact(u) * slope, bf16, np.abs(exact(dy) * exact(u)))
    near(du, exact(dy) * act, bf16, np.abs(exact(dy) * exact(g)))


def test_rows_with_gaps():
    """Halves as two views, and rows that are part of longer ones."""
    wide = random(9, 3, 2, 100, dtype=bf16)
    device = given(wide)
    g, u = exact(wide)[..., :40], exact(wide)[..., 40:80]
    act, slope = activation("swiglu", g)
    near(swiglu(device[..., :40], device[..., 40:80]), act * u, bf16, np.abs(g * u))
    near(swiglu(device[..., :80]), act * u, bf16, np.abs(g * u))
    dg, du = swiglu_backward(device[..., 60:], device[..., :40], device[..., 40:80])
    dy = exact(wide)[..., 60:]
    near(dg, dy * u * slope, bf16, np.abs(dy * u))
    near(du, dy * act, bf16, np.abs(dy * g))


@pytest.mark.parametrize("plan", [Tile(1, 256, 64), Tile(4, 64, 64), Tile(2, 1024, 128)], ids=str)
def test_plans(plan):
    x = random(5, 5, 2 * 264, dtype=bf16)
    wide = exact(x)
    act, _ = activation("swiglu", wide[:, :264])
    near(swiglu(given(x), plan=plan), act * wide[:, 264:], bf16, np.abs(wide[:, :264] * wide[:, 264:]))


def test_special_values_as_torch_has_them():
    """-inf · 0 is NaN; what is far below 0 gives 0; NaN stays."""
    g = np.array([[-np.inf, np.inf, np.nan, -1e4, 1e4, 0.0, -0.0, -88.0]], f32)
    for dtype in (f32, bf16):
        y = exact(swiglu(given(g.astype(dtype)), given(np.ones_like(g).astype(dtype))))[0]
        np.testing.assert_array_equal(np.isnan(y), [True, False, True, False, False, False, False, False])
        assert y[1] == np.inf
        assert y[3] == 0
        assert y[4] == exact(g.astype(dtype))[0, 4]
        assert y[5] == 0
        assert np.signbit(y[6])
        assert abs(y[7]) < 1e-30


def test_into_a_given_array():
    x = given(random(6, 2, 32))
    out = given(np.full((2, 16), np.nan, f32))
    assert swiglu(x, out=out) is out
    assert not np.isnan(exact(out)).any()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: swiglu(np.zeros((2, 3), f32)), "last dimension holds gate and up"),
        (lambda: swiglu(np.zeros((2, 4), np.int32)), "x is i32"),
        (lambda: swiglu(np.zeros((2, 4), f32), np.zeros((2, 2), f32)), "up has shape"),
        (lambda: swiglu(np.zeros((2, 4), f32), out=np.zeros((2, 4), f32)), "out is f32 of shape"),
        (lambda: geglu(np.zeros((2, 4), f32), approximate="erf"), "approximate='erf'"),
        (lambda: swiglu_backward(np.zeros((2, 4), f32), np.zeros((2, 4), f32)), "dy has shape"),
        (lambda: swiglu([1.0, 2.0]), "no array"),
    ],
)
def test_wrong_use(call, said):
    with pytest.raises(mt.MinitileError, match=said):
        call()
