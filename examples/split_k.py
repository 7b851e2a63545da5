"""C = A · Bᵀ with K split over blocks, each of which adds its share by atomics. C is f32 and starts at zero."""

import ml_dtypes
import numpy as np
from support import error, on_device, random, report

import minitile as mt
import minitile.language as T


@mt.kernel
def split_k(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.float32),
    splits=4,
    block_M=64,
    block_N=64,
    block_K=32,
    num_stages=3,
    threads=128,
):
    M, K = A.shape
    N = B.shape[0]
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), splits, threads=threads) as (bx, by, bz):
        A_shared = T.alloc_shared((block_M, block_K), A.dtype)
        B_shared = T.alloc_shared((block_N, block_K), B.dtype)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(C_local)
        steps = T.ceildiv(T.ceildiv(K, block_K), splits)
        for k in T.Pipelined(steps, num_stages=num_stages):
            T.copy(A[by * block_M, (bz * steps + k) * block_K], A_shared)
            T.copy(B[bx * block_N, (bz * steps + k) * block_K], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_B=True)
        T.atomic_add(C[by * block_M, bx * block_N], C_local)


def run(m: int, n: int, k: int, seed: int = 0) -> float:
    """The relative error on random matrices."""
    rng = np.random.default_rng(seed)
    a, b = random(rng, (m, k), ml_dtypes.bfloat16), random(rng, (n, k), ml_dtypes.bfloat16)
    c = on_device(np.zeros((m, n), np.float32))
    split_k(on_device(a), on_device(b), c)
    return error(c, a.astype(np.float64) @ b.astype(np.float64).T)


if __name__ == "__main__":
    for m, n, k in ((1, 1, 1), (64, 64, 512), (100, 72, 1000)):
        report(f"split_k {m}x{n}x{k}", run(m, n, k), 1e-6)
