"""Programs whose gemms stand outside of pipelined loops, for sm_90a: kernel, arguments, what the result is to be. Small
integers, so that no order of additions matters. `explicit`: by T.wgmma_gemm, in flight until T.wait_wgmma."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

import minitile as mt
import minitile.language as T

BF16, F16, F32 = ml_dtypes.bfloat16, np.float16, np.float32
E4, E5 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
Program = tuple[mt.Kernel, list[Any], Callable[..., np.ndarray]]
PROGRAMS: dict[str, Program] = {}
THREE = {"flag": np.array([0, 1, 3], np.int32)}


def program(expected: Callable[..., np.ndarray], *arguments: Any) -> Callable[[mt.Kernel], mt.Kernel]:
    """`arguments`: (shape, dtype) of small integers, or arrays as they are; the last one is the result."""

    def enter(kernel: mt.Kernel) -> mt.Kernel:
        PROGRAMS[kernel.__name__] = kernel, list(arguments), expected
        return kernel

    return enter


def wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64)


def as_bf16(x: np.ndarray) -> np.ndarray:
    return wide(x.astype(BF16))


def product(explicit, *operands, **how):
    if explicit:
        T.wgmma_gemm(*operands, **how)
        T.wait_wgmma(0)
    else:
        T.gemm(*operands, **how)


def of_types(name, left, right, into, elements, ta=False, tb=True, policy=T.GemmWarpPolicy.Square, m=64, n=64):
    """Two steps of K, each copied where it is used; `elements`: NumPy's of A, B and C."""
    threads, a_shape, b_shape = 2 * m, (64, m) if ta else (m, 64), (n, 64) if tb else (64, n)
    a_all, b_all = (128, m) if ta else (m, 128), (n, 128) if tb else (128, n)

    @mt.kernel
    def kernel(A: T.Tensor(a_all, left), B: T.Tensor(b_all, right), C: T.Tensor((m, n), into), explicit=False):
        with T.Kernel(1, threads=threads):
            a, b, c = T.alloc_shared(a_shape, left), T.alloc_shared(b_shape, right), T.alloc_fragment((m, n), into)
            T.clear(c)
            for k in range(2):
                T.copy(A[k * 64 * ta, k * 64 * (not ta)], a)
                T.copy(B[k * 64 * (not tb), k * 64 * tb], b)
                product(explicit, a, b, c, transpose_A=ta, transpose_B=tb, policy=policy)
            T.copy(c, C)

    def expected(a, b):
        return (wide(a).T if ta else wide(a)) @ (wide(b).T if tb else wide(b))

    PROGRAMS[name] = kernel, [(a_all, elements[0]), (b_all, elements[1]), ((m, n), elements[2])], expected


FULL_COL = T.GemmWarpPolicy.FullCol
of_types("bf16, TN", T.bfloat16, T.bfloat16, T.float32, (BF16, BF16, F32), True, False)
of_types("f16 into f16, two warpgroups", T.float16, T.float16, T.float16, (F16, F16, F16), True, True, FULL_COL, 128)
of_types("fp8", T.float8_e4m3, T.float8_e5m2, T.float32, (E4, E5, F32))
of_types("int8", T.int8, T.uint8, T.int32, (np.int8, np.uint8, np.int32))
of_types("tf32", T.float32, T.float32, T.float32, (F32, F32, F32), n=24)


@program(
    lambda a, b, flag: np.vstack([wide(a)[:, : 64 * k] @ wide(b)[:, : 64 * k].T for k in flag]),
    ((64, 256), BF16),
    ((64, 256), BF16),
    THREE["flag"],
    ((192, 64), F32),
)
@mt.kernel
def counted(
    A: T.Tensor((64, "K"), T.bfloat16),
    B: T.Tensor((64, "K"), T.bfloat16),
    trips: T.Tensor((3,), T.int32),
    C: T.Tensor((192, 64), T.float32),
    explicit=False,
):
    """No, one and several turns; two warpgroups, which let each other know that they have multiplied."""
    with T.Kernel(3, threads=256) as bx:
        a, b = T.alloc_shared((64, 64), T.bfloat16), T.alloc_shared((64, 64), T.bfloat16)
        c = T.alloc_fragment((64, 64), T.float32)
        T.clear(c)
        for k in T.Pipelined(trips[bx], num_stages=1):
            T.copy(A[0, k * 64], a)
            T.copy(B[0, k * 64], b)
            product(explicit, a, b, c, transpose_B=True)
        T.copy(c, C[bx * 64, 0])


@program(
    lambda a, b: wide(a) @ wide(b).T,
    ((64, 72), BF16),
    ((24, 72), BF16),
    ((64, 24), F32),
)
@mt.kernel
def in_while(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.float32),
    explicit=False,
):
    M, K = A.shape
    with T.Kernel(T.ceildiv(M, 64), threads=128) as bx:
        a, b = T.alloc_shared((64, 32), T.bfloat16), T.alloc_shared((32, 32), T.bfloat16)
        c = T.alloc_fragment((64, 32), T.float32)
        T.clear(c)
        k = 0
        while k < K:
            T.copy(A[bx * 64, k], a)
            T.copy(B[0, k], b)
            product(explicit, a, b, c, transpose_B=True)
            k = k + 32
        T.copy(c, C[bx * 64, 0])


@program(
    lambda a, b, flag: np.vstack([wide(a)[:64] * 0, 2 * wide(a)[64:128] @ wide(b).T, -wide(a)[128:] @ wide(b)]),
    ((192, 64), BF16),
    ((64, 64), BF16),
    THREE["flag"],
    ((192, 64), F32),
)
@mt.kernel
def branches(
    A: T.Tensor((192, 64), T.bfloat16),
    B: T.Tensor((64, 64), T.bfloat16),
    which: T.Tensor((3,), T.int32),
    C: T.Tensor((192, 64), T.float32),
    explicit=False,
):
    """Conditions that are loaded; what the branches have made is used behind them."""
    with T.Kernel(3, threads=128) as bx:
        a, b = T.alloc_shared((64, 64), T.bfloat16), T.alloc_shared((64, 64), T.bfloat16)
        c = T.alloc_fragment((64, 64), T.float32)
        T.copy(A[bx * 64, 0], a)
        T.copy(B, b)
        T.clear(c)
        if which[bx] == 1:
            product(explicit, a, b, c, transpose_B=True)
            product(explicit, a, b, c, transpose_B=True)
        elif which[bx] > 1:
            product(explicit, a, b, c)
            for i, j in T.Parallel(64, 64):
                c[i, j] = -c[i, j]
        T.copy(c, C[bx * 64, 0])


@program(
    lambda a, b, d: as_bf16(wide(a) @ wide(b).T) @ wide(d) + as_bf16(wide(a) + 1).T @ wide(d),
    ((64, 64), BF16),
    ((64, 64), BF16),
    ((64, 32), BF16),
    ((64, 32), F32),
)
@mt.kernel
def chained(
    A: T.Tensor((64, 64), T.bfloat16),
    B: T.Tensor((64, 64), T.bfloat16),
    D: T.Tensor((64, 32), T.bfloat16),
    C: T.Tensor((64, 32), T.float32),
    explicit=False,
):
    """One product is the other's operand, by way of shared memory that threads write; they have overwritten another
    operand before."""
    with T.Kernel(1, threads=256):
        a, b, s = (T.alloc_shared((64, 64), T.bfloat16) for _ in range(3))
        d = T.alloc_shared((64, 32), T.bfloat16)
        p, c = T.alloc_fragment((64, 64), T.float32), T.alloc_fragment((64, 32), T.float32)
        T.copy(A, a)
        T.copy(B, b)
        T.copy(D, d)
        T.clear(p)
        T.clear(c)
        product(explicit, a, b, p, transpose_B=True)
        for i, j in T.Parallel(64, 64):
            a[i, j] = a[i, j] + 1
        T.copy(p, s)
        product(explicit, s, d, c)
        product(explicit, a, d, c, transpose_A=True)
        T.copy(c, C)


@program(
    lambda a, b, d: sum(
        as_bf16(wide(a)[:, k : k + 64] @ wide(b)[:, k : k + 64].T) @ wide(d)[k : k + 64] for k in (0, 64)
    ),
    ((64, 128), BF16),
    ((64, 128), BF16),
    ((128, 64), BF16),
    ((64, 64), F32),
)
@mt.kernel
def fragments(
    A: T.Tensor((64, "K"), T.bfloat16),
    B: T.Tensor((64, "K"), T.bfloat16),
    D: T.Tensor(("K", 64), T.bfloat16),
    C: T.Tensor((64, 64), T.float32),
):
    """One product is the other's operand in registers, which the next turn writes again."""
    K = A.shape[1]
    with T.Kernel(1, threads=128):
        a, b, d = (T.alloc_shared((64, 64), T.bfloat16) for _ in range(3))
        s, p = T.alloc_fragment((64, 64), T.float32), T.alloc_fragment((64, 64), T.bfloat16)
        c = T.alloc_fragment((64, 64), T.float32)
        T.clear(c)
        for k in range(T.ceildiv(K, 64)):
            T.copy(A[0, k * 64], a)
            T.copy(B[0, k * 64], b)
            T.clear(s)
            T.gemm(a, b, s, transpose_B=True)
            T.copy(s, p)
            T.copy(D[k * 64, 0], d)
            T.gemm(p, d, c)
        T.copy(c, C)


@program(
    lambda a, b: 2 * (wide(a) @ wide(b).T) + wide(b) @ wide(a).T,
    ((64, 96), BF16),
    ((64, 96), BF16),
    ((64, 64), F32),
)
@mt.kernel
def in_a_row(
    A: T.Tensor((64, 96), T.bfloat16),
    B: T.Tensor((64, 96), T.bfloat16),
    C: T.Tensor((64, 64), T.float32),
    explicit=False,
):
    """Several into one accumulator: the last one's wait is that of all."""
    with T.Kernel(1, threads=128):
        a, b = T.alloc_shared((64, 32), T.bfloat16), T.alloc_shared((64, 32), T.bfloat16)
        c = T.alloc_fragment((64, 64), T.float32)
        T.clear(c)
        for k in T.serial(3):
            T.copy(A[0, k * 32], a)
            T.copy(B[0, k * 32], b)
            product(explicit, a, b, c, transpose_B=True)
            product(explicit, b, a, c, transpose_B=True)
            product(explicit, a, b, c, transpose_B=True)
        T.copy(c, C)


@program(
    lambda a, b: np.vstack([wide(a)[64 * k : 64 * k + 64].T @ wide(b)[:, 64 * k : 64 * k + 64].T for k in range(3)]),
    ((192, 64), BF16),
    ((48, 192), BF16),
    ((192, 48), F32),
)
@mt.kernel
def parts(A: T.Tensor((192, 64), T.bfloat16), B: T.Tensor((48, 192), T.bfloat16), C: T.Tensor((192, 48), T.float32)):
    """Parts of the operands that begin where only run time knows: whole rows of one, in half a panel of the other."""
    with T.Kernel(1, threads=128):
        a, b = T.alloc_shared((192, 64), T.bfloat16), T.alloc_shared((48, 192), T.bfloat16)
        c = T.alloc_fragment((64, 48), T.float32)
        T.copy(A, a)
        T.copy(B, b)
        for k in T.serial(3):
            T.clear(c)
            for half in T.serial(2):
                at = k * 64 + half * 32
                T.gemm(a[at : at + 32, :], b[:, at : at + 32], c, transpose_A=True, transpose_B=True)
            T.copy(c, C[k * 64, 0])


@program(
    lambda w, b: sum(wide(w)[k] @ wide(b)[:, 64 * k : 64 * k + 64].T for k in range(3)),
    ((3, 64, 64), BF16),
    ((64, 192), BF16),
    ((64, 64), F32),
)
@mt.kernel
def slices(W: T.Tensor((3, 64, 64), T.bfloat16), B: T.Tensor((64, "K"), T.bfloat16), C: T.Tensor((64, 64), T.float32)):
    """Slices of a buffer that is filled before a pipelined loop, where the other operand's versions are a ring."""
    with T.Kernel(1, threads=128):
        w, b = T.alloc_shared((3, 64, 64), T.bfloat16), T.alloc_shared((64, 64), T.bfloat16)
        c = T.alloc_fragment((64, 64), T.float32)
        T.clear(c)
        for k in T.serial(3):
            T.copy(W[k, 0:64, 0:64], w[k, :, :])
        for k in T.Pipelined(3, num_stages=2):
            T.copy(B[0, k * 64], b)
            T.gemm(w[k, :, :], b, c, transpose_B=True)
        T.copy(c, C)


@program(
    lambda a, b, w: as_bf16(wide(a) @ wide(b).T) @ wide(w).T + wide(a)[:, :64] @ wide(w),
    ((64, 328), BF16),
    ((64, 328), BF16),
    ((64, 64), BF16),
    ((64, 64), F32),
)
@mt.kernel
def around_a_pipeline(
    A: T.Tensor((64, "K"), T.bfloat16),
    B: T.Tensor((64, "K"), T.bfloat16),
    W: T.Tensor((64, 64), T.bfloat16),
    C: T.Tensor((64, 64), T.float32),
):
    """One in front of a pipelined loop, one behind it, on what threads have stored."""
    K = A.shape[1]
    with T.Kernel(1, threads=128):
        a, b, w, s = (T.alloc_shared((64, 64), T.bfloat16) for _ in range(4))
        c, o = T.alloc_fragment((64, 64), T.float32), T.alloc_fragment((64, 64), T.float32)
        T.clear(c)
        T.clear(o)
        for i, j in T.Parallel(64, 64):
            w[i, j] = W[i, j]
            s[i, j] = A[i, j]
        T.gemm(s, w, o)
        for k in T.Pipelined(T.ceildiv(K, 64), num_stages=3):
            T.copy(A[0, k * 64], a)
            T.copy(B[0, k * 64], b)
            T.gemm(a, b, c, transpose_B=True)
        T.copy(c, s)
        T.gemm(s, w, o, transpose_B=True)
        T.copy(o, C)


@program(
    lambda a, b: wide(a) @ wide(b).T,
    ((136, 72), BF16),
    ((40, 72), BF16),
    ((136, 40), F32),
)
@mt.kernel
def persistent(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.float32),
    explicit=False,
):
    M, K = A.shape
    N = B.shape[0]
    with T.Kernel(2, threads=128) as block:
        a, b = T.alloc_shared((64, 32), T.bfloat16), T.alloc_shared((32, 32), T.bfloat16)
        c = T.alloc_fragment((64, 32), T.float32)
        for by, bx in T.Persistent([T.ceildiv(M, 64), T.ceildiv(N, 32)], 2, block):
            T.clear(c)
            for k in range(T.ceildiv(K, 32)):
                T.copy(A[by * 64, k * 32], a)
                T.copy(B[bx * 32, k * 32], b)
                product(explicit, a, b, c, transpose_B=True)
            T.copy(c, C[by * 64, bx * 32])
