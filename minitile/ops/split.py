"""A GEMM whose blocks share the tiles of C: each multiplies a part of K, and together they add the parts up.

The blocks of one tile stand next to each other in the grid. Each writes its sums to the workspace, says so, waits for
the others, and adds all parts of some of the rows, in the order of K: the bits are the same each time.

    block 0   products of K[0:k/2]  → workspace, flags | wait | rows  0..63 of parts 0 + 1 → C
    block 1   products of K[k/2:k]  → workspace, flags | wait | rows 64..127               → C

There is a flag for each pair of a block that writes and one that reads: ARRIVED or anything else. The reader takes it
by exchanging it with 0, so that no flag is up when the kernel ends, and none has to be put down before it begins: the
workspace may hold whatever it likes, short of 64 particular bits. So launches on different streams, or in CUDA graphs,
have nothing in common that anybody had to make ready.

A waiting block holds its multiprocessor, and those it waits for are the blocks before and behind it: while all blocks
of one tile find room on the GPU beside other kernels, some tile always ends.
"""

from __future__ import annotations

from functools import lru_cache

import minitile.language as T
from minitile.ir.types import DType
from minitile.jit import Kernel, kernel
from minitile.ops.gemm import accumulate, operand_dims

ARRIVED = 0x5A1793C4E80B2FD6


def arrive(flags, tile, part, parts):
    """All threads' writes are done, and the blocks of the tile may know."""
    T.sync_threads()
    reader = T.get_thread_binding()
    if reader < parts:
        T.fence("gpu")
        T.atomic_exch(flags[tile, reader, part], ARRIVED)


def wait_for_all(flags, tile, part, parts):
    """Until the writes of all `parts` blocks of the tile can be seen."""
    writer = T.get_thread_binding()
    if writer < parts:
        while T.atomic_exch(flags[tile, part, writer], 0, return_prev=True) != ARRIVED:
            pass
        T.fence("gpu")
    T.sync_threads()


def rows_at_once(block_M: int, block_N: int, threads: int, parts: int) -> int:
    """The rows of a tile that one of its blocks adds: no fewer than an equal share, a divisor of block_M, and enough
    that each thread has 16 bytes of each part. So the last may have none: 3 parts of 128 rows are 64, 64 and 0."""
    grain = max(1, 4 * threads // block_N)
    return min(
        (d for d in range(1, block_M) if block_M % d == 0 and d * parts >= block_M and d >= grain), default=block_M
    )


@lru_cache
def gemm_together(dtype: DType, result: DType, transpose_a: bool, transpose_b: bool, loose: bool) -> Kernel:
    """C = op(A) · op(B), as `gemm`; K in `parts`, in as many blocks for each tile.

    sums: a workspace of f32, (tiles · parts) × block_M × block_N; flags: another of i64, tiles × parts × parts.
    """
    a_dims, b_dims = operand_dims(transpose_a, transpose_b, loose)

    @kernel
    def gemm_together(
        A: T.Tensor(a_dims, dtype),
        B: T.Tensor(b_dims, dtype),
        C: T.Tensor(("M", "N"), result),
        sums: T.Tensor(("slots", "block_M", "block_N"), T.float32),
        flags: T.Tensor(("tiles", "parts", "parts"), T.int64),
        block_M=128,
        block_N=128,
        block_K=64,
        stages=4,
        threads=256,
        parts=2,
        swap=False,
    ):
        M, N = C.shape
        columns = T.ceildiv(N, block_N)
        with T.Kernel(parts, columns, T.ceildiv(M, block_M), threads=threads) as (part, bx, by):
            if loose:
                T.pdl_sync()
            A_shared = T.alloc_shared((block_K, block_M) if transpose_a else (block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_N, block_K) if transpose_b else (block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_N, block_M) if swap else (block_M, block_N), T.float32)
            steps = T.ceildiv(A.shape[0] if transpose_a else A.shape[1], block_K)
            accumulate(
                A, B, A_shared, B_shared, C_local, by * block_M, bx * block_N,
                part * steps // parts, (part + 1) * steps // parts, stages, transpose_a, transpose_b, swap,
            )  # fmt: skip
            tile = by * columns + bx
            slot = tile * parts
            if swap:
                for n, m in T.Parallel(block_N, block_M):
                    sums[slot + part, m, n] = C_local[n, m]
            else:
                T.copy(C_local, sums[slot + part, 0, 0])
            arrive(flags, tile, part, parts)
            wait_for_all(flags, tile, part, parts)
            rows = rows_at_once(block_M, block_N, threads, parts)
            if part * rows < block_M:
                first = part * rows
                total, one = (T.alloc_fragment((rows, block_N), T.float32) for _ in range(2))
                T.copy(sums[slot, first, 0], total)
                for other in T.unroll(1, parts):
                    T.copy(sums[slot + other, first, 0], one)
                    for i, j in T.Parallel(rows, block_N):
                        total[i, j] += one[i, j]
                T.copy(total, C[by * block_M + first, bx * block_N])

    return gemm_together
