"""mt.ops.dropout: the mask of the published random function, exactly; forward and backward, odd sizes, wrong use."""

from __future__ import annotations

import numpy as np
import pytest

import minitile as mt
from minitile.ops import dropout, dropout_backward
from tests.language.philox import philox
from tests.ops.memory_bound.frames import bf16, exact, f16, f32, given, random

SEED = 0xFEDCBA9876543210


def expected(x, p, seed, offset=0):
    words = philox(seed, np.arange(-(-x.size // 4)), offset).T.ravel()[: x.size].reshape(x.shape)
    limit = round(p * 2**32)
    scale = f32(1 / (1 - limit / 2**32)) if limit < 2**32 else f32(0)
    return np.where(words < limit, 0, x.astype(f32) * scale).astype(x.dtype)


@pytest.mark.parametrize("dtype", [bf16, f16, f32])
@pytest.mark.parametrize("shape", [(1,), (17,), (3, 1000), (2, 3, 1001), (5, 4096)])
def test_sizes(shape, dtype):
    x = random(1, *shape, dtype=dtype)
    for f in (dropout, dropout_backward):
        np.testing.assert_array_equal(exact(f(given(x), 0.25, SEED)), expected(x, 0.25, SEED).astype(float))


@pytest.mark.parametrize("p", [0.0, 1e-3, 0.5, 0.9, 1.0])
def test_probabilities(p):
    """With 1 all are 0, also what is not finite."""
    x = np.ones((4, 4000), f32)
    x[0, 0] = np.inf
    y = exact(dropout(given(x), p, 7, offset=11))
    np.testing.assert_array_equal(y, expected(x, p, 7, 11) if p < 1 else np.zeros_like(x))
    assert abs(np.mean(y == 0) - p) < 0.02


def test_masks_depend_on_seed_and_offset():
    x = given(np.ones((1, 4096), f32))
    masks = [exact(dropout(x, 0.5, seed, offset=offset)) > 0 for seed, offset in ((1, 0), (2, 0), (1, 1), (-1, 0))]
    for n, one in enumerate(masks):
        assert all(abs(np.mean(one == other) - 0.5) < 0.05 for other in masks[:n])


def test_no_elements_and_out():
    assert dropout(given(random(2, 0, 8)), 0.5, 1).shape == (0, 8)
    x = random(3, 6, 40)
    out = given(x.copy())
    assert dropout(out, 0.5, 1, out=out) is out
    np.testing.assert_array_equal(exact(out), expected(x, 0.5, 1))


def test_what_does_not_fit():
    for p in (-0.1, 1.5, float("nan"), "a", None):
        with pytest.raises(mt.MinitileError, match="a probability"):
            dropout(given(random(4, 8)), p, 1)
    for seed in (0.5, None, 1 << 64, -(1 << 63) - 1):
        with pytest.raises(mt.MinitileError, match="seed is"):
            dropout(given(random(4, 8)), 0.5, seed)
