"""Kernels of transposes for benchmarks/sweep_scans.py, beside those of mt.ops that they may replace."""

from __future__ import annotations

import minitile.language as T
from minitile.driver.jit import kernel
from minitile.ops.memory_bound.launches import in_order, room_for
from minitile.ops.memory_bound.transpose import tile_of


def hinted(A, B, load, store):
    """Which lines L2 lets go first."""
    if load:
        T.annotate_eviction_policy({A: load})
    if store:
        T.annotate_eviction_policy({B: store})


@kernel
def turn_squares(
    A: T.Tensor(("S", "M", "N"), None),
    B: T.Tensor(("S", "N", "M"), None),
    block_M=128,
    block_N=128,
    threads=256,
    panel=0,
    beside=0,
    load="",
    store="",
):
    """`transpose_registers`, with registers for so many blocks of a multiprocessor (0: as many as the assembler likes)
    and hints for L2."""
    S, M, N = A.shape
    with T.Kernel(T.ceildiv(N, block_N) * T.ceildiv(M, block_M) * S, threads=threads) as block:
        room_for(beside)
        hinted(A, B, load, store)
        s, row, column = tile_of(block, M, N, block_M, block_N, panel)
        in_order()
        for i, j in T.Parallel(block_M, block_N):
            B[s, column + j, row + i] = A[s, row + i, column + j]


@kernel
def turn_tile(
    A: T.Tensor(("S", "M", "N"), None),
    B: T.Tensor(("S", "N", "M"), None),
    block_M=64,
    block_N=64,
    threads=128,
    panel=0,
    beside=0,
    bulk=False,
    load="",
    store="",
):
    """Rows are loaded by vectors to registers and go to a turned tile in shared memory, element by element. The
    result's rows leave it by vectors, a row's neighbours by neighbours, or all at once by TMA (`bulk`)."""
    S, M, N = A.shape
    with T.Kernel(T.ceildiv(N, block_N) * T.ceildiv(M, block_M) * S, threads=threads) as block:
        room_for(beside)
        hinted(A, B, load, store)
        s, row, column = tile_of(block, M, N, block_M, block_N, panel)
        in_order()
        tile = T.alloc_shared((block_N, block_M), A.dtype)
        for i, j in T.Parallel(block_M, block_N):
            tile[j, i] = A[s, row + i, column + j]
        if bulk:
            T.copy(tile, B[s, column, row])
        else:
            for j, i in T.Parallel(block_N, block_M):
                B[s, column + j, row + i] = tile[j, i]
