"""A split-K GEMM: the blocks of a cluster multiply a part of K each, for a tile of C, and add them up together.

The blocks send each other their sums through distributed shared memory (T.map_shared_rank), each those of the rows that
the other one is to store, and add what they get in one order: the bits are the same each time. There is no second
kernel, no workspace, and no sum goes to global memory and back.

    block 0   products of K[0:k/2]  | rows 32..63 → block 1 | wait | rows  0..31: own + block 1's → C
    block 1   products of K[k/2:k]  | rows  0..31 → block 0 | wait | rows 32..63: own + block 0's → C
"""

from __future__ import annotations

from functools import lru_cache

import minitile.language as T
from minitile.driver.jit import Kernel, kernel
from minitile.ir.types import DType
from minitile.ops.epilogue import Epilogue, extra_tensors, named
from minitile.ops.gemm import accumulate, finished, in_order, operand_dims, whole


def add_shares(C_local, part, parts, tile=0):
    """The rows of C_local that are this block's share become the sums of those of all parts: the blocks send each other
    what is the other one's, and add what they get in one order. tile: its number among those that the cluster has.
    Returns the rows of a share."""
    high, wide = C_local.shape
    own = high // parts
    sums = T.alloc_shared((parts - 1, own, wide), T.float32)  # from the other blocks
    for step in T.unroll(1, parts):
        there = (part + step) % parts
        theirs = T.map_shared_rank(sums, there + parts * tile)
        for i, j in T.Parallel(high, wide):
            if i // own == there:
                theirs[parts - 1 - step, i - there * own, j] = C_local[i, j]
    T.cluster_sync()
    for i, j in T.Parallel(high, wide):
        if i // own == part:
            for n in T.unroll(parts - 1):
                C_local[i, j] += sums[n, i - part * own, j]
    return own


def added_together(
    A, B, C, block_M, block_N, block_K, stages, threads, parts, swap, share, share_rows, ahead,
    transpose_a, transpose_b, loose, epilogue, tensors,
):  # fmt: skip
    """The body of `gemm_together`."""
    M, N = C.shape
    # neighbours want the same columns of B: what is on its way for one comes for all
    grid = parts, whole(T.ceildiv(M, block_M), share_rows), whole(T.ceildiv(N, block_N), share)
    with T.Kernel(*grid, threads=threads, cluster=(parts, share_rows, share)) as (part, by, bx):
        steps = T.ceildiv(A.shape[0] if transpose_a else A.shape[1], block_K)
        in_order(loose, steps <= stages * parts, (B,) if ahead else ())
        A_shared = T.alloc_shared((block_K, block_M) if transpose_a else (block_M, block_K), A.dtype)
        B_shared = T.alloc_shared((block_N, block_K) if transpose_b else (block_K, block_N), B.dtype)
        high, wide = (block_N, block_M) if swap else (block_M, block_N)
        C_local = T.alloc_fragment((high, wide), T.float32)
        accumulate(
            A, B, A_shared, B_shared, C_local, by * block_M, bx * block_N,
            part * steps // parts, (part + 1) * steps // parts, stages, transpose_a, transpose_b, swap,
        )  # fmt: skip
        own = add_shares(C_local, part, parts, by % share_rows + share_rows * (bx % share))
        if swap:
            C_shared = T.alloc_shared((wide, own), C.dtype)
            for i, j in T.Parallel(high, wide):
                if i // own == part:
                    x = C_local[i, j]
                    C_shared[j, i - part * own] = finished(x, by * block_M + j, bx * block_N + i, epilogue, tensors)
            T.copy(C_shared, C[by * block_M, bx * block_N + part * own])
        else:
            C_shared = T.alloc_shared((own, wide), C.dtype)
            for i, j in T.Parallel(high, wide):
                if i // own == part:
                    x = C_local[i, j]
                    C_shared[i - part * own, j] = finished(x, by * block_M + i, bx * block_N + j, epilogue, tensors)
            T.copy(C_shared, C[by * block_M + part * own, bx * block_N])


@lru_cache
def gemm_together(
    dtype: DType, result: DType, transpose_a: bool, transpose_b: bool, loose: bool, epilogue: Epilogue | None = None
) -> Kernel:
    """C = op(A) · op(B), as `gemm`; K in `parts`, in as many blocks of a cluster for each tile. They divide block_M
    (block_N with swap) into shares of whole 8 rows. share, share_rows, ahead, epilogue: as
    of `gemm`. For sm_90a."""
    a_dims, b_dims = operand_dims(transpose_a, transpose_b, loose)
    how = transpose_a, transpose_b, loose
    extras = extra_tensors(epilogue)

    @kernel
    @named(epilogue)
    def gemm_together(
        A: T.Tensor(a_dims, dtype),
        B: T.Tensor(b_dims, dtype),
        C: T.Tensor(("M", "N"), result),
        E0: T.Tensor(*extras[0]) | None = None,
        E1: T.Tensor(*extras[1]) | None = None,
        E2: T.Tensor(*extras[2]) | None = None,
        E3: T.Tensor(*extras[3]) | None = None,
        block_M=128,
        block_N=128,
        block_K=64,
        stages=4,
        threads=256,
        parts=2,
        swap=False,
        share=1,
        share_rows=1,
        ahead=False,
    ):
        tile = block_M, block_N, block_K, stages, threads
        tensors = [E for E in (E0, E1, E2, E3) if E is not None]
        added_together(A, B, C, *tile, parts, swap, share, share_rows, ahead, *how, epilogue, tensors)

    return gemm_together
