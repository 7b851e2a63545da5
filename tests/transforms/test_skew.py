"""Gemms side by side (`skew`): what the second one's result goes through in memory stays in order."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import minitile as mt
import minitile.language as T


@mt.kernel
def staged(
    A: T.Tensor((64, 63), T.bfloat16),  # rows that TMA cannot copy
    B: T.Tensor((63, 32), T.bfloat16),
    C: T.Tensor((64, 32), T.float32),
    D: T.Tensor(("rounds", 64, 32), T.float32),
    between: bool,
):
    with T.Kernel(1, threads=128):
        left = [T.alloc_shared((64, 64), A.dtype) for _ in range(2)]
        right = [T.alloc_shared((64, 32), A.dtype) for _ in range(2)]
        result = T.alloc_shared((64, 32), T.float32)
        acc = T.alloc_fragment((64, 32), T.float32)
        whole = T.alloc_fragment((64, 32), T.float32)
        left_of_loop = T.alloc_shared((64, 32), A.dtype)
        right_of_loop = T.alloc_shared((32, 32), A.dtype)
        for tile in range(D.shape[0]):
            T.clear(whole)
            for k in T.Pipelined(2, num_stages=3):
                T.copy(A[0, 32 * k], left_of_loop)
                T.copy(B[32 * k, 0], right_of_loop)
                T.gemm(left_of_loop, right_of_loop, whole)
            T.clear(acc)
            for n in (0, 1):
                T.copy(A[0, 0], left[n])
                T.copy(B[0, 0], right[n])
                T.gemm(left[n], right[n], acc)
            T.copy(acc, result)
            if between:
                for i, j in T.Parallel(64, 32):
                    D[tile, i, j] = result[i, j] + 1
            else:
                T.copy(result, D[tile, 0, 0])
            T.copy(whole, C)


@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_a_result_through_shared_memory(target, between):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, shape).astype("float32") for shape in ((64, 63), (63, 32)))
    for rounds in (0, 1, 3):
        d = np.full((rounds, 64, 32), np.nan, np.float32)
        c = np.full((64, 32), np.nan, np.float32)
        given = a.astype(ml_dtypes.bfloat16), b.astype(ml_dtypes.bfloat16), c, d
        specs = [
            mt.spec(x.shape, n) for x, n in zip(given, ("bfloat16", "bfloat16", "float32", "float32"), strict=True)
        ]
        staged.compile(*specs, target=target, between=between).simulate(*given)
        np.testing.assert_array_equal(d, np.broadcast_to(2 * (a @ b) + between, d.shape))
        assert not rounds or np.array_equal(c, a @ b)
