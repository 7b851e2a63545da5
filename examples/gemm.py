"""C = op(A) · op(B), op the identity or the transpose, in bf16, f16, tf32, int8 and (from sm_89 on) fp8.

The kernel is the plain one: copy, copy, multiply. Pipelining, swizzled shared memory, ldmatrix and mma follow from it.
`panel` is the height in tiles of the panels in which blocks are visited, 0 for row by row; `persistent` how many blocks
take one tile after the other, 0 for one each. `xcds`: how many an AMD GPU has, 8 on MI300X and MI355X. Blocks of a
`cluster` (along columns, along rows) copy together what they have in common.
"""

from functools import lru_cache

import ml_dtypes
import numpy as np
from support import error, on_device, poisoned, random, report

import minitile as mt
import minitile.language as T

DTYPES = {  # name: element, accumulator, NumPy element, bound on the relative error
    "bf16": (T.bfloat16, T.float32, ml_dtypes.bfloat16, 4e-3),
    "f16": (T.float16, T.float32, np.float16, 5e-4),
    "tf32": (T.float32, T.float32, np.float32, 1e-3),
    "int8": (T.int8, T.int32, np.int8, 0),
}
FP8 = {  # C is f32; sm_90a adds the products with about 14 bits of mantissa
    "e4m3": (T.float8_e4m3, T.float32, ml_dtypes.float8_e4m3fn, 2e-3),
    "e5m2": (T.float8_e5m2, T.float32, ml_dtypes.float8_e5m2, 2e-3),
}


@lru_cache
def make_gemm(dtype, accumulate, result, transpose_A=False, transpose_B=False):
    """The kernel for one combination of dtypes and transposes."""
    a_shape = ("K", "M") if transpose_A else ("M", "K")
    b_shape = ("N", "K") if transpose_B else ("K", "N")

    @mt.kernel
    def gemm(
        A: T.Tensor(a_shape, dtype),
        B: T.Tensor(b_shape, dtype),
        C: T.Tensor(("M", "N"), result),
        block_M=128,
        block_N=128,
        block_K=32,
        num_stages=3,
        threads=128,
        panel=0,
        persistent=0,
        xcds=1,
        cluster=(1, 1),
    ):
        M, N = C.shape
        K = A.shape[0] if transpose_A else A.shape[1]
        tiles = T.ceildiv(N, block_N), T.ceildiv(M, block_M)
        grid = [T.ceildiv(n, c) * c for n, c in zip(tiles, cluster, strict=True)]
        with T.Kernel(*grid, threads=threads, persistent=persistent, cluster=cluster) as (bx, by):
            if panel or xcds > 1:
                T.use_swizzle(panel or 1, num_xcds=xcds)
            A_shared = T.alloc_shared((block_K, block_M) if transpose_A else (block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_N, block_K) if transpose_B else (block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accumulate)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                if transpose_A:
                    T.copy(A[k * block_K, by * block_M], A_shared)
                else:
                    T.copy(A[by * block_M, k * block_K], A_shared)
                if transpose_B:
                    T.copy(B[bx * block_N, k * block_K], B_shared)
                else:
                    T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_A=transpose_A, transpose_B=transpose_B)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return gemm


def gemm_nt_bf16():
    """The kernel of the demo and of the benchmarks: A is M×K, B is N×K, both bf16."""
    return make_gemm(T.bfloat16, T.float32, T.bfloat16, False, True)


def run(m: int, n: int, k: int, name: str = "bf16", ta: bool = False, tb: bool = True, seed: int = 0, **tiles) -> float:
    """The relative error on random matrices."""
    dtype, accumulate, element, _ = (DTYPES | FP8)[name]
    narrow = np.dtype(element).itemsize == 1  # the result has the accumulator's dtype
    wide = np.int32 if accumulate == T.int32 else np.float32
    rng = np.random.default_rng(seed)
    a = random(rng, (k, m) if ta else (m, k), element)
    b = random(rng, (n, k) if tb else (k, n), element)
    c = on_device(poisoned((m, n), wide if narrow else element))
    make_gemm(dtype, accumulate, accumulate if narrow else dtype, ta, tb)(on_device(a), on_device(b), c, **tiles)
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    return error(c, (wide_a.T if ta else wide_a) @ (wide_b.T if tb else wide_b))


if __name__ == "__main__":
    for name, (_, _, _, bound) in DTYPES.items():
        for ta, tb in ((False, True), (False, False), (True, False), (True, True)):
            form = ("T" if ta else "N") + ("T" if tb else "N")
            report(f"gemm {form} {name} 200x136x104", run(200, 136, 104, name, ta, tb), bound)
