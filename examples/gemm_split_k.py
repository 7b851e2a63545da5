"""C = A · Bᵀ in bf16 with K split over blocks, in one launch, with the same bits each time: for few rows and long K.

The `splits` blocks of a tile of C each multiply their part of K, and write their sums to a workspace. A counter for
each tile says how many have; then the parts are added in their order, whichever block came last. `share=False`: the
last block to arrive adds them all. `share=True`: all blocks of the tile wait for each other, and each adds the parts of
some rows; that is faster, and wants all of a tile's blocks on the GPU at one time (they stand next to each other in the
grid).

`swap=True` multiplies Cᵀ = B · Aᵀ: the rows of C become the columns of the tensor cores' product, whose steps are 8
instead of 64. That is for few rows, down to block_M=8.

On sm_90a `cluster` blocks with neighbouring columns share the rows of A; it divides the number of tiles along N.

The workspace is f32, splits × M × N; `arrived` has a counter for each tile. The counters start at zero and are zero
again when the kernel ends.
"""

import ml_dtypes
import numpy as np
from support import error, on_device, on_host, poisoned, random, report

import minitile as mt
import minitile.language as T

AT_ONCE = 4  # parts that are on their way before they are added


def last_of(count, arrived, tile):
    """Whether the block is the last of `count` to arrive, all of its threads' writes done. The last one sees what the
    others have written."""
    before = T.alloc_shared((1,), T.int32)
    T.sync_threads()
    if T.get_thread_binding() == 0:
        T.fence("gpu")
        before[0] = T.atomic_add(arrived[tile], 1, return_prev=True)
        T.fence("gpu")
    return before[0] == count - 1


def signal(arrived, tile):
    """The block arrives, all of its threads' writes done."""
    T.sync_threads()
    if T.get_thread_binding() == 0:
        T.fence("gpu")
        T.atomic_add(arrived[tile], 1)


def wait_for(count, arrived, tile):
    """Until `count` blocks have arrived: this one sees what they have written."""
    if T.get_thread_binding() == 0:
        while T.atomic_add(arrived[tile], 0, return_prev=True) < count:
            pass
        T.fence("gpu")
    T.sync_threads()


def leave(count, arrived, tile):
    """The last of `count` blocks that have waited leaves the counter at zero."""
    if T.get_thread_binding() == 0 and T.atomic_add(arrived[tile], 1, return_prev=True) == 2 * count - 1:
        T.atomic_exch(arrived[tile], 0)


def add_parts(parts, first, count, row, column, total):
    """total = the sum of `count` parts of the workspace from `first` on, in their order, of the rows and columns that
    start there."""
    part = T.alloc_fragment(total.shape, T.float32)
    outside = parts.shape[0]  # what lies there is zero
    T.clear(total)
    for z in T.serial(0, count, AT_ONCE):
        for q in T.unroll(AT_ONCE):
            T.copy(parts[T.if_then_else(z + q < count, first + z + q, outside), row, column], part)
            for i, j in T.Parallel(*total.shape):
                total[i, j] += part[i, j]


@mt.kernel
def gemm_split_k(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.bfloat16),
    parts: T.Tensor(("splits", "M", "N"), T.float32),
    arrived: T.Tensor(("tiles",), T.int32),
    splits=4,
    share=False,
    swap=False,
    block_M=64,
    block_N=64,
    block_K=64,
    num_stages=4,
    threads=128,
    rows=16,
    cluster=1,
):
    M, K = A.shape
    N = B.shape[0]
    columns = T.ceildiv(N, block_N)
    with T.Kernel(splits, columns, T.ceildiv(M, block_M), threads=threads, cluster=(1, cluster, 1)) as (bz, bx, by):
        A_shared = T.alloc_shared((block_M, block_K), A.dtype)
        B_shared = T.alloc_shared((block_N, block_K), B.dtype)
        C_local = T.alloc_fragment((block_N, block_M) if swap else (block_M, block_N), T.float32)
        steps = T.ceildiv(K, block_K)
        T.clear(C_local)
        for k in T.Pipelined(bz * steps // splits, (bz + 1) * steps // splits, num_stages=num_stages):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[bx * block_N, k * block_K], B_shared)
            if swap:
                T.gemm(B_shared, A_shared, C_local, transpose_B=True)
            else:
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
        tile = by * columns + bx
        if swap:
            for n, m in T.Parallel(block_N, block_M):
                parts[bz, by * block_M + m, bx * block_N + n] = C_local[n, m]
        else:
            T.copy(C_local, parts[bz, by * block_M, bx * block_N])
        total = T.alloc_fragment((rows, block_N), T.float32)
        if share:
            signal(arrived, tile)
            wait_for(splits, arrived, tile)
            for r in T.serial(by * block_M + bz * rows, (by + 1) * block_M, splits * rows):
                add_parts(parts, 0, splits, r, bx * block_N, total)
                T.copy(total, C[r, bx * block_N])
            leave(splits, arrived, tile)
        elif last_of(splits, arrived, tile):
            for r in T.serial(by * block_M, (by + 1) * block_M, rows):
                add_parts(parts, 0, splits, r, bx * block_N, total)
                T.copy(total, C[r, bx * block_N])
            arrived[tile] = 0


def run(m: int, n: int, k: int, seed: int = 0, **tiles) -> float:
    """The relative error on random matrices."""
    rng = np.random.default_rng(seed)
    a, b = random(rng, (m, k), ml_dtypes.bfloat16), random(rng, (n, k), ml_dtypes.bfloat16)
    c = on_device(poisoned((m, n), ml_dtypes.bfloat16))
    splits = tiles.get("splits", 4)
    parts = on_device(poisoned((splits, m, n)))
    counters = on_device(np.zeros(-(-m // tiles.get("block_M", 64)) * -(-n // tiles.get("block_N", 64)), np.int32))
    gemm_split_k(on_device(a), on_device(b), c, parts, counters, **tiles)
    assert not on_host(counters).any()
    return error(c, a.astype(np.float64) @ b.astype(np.float64).T)


if __name__ == "__main__":
    for m, n, k in ((1, 1, 1), (64, 64, 512), (100, 72, 1000)):
        for share in (False, True):
            report(f"gemm_split_k {m}x{n}x{k}", run(m, n, k, share=share), 4e-3)
