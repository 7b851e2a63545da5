"""C = A · Bᵀ in bf16 by blocks that stay: each multiplies every `blocks`-th tile.

On sm_90a a tile's results are on their way to memory while the next one's operands arrive: the warp that copies runs
ahead across tiles. `blocks` is best the number of multiprocessors. The blocks of a `cluster` have tiles of neighbouring
rows, and one copy of B's for all.
"""

import ml_dtypes
import numpy as np
from support import error, on_device, poisoned, random, report

import minitile as mt
import minitile.language as T


@mt.kernel
def gemm_persistent(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.bfloat16),
    blocks=132,
    block_M=128,
    block_N=128,
    block_K=32,
    num_stages=3,
    threads=128,
    panel=8,
    cluster=1,
):
    M, K = A.shape
    N = B.shape[0]
    with T.Kernel(blocks, threads=threads, cluster=cluster) as block:
        A_shared = T.alloc_shared((block_M, block_K), A.dtype)
        B_shared = T.alloc_shared((block_N, block_K), B.dtype)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        for by, bx in T.Persistent([T.ceildiv(M, block_M), T.ceildiv(N, block_N)], blocks, block, group_size=panel):
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[bx * block_N, k * block_K], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            T.copy(C_local, C[by * block_M, bx * block_N])


def run(m: int, n: int, k: int, seed: int = 0, **tiles) -> float:
    """The relative error on random matrices."""
    rng = np.random.default_rng(seed)
    a, b = random(rng, (m, k), ml_dtypes.bfloat16), random(rng, (n, k), ml_dtypes.bfloat16)
    c = on_device(poisoned((m, n), ml_dtypes.bfloat16))
    gemm_persistent(on_device(a), on_device(b), c, **tiles)
    return error(c, a.astype(np.float64) @ b.astype(np.float64).T)


if __name__ == "__main__":
    tiles = {"block_M": 64, "block_N": 64, "blocks": 3}
    for m, n, k in ((256, 192, 96), (300, 130, 72), (1, 17, 8)):
        report(f"gemm_persistent {m}x{n}x{k}", run(m, n, k, **tiles), 4e-3)
