"""C = A · Bᵀ of fp8 matrices with scales, persistent: as fast as it goes, or as exact as f32 sums are.

Hopper's tensor cores add the products of fp8 numbers with about 14 bits. That is enough for some hundreds of products;
beyond, `promote=True` has them start anew every block_K of K, and adds the partial sums in f32.

- `gemm_fp8`: a scale for each tensor (of one element), or for each row of A and each row of B.
- `gemm_fp8_blocks`: a scale for each 1 × 128 of A and each 128 × 128 of B, which must go into the sums every 128 of K.
  The scales of A are K-major as (K / 128, M), so that a tile's are neighbours and TMA brings them with the tile.

With `overlap=True` a partial sum is added while the tensor cores make the next one, an iteration behind: a schedule of
T.Pipelined. It takes registers for two partial sums. With `teams=2` one half of the threads stores while the other one
multiplies. Tiles with scales by block may have any width: what this and 128 have in common is how many columns share a
scale for sure.

On sm_90a multiplication is wgmma, for which K is contiguous in both operands. A partial sum stays in wgmma's registers:
the gemm that starts it anew clears nothing (scale-d is 0), and what is added to the sum is read from there.
"""

import math
import os
from typing import Any

import ml_dtypes
import numpy as np
from support import USE_GPU, error, has_form, on_device, poisoned, report

import minitile as mt
import minitile.language as T

SCALED = 128  # elements along K, and rows of B, that share a scale


def schedule(copies, overlap):
    """Of a loop that copies, multiplies, adds: copies go ahead; with `overlap` what is added is an iteration behind."""
    order = [-1] * copies + [0, 1]
    return {"order": order, "stage": order} if overlap else {}


@mt.kernel
def gemm_fp8(
    A: T.Tensor(("M", "K"), None),
    B: T.Tensor(("N", "K"), None),
    scale_A: T.Tensor(("SA",), T.float32),
    scale_B: T.Tensor(("SB",), T.float32),
    C: T.Tensor(("M", "N"), T.bfloat16),
    per_row=False,
    promote=False,
    overlap=False,
    blocks=132,
    block_M=128,
    block_N=128,
    block_K=128,
    num_stages=4,
    threads=256,
    panel=8,
    teams=1,
):
    """SA and SB are 1, with `per_row` M and N."""
    M, K = A.shape
    N = B.shape[0]
    with T.Kernel(blocks, threads=threads) as block:
        A_shared = T.alloc_shared((block_M, block_K), A.dtype)
        B_shared = T.alloc_shared((block_N, block_K), B.dtype)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        part = T.alloc_fragment((block_M, block_N), T.float32)
        tiles = [T.ceildiv(M, block_M), T.ceildiv(N, block_N)]
        for by, bx in T.Persistent(tiles, blocks, block, group_size=panel, teams=teams):
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages, **schedule(2, promote and overlap)):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[bx * block_N, k * block_K], B_shared)
                if promote:
                    T.gemm(A_shared, B_shared, part, transpose_B=True, clear_accum=True)
                    for i, j in T.Parallel(block_M, block_N):
                        C_local[i, j] += part[i, j]
                else:
                    T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            if per_row:
                for i, j in T.Parallel(block_M, block_N):
                    C_local[i, j] *= scale_A[by * block_M + i] * scale_B[bx * block_N + j]
            else:
                scale = scale_A[0] * scale_B[0]
                for i, j in T.Parallel(block_M, block_N):
                    C_local[i, j] *= scale
            T.copy(C_local, C[by * block_M, bx * block_N])


def choose(values, starts, n):
    """The value of the range that n is in, by where ranges start."""
    found = values[0]
    for value, start in zip(values[1:], starts[1:], strict=True):
        found = value if n >= start else found
    return found


@mt.kernel
def gemm_fp8_blocks(
    A: T.Tensor(("M", "K"), None),
    B: T.Tensor(("N", "K"), None),
    scale_A: T.Tensor(("KB", "M"), T.float32),
    scale_B: T.Tensor(("NB", "KB"), T.float32),
    C: T.Tensor(("M", "N"), T.bfloat16),
    overlap=False,
    blocks=132,
    block_M=128,
    block_N=128,
    num_stages=4,
    threads=256,
    panel=8,
    teams=1,
):
    """KB and NB are K and N by 128, rounded up."""
    M, K = A.shape
    N = B.shape[0]
    starts = range(0, block_N, math.gcd(block_N, SCALED))  # of columns of a tile that may have scales of their own
    with T.Kernel(blocks, threads=threads) as block:
        A_shared = T.alloc_shared((block_M, SCALED), A.dtype)
        B_shared = T.alloc_shared((block_N, SCALED), B.dtype)
        scales = T.alloc_shared((block_M,), T.float32)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        part = T.alloc_fragment((block_M, block_N), T.float32)
        tiles = [T.ceildiv(M, block_M), T.ceildiv(N, block_N)]
        for by, bx in T.Persistent(tiles, blocks, block, group_size=panel, teams=teams):
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, SCALED), num_stages=num_stages, **schedule(3, overlap)):
                T.copy(A[by * block_M, k * SCALED], A_shared)
                T.copy(B[bx * block_N, k * SCALED], B_shared)
                T.copy(scale_A[k, by * block_M], scales)
                T.gemm(A_shared, B_shared, part, transpose_B=True, clear_accum=True)
                column_scales = [scale_B[(bx * block_N + at) // SCALED, k] for at in starts]
                for i, j in T.Parallel(block_M, block_N):
                    row_scale = scales[i]
                    C_local[i, j] += part[i, j] * choose([row_scale * scale for scale in column_scales], starts, j)
            T.copy(C_local, C[by * block_M, bx * block_N])


DTYPES = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}


def matrices(m: int, n: int, k: int, a: str, b: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Standard normal numbers in fp8."""
    left, right = rng.standard_normal((m, k)), rng.standard_normal((n, k))
    return left.astype(DTYPES[a]), right.astype(DTYPES[b])


def factors(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Scales between 1/4 and 4, most of them no powers of two."""
    return (2.0 ** rng.uniform(-2, 2, shape)).astype(np.float32)


def run(
    m: int,
    n: int,
    k: int,
    a: str = "e4m3",
    b: str = "e4m3",
    per_row: bool = False,
    promote: bool = False,
    overlap: bool = False,
    seed: int = 0,
    **tiles,
) -> float:
    """The relative error on random matrices."""
    rng = np.random.default_rng(seed)
    left, right = matrices(m, n, k, a, b, rng)
    scales = (factors(rng, m), factors(rng, n)) if per_row else (factors(rng, 1), factors(rng, 1))
    c = on_device(poisoned((m, n), ml_dtypes.bfloat16))
    gemm_fp8(*map(on_device, (left, right, *scales)), c, per_row=per_row, promote=promote, overlap=overlap, **tiles)
    wide = (x.astype(np.float64) * s.astype(np.float64)[:, None] for x, s in zip((left, right), scales, strict=True))
    return error(c, next(wide) @ next(wide).T)


def run_blocks(m: int, n: int, k: int, a: str = "e4m3", b: str = "e4m3", seed: int = 0, **tiles) -> float:
    """The relative error on random matrices."""
    rng = np.random.default_rng(seed)
    left, right = matrices(m, n, k, a, b, rng)
    along_k, along_n = np.arange(k) // SCALED, np.arange(n) // SCALED
    scale_a, scale_b = factors(rng, -(-k // SCALED), m), factors(rng, -(-n // SCALED), -(-k // SCALED))
    c = on_device(poisoned((m, n), ml_dtypes.bfloat16))
    gemm_fp8_blocks(*map(on_device, (left, right, scale_a, scale_b)), c, **tiles)
    wide_a = left.astype(np.float64) * scale_a.astype(np.float64).T[:, along_k]
    wide_b = right.astype(np.float64) * scale_b.astype(np.float64)[along_n][:, along_k]
    return error(c, wide_a @ wide_b.T)


BOUND = 4e-3  # bf16 results of sums in f32; on a GPU those of 14 bits are within it as long as K is small


def main() -> None:
    tiles: dict[str, Any] = {"block_M": 64, "block_N": 64, "num_stages": 3, "threads": 128, "blocks": 3}
    for m, n, k in ((128, 192, 384), (100, 72, 208), (1, 17, 16)):
        for a, b in (("e4m3", "e4m3"), ("e5m2", "e4m3")):
            for per_row in (False, True):
                for promote in (False, True):
                    scales, sums = "scales by row" if per_row else "two scales", "promoted" if promote else "fast"
                    name = f"{a} by {b}, {scales}, {sums} {m}x{n}x{k}"
                    report(name, run(m, n, k, a, b, per_row, promote, **tiles), BOUND)
            for overlap in (False, True):
                name = f"{a} by {b}, scales by block, {'overlapped' if overlap else 'in turn'} {m}x{n}x{k}"
                report(name, run_blocks(m, n, k, a, b, overlap=overlap, **tiles), BOUND)


if __name__ == "__main__":
    os.environ.setdefault("MINITILE_TARGET", "auto" if USE_GPU else "sm_90a")
    if has_form("mma_fp8", "products of fp8 numbers"):
        main()
