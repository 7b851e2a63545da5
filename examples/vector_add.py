"""c = a + b: the smallest kernel. One block adds 1024 elements; the last block's tail is cut off by the bounds."""

import numpy as np
from support import error, on_device, poisoned, random, report

import minitile as mt
import minitile.language as T


@mt.kernel
def add(
    A: T.Tensor(("N",), T.float32),
    B: T.Tensor(("N",), T.float32),
    C: T.Tensor(("N",), T.float32),
    block=1024,
    threads=128,
):
    N = A.shape[0]
    with T.Kernel(T.ceildiv(N, block), threads=threads) as bx:
        for i in T.Parallel(block):
            C[bx * block + i] = A[bx * block + i] + B[bx * block + i]


def run(n: int, seed: int = 0) -> float:
    """The relative error on n random elements."""
    rng = np.random.default_rng(seed)
    a, b = random(rng, (n,)), random(rng, (n,))
    c = on_device(poisoned((n,)))
    add(on_device(a), on_device(b), c)
    return error(c, a.astype(np.float64) + b)


if __name__ == "__main__":
    for n in (1, 17, 1000, 100_003):
        report(f"add {n}", run(n), 1e-7)
