"""Matrices of more than 2^31 elements: many rows of few columns, few rows of many, both short; copied by TMA and by
threads, multiplied."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from tests.lowering.test_large_tensors import TARGETS, left_alone, little_memory, tensor

assert little_memory
assert left_alone
BF16 = ml_dtypes.bfloat16
SHAPES = [
    ((1 << 28) + 40, 16),
    pytest.param(((1 << 31) + 40, 16), marks=pytest.mark.slow),
    (48, (1 << 26) + 64),
    pytest.param((32, (1 << 31) + 64), marks=pytest.mark.slow),
]


@mt.kernel
def last_tiles(A: T.Tensor(("M", "N"), T.bfloat16), C: T.Tensor(("M", "N"), T.bfloat16), rows=32, columns=16):
    """Doubles the first and last tiles of both dimensions: by shared memory, in a pipelined loop over the four."""
    M, N = A.shape
    with T.Kernel(1, threads=128):
        staged = T.alloc_shared((rows, columns), T.bfloat16)
        value = T.alloc_fragment((rows, columns), T.bfloat16)
        for k in T.Pipelined(4, num_stages=2):
            i, j = (k // 2) * (M // rows - 1) * rows, (k % 2) * (N // columns - 1) * columns
            T.copy(A[i, j], staged)
            T.copy(staged, value)
            for r, c in T.Parallel(rows, columns):
                value[r, c] = value[r, c] * 2
            T.copy(value, C[i, j])


@pytest.mark.few_cases
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", SHAPES)
def test_origins(target, shape):
    A, C = tensor(shape, BF16), tensor(shape, BF16)
    M, N = shape
    origins = {(i, j): None for i in (0, (M // 32 - 1) * 32) for j in (0, (N // 16 - 1) * 16)}
    for n, (i, j) in enumerate(origins):
        A[i : i + 32, j : j + 16] = (np.arange(512).reshape(32, 16) % 50 + n + 1).astype(BF16)
    last_tiles.compile(A, C, target=target).simulate(A, C, check=N > 16)  # else two tiles are one
    for i, j in origins:
        got, wanted = (x[i : i + 32, j : j + 16].astype(np.float32) for x in (C, A))
        np.testing.assert_array_equal(got, wanted * 2)


@mt.kernel
def product(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.bfloat16),
    tile: T.int32,
):
    """One tile of a product."""
    with T.Kernel(1, threads=128):
        A_shared = T.alloc_shared((64, 64), T.bfloat16)
        B_shared = T.alloc_shared((64, 64), T.bfloat16)
        total = T.alloc_fragment((64, 64), T.float32)
        T.clear(total)
        for k in T.Pipelined(T.ceildiv(A.shape[1], 64), num_stages=2):
            T.copy(A[tile * 64, k * 64], A_shared)
            T.copy(B[0, k * 64], B_shared)
            T.gemm(A_shared, B_shared, total, transpose_B=True)
        T.copy(total, C[tile * 64, 0])


@pytest.mark.few_cases
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("rows", [(1 << 25) + 64, pytest.param((1 << 30) + 64, marks=pytest.mark.slow)])
def test_a_product(target, rows):
    A, B, C = tensor((rows, 128), BF16), tensor((64, 128), BF16), tensor((rows, 64), BF16)
    rng = np.random.default_rng(0)
    last = rows // 64 - 1
    A[last * 64 :] = rng.integers(-2, 3, (64, 128)).astype(BF16)
    B[:] = rng.integers(-2, 3, (64, 128)).astype(BF16)
    product.compile(A, B, C, target=target).simulate(A, B, C, last, check=rows < 1 << 31)
    wanted = A[last * 64 :].astype(np.float32) @ B.astype(np.float32).T
    np.testing.assert_array_equal(C[last * 64 :].astype(np.float32), wanted.astype(BF16).astype(np.float32))
