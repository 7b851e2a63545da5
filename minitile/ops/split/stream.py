"""A stream-K GEMM for few rows: every multiprocessor gets an equal share of all steps of K of all tiles.

Where tiles are not a multiple of the multiprocessors, the last round of whole tiles leaves many without work: 80
tiles on 132 of them are one round, in which 52 do nothing. Here the tiles' steps lie in one row, columns after
columns, and each block multiplies an equal piece of it, from its end to its beginning. A piece ends in the middle of
a tile and begins in the middle of another one:

    steps     |  tile 0   |  tile 1   |  tile 2   |      4 blocks, 3 tiles of 4 steps
    pieces    |   0    |    1   |   2    |   3    |
    block 1   tile 1's first 2 steps → workspace, flag;  tile 0's last step, plus block 0's part → C

The block with the last step of a tile owns it: it adds the parts of the blocks in front, in one order, so that the bits
are the same each time, and stores the tile. Any block has at most one part that another one adds, and multiplies it
first of all; so parts are there when they are asked for, unless a tile is cut more than once. A block waits only for
blocks in front of it, which the GPU starts before it: that always ends.

Where several tiles of rows go by the same weights, as many blocks have the same piece, so that they read the weights at
the same time.

A part lies in the workspace in the order in which threads hold it after wgmma: 16 bytes of each lane, lane by lane.
A flag is set when its word is `tag`, a random number of the process. Flags are reset by who has seen them, so that a
graph can be replayed; they need not be zero at first, since memory holds such a number by chance one time in 2^64.

Stream-K is of Osama et al., "Stream-K: Work-centric Parallel Decomposition for Dense Matrix-Matrix Multiplication on
the GPU", PPoPP 2023, where the block with a tile's first step owns it.
"""

from __future__ import annotations

import secrets
from functools import lru_cache

import minitile.language as T
from minitile.driver.jit import Kernel, kernel
from minitile.ir.types import DType, f32, u64
from minitile.ops.epilogue import Epilogue, extra_tensors, named
from minitile.ops.gemm import accumulate, in_order, operand_dims, stored, whole
from minitile.ops.operands import refused
from minitile.ops.plan import Plan, Problem

TAG = secrets.randbits(62) | 1 << 62  # of a flag that is set


def workspace_of(plan: Plan) -> list[tuple[tuple[int, ...], DType]]:
    """Shapes and dtypes of `parts` and `flags`, the kernel's tensors behind C."""
    high, wide = (plan.block_N, plan.block_M) if plan.swap else (plan.block_M, plan.block_N)
    return [((plan.blocks, high // 16, wide // 8, 128), f32), ((plan.blocks,), u64)]


def check_stream(problem: Problem, plan: Plan) -> None:
    """Raises LaunchArgumentError for a plan of stream-K that cannot be."""
    rows = -(-problem.m // (plan.block_M * plan.share_rows)) * plan.share_rows
    if plan.split > 1 or plan.teams > 1 or plan.share > 1 or plan.dots:
        raise refused(f"no stream-K is this: {plan}", "it has no split-K, one team, and nothing that shares rows of A")
    if not 0 < max(rows, 1) <= plan.blocks:
        raise refused(f"stream-K has no room for {rows} tiles of rows: {plan}", "at least as many blocks")


def by_bands(C_local):
    """The sums as bands of 16 rows by groups of 8 columns: band, half, row, group, lane of the row, one of two."""
    high, wide = C_local.shape
    return T.reshape(C_local, (high // 16, 2, 8, wide // 8, 4, 2))


def by_lanes(bands, groups):
    """Registers for so much in the order that a part has in the workspace: band, group, row, lane, half of the band,
    one of two; and the same with all but the first two as one dimension."""
    part = T.alloc_fragment((bands, groups, 8, 4, 2, 2), T.float32)
    return part, T.reshape(part, (bands, groups, 128))


def tell(parts, flags, tag, block, C_local):
    """The block's part goes into the workspace, and the flag says so."""
    held = by_bands(C_local)
    part, flat = by_lanes(held.shape[0], held.shape[3])
    for band, half, i, group, j, pair in T.Parallel(*held.shape):
        part[band, group, i, j, half, pair] = held[band, half, i, group, j, pair]
    T.copy(flat, parts[block, 0, 0, 0])
    T.sync_threads()
    if T.get_thread_binding() == 0:
        T.atomic_store(flags[block], tag, "release")


def add_told(parts, flags, tag, block, C_local):
    """Waits for that block's part, and adds it."""
    if T.get_thread_binding() == 0:
        while T.atomic_load(flags[block], "relaxed") != tag:
            pass
        T.atomic_store(flags[block], 0, "relaxed")
        T.fence("gpu")
    T.sync_threads()
    held = by_bands(C_local)
    part, flat = by_lanes(held.shape[0], held.shape[3])
    T.copy(parts[block, 0, 0, 0], flat)
    for band, half, i, group, j, pair in T.Parallel(*held.shape):
        held[band, half, i, group, j, pair] += part[band, group, i, j, half, pair]


def streamed(
    A, B, C, parts, flags, tag, block_M, block_N, block_K, stages, threads, blocks, swap, share_rows, ahead,
    transpose_a, transpose_b, loose, epilogue, tensors,
):  # fmt: skip
    """The body of `gemm_stream`."""
    M, N = C.shape
    rows, columns = T.max(whole(T.ceildiv(M, block_M), share_rows), 1), T.ceildiv(N, block_N)
    real = T.ceildiv(A.shape[0] if transpose_a else A.shape[1], block_K)
    steps = T.max(real, 1)
    groups = T.min(T.max(blocks // rows, 1), columns * steps)
    high, wide = (block_N, block_M) if swap else (block_M, block_N)
    with T.Kernel(groups * rows, threads=threads, cluster=share_rows) as block:
        in_order(loose, False, (B,) if ahead else ())
        A_shared = T.alloc_shared((block_K, block_M) if transpose_a else (block_M, block_K), A.dtype)
        B_shared = T.alloc_shared((block_N, block_K) if transpose_b else (block_K, block_N), B.dtype)
        C_local = T.alloc_fragment((high, wide), T.float32)
        pair, beside = block // share_rows, block % share_rows
        group, line = pair // (rows // share_rows), pair % (rows // share_rows) * share_rows + beside
        row, slot = line * block_M, line * groups + group
        all_steps = columns * steps
        first, end = group * all_steps // groups, (group + 1) * all_steps // groups
        last = (end - 1) // steps
        for turn in T.serial(last - first // steps + 1):
            tile = last - turn
            low, high = T.max(first - tile * steps, 0), T.min(end - tile * steps, steps)
            column = tile * block_N
            T.assume(row >= 0)
            T.assume(column >= 0)
            accumulate(
                A, B, A_shared, B_shared, C_local, row, column,
                low, T.min(high, real), stages, transpose_a, transpose_b, swap,
            )  # fmt: skip
            if not loose and turn == last - first // steps:
                T.pdl_trigger()
            if high < steps:
                tell(parts, flags, tag, slot, C_local)
            else:
                of_first = ((tile * steps + 1) * groups - 1) // all_steps  # the group that has the tile's first step
                behind = T.if_then_else(low > 0, group - of_first, 0)
                for other in T.serial(slot - behind, slot):
                    add_told(parts, flags, tag, other, C_local)
                stored(C, C_local, row, column, swap, epilogue, tensors)


@lru_cache
def gemm_stream(
    dtype: DType,
    result: DType,
    transpose_a: bool,
    transpose_b: bool,
    loose: bool,
    high: int,
    wide: int,
    epilogue: Epilogue | None = None,
) -> Kernel:
    """C = op(A) · op(B), as `gemm`, by at most `blocks` blocks that have equal shares of all steps. There must not be
    more tiles of rows than `blocks`. parts is f32, of as many tiles as `blocks`, each of high × wide elements, block_M
    × block_N or, with swap, block_N × block_M. flags has a word for each of them. tag: any number that is not in flags
    when the kernel begins, and not 0. loose, swap, share_rows, ahead, epilogue: as of `gemm`."""
    a_dims, b_dims = operand_dims(transpose_a, transpose_b, loose)
    how = transpose_a, transpose_b, loose
    extras = extra_tensors(epilogue)

    @kernel
    @named(epilogue)
    def gemm_stream(
        A: T.Tensor(a_dims, dtype),
        B: T.Tensor(b_dims, dtype),
        C: T.Tensor(("M", "N"), result),
        parts: T.Tensor(("slots", high // 16, wide // 8, 128), T.float32),
        flags: T.Tensor(("slots",), T.uint64),
        tag: T.uint64,
        E0: T.Tensor(*extras[0]) | None = None,
        E1: T.Tensor(*extras[1]) | None = None,
        E2: T.Tensor(*extras[2]) | None = None,
        E3: T.Tensor(*extras[3]) | None = None,
        block_M=128,
        block_N=128,
        block_K=64,
        stages=4,
        threads=256,
        blocks=132,
        swap=False,
        share_rows=1,
        ahead=False,
    ):
        tile = block_M, block_N, block_K, stages, threads
        tensors = [E for E in (E0, E1, E2, E3) if E is not None]
        streamed(A, B, C, parts, flags, tag, *tile, blocks, swap, share_rows, ahead, *how, epilogue, tensors)

    return gemm_stream
