"""Rows of A by groups, each multiplied with its group's B, in bf16: the GEMMs of a mixture of experts.

Contiguous: the groups' rows lie in sequence, each group from a multiple of block_M on; `group_of` has the group
of each row, and -1 for the rows that fill the gaps. Masked: A and C have room for as many rows in each group, and
`counts` says how many there are. A row of C that is none of a group's may hold anything afterwards.

The forms are those of deepseek-ai/DeepGEMM (m_grouped_gemm_nt_contiguous and m_grouped_gemm_nt_masked).

Ragged: the same without gaps. `ends` says where each group ends, anywhere; the kernel is persistent: blocks find the
tiles of all groups by themselves. On sm_90a the warp that copies runs ahead from tile to tile, over the groups' ends. A
tile may begin in one group and end in the next one, so that what is stored is cut off at the group's end.
mt.ops.grouped_matmul is this kernel for more dtypes and layouts.
"""

import ml_dtypes
import numpy as np
from support import error, on_device, on_host, poisoned, random, report

import minitile as mt
import minitile.language as T


@mt.kernel
def gemm_contiguous(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("groups", "N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.bfloat16),
    group_of: T.Tensor(("M",), T.int32),
    block_M=64,
    block_N=64,
    block_K=32,
    num_stages=3,
    threads=128,
):
    M, K = A.shape
    N = B.shape[1]
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), A.dtype)
        B_shared = T.alloc_shared((block_N, block_K), B.dtype)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        group = group_of[by * block_M]
        if group >= 0:
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[group, bx * block_N, k * block_K], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            T.copy(C_local, C[by * block_M, bx * block_N])


@mt.kernel
def gemm_masked(
    A: T.Tensor(("groups", "M", "K"), T.bfloat16),
    B: T.Tensor(("groups", "N", "K"), T.bfloat16),
    C: T.Tensor(("groups", "M", "N"), T.bfloat16),
    counts: T.Tensor(("groups",), T.int32),
    block_M=64,
    block_N=64,
    block_K=32,
    num_stages=3,
    threads=128,
):
    groups, M, K = A.shape
    N = B.shape[1]
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), groups, threads=threads) as (bx, by, group):
        A_shared = T.alloc_shared((block_M, block_K), A.dtype)
        B_shared = T.alloc_shared((block_N, block_K), B.dtype)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        if by * block_M < counts[group]:
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[group, by * block_M, k * block_K], A_shared)
                T.copy(B[group, bx * block_N, k * block_K], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            T.copy(C_local, C[group, by * block_M, bx * block_N])


def tile_at(number, ends, columns, block_M, panel):
    """Of all groups' tiles in a row tile `number`: its group, first row, where the group ends, its column of tiles.
    Within a group tiles are numbered down panels of `panel` rows of tiles. The last group that begins at a tile up to
    `number` is the one: empty groups in front of it begin at the same tile."""
    group, low, high, first = 0, 0, 0, 0
    start, tiles = 0, 0
    for g in range(ends.shape[0]):
        end = ends[g]
        if tiles <= number:
            group, low, high, first = g, start, end, tiles
        tiles += T.ceildiv(end - start, block_M) * columns
        start = end
    top = (number - first) // (columns * panel) * panel
    inside = number - first - top * columns
    height = T.min(T.ceildiv(high - low, block_M) - top, panel)
    return group, low + (top + inside % height) * block_M, high, inside // height


@mt.kernel
def gemm_behind_each_other(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("groups", "N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.bfloat16),
    ends: T.Tensor(("groups",), T.int32),
    blocks=132,
    block_M=64,
    block_N=64,
    block_K=32,
    num_stages=3,
    threads=256,
    panel=8,
    teams=2,
):
    N, K = B.shape[1:]
    with T.Kernel(blocks, threads=threads) as block:
        A_shared = T.alloc_shared((block_M, block_K), A.dtype)
        B_shared = T.alloc_shared((block_N, block_K), B.dtype)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        columns = T.ceildiv(N, block_N)
        total, start = 0, 0
        for g in range(ends.shape[0]):
            total += T.ceildiv(ends[g] - start, block_M) * columns
            start = ends[g]
        for (number,) in T.Persistent([total], blocks, block, teams=teams):
            group, row, end, column = tile_at(number, ends, columns, block_M, panel)
            left = column * block_N
            T.assume(group >= 0 and row >= 0 and left >= 0)  # nothing is known of numbers from memory: TMA stores ask
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[row, k * block_K], A_shared)
                T.copy(B[group, left, k * block_K], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            if row + block_M <= end:
                T.copy(C_local, C[row, left])
            else:
                for i, j in T.Parallel(block_M, block_N):
                    if row + i < end:
                        C[row + i, left + j] = C_local[i, j]


def run_contiguous(counts: list[int], n: int, k: int, seed: int = 0, block_M: int = 64, **tiles) -> float:
    """The relative error over the groups' rows, on random matrices; what fills the gaps of A is NaN."""
    rng = np.random.default_rng(seed)
    starts = np.cumsum([0, *(-(-count // block_M) * block_M for count in counts)])
    group_of = np.full(starts[-1], -1, np.int32)
    for group, (start, count) in enumerate(zip(starts, counts, strict=False)):
        group_of[start : start + count] = group
    a, b = random(rng, (starts[-1], k), ml_dtypes.bfloat16), random(rng, (len(counts), n, k), ml_dtypes.bfloat16)
    real = group_of >= 0
    a[~real] = np.nan
    c = on_device(poisoned((starts[-1], n), ml_dtypes.bfloat16))
    gemm_contiguous(on_device(a), on_device(b), c, on_device(group_of), block_M=block_M, **tiles)
    exact = np.einsum("mk,mnk->mn", a[real].astype(np.float64), b[group_of[real]].astype(np.float64))
    return error(on_host(c)[real], exact)


def run_masked(counts: list[int], m: int, n: int, k: int, seed: int = 0, **tiles) -> float:
    """The same; each group has room for m rows."""
    rng = np.random.default_rng(seed)
    a = random(rng, (len(counts), m, k), ml_dtypes.bfloat16)
    b = random(rng, (len(counts), n, k), ml_dtypes.bfloat16)
    real = np.arange(m) < np.array(counts)[:, None]
    a[~real] = np.nan
    c = on_device(poisoned((len(counts), m, n), ml_dtypes.bfloat16))
    gemm_masked(on_device(a), on_device(b), c, on_device(np.array(counts, np.int32)), **tiles)
    exact = a.astype(np.float64) @ b.astype(np.float64).transpose(0, 2, 1)
    return error(on_host(c)[real], exact[real])


def run_behind_each_other(counts: list[int], n: int, k: int, seed: int = 0, **tiles) -> float:
    """The same, with rows of A behind the last group, whose rows of C must stay as they were."""
    rng = np.random.default_rng(seed)
    ends = np.cumsum(counts).astype(np.int32)
    rows, group_of = int(ends[-1]), np.repeat(np.arange(len(counts)), counts)
    a, b = random(rng, (rows + 3, k), ml_dtypes.bfloat16), random(rng, (len(counts), n, k), ml_dtypes.bfloat16)
    a[rows:] = np.nan
    c = on_device(poisoned((rows + 3, n), ml_dtypes.bfloat16))
    gemm_behind_each_other(on_device(a), on_device(b), c, on_device(ends), **tiles)
    found = on_host(c)
    if not np.isnan(found[rows:].astype(np.float32)).all():
        return np.inf
    return error(found[:rows], np.einsum("mk,mnk->mn", a[:rows].astype(np.float64), b[group_of].astype(np.float64)))


if __name__ == "__main__":
    counts = [17, 0, 64, 1, 100]
    report(f"gemm_contiguous {counts}", run_contiguous(counts, 136, 200), 4e-3)
    report(f"gemm_masked {counts}", run_masked(counts, 128, 136, 200), 4e-3)
    report(f"gemm_behind_each_other {counts}", run_behind_each_other(counts, 136, 200, blocks=3), 4e-3)
