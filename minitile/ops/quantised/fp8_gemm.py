"""The kernel of `matmul_fp8`: fp8 by fp8 for few rows, with a scale for each 1 × 128 of A and 128 × 128 of B.

As with packed weights the product is Cᵀ = B · Aᵀ, so that the few rows of A are the side of the tensor cores whose
steps are 8. They add 128 products with some 14 bits; that sum is scaled and added in f32. The scale of the weights, one
number for all of a tile, is asked for a step ahead; with `overlap` a sum is added while the next one is made.
"""

from __future__ import annotations

from functools import lru_cache

import minitile.language as T
from minitile.driver.jit import Kernel, kernel
from minitile.ir.types import DType
from minitile.ops.quantised.gemm import add_up

SCALED = 128  # elements along K, and columns of C, that share a scale
LINE = 32  # scales in 128 bytes, which the copy engine's boxes in shared memory are multiples of


@lru_cache
def gemm_fp8_blocks(dtype: DType, weights: DType, result: DType, ahead: bool = False) -> Kernel:
    """C = A · Bᵀ. A is M × K, B is N × K, C is M × N; scale_A is KB × L with L at least M, scale_B NB × KB, KB and NB
    are K and N by 128, rounded up. ahead: B is not what the kernel in front writes. block_N divides 128. parts: of
    split-K, the blocks of a cluster; they divide block_N into shares of whole 8 rows. all_reduce, early, together: see
    `gemm_quantised`. share: so many blocks with rows of A are a cluster that reads B once; then there are no parts."""

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
        overlap=False,
        all_reduce=False,
        early=True,
        together=0,
        share=1,
    ):
        M, N = C.shape
        grid = parts, T.ceildiv(M, block_M * share) * share, T.ceildiv(N, block_N)  # rows of one tile of weights meet
        cluster = parts, share
        order = {"order": [-1, -1, -1, 0, 1], "stage": [-1, -1, -1, 0, 1]} if overlap else {}
        with T.Kernel(*grid, threads=threads, cluster=cluster) as (part, by, bx):
            if together:
                T.annotate_min_blocks_per_sm(together)
            if early:
                T.pdl_trigger()
            T.pdl_sync(ahead=B if ahead else ())
            steps = T.ceildiv(A.shape[1], SCALED)
            first, last = (part * steps // parts, (part + 1) * steps // parts) if parts > 1 else (0, steps)
            A_shared = T.alloc_shared((block_M, SCALED), dtype)
            B_shared = T.alloc_shared((block_N, SCALED), weights)
            scales = T.alloc_shared((-(-block_M // LINE) * LINE,), T.float32)
            C_local = T.alloc_fragment((block_N, block_M), T.float32)
            products = T.alloc_fragment((block_N, block_M), T.float32)
            T.clear(C_local)
            panel = bx * block_N // SCALED
            following = scale_B[panel, first]
            for k in T.Pipelined(first, last, num_stages=stages, **order):
                T.copy(B[bx * block_N, k * SCALED], B_shared)
                T.copy(A[by * block_M, k * SCALED], A_shared)
                T.copy(scale_A[k, by * block_M], scales)
                T.gemm(
                    B_shared, A_shared, products, transpose_B=True, policy=T.GemmWarpPolicy.FullRow, clear_accum=True
                )
                of_tile, following = following, scale_B[panel, k + 1]
                for n, m in T.Parallel(block_N, block_M):
                    C_local[n, m] += products[n, m] * (scales[m] * of_tile)
            if not early:
                T.pdl_trigger()
            if parts == 1:
                for n, m in T.Parallel(block_N, block_M):
                    C[by * block_M + m, bx * block_N + n] = C_local[n, m]
            else:
                add_up(C_local, C, part, parts, bx * block_N, by * block_M, all_reduce)

    return gemm_fp8_blocks
