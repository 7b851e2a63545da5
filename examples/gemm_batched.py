"""C[b] = A[b] · B[b]ᵀ for each b of a batch, in bf16: one grid, tensors of three dimensions."""

import ml_dtypes
import numpy as np
from support import error, on_device, poisoned, random, report

import minitile as mt
import minitile.language as T


@mt.kernel
def gemm_batched(
    A: T.Tensor(("batch", "M", "K"), T.bfloat16),
    B: T.Tensor(("batch", "N", "K"), T.bfloat16),
    C: T.Tensor(("batch", "M", "N"), T.bfloat16),
    block_M=64,
    block_N=64,
    block_K=32,
    num_stages=3,
    threads=128,
):
    batch, M, K = A.shape
    N = B.shape[1]
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), batch, threads=threads) as (bx, by, bz):
        A_shared = T.alloc_shared((block_M, block_K), A.dtype)
        B_shared = T.alloc_shared((block_N, block_K), B.dtype)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
            T.copy(A[bz, by * block_M, k * block_K], A_shared)
            T.copy(B[bz, bx * block_N, k * block_K], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_B=True)
        T.copy(C_local, C[bz, by * block_M, bx * block_N])


def run(batch: int, m: int, n: int, k: int, seed: int = 0, **tiles) -> float:
    """The relative error on random matrices."""
    rng = np.random.default_rng(seed)
    a, b = random(rng, (batch, m, k), ml_dtypes.bfloat16), random(rng, (batch, n, k), ml_dtypes.bfloat16)
    c = on_device(poisoned((batch, m, n), ml_dtypes.bfloat16))
    gemm_batched(on_device(a), on_device(b), c, **tiles)
    return error(c, a.astype(np.float64) @ b.astype(np.float64).transpose(0, 2, 1))


if __name__ == "__main__":
    for batch, m, n, k in ((1, 1, 1, 1), (3, 64, 64, 128), (2, 100, 72, 200)):
        report(f"gemm_batched {batch}x{m}x{n}x{k}", run(batch, m, n, k), 4e-3)
