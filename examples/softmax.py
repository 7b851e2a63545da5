"""Row softmax of a matrix whose rows fit a block: maximum, exponentials and sum stay in registers."""

import numpy as np
from support import error, on_device, poisoned, random, report

import minitile as mt
import minitile.language as T


@mt.kernel
def softmax(X: T.Tensor(("M", "N"), T.float32), Y: T.Tensor(("M", "N"), T.float32), rows=4, columns=1024, threads=128):
    M, N = X.shape
    with T.Kernel(T.ceildiv(M, rows), threads=threads) as bx:
        x = T.alloc_fragment((rows, columns), T.float32)
        largest = T.alloc_fragment((rows,), T.float32)
        total = T.alloc_fragment((rows,), T.float32)
        for i, j in T.Parallel(rows, columns):
            x[i, j] = T.if_then_else(j < N, X[bx * rows + i, j], -T.infinity(T.float32))
        T.reduce_max(x, largest, dim=1)
        for i, j in T.Parallel(rows, columns):
            x[i, j] = T.exp(x[i, j] - largest[i])
        T.reduce_sum(x, total, dim=1)
        for i, j in T.Parallel(rows, columns):
            Y[bx * rows + i, j] = x[i, j] / total[i]


def run(m: int, n: int, seed: int = 0) -> float:
    """The relative error on a random m × n matrix, n at most 1024."""
    x = random(np.random.default_rng(seed), (m, n))
    y = on_device(poisoned((m, n)))
    softmax(on_device(x), y)
    e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    return error(y, e / e.sum(axis=1, keepdims=True))


if __name__ == "__main__":
    for m, n in ((1, 1), (5, 17), (8, 1000), (64, 1024)):
        report(f"softmax {m}x{n}", run(m, n), 1e-6)
