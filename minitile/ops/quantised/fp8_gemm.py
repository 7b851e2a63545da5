"""The kernel of `matmul_fp8`: fp8 by fp8, with a scale for each 1 × 128 of A and 128 × 128 of B.

The tensor cores add 128 products with some 14 bits; that sum is scaled and added in f32. Their rows come by 64, their
columns by 8, and either matrix may be the one with the rows:

    swap       Cᵀ = B · Aᵀ, for few rows of A. Their scales belong to columns of the sums: they come to shared memory
               with the tile, and a thread reads one for each of its columns. A tile has one scale of B
    otherwise  C = A · Bᵀ. A thread has two rows of each 64 and asks for their scales itself, a step ahead, so that
               threads read nothing that the copy engine writes, and there is no proxy fence in the loop. Tiles have any
               width, and the scales of one or a few blocks of B

Warpgroups add while others multiply. Persistent blocks ask for the next tile while they store.
"""

from __future__ import annotations

import math
from functools import lru_cache

import minitile.language as T
from minitile.driver.jit import Kernel, kernel
from minitile.ir.types import DType
from minitile.ops.quantised.gemm import add_up

SCALED = 128  # elements along K, and columns of C, that share a scale
PANEL = 8  # rows of tiles that persistent blocks visit column by column, so that what they share of B is at hand
LINE = 32  # scales in 128 bytes, which the copy engine's boxes in shared memory are multiples of


def products_swapped(A, B, scale_A, scale_B, A_shared, B_shared, sums, row, column, first, last, stages):
    """The scaled products of the steps `first` to `last` of K, for the tile of Cᵀ at column, row. sums: of all, and of
    a step."""
    scales = T.alloc_shared((-(-A_shared.shape[0] // LINE) * LINE,), T.float32)
    C_local, products = sums
    T.clear(C_local)
    panel = column // SCALED
    following = scale_B[panel, first]
    for k in T.Pipelined(first, last, num_stages=stages):
        T.copy(B[column, k * SCALED], B_shared)
        T.copy(A[row, k * SCALED], A_shared)
        T.copy(scale_A[k, row], scales)
        T.gemm(B_shared, A_shared, products, transpose_B=True, policy=T.GemmWarpPolicy.FullRow, clear_accum=True)
        of_tile, following = following, scale_B[panel, k + 1]
        for n, m in T.Parallel(*C_local.shape):
            C_local[n, m] += products[n, m] * (scales[m] * of_tile)


def products_straight(A, B, scale_A, scale_B, A_shared, B_shared, sums, row, column, first, last, stages):
    """The same for the tile of C at row, column."""
    C_local, products = sums
    high, wide = C_local.shape
    of_rows = T.alloc_fragment((high,), T.float32)
    same = math.gcd(wide, SCALED)  # columns that have one scale for sure
    T.clear(C_local)
    for m in T.Parallel(high):
        of_rows[m] = scale_A[first, row + m]
    for k in T.Pipelined(first, last, num_stages=stages):
        T.copy(A[row, k * SCALED], A_shared)
        T.copy(B[column, k * SCALED], B_shared)
        T.gemm(A_shared, B_shared, products, transpose_B=True, policy=T.GemmWarpPolicy.FullRow, clear_accum=True)
        of_columns = [scale_B[(column + start) // SCALED, k] for start in range(0, wide, same)]
        for m, n in T.Parallel(high, wide):
            scale = of_columns[0]
            for c in T.unroll(1, wide // same):
                scale = T.if_then_else(n >= c * same, of_columns[c], scale)
            C_local[m, n] += products[m, n] * (of_rows[m] * scale)
        for m in T.Parallel(high):
            of_rows[m] = scale_A[k + 1, row + m]


@lru_cache
def gemm_fp8_blocks(dtype: DType, weights: DType, result: DType, ahead: bool = False) -> Kernel:
    """C = A · Bᵀ. A is M × K, B is N × K, C is M × N; scale_A is KB × L with L at least M, scale_B NB × KB, KB and NB
    are K and N by 128, rounded up. ahead: B is not what the kernel in front writes.

    swap: B has the tensor cores' rows; then block_N divides 128. parts: of split-K, the blocks of a cluster; they
    divide the tensor cores' rows of a tile into shares of whole 8. all_reduce, early, together: see `gemm_quantised`.
    share: so many blocks with rows of A are a cluster that reads B once; then there are no parts. blocks: so many
    persistent ones, without parts and shares, that visit tiles in panels."""

    @kernel
    def gemm_fp8_blocks(
        A: T.Tensor(("M", "K"), dtype),
        B: T.Tensor(("N", "K"), weights),
        scale_A: T.Tensor(("KB", "L"), T.float32),
        scale_B: T.Tensor(("NB", "KB"), T.float32),
        C: T.Tensor(("M", "N"), result),
        block_M=64,
        block_N=64,
        stages=4,
        threads=128,
        parts=1,
        all_reduce=False,
        early=True,
        together=0,
        share=1,
        swap=True,
        blocks=0,
    ):
        M, N = C.shape
        rows, columns = T.ceildiv(M, block_M), T.ceildiv(N, block_N)
        steps = T.ceildiv(A.shape[1], SCALED)

        def begin():
            if together:
                T.annotate_min_blocks_per_sm(together)
            if early:
                T.pdl_trigger()
            T.pdl_sync(ahead=B if ahead else ())
            operands = T.alloc_shared((block_M, SCALED), dtype), T.alloc_shared((block_N, SCALED), weights)
            tile = (block_N, block_M) if swap else (block_M, block_N)
            return *operands, [T.alloc_fragment(tile, T.float32) for _ in range(2)]

        def multiply(held, by, bx, first, last):
            body = products_swapped if swap else products_straight
            body(A, B, scale_A, scale_B, *held, by * block_M, bx * block_N, first, last, stages)
            if not early and not blocks:
                T.pdl_trigger()

        def store(held, by, bx):
            if swap:
                for n, m in T.Parallel(block_N, block_M):
                    C[by * block_M + m, bx * block_N + n] = held[2][0][n, m]
            else:
                T.copy(held[2][0], C[by * block_M, bx * block_N])

        if blocks:
            with T.Kernel(blocks, threads=threads) as block:
                held = begin()
                for by, bx in T.Persistent([rows, columns], blocks, block, PANEL):
                    multiply(held, by, bx, 0, steps)
                    store(held, by, bx)
                if not early:
                    T.pdl_trigger()
        else:
            grid = parts, T.ceildiv(rows, share) * share, columns  # rows of one tile of weights meet
            with T.Kernel(*grid, threads=threads, cluster=(parts, share)) as (part, by, bx):
                held = begin()
                bounds = (part * steps // parts, (part + 1) * steps // parts) if parts > 1 else (0, steps)
                multiply(held, by, bx, *bounds)
                if parts == 1:
                    store(held, by, bx)
                else:
                    add_up(held[2][0], C, part, parts, bx * block_N, by * block_M, all_reduce, swap)

    return gemm_fp8_blocks
