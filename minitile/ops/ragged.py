"""Products by a matrix W of N × K whose rows are no whole 16 bytes, and which the copy engine brings all the same.

The copy engine wants rows that lie a multiple of 16 bytes apart, and boxes that begin at such a multiple. Eight rows of
any bf16 matrix are one. So W is seen as rows of eight (`classes_of` in plan.py), and a box takes rows of one class, the
same mod 8, from the multiple of 16 bytes at or in front of their beginning:

    W seen as G × 8K    |w0 ……|w1 ……|…|w7 ……|     rows of class c begin s = c·K mod 8 elements behind such a multiple
                        |w8 ……|w9 ……|…|w15 ……|
    a row of W          |.. .. .. w0 w1 …| … | … w .. ..|
                         edge             steps    rest
    Y, X for class c    | 0  0  0 x0 x1 …| … | … x  0  0|     `shifted` makes it for all classes

What lies in front of a row and behind it belongs to other rows. So the first EDGE elements and the rest behind whole
steps come by threads, with zeros in place of those: they are asked for before the first step and multiplied after the
last one. The last rows of W, fewer than eight, are multiplied by threads.
"""

from __future__ import annotations

from functools import lru_cache

import minitile.language as T
from minitile.driver.jit import Kernel, kernel
from minitile.ir.types import DType
from minitile.ops.epilogue import Epilogue, extra_tensors, named
from minitile.ops.gemm import finished
from minitile.ops.gemv import MOST_VECTORS, last_row
from minitile.ops.plan import EDGE, LINE, VECTOR

COLUMNS = 2048  # of a block of `shifted`


def shifted_width(k: int) -> int:
    """Elements of a row of Y, whole lines."""
    grain = LINE // 2
    return -(-(k + VECTOR - 1) // grain) * grain


@lru_cache
def shifted(dtype: DType) -> Kernel:
    """Y, (classes · M) × L, becomes X, M × K, for each class of rows: in rows c·M … the elements of X c·K mod 8 columns
    further on, and zeros around them."""

    @kernel
    def shifted(X: T.Tensor(("M", "K"), dtype), Y: T.Tensor(("R", "L"), dtype), classes=VECTOR):
        M, K = X.shape
        with T.Kernel(T.ceildiv(Y.shape[1], COLUMNS), M, classes, threads=COLUMNS // VECTOR) as (part, m, c):
            T.pdl_sync()  # so the product's blocks come when there is room for them
            T.pdl_trigger()
            x = T.alloc_fragment((COLUMNS,), dtype)
            first = part * COLUMNS - c * K % VECTOR
            for j in T.Parallel(COLUMNS):
                x[j] = T.if_then_else(first + j >= 0 and first + j < K, X[m, first + j], T.cast(0.0, dtype))
            T.copy(x, Y[c * M + m, part * COLUMNS])

    return shifted


def part_of_rows(w, W, row, column, behind, shift, K):
    """w = the elements of a tile of W's rows from `column` on; zeros in place of those of other rows. A row's own begin
    at behind + shift."""
    T.copy(W[row, column], w)
    for i, j in T.Parallel(*w.shape):
        k = column - behind + j - shift
        w[i, j] = T.if_then_else(k >= 0 and k < K, w[i, j], T.cast(0.0, W.dtype))


def add_part(sums, w, Y, row, column):
    """sums += the products of a tile that threads have, and of Y's rows."""
    W_part = T.alloc_shared(w.shape, w.dtype)
    Y_part = T.alloc_shared((sums.shape[1], w.shape[1]), w.dtype)
    T.copy(w, W_part)
    T.copy(Y[row, column], Y_part)
    T.gemm(W_part, Y_part, sums, transpose_B=True)


def tile_of_class(Y, W, C, K, by, bx, c, classes, block_M, block_N, block_K, stages, epilogue, tensors):
    """A tile of C: rows by · block_M …, and of class c the columns bx · block_N …"""
    M = C.shape[0]
    behind = c * K // VECTOR * VECTOR
    shift = c * K - behind
    row, of_y = bx * block_N, c * M + by * block_M
    steps = T.max(K + shift - EDGE, 0) // block_K
    rest = EDGE + steps * block_K
    Y_shared = T.alloc_shared((block_M, block_K), Y.dtype)
    W_shared = T.alloc_shared((block_N, block_K), W.dtype)
    w_edge, w_rest = T.alloc_fragment((block_N, EDGE), W.dtype), T.alloc_fragment((block_N, block_K), W.dtype)
    sums = T.alloc_fragment((block_N, block_M), T.float32)
    T.clear(sums)
    part_of_rows(w_edge, W, row, behind, behind, shift, K)
    part_of_rows(w_rest, W, row, behind + rest, behind, shift, K)
    for k in T.Pipelined(steps, num_stages=stages):
        T.copy(Y[of_y, EDGE + k * block_K], Y_shared)
        T.copy(W[row, behind + EDGE + k * block_K], W_shared)
        T.gemm(W_shared, Y_shared, sums, transpose_B=True)
    add_part(sums, w_edge, Y, of_y, 0)
    add_part(sums, w_rest, Y, of_y, rest)
    for i, j in T.Parallel(block_N, block_M):
        m, n = by * block_M + j, (row + i) * classes + c
        if m < M and row + i < W.shape[0]:
            C[m, n] = finished(sums[i, j], m, n, epilogue, tensors)


@lru_cache
def gemm_ragged(dtype: DType, result: DType, epilogue: Epilogue | None = None) -> Kernel:
    """C = X · Wᵀ. Y is what `shifted` has made of X, M × K; W is all its whole classes, G × F, in rows of `classes`
    times K elements; V is all of W as it is, N × K. epilogue: what is made of the sums; then the kernel has its tensors
    at the end."""
    extras = extra_tensors(epilogue)

    @kernel
    @named(epilogue)
    def gemm_ragged(
        X: T.Tensor(("M", "K"), dtype),
        Y: T.Tensor(("R", "L"), dtype),
        W: T.Tensor(("G", "F"), dtype),
        V: T.Tensor(("N", "K"), dtype),
        C: T.Tensor(("M", "N"), result),
        E0: T.Tensor(*extras[0]) | None = None,
        E1: T.Tensor(*extras[1]) | None = None,
        E2: T.Tensor(*extras[2]) | None = None,
        E3: T.Tensor(*extras[3]) | None = None,
        block_M=8,
        block_N=64,
        block_K=128,
        stages=6,
        threads=128,
        classes=VECTOR,
    ):
        tensors = [E for E in (E0, E1, E2, E3) if E is not None]
        (M, K), how = X.shape, (epilogue, tensors)
        rows, columns = T.ceildiv(M, block_M), T.ceildiv(W.shape[0], block_N)
        with T.Kernel(classes, rows * columns + T.ceildiv(M, MOST_VECTORS), threads=threads) as (c, tile):
            T.pdl_trigger()
            T.pdl_sync()
            if tile < rows * columns:
                by, bx = tile % rows, tile // rows
                tile_of_class(Y, W, C, K, by, bx, c, classes, block_M, block_N, block_K, stages, *how)
            else:
                row, part = W.shape[0] * classes + c, tile - rows * columns
                if row < V.shape[0]:
                    last_row(X, V, C, K, row, part, VECTOR * threads, MOST_VECTORS, False, False, *how)

    return gemm_ragged
