"""C = gelu(A · Bᵀ + bias): an epilogue on the accumulator while it is in registers."""

import math

import ml_dtypes
import numpy as np
from support import error, on_device, poisoned, random, report

import minitile as mt
import minitile.language as T


def gelu(x):
    """x · Φ(x), by the error function."""
    return 0.5 * x * (1.0 + T.erf(x * math.sqrt(0.5)))


@mt.kernel
def gemm_bias_gelu(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    bias: T.Tensor(("N",), T.float32),
    C: T.Tensor(("M", "N"), T.bfloat16),
    block_M=64,
    block_N=128,
    block_K=32,
    num_stages=3,
    threads=128,
):
    M, K = A.shape
    N = B.shape[0]
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), A.dtype)
        B_shared = T.alloc_shared((block_N, block_K), B.dtype)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[bx * block_N, k * block_K], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_B=True)
        for i, j in T.Parallel(block_M, block_N):
            C_local[i, j] = gelu(C_local[i, j] + bias[bx * block_N + j])
        T.copy(C_local, C[by * block_M, bx * block_N])


def run(m: int, n: int, k: int, seed: int = 0) -> float:
    """The relative error on random matrices."""
    rng = np.random.default_rng(seed)
    a, b = random(rng, (m, k), ml_dtypes.bfloat16), random(rng, (n, k), ml_dtypes.bfloat16)
    bias = random(rng, (n,))
    c = on_device(poisoned((m, n), ml_dtypes.bfloat16))
    gemm_bias_gelu(on_device(a), on_device(b), on_device(bias), c)
    x = a.astype(np.float64) @ b.astype(np.float64).T + bias
    return error(c, 0.5 * x * (1 + np.vectorize(math.erf)(x * math.sqrt(0.5))))


if __name__ == "__main__":
    for m, n, k in ((1, 1, 1), (64, 128, 96), (100, 72, 56)):
        report(f"gemm_bias_gelu {m}x{n}x{k}", run(m, n, k), 4e-3)
