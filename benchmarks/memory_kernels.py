"""Kernels whose time is that of moving their bytes, as one writes them first: a row a block, its columns under a mask.

memory_bound.py times them."""

from __future__ import annotations

import minitile as mt
import minitile.language as T


@mt.kernel
def add(
    A: T.Tensor(("M",), T.bfloat16),
    B: T.Tensor(("M",), T.bfloat16),
    C: T.Tensor(("M",), T.bfloat16),
    block=2048,
    threads=256,
):
    (M,) = A.shape
    with T.Kernel(T.ceildiv(M, block), threads=threads) as bx:
        for i in T.Parallel(block):
            C[bx * block + i] = A[bx * block + i] + B[bx * block + i]


@mt.kernel
def softmax(X: T.Tensor(("M", "N"), T.bfloat16), Y: T.Tensor(("M", "N"), T.bfloat16), columns=4096, threads=256):
    M, N = X.shape
    with T.Kernel(M, threads=threads) as bx:
        x = T.alloc_fragment((1, columns), T.float32)
        top = T.alloc_fragment((1,), T.float32)
        total = T.alloc_fragment((1,), T.float32)
        for i, j in T.Parallel(1, columns):
            x[i, j] = T.if_then_else(j < N, T.cast(X[bx + i, j], T.float32), -T.infinity(T.float32))
        T.reduce_max(x, top, dim=1)
        for i, j in T.Parallel(1, columns):
            x[i, j] = T.exp(x[i, j] - top[i])
        T.reduce_sum(x, total, dim=1)
        for i, j in T.Parallel(1, columns):
            Y[bx + i, j] = x[i, j] / total[i]


@mt.kernel
def rms_norm(
    X: T.Tensor(("M", "N"), T.bfloat16),
    W: T.Tensor(("N",), T.bfloat16),
    Y: T.Tensor(("M", "N"), T.bfloat16),
    eps: T.float32,
    columns=4096,
    threads=256,
):
    M, N = X.shape
    with T.Kernel(M, threads=threads) as bx:
        x = T.alloc_fragment((1, columns), T.float32)
        sq = T.alloc_fragment((1, columns), T.float32)
        s = T.alloc_fragment((1,), T.float32)
        for i, j in T.Parallel(1, columns):
            x[i, j] = T.if_then_else(j < N, T.cast(X[bx + i, j], T.float32), 0.0)
        for i, j in T.Parallel(1, columns):
            sq[i, j] = x[i, j] * x[i, j]
        T.reduce_sum(sq, s, dim=1)
        for i in T.Parallel(1):
            s[i] = T.rsqrt(s[i] / T.cast(N, T.float32) + eps)
        for i, j in T.Parallel(1, columns):
            Y[bx + i, j] = x[i, j] * s[i] * T.cast(W[j], T.float32)


@mt.kernel
def layer_norm(
    X: T.Tensor(("M", "N"), T.bfloat16),
    W: T.Tensor(("N",), T.bfloat16),
    B: T.Tensor(("N",), T.bfloat16),
    Y: T.Tensor(("M", "N"), T.bfloat16),
    eps: T.float32,
    columns=4096,
    threads=256,
):
    M, N = X.shape
    with T.Kernel(M, threads=threads) as bx:
        x = T.alloc_fragment((1, columns), T.float32)
        sq = T.alloc_fragment((1, columns), T.float32)
        mean = T.alloc_fragment((1,), T.float32)
        s = T.alloc_fragment((1,), T.float32)
        for i, j in T.Parallel(1, columns):
            x[i, j] = T.if_then_else(j < N, T.cast(X[bx + i, j], T.float32), 0.0)
        T.reduce_sum(x, mean, dim=1)
        for i in T.Parallel(1):
            mean[i] = mean[i] / T.cast(N, T.float32)
        for i, j in T.Parallel(1, columns):
            sq[i, j] = T.if_then_else(j < N, (x[i, j] - mean[i]) * (x[i, j] - mean[i]), 0.0)
        T.reduce_sum(sq, s, dim=1)
        for i in T.Parallel(1):
            s[i] = T.rsqrt(s[i] / T.cast(N, T.float32) + eps)
        for i, j in T.Parallel(1, columns):
            Y[bx + i, j] = (x[i, j] - mean[i]) * s[i] * T.cast(W[j], T.float32) + T.cast(B[j], T.float32)


@mt.kernel
def transpose(A: T.Tensor(("M", "N"), T.bfloat16), B: T.Tensor(("N", "M"), T.bfloat16), block=64, threads=256):
    M, N = A.shape
    with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=threads) as (bx, by):
        tile = T.alloc_shared((block, block), A.dtype)
        T.copy(A[by * block, bx * block], tile)
        for i, j in T.Parallel(block, block):
            B[bx * block + i, by * block + j] = tile[j, i]


@mt.kernel
def column_sum(
    X: T.Tensor(("M", "N"), T.bfloat16), S: T.Tensor(("N",), T.float32), rows=64, steps=8, columns=256, threads=256
):
    M, N = X.shape
    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows * steps), threads=threads) as (bx, by):
        acc = T.alloc_fragment((rows, columns), T.float32)
        s = T.alloc_fragment((columns,), T.float32)
        T.clear(acc)
        for k in T.serial(steps):
            for i, j in T.Parallel(rows, columns):
                acc[i, j] += T.cast(X[(by * steps + k) * rows + i, bx * columns + j], T.float32)
        T.reduce_sum(acc, s, dim=0)
        for j in T.Parallel(columns):
            T.atomic_add(S[bx * columns + j], s[j])


@mt.kernel
def swiglu(X: T.Tensor(("M", "N2"), T.bfloat16), Y: T.Tensor(("M", "N"), T.bfloat16), columns=2048, threads=256):
    M, N = Y.shape
    with T.Kernel(T.ceildiv(N, columns), M, threads=threads) as (bx, by):
        for j in T.Parallel(columns):
            g = T.cast(X[by, bx * columns + j], T.float32)
            u = T.cast(X[by, N + bx * columns + j], T.float32)
            if bx * columns + j < N:
                Y[by, bx * columns + j] = g / (1.0 + T.exp(-g)) * u


@mt.kernel
def cross_entropy(
    X: T.Tensor(("M", "N"), T.bfloat16),
    L: T.Tensor(("M",), T.int64),
    Loss: T.Tensor(("M",), T.float32),
    columns=4096,
    threads=256,
):
    M, N = X.shape
    with T.Kernel(M, threads=threads) as bx:
        x = T.alloc_fragment((1, columns), T.float32)
        m = T.alloc_fragment((1, columns), T.float32)
        s = T.alloc_fragment((1, columns), T.float32)
        top = T.alloc_fragment((1,), T.float32)
        total = T.alloc_fragment((1,), T.float32)
        T.fill(m, -1e30)
        T.clear(s)
        for k in T.serial(T.ceildiv(N, columns)):
            for i, j in T.Parallel(1, columns):
                x[i, j] = T.if_then_else(k * columns + j < N, T.cast(X[bx + i, k * columns + j], T.float32), -1e30)
            for i, j in T.Parallel(1, columns):
                new = T.max(m[i, j], x[i, j])
                s[i, j] = s[i, j] * T.exp(m[i, j] - new) + T.exp(x[i, j] - new)
                m[i, j] = new
        T.reduce_max(m, top, dim=1)
        for i, j in T.Parallel(1, columns):
            s[i, j] = s[i, j] * T.exp(m[i, j] - top[i])
        T.reduce_sum(s, total, dim=1)
        for i in T.Parallel(1):
            Loss[bx + i] = T.log(total[i]) + top[i] - T.cast(X[bx + i, L[bx + i]], T.float32)
