"""Kernels in TileLang's spelling, whose annotations are calls: the one line below is what type checkers need."""

# mypy: disable-error-code="valid-type"
# pyright: reportInvalidTypeForm=false

import minitile as mt
import minitile.language as T


@mt.kernel
def matmul(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.bfloat16),
    alpha: T.float32 = 1.0,
    block_M: int = 128,
    block_N: int = 256,
    block_K: int = 32,
    num_stages: int = 4,
    threads: int = 256,
) -> None:
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
            C_local[i, j] *= alpha
        T.copy(C_local, C[by * block_M, bx * block_N])
