"""B = Aᵀ through shared memory: rows are read and rows are written, the turn happens in between.

The shared tile gets the layout with the fewest bank conflicts of both accesses; no padding by hand.
"""

import numpy as np
from support import error, on_device, poisoned, random, report

import minitile as mt
import minitile.language as T


@mt.kernel
def transpose(A: T.Tensor(("M", "N"), T.float32), B: T.Tensor(("N", "M"), T.float32), block=64, threads=256):
    M, N = A.shape
    with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=threads) as (bx, by):
        tile = T.alloc_shared((block, block), A.dtype)
        T.copy(A[by * block, bx * block], tile)
        for i, j in T.Parallel(block, block):
            B[bx * block + i, by * block + j] = tile[j, i]


def run(m: int, n: int, seed: int = 0) -> float:
    """The relative error on a random m × n matrix."""
    a = random(np.random.default_rng(seed), (m, n))
    b = on_device(poisoned((n, m)))
    transpose(on_device(a), b)
    return error(b, a.T)


if __name__ == "__main__":
    for m, n in ((1, 1), (64, 128), (100, 37), (257, 129)):
        report(f"transpose {m}x{n}", run(m, n), 0)
