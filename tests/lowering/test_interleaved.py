"""Pairs of neighbours, x[2 * j] and x[2 * j + 1]: loaded and stored by vectors, with the values of single accesses."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import minitile as mt
import minitile.language as T

BF16 = ml_dtypes.bfloat16


@mt.kernel
def rotary(
    X: T.Tensor(("M", "N"), None),
    C: T.Tensor(("H",), T.float32),
    S: T.Tensor(("H",), T.float32),
    Y: T.Tensor(("M", "N"), None),
    half=256,
    threads=64,
):
    with T.Kernel(X.shape[0], threads=threads) as row:
        for j in T.Parallel(half):
            a, b = T.cast(X[row, 2 * j], T.float32), T.cast(X[row, 2 * j + 1], T.float32)
            Y[row, 2 * j] = a * C[j] - b * S[j]
            Y[row, 2 * j + 1] = a * S[j] + b * C[j]


@mt.kernel
def reals(X: T.Tensor(("M",), None), Y: T.Tensor(("M",), None), n: T.int32, size=128, threads=64):
    """What one part of its own pairs with; places that the program says."""
    with T.Kernel(1, threads=threads):
        for j in T.Parallel(size):
            Y[4 * j + 1] = X[2 * j + n] + X[2 * j + n + 3]


def turned(x, c, s):
    a, b = x[:, ::2].astype(np.float32), x[:, 1::2].astype(np.float32)
    y = np.empty(x.shape, np.float32)
    y[:, ::2], y[:, 1::2] = a * c - b * s, a * s + b * c
    return y.astype(x.dtype).astype(np.float64)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942", "gfx950"])
def test_rotary(target):
    matrix, vector = mt.spec((3, 510), "bfloat16"), mt.spec((255,), "float32")
    kernel = rotary.compile(matrix, vector, vector, matrix, target=target)
    for half in (1, 17, 255):
        rng = np.random.default_rng(half)
        x = rng.standard_normal((3, 2 * half)).astype(BF16)
        c, s = (rng.standard_normal(half).astype(np.float32) for _ in range(2))
        y = np.full(x.shape, np.nan, BF16)
        kernel.simulate(x, c, s, y)
        np.testing.assert_allclose(y.astype(np.float64), turned(x, c, s), rtol=2e-2, atol=1e-2)


def test_rotary_in_place():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((3, 34)).astype(BF16)
    c, s = (rng.standard_normal(17).astype(np.float32) for _ in range(2))
    expected = turned(x, c, s)
    rotary(x, c, s, x)
    np.testing.assert_allclose(x.astype(np.float64), expected, rtol=2e-2, atol=1e-2)


def test_vectors():
    matrix, vector = mt.spec((4, 512), "bfloat16"), mt.spec((256,), "float32")
    text = rotary.compile(matrix, vector, vector, matrix, target="sm_90a").asm["ptx"]
    assert re.findall(r"(?:ld|st)\.global\S*b\d+", text) == ["ld.global.v4.b32", "st.global.v4.b32"]


@pytest.mark.parametrize("target", ["sm_80", "gfx942"])
def test_single_parts(target):
    spec = mt.spec((505,), "float32")
    kernel = reals.compile(spec, spec, 3, target=target)
    for size, n in ((1, 0), (100, 5), (505, -2), (511, 3)):
        x, y = np.arange(1, size + 1, dtype=np.float32), np.zeros(size, np.float32)

        def at(i, x=x):
            return x[i] if 0 <= i < len(x) else 0.0

        kernel.simulate(x, y, n)
        expected = np.zeros(size, np.float32)
        for j in range(128):
            if 4 * j + 1 < size:
                expected[4 * j + 1] = at(2 * j + n) + at(2 * j + n + 3)
        np.testing.assert_array_equal(y, expected)


@mt.kernel
def of_two_sizes(X: T.Tensor((256,), T.float32), Y: T.Tensor((256,), T.float32), Z: T.Tensor((128,), T.float32)):
    with T.Kernel(1, threads=64):
        for j in T.Parallel(64):
            Z[j] = X[2 * j] - X[2 * j + 1]
        for j in T.Parallel(128):
            Y[2 * j] = X[2 * j] + 2 * X[2 * j + 1]
        for j in T.Parallel(64):
            Y[2 * j + 1] = X[2 * j]
            Z[64 + j] = X[2 * j + 1]


@pytest.mark.parametrize("target", ["sm_90a", "gfx942"])
def test_parts_of_two_sizes_stay_apart(target):
    x = np.random.default_rng(4).standard_normal(256).astype(np.float32)
    y, z = np.full(256, -1, np.float32), np.full(128, np.nan, np.float32)
    of_two_sizes.compile(x, y, z, target=target).simulate(x, y, z)
    even, odd = x[::2], x[1::2]
    np.testing.assert_array_equal(z, np.append(even[:64] - odd[:64], odd[:64]))
    np.testing.assert_array_equal(y[::2], even + 2 * odd)
    np.testing.assert_array_equal(y[1::2], np.append(even[:64], np.full(64, -1)))
