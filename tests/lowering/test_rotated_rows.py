"""Rows that begin off multiples of 16 bytes: tiles are rotated, accesses are wide, results right, nothing outside the
tensors is touched, nothing races (the simulator finds these)."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import minitile as mt
import minitile.language as T

BF16 = ml_dtypes.bfloat16
TARGETS = ("sm_80", "sm_90a", "gfx942", "gfx950")
SIZES = (0, 1, 7, 17, 505)


@mt.kernel
def normalised(
    X: T.Tensor(("M", "N"), None),
    W: T.Tensor(("N",), None),
    Y: T.Tensor(("M", "N"), None),
    rows=1,
    columns=512,
    threads=64,
):
    """Y = W * X / sum(|X|), and 1 behind it in the first column: masks, weights, several rows of a block."""
    M, N = X.shape
    with T.Kernel(T.ceildiv(M, rows), threads=threads) as bx:
        x = T.alloc_fragment((rows, columns), T.float32)
        total = T.alloc_fragment((rows,), T.float32)
        for i, j in T.Parallel(rows, columns):
            x[i, j] = T.if_then_else(j < N, T.abs(T.cast(X[bx * rows + i, j], T.float32)), 0.0)
        T.reduce_sum(x, total, dim=1)
        for i, j in T.Parallel(rows, columns):
            y = T.cast(X[bx * rows + i, j], T.float32) * T.cast(W[j], T.float32) / total[i]
            Y[bx * rows + i, j] = T.if_then_else(j == 0, 1.0, y)


@mt.kernel
def by_pieces(X: T.Tensor(("M", "N"), None), Y: T.Tensor(("M", "N"), None), columns=256, threads=32):
    """Running maxima of a row's pieces, which a loop carries; each piece in steps of a loop."""
    M, N = X.shape
    with T.Kernel(M, threads=threads) as row:
        top = T.alloc_fragment((columns,), T.float32)
        T.fill(top, -1e30)
        for k in T.serial(T.ceildiv(N, columns)):
            for j in T.Parallel(columns):
                x = T.if_then_else(k * columns + j < N, T.cast(X[row, k * columns + j], T.float32), -1e30)
                top[j] = T.max(top[j], x)
            for j in T.Parallel(columns):
                Y[row, k * columns + j] = top[j]


def numbers(shape, dtype, seed):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def expected_rows(x, w):
    x, w = x.astype(np.float64), w.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        y = x * w / np.abs(x).sum(1, keepdims=True)
    y[:, :1] = 1.0
    return y


def check_rows(target, size, rows, threads, dtype=BF16, columns=512, height=5):
    name = "bfloat16" if dtype is BF16 else np.dtype(dtype).name
    matrix, vector = mt.spec((9, 505), name), mt.spec((505,), name)
    kernel = normalised.compile(matrix, vector, matrix, target=target, rows=rows, threads=threads, columns=columns)
    x, w = numbers((height, size), dtype, size), numbers(size, dtype, 1)
    y = np.full((height, size), np.nan, dtype)
    kernel.simulate(x, w, y)
    np.testing.assert_allclose(y.astype(np.float64), expected_rows(x, w), rtol=1e-2, atol=1e-4)
    return kernel


@pytest.mark.parametrize("target", TARGETS)
def test_one_row_of_a_block(target):
    for size in SIZES:
        check_rows(target, size, 1, 64)


@pytest.mark.parametrize("target", ["sm_90a", pytest.param("gfx950", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("rows", "threads", "columns"), [(2, 64, 512), (4, 64, 512), (8, 64, 64)])
def test_rows_that_are_rotated_differently(target, rows, threads, columns):
    """A row for each warp, several for each thread, several for each warp."""
    for size in (columns - 7, 17):
        check_rows(target, size, rows, threads, columns=columns, height=9)


def test_f32_and_halves():
    check_rows("sm_90a", 509, 2, 64, np.float32)
    check_rows("gfx942", 509, 1, 64, np.float32)
    check_rows("sm_80", 505, 1, 64, np.float16)


@pytest.mark.parametrize("target", ["sm_80", "gfx942"])
def test_loops_carry_rotated_tiles(target):
    matrix = mt.spec((5, 505), "bfloat16")
    kernel = by_pieces.compile(matrix, matrix, target=target, threads=32 if target == "sm_80" else 64)
    for size in (1, 255, 505, 801):
        x, y = numbers((5, size), BF16, size), np.full((5, size), np.nan, BF16)
        kernel.simulate(x, y)
        padded = np.full((5, -(-size // 256), 256), -np.inf)
        padded.reshape(5, -1)[:, :size] = x
        best = np.maximum.accumulate(padded, axis=1).reshape(5, -1)[:, :size]
        np.testing.assert_array_equal(y, best.astype(BF16))


def test_in_place():
    """A row's vectors reach into no other block's rows."""
    x, w = numbers((9, 505), BF16, 3), numbers(505, BF16, 4)
    expected = expected_rows(x, w)
    normalised(x, w, x)
    np.testing.assert_allclose(x.astype(np.float64), expected, rtol=1e-2, atol=1e-4)


def test_all_accesses_are_wide():
    """Of one vector a thread: the row is loaded twice, the weight by two vectors, the result stored."""
    text = check_rows("sm_90a", 505, 1, 64).asm["ptx"]
    loads, stores = (re.findall(rf"{kind}\.global\.v4\.b32", text) for kind in ("ld", "st"))
    assert (len(loads), len(stores)) == (4, 1)
    even = mt.spec((9, 512), "bfloat16")
    even_text = normalised.compile(even, mt.spec((512,), "bfloat16"), even, target="sm_90a").asm["ptx"]
    assert "while" not in even_text


@mt.kernel
def shared_rows(X: T.Tensor(("M", "N"), T.bfloat16), Y: T.Tensor(("M", "N"), T.bfloat16), columns=512, threads=64):
    M = X.shape[0]
    with T.Kernel(M, threads=threads) as row:
        part = T.alloc_shared((columns,), T.bfloat16)
        for j in T.Parallel(columns):
            part[j] = X[row, j]
        for j in T.Parallel(columns):
            Y[row, j] = part[columns - 1 - j]


def test_tiles_that_meet_shared_memory_stay():
    matrix = mt.spec((3, 505), "bfloat16")
    kernel = shared_rows.compile(matrix, matrix, target="sm_80")
    assert "shift" not in kernel.asm["tile_ir"]
    x, y = numbers((3, 505), BF16, 1), np.full((3, 505), np.nan, BF16)
    kernel.simulate(x, y)
    padded = np.zeros((3, 512), BF16)
    padded[:, :505] = x
    np.testing.assert_array_equal(y, padded[:, ::-1][:, :505])
