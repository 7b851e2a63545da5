"""Loads whose runs are put together of two aligned vectors each: what they hold, and that nothing outside a tensor is
read (the simulator finds that)."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.ops.memory_bound.norms import norm_rows

BF16 = ml_dtypes.bfloat16
TARGETS = ("sm_80", "sm_90a", "gfx942", "gfx950")
N = 515


@mt.kernel
def from_anywhere(W: T.Tensor(("N",), None), Y: T.Tensor((512,), T.float32), at: T.int32):
    with T.Kernel(1, threads=64):
        for j in T.Parallel(512):
            Y[j] = T.cast(W[at + j], T.float32)


@mt.kernel
def from_the_fourth(W: T.Tensor((N,), None), Y: T.Tensor((512,), T.float32)):
    with T.Kernel(1, threads=64):
        for j in T.Parallel(512):
            Y[j] = T.cast(W[3 + j], T.float32)


def numbers(shape, dtype, seed):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [BF16, np.float32])
def test_from_any_index(target, dtype):
    w, y = numbers(N, dtype, 1), np.full(512, np.nan, np.float32)
    kernel = from_anywhere.compile(w, y, 5, target=target)
    padded = np.zeros(3 * N, np.float32)
    padded[N : 2 * N] = w
    for at in (-N, -512, -505, -9, -8, -3, 0, 1, 2, 3, 4, 7, 36, 250, 507, 511, 514, N):
        y[:] = np.nan
        kernel.simulate(w, y, at)
        np.testing.assert_array_equal(y, padded[N + at :][:512])


@pytest.mark.parametrize("target", ["sm_80", "gfx942"])
@pytest.mark.parametrize("dtype", [BF16, np.float32])
def test_the_last_vector_reaches_beyond_the_tensor(target, dtype):
    """All elements are inside, which is known; the second one of the last run's vectors is not."""
    w, y = numbers(N, dtype, 2), np.full(512, np.nan, np.float32)
    kernel = from_the_fourth.compile(w, y, target=target)
    kernel.simulate(w, y)
    np.testing.assert_array_equal(y, w[3:].astype(np.float32))
    if target == "sm_80":
        assert len(re.findall(r"@%p\d+ ld\.global\.v", kernel.asm["ptx"])) > 0


def layer_norm(x, w, b):
    x, w, b = (a.astype(np.float64) for a in (x, w, b))
    d = x - x.mean(1, keepdims=True)
    return d / np.sqrt((d * d).mean(1, keepdims=True) + 1e-5) * w + b


def check_layer_norm(target, dtype, size, columns, threads, rows=1, factors=None):
    """Of nine rows of `size`, that begin at all of 16 bytes' places."""
    factors = factors or dtype
    matrix, vector = (mt.spec(shape, np.dtype(t).name) for shape, t in (((9, 1001), dtype), ((1001,), factors)))
    args = (matrix, matrix, vector, vector, matrix, matrix, 1e-5)
    plan = {"rows": rows, "columns": columns, "threads": threads}
    kernel = norm_rows(True, True, True, False).compile(*args, target=target, **plan)
    x = (numbers((9, size), np.float32, size) + 3).astype(dtype)
    w, b = numbers(size, factors, 1), numbers(size, factors, 2)
    y = np.full((9, size), np.nan, dtype)
    kernel.simulate(x, x, w, b, y, x.copy(), 1e-5)
    exact = {"rtol": 1e-5, "atol": 1e-5} if dtype is np.float32 else {"rtol": 4e-3, "atol": 1e-3}
    np.testing.assert_allclose(y.astype(np.float64), layer_norm(x, w, b), **exact)


@pytest.mark.parametrize("target", TARGETS)
def test_weights_and_biases(target):
    for size in (1, 7, 17, 505):
        check_layer_norm(target, BF16, size, 512, 64)
    check_layer_norm(target, np.float32, 509, 512, 64)


@pytest.mark.parametrize("target", ["sm_90a", pytest.param("gfx942", marks=pytest.mark.slow)])
def test_rows_of_a_warp(target):
    """Several rows in each thread, rotated differently; a tile that its rows just fit."""
    for dtype in (BF16, np.float16):
        check_layer_norm(target, dtype, 1001, 1024, 128, 8)
        check_layer_norm(target, dtype, 1023, 1024, 128, 4)
    check_layer_norm(target, BF16, 1001, 1024, 128, 4, np.float32)
    check_layer_norm(target, np.float32, 1001, 1024, 128, 4, BF16)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [BF16, np.float16, np.float32])
def test_long_rows(target, dtype):
    for size, columns, threads in ((1000, 1024, 64), (2047, 2048, 64), (8191, 8192, 256)):
        check_layer_norm(target, dtype, size, columns, threads)


@mt.kernel
def own_part(X: T.Tensor((1024,), T.float32), at: T.int32):
    """Each block doubles 256 elements from at on; what lies beside them is another's."""
    with T.Kernel(3, threads=64) as bx:
        for j in T.Parallel(256):
            X[at + bx * 256 + j] = X[at + bx * 256 + j] * 2


@pytest.mark.parametrize("target", TARGETS)
def test_what_the_kernel_writes_is_read_to_the_element(target):
    """A vector beside a block's own elements has some that another block is writing: a race, in the simulator."""
    x = numbers((1024,), np.float32, 3)
    expected = x.copy()
    expected[5 : 5 + 768] *= 2
    own_part.compile(x, 5, target=target).simulate(x, 5)
    np.testing.assert_array_equal(x, expected)


@mt.kernel
def one_each(V: T.Tensor((10,), T.float32), Y: T.Tensor((4,), T.float32), at: T.int32):
    with T.Kernel(1, threads=32):
        y = T.alloc_fragment((4,), T.float32)
        T.copy(V[at], y)
        for i in T.Parallel(4):
            Y[i] = y[i] + 1


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_single_elements_are_no_vectors(target):
    """A thread that has one element of 4 bytes reads no second one behind it."""
    v = numbers((10,), np.float32, 4)
    for at in (6, 7, 9):
        y = np.full(4, np.nan, np.float32)
        one_each.compile(v, y, at, target=target).simulate(v, y, at)
        np.testing.assert_array_equal(y, np.pad(v, (0, 4))[at : at + 4] + 1)


@mt.kernel
def into_odd_rows(A: T.Tensor(("M", "N"), None), B: T.Tensor(("M", "K"), T.float32), rows=4, columns=64, threads=64):
    M, N = A.shape
    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=threads) as (bx, by):
        for i, j in T.Parallel(rows, columns):
            B[by * rows + i, bx * columns + j] = T.cast(A[by * rows + i, bx * columns + j], T.float32) + 1


@pytest.mark.parametrize("target", ["sm_80", "gfx942"])
@pytest.mark.parametrize(("dtype", "columns"), [(BF16, 64), (np.float16, 256), (np.float32, 64), (np.int8, 32)])
def test_rows_that_the_tiles_fill(target, dtype, columns):
    """Tiles are rotated for the result's rows, by nothing in some of them: then the second vector of a row's last run
    is behind the tensor. Two elements of 8 bits are no words to put together."""
    for m, size in ((1, 263), (9, 255)):
        a = np.random.default_rng(m).integers(-9, 9, (m, 256)).astype(dtype)
        b = np.full((m, size), np.nan, np.float32)
        into_odd_rows.compile(a, b, target=target, columns=columns).simulate(a, b)
        expected = np.full((m, 263), np.nan, np.float32)
        expected[:, :256] = a.astype(np.float32) + 1
        np.testing.assert_array_equal(b, expected[:, :size])
