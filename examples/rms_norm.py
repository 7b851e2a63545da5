"""RMS norm of bf16 rows of any length: y = x / sqrt(mean(x²) + eps) · w. Rows are read twice, in blocks."""

import ml_dtypes
import numpy as np
from support import error, on_device, poisoned, random, report

import minitile as mt
import minitile.language as T


@mt.kernel
def rms_norm(
    X: T.Tensor(("M", "N"), T.bfloat16),
    W: T.Tensor(("N",), T.bfloat16),
    Y: T.Tensor(("M", "N"), T.bfloat16),
    eps: T.float32,
    rows=4,
    columns=512,
    threads=128,
):
    M, N = X.shape
    with T.Kernel(T.ceildiv(M, rows), threads=threads) as bx:
        squares = T.alloc_fragment((rows, columns), T.float32)
        scale = T.alloc_fragment((rows,), T.float32)
        T.clear(squares)
        for k in T.serial(T.ceildiv(N, columns)):
            for i, j in T.Parallel(rows, columns):
                x = T.cast(X[bx * rows + i, k * columns + j], T.float32)
                squares[i, j] += x * x
        T.reduce_sum(squares, scale, dim=1)
        for i in T.Parallel(rows):
            scale[i] = T.rsqrt(scale[i] / T.cast(N, T.float32) + eps)
        for k in T.serial(T.ceildiv(N, columns)):
            for i, j in T.Parallel(rows, columns):
                x = T.cast(X[bx * rows + i, k * columns + j], T.float32)
                Y[bx * rows + i, k * columns + j] = x * scale[i] * T.cast(W[k * columns + j], T.float32)


def run(m: int, n: int, seed: int = 0) -> float:
    """The relative error on a random m × n matrix."""
    rng = np.random.default_rng(seed)
    x, w = random(rng, (m, n), ml_dtypes.bfloat16), random(rng, (n,), ml_dtypes.bfloat16)
    y = on_device(poisoned((m, n), ml_dtypes.bfloat16))
    rms_norm(on_device(x), on_device(w), y, 1e-5)
    wide = x.astype(np.float64)
    return error(y, wide / np.sqrt((wide**2).mean(axis=1, keepdims=True) + 1e-5) * w.astype(np.float64))


if __name__ == "__main__":
    for m, n in ((1, 1), (5, 17), (8, 1000), (16, 2048)):
        report(f"rms_norm {m}x{n}", run(m, n), 4e-3)
