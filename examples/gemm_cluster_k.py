"""C = A · Bᵀ in bf16 with K split over the blocks of a cluster, which add up in each other's shared memory.

Each of the `splits` blocks multiplies its part of K and has a share of the tile's rows to store: the other blocks send
it their sums of these rows, and it adds them, in the same order each time. There is no workspace and no counter, as in
gemm_split_k.py, and no sum goes to global memory and back. That is for few rows and long K, where reading B is what
takes the time: B counts as weights, whose first tiles need not wait for the kernel in front (T.pdl_sync).

sm_90a; up to 8 splits, which divide block_M into parts of at least 8 rows.
"""

import ml_dtypes
import numpy as np
from support import error, has_form, on_device, poisoned, random, report

import minitile as mt
import minitile.language as T


@mt.kernel
def gemm_cluster_k(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.bfloat16),
    splits=2,
    block_M=64,
    block_N=64,
    block_K=64,
    num_stages=4,
    threads=128,
):
    M, K = A.shape
    N = B.shape[0]
    with T.Kernel(splits, T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads, cluster=splits) as (
        bz,
        bx,
        by,
    ):
        T.pdl_trigger()
        T.pdl_sync(ahead=B)
        A_shared = T.alloc_shared((block_M, block_K), A.dtype)
        B_shared = T.alloc_shared((block_N, block_K), B.dtype)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        rows = block_M // splits  # of the tile, that a block stores
        parts = T.alloc_shared((splits - 1, rows, block_N), T.float32)  # of those rows, from the other blocks
        steps = T.ceildiv(K, block_K)
        T.clear(C_local)
        for k in T.Pipelined(bz * steps // splits, (bz + 1) * steps // splits, num_stages=num_stages):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[bx * block_N, k * block_K], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_B=True)
        for step in T.unroll(1, splits):
            there = (bz + step) % splits
            theirs = T.map_shared_rank(parts, there)
            for i, j in T.Parallel(block_M, block_N):
                if i // rows == there:
                    theirs[splits - 1 - step, i - there * rows, j] = C_local[i, j]
        T.cluster_sync()
        C_shared = T.alloc_shared((rows, block_N), C.dtype)
        for i, j in T.Parallel(block_M, block_N):
            if i // rows == bz:
                for n in T.unroll(splits - 1):
                    C_local[i, j] += parts[n, i - bz * rows, j]
                C_shared[i - bz * rows, j] = C_local[i, j]
        T.copy(C_shared, C[by * block_M + bz * rows, bx * block_N])


def run(m: int, n: int, k: int, seed: int = 0, **tiles) -> float:
    """The relative error on random matrices."""
    rng = np.random.default_rng(seed)
    a, b = random(rng, (m, k), ml_dtypes.bfloat16), random(rng, (n, k), ml_dtypes.bfloat16)
    c = on_device(poisoned((m, n), ml_dtypes.bfloat16))
    gemm_cluster_k(on_device(a), on_device(b), c, **tiles)
    return error(c, a.astype(np.float64) @ b.astype(np.float64).T)


if __name__ == "__main__" and has_form("cluster", "clusters"):
    for m, n, k in ((1, 1, 1), (64, 64, 512), (100, 72, 1000)):
        for splits in (2, 4):
            report(f"gemm_cluster_k {m}x{n}x{k} in {splits}", run(m, n, k, splits=splits), 4e-3)
