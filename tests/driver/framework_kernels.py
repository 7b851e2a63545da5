"""Kernels that the tests of torch's operators and of JAX's calls have in common: results that are made, an optional
tensor, a scalar, and tensors that are written in place."""

from __future__ import annotations

import minitile as mt
import minitile.language as T


@mt.kernel
def affine(
    X: T.Tensor(("M", "N"), None),
    scale: T.float32,
    bias: T.Tensor(("N",), T.float32) | None = None,
    rows=4,
):
    M, N = X.shape
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(M, rows), T.ceildiv(N, 64), threads=128) as (bx, by):
        for i, j in T.Parallel(rows, 64):
            y = T.float32(X[bx * rows + i, by * 64 + j]) * scale
            if bias is not None:
                y = y + bias[by * 64 + j]
            Y[bx * rows + i, by * 64 + j] = y
    return Y


@mt.kernel
def increment(X: T.Tensor(("N",), T.float32), Y: T.Tensor(("N",), T.float32), by=1):
    with T.Kernel(T.ceildiv(X.shape[0], 128), threads=128) as bx:
        for i in T.Parallel(128):
            Y[bx * 128 + i] += by * X[bx * 128 + i]
