"""T.gemm on parts of shared buffers: slices of K, of M and N, in every form, against float64."""

from __future__ import annotations

import numpy as np
import pytest

import minitile as mt
import minitile.language as T


def make(transpose_A, transpose_B):
    @mt.kernel
    def parts(A: T.Tensor((128, 128), T.float16), B: T.Tensor((128, 128), T.float16), C: T.Tensor((64, 64), T.float32)):
        """C = the product of the lower halves of M and N, K in two slices of 32 in the middle."""
        with T.Kernel(1, threads=128):
            A_shared = T.alloc_shared((128, 128), A.dtype)
            B_shared = T.alloc_shared((128, 128), A.dtype)
            c = T.alloc_fragment((64, 64), T.float32)
            T.copy(A, A_shared)
            T.copy(B, B_shared)
            T.clear(c)
            for j in T.unroll(2):
                k = slice(32 + j * 32, 64 + j * 32)
                a = (k, slice(64, 128)) if transpose_A else (slice(64, 128), k)
                b = (slice(64, 128), k) if transpose_B else (k, slice(64, 128))
                T.gemm(A_shared[a], B_shared[b], c, transpose_A=transpose_A, transpose_B=transpose_B)
            T.copy(c, C)

    return parts


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("transpose_A", [False, True])
@pytest.mark.parametrize("transpose_B", [False, True])
def test_parts(target, transpose_A, transpose_B):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((128, 128)).astype(np.float16) for _ in range(2))
    c = np.full((64, 64), np.nan, np.float32)
    make(transpose_A, transpose_B).compile(a, b, c, target=target).simulate(a, b, c)
    left = a.astype(np.float64).T if transpose_A else a.astype(np.float64)
    right = b.astype(np.float64).T if transpose_B else b.astype(np.float64)
    exact = left[64:, 32:96] @ right[32:96, 64:]
    assert np.abs(c - exact).max() < 1e-4
