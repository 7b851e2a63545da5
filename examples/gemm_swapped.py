"""C = A · Bᵀ in bf16 for few rows of A, as Cᵀ = B · Aᵀ: the tensor cores' rows, which come by 64, are columns of C.

The rows of C are then the other side of the product, whose steps are 8. The result turns on its way to memory. On
sm_90a `cluster` blocks with neighbouring columns share the rows of A; it divides the number of tiles along N. A kernel
this short gains some 3% from being set up while the one before it ends (T.pdl_sync waits for that), and little more
from having then asked for its first tiles of B, which are taken for weights.
"""

import ml_dtypes
import numpy as np
from support import error, on_device, poisoned, random, report

import minitile as mt
import minitile.language as T


@mt.kernel
def gemm_swapped(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.bfloat16),
    block_M=16,
    block_N=64,
    block_K=64,
    num_stages=4,
    threads=128,
    cluster=1,
):
    M, K = A.shape
    N = B.shape[0]
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads, cluster=cluster) as (bx, by):
        T.pdl_trigger()
        T.pdl_sync(ahead=B)
        A_shared = T.alloc_shared((block_M, block_K), A.dtype)
        B_shared = T.alloc_shared((block_N, block_K), B.dtype)
        C_local = T.alloc_fragment((block_N, block_M), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[bx * block_N, k * block_K], B_shared)
            T.gemm(B_shared, A_shared, C_local, transpose_B=True)
        for n, m in T.Parallel(block_N, block_M):
            C[by * block_M + m, bx * block_N + n] = C_local[n, m]


def run(m: int, n: int, k: int, seed: int = 0, **tiles) -> float:
    """The relative error on random matrices."""
    rng = np.random.default_rng(seed)
    a, b = random(rng, (m, k), ml_dtypes.bfloat16), random(rng, (n, k), ml_dtypes.bfloat16)
    c = on_device(poisoned((m, n), ml_dtypes.bfloat16))
    gemm_swapped(on_device(a), on_device(b), c, **tiles)
    return error(c, a.astype(np.float64) @ b.astype(np.float64).T)


if __name__ == "__main__":
    for m, n, k in ((1, 1, 1), (16, 64, 512), (40, 200, 1000)):
        report(f"gemm_swapped {m}x{n}x{k}", run(m, n, k), 4e-3)
