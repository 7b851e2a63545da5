"""mt.ops.rotary against float64: both conventions, positions, keys of fewer heads, the inverse, wrong use."""

from __future__ import annotations

import numpy as np
import pytest

import minitile as mt
from minitile.ops import rotary
from minitile.ops.memory_bound.rotary import RotaryPlan
from tests.ops.memory_bound.frames import HALF_ULP, bf16, exact, f16, f32, given, random

POSITIONS = 40


def tables(half, dtype=f32):
    angle = np.arange(POSITIONS)[:, None] / 10000.0 ** (np.arange(half) / max(half, 1))
    return np.cos(angle).astype(dtype), np.sin(angle).astype(dtype)


def expected(x, cos, sin, positions, interleaved, inverse=False):
    x, cos, sin = exact(x), exact(cos)[positions][..., None, :], exact(sin)[positions][..., None, :]
    sin = -sin if inverse else sin
    half = x.shape[-1] // 2
    a, b = (x[..., ::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])
    first, second = a * cos - b * sin, b * cos + a * sin
    return np.stack([first, second], -1).reshape(x.shape) if interleaved else np.concatenate([first, second], -1)


def near(y, x, want, dtype):
    assert exact(y).shape == want.shape
    bound = 1.1 * HALF_ULP[dtype] * np.abs(want) + 2.0**-22 * np.max(np.abs(exact(x)), initial=0) + 2.0**-25
    assert np.all(np.abs(exact(y) - want) <= bound)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(
    ("shape", "groups", "dtype"),
    [
        ((3, 1, 2), 1, f32),
        ((2, 5, 3, 34), 2, f32),
        ((2, 7, 4, 64), 1, bf16),
        ((9, 2, 80), 2, bf16),
        ((2, 3, 24), 1, f16),
    ],
)
def test_sizes(shape, groups, dtype, interleaved):
    q, k = random(1, *shape, dtype=dtype), random(2, *shape[:-2], groups, shape[-1], dtype=dtype)
    cos, sin = tables(shape[-1] // 2)
    places = np.arange(shape[-3])
    results = rotary(given(q), given(k), given(cos), given(sin), interleaved=interleaved)
    for y, x in zip(results, (q, k), strict=True):
        near(y, x, expected(x, cos, sin, places, interleaved), dtype)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("integer", [np.int32, np.int64])
def test_positions(integer, interleaved):
    """For each token, or the same in each sequence of a batch; tables of the same dtype; queries alone."""
    x = random(3, 3, 5, 2, 32, dtype=bf16)
    cos, sin = tables(16, bf16)
    for shape in ((3, 5), (5,)):
        places = np.random.default_rng(4).integers(0, POSITIONS, shape).astype(integer)
        y = rotary(given(x), None, given(cos), given(sin), given(places), interleaved=interleaved)
        near(y, x, expected(x, cos, sin, np.broadcast_to(places, (3, 5)), interleaved), bf16)


@pytest.mark.parametrize("interleaved", [False, True])
def test_parts_of_one_projection(interleaved):
    """Queries and keys are views of what one product has given: rows with gaps."""
    both = random(9, 2, 5, 6 * 16, dtype=bf16)
    cos, sin = tables(8)
    device = given(both)
    views = [(x[..., :48].reshape(2, 5, 3, 16), x[..., 64:].reshape(2, 5, 2, 16)) for x in (device, both)]
    results = rotary(*views[0], given(cos), given(sin), interleaved=interleaved)
    for y, x in zip(results, views[1], strict=True):
        near(y, x, expected(x, cos, sin, np.arange(5), interleaved), bf16)


@pytest.mark.parametrize("interleaved", [False, True])
def test_inverse(interleaved):
    q, k = random(5, 6, 2, 16), random(6, 6, 1, 16)
    cos, sin = (given(t) for t in tables(8))
    there = rotary(given(q), given(k), cos, sin, interleaved=interleaved)
    back = rotary(*there, cos, sin, interleaved=interleaved, inverse=True)
    for y, x in zip(back, (q, k), strict=True):
        assert np.max(np.abs(exact(y) - exact(x))) < 1e-6


@pytest.mark.parametrize("plan", [RotaryPlan(1, 2, 2, 1, 8, 64), RotaryPlan(4, 4, 1, 4, 16, 64)], ids=str)
def test_plans(plan):
    q, k = random(7, 11, 5, 16, dtype=bf16), random(8, 11, 3, 16, dtype=bf16)
    cos, sin = tables(8)
    for interleaved in (False, True):
        results = rotary(given(q), given(k), given(cos), given(sin), interleaved=interleaved, plan=plan)
        for y, x in zip(results, (q, k), strict=True):
            near(y, x, expected(x, cos, sin, np.arange(11), interleaved), bf16)


def test_nothing_to_rotate():
    cos, sin = (given(t) for t in tables(8))
    q, k = rotary(given(random(1, 0, 4, 16)), given(random(1, 0, 2, 16)), cos, sin)
    assert (tuple(q.shape), tuple(k.shape)) == ((0, 4, 16), (0, 2, 16))


def array(*shape, dtype=f32):
    return np.zeros(shape, dtype)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((array(3, 2, 7), None, array(4, 3), array(4, 3)), "an even number"),
        ((array(3, 2, 8), array(4, 2, 8), array(4, 4), array(4, 4)), "differ in the number of heads alone"),
        ((array(3, 2, 8), array(3, 2, 8, dtype=f16), array(4, 4), array(4, 4)), "k is f16"),
        ((array(3, 2, 8), None, array(4, 8), array(4, 8)), "half of a head"),
        ((array(3, 2, 8), None, array(4, 4), array(5, 4)), "sin has shape"),
        ((array(5, 2, 8), None, array(4, 4), array(4, 4)), "cos has 4 positions"),
        ((array(3, 2, 8), None, array(4, 4), array(4, 4), array(3)), "positions is f32"),
        ((array(3, 2, 8), None, array(4, 4), array(4, 4), array(4, dtype=np.int32)), "positions has shape"),
    ],
)
def test_wrong_use(args, said):
    with pytest.raises(mt.MinitileError, match=said):
        rotary(*args)
