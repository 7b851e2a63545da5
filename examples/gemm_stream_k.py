"""C = A · Bᵀ in bf16, persistent: the blocks share the work evenly, in steps of K instead of tiles (stream-K).

Tiles that are no multiple of `blocks` leave blocks without work in the last wave. Here the tiles that are left over
from whole waves, and one wave more, lie in one row of steps, and each block takes an equal piece of it.
A piece begins and ends in the middle of tiles, so that some tiles come in parts: these go to a workspace, and the
blocks that share a tile add them, each some rows of it, in the order of K: the bits are the same each time. That comes
last, behind the whole tiles, when no block has to wait long. A piece meets tile t in block b; t + b differs for all
such pairs and is the part's place in the workspace.

The blocks wait for each other: there must not be more of them than fit on the GPU at one time. The workspace is f32,
(tiles + blocks) × block_M × block_N; `arrived` has a counter for each tile. The counters start at zero and are zero
again when the kernel ends.

Stream-K is of Osama et al., "Stream-K: Work-centric Parallel Decomposition for Dense Matrix-Matrix Multiplication on
the GPU", PPoPP 2023.
"""

import ml_dtypes
import numpy as np
from gemm_split_k import add_parts, leave, signal, wait_for
from support import error, on_device, on_host, poisoned, random, report

import minitile as mt
import minitile.language as T


@mt.kernel
def gemm_stream_k(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.bfloat16),
    parts: T.Tensor(("slots", "block_M", "block_N"), T.float32),
    arrived: T.Tensor(("tiles",), T.int32),
    blocks=132,
    block_M=128,
    block_N=128,
    block_K=64,
    num_stages=4,
    threads=256,
    rows=16,
):
    M, K = A.shape
    N = B.shape[0]
    columns = T.ceildiv(N, block_N)
    tiles = T.ceildiv(M, block_M) * columns
    steps = T.max(T.ceildiv(K, block_K), 1)
    used = T.min(blocks, tiles * steps)
    with T.Kernel(used, threads=threads) as block:
        A_shared = T.alloc_shared((block_M, block_K), A.dtype)
        B_shared = T.alloc_shared((block_N, block_K), B.dtype)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        waves = T.max(tiles // used - 1, 0)  # of whole tiles
        cut = tiles - waves * used  # tiles in the row of steps
        first, end = block * (cut * steps) // used, (block + 1) * (cut * steps) // used
        start = first // steps
        count = T.ceildiv(end, steps) - start  # of tiles that the piece meets
        for turn in T.serial(count + waves):
            tile = T.if_then_else(turn < count, start + turn, cut + block + (turn - count) * used)
            low = T.if_then_else(turn < count, T.max(first - tile * steps, 0), 0)
            high = T.if_then_else(turn < count, T.min(end - tile * steps, steps), steps)
            row, column = tile // columns * block_M, tile % columns * block_N
            T.assume(tile >= 0)
            T.assume(row >= 0)
            T.assume(column >= 0)
            T.clear(C_local)
            for k in T.Pipelined(low, T.min(high, T.ceildiv(K, block_K)), num_stages=num_stages):
                T.copy(A[row, k * block_K], A_shared)
                T.copy(B[column, k * block_K], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            if high - low == steps:
                T.copy(C_local, C[row, column])
            else:
                T.copy(C_local, parts[tile + block, 0, 0])
                signal(arrived, tile)
        total = T.alloc_fragment((rows, block_N), T.float32)
        for tile in T.serial(start, start + count):
            row, column = tile // columns * block_M, tile % columns * block_N
            of_first = ((tile * steps + 1) * used - 1) // (cut * steps)  # the block that has the tile's first step
            of_last = ((tile + 1) * steps * used - 1) // (cut * steps)
            if of_last > of_first:
                wait_for(of_last - of_first + 1, arrived, tile)
                for r in T.serial(block - of_first, block_M // rows, of_last - of_first + 1):
                    add_parts(parts, tile + of_first, of_last - of_first + 1, r * rows, 0, total)
                    T.copy(total, C[row + r * rows, column])
                leave(of_last - of_first + 1, arrived, tile)


def run(m: int, n: int, k: int, seed: int = 0, blocks: int = 132, block_M: int = 128, block_N: int = 128, **more):
    """The relative error on random matrices."""
    rng = np.random.default_rng(seed)
    a, b = random(rng, (m, k), ml_dtypes.bfloat16), random(rng, (n, k), ml_dtypes.bfloat16)
    c = on_device(poisoned((m, n), ml_dtypes.bfloat16))
    tiles = -(-m // block_M) * -(-n // block_N)
    parts = on_device(poisoned((tiles + blocks, block_M, block_N)))
    counters = on_device(np.zeros(tiles, np.int32))
    sizes = {"blocks": blocks, "block_M": block_M, "block_N": block_N}
    gemm_stream_k(on_device(a), on_device(b), c, parts, counters, **sizes, **more)
    assert not on_host(counters).any()
    return error(c, a.astype(np.float64) @ b.astype(np.float64).T)


if __name__ == "__main__":
    for m, n, k in ((1, 1, 1), (256, 384, 512), (300, 200, 1000)):
        report(f"gemm_stream_k {m}x{n}x{k}", run(m, n, k, blocks=5), 4e-3)
