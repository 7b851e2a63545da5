"""C = A · Bᵀ (or A · B) in bf16, persistent: each block multiplies every `blocks`-th tile.

On sm_90a a tile's results are on their way to memory while the next one's operands arrive: the warp that copies runs
ahead across tiles. With `teams=2` either half of the threads has every second tile of the block, so that one stores
while the other multiplies ("ping-pong"). `blocks` is best the number of multiprocessors. The blocks of a `cluster` have
tiles of neighbouring rows, and one copy of B's for all. `xcds` is 8 on MI300X and MI355X, one L2 each.
`dynamic`: on sm_100a and sm_103a a block that is done takes the next tile that no other has taken.
"""

from functools import cache

import ml_dtypes
import numpy as np
from support import error, on_device, poisoned, random, report

import minitile as mt
import minitile.language as T


@cache
def make_gemm_persistent(transpose_B=True):
    """C = A · Bᵀ, or A · B: A is M × K, B then N × K, or K × N."""

    @mt.kernel
    def gemm_persistent(
        A: T.Tensor(("M", "K"), T.bfloat16),
        B: T.Tensor(("N", "K") if transpose_B else ("K", "N"), T.bfloat16),
        C: T.Tensor(("M", "N"), T.bfloat16),
        blocks=132,
        block_M=128,
        block_N=128,
        block_K=32,
        num_stages=3,
        threads=256,
        panel=8,
        teams=2,
        cluster=1,
        xcds=1,
        dynamic=False,
    ):
        M, N = C.shape
        K = A.shape[1]
        with T.Kernel(blocks, threads=threads, cluster=cluster) as block:
            T.pdl_trigger()
            T.pdl_sync()
            A_shared = T.alloc_shared((block_M, block_K), A.dtype)
            B_shared = T.alloc_shared((block_N, block_K) if transpose_B else (block_K, block_N), B.dtype)
            C_local = T.alloc_fragment((block_M, block_N), T.float32)
            tiles = [T.ceildiv(M, block_M), T.ceildiv(N, block_N)]
            order = {"group_size": panel, "teams": teams, "num_xcds": xcds, "dynamic": dynamic}
            for by, bx in T.Persistent(tiles, blocks, block, **order):
                T.clear(C_local)
                for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                    T.copy(A[by * block_M, k * block_K], A_shared)
                    if transpose_B:
                        T.copy(B[bx * block_N, k * block_K], B_shared)
                    else:
                        T.copy(B[k * block_K, bx * block_N], B_shared)
                    T.gemm(A_shared, B_shared, C_local, transpose_B=transpose_B)
                T.copy(C_local, C[by * block_M, bx * block_N])

    return gemm_persistent


gemm_persistent = make_gemm_persistent()


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
