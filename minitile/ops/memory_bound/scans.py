"""Cumulative sums along the rows of a matrix.

A row that registers hold is read, scanned and written by one block (`cumsum_rows`). A longer one is cut in pieces, and
still read once (`cumsum_pieces`): each block tells the sum of its piece as soon as it knows that, and then waits for
what it needs to know of those in front (decoupled look-back: Merrill and Garland, "Single-pass Parallel Prefix Scan
with Decoupled Look-back", NVIDIA 2016). So that the bits of the result do not depend on who is first, it always adds
the same numbers in the same order: the sums of the pieces in front in its group of as many as a block has threads, and
the sum up to the group, which the last piece of each group tells the next.

As many blocks as there is room for go over all pieces; each has its next piece on its way to registers while it waits.
It takes pieces by an atomic counter, in the order of their numbers, so that each piece in front of one that is taken is
taken, too, by a block that runs. A block ends its pieces in that order: the first piece that is not done has none to
wait for that is not told, and its block none to end before. So no block waits for ever, whatever the order in which the
GPU starts blocks, and however few of them run at once; their own numbers would not give that.

A word of 64 bits has a sum and the mark that it is one, and is stored in one piece.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import minitile.language as T
from minitile.driver.dispatch import for_users
from minitile.driver.jit import kernel
from minitile.ir.types import DType, i64
from minitile.ops.memory_bound.arguments import VECTOR
from minitile.ops.memory_bound.launches import in_order, room_for
from minitile.ops.memory_bound.rows import HELD, RowPlan, row_plans, rows_of

FULL = 1024  # threads of a multiprocessor that registers are to do for, where each has HELD elements
ALONE = 3072  # elements of a piece that are loaded one by one, by 256 threads
BESIDE = 2  # blocks of a multiprocessor that go over pieces


class PiecePlan(NamedTuple):
    """At most `blocks` of so many threads go over pieces of so many elements (`cumsum_pieces`)."""

    piece: int
    threads: int
    blocks: int


@lru_cache
def piece_plan(m: int, n: int, size: int, multiprocessors: int = 132, large: bool = True) -> PiecePlan:
    """For m rows of n elements of `size` bytes: pieces of 32 KB, two of which on each multiprocessor, with the next two
    on their way, suit the memory (benchmarks/sweep_memory.py); smaller ones where those would leave blocks idle, or
    where rows that are no multiples of a vector take more registers, or the GPU has not what keeps them few (`large`:
    conversions of bf16 in one instruction, from sm_90 on)."""
    blocks = BESIDE * multiprocessors
    if n * size % VECTOR:
        return PiecePlan(2 * ALONE, 512, blocks) if large else PiecePlan(ALONE, 256, blocks)
    for kilobytes in (32, 16, 8) if large else (16, 8):
        piece = kilobytes * 1024 // size
        if m * math.ceil(n / piece) >= blocks:
            break
    return PiecePlan(piece, 256 if kilobytes > 8 else 128, blocks)


def row_constants(plan: RowPlan, n: int, dtype: DType) -> dict[str, Any]:
    """Compile-time arguments of `cumsum_rows` on rows of n elements. Rows that are no multiples of a vector take more
    registers than half of a multiprocessor's threads leave each."""
    beside = 0 if n * dtype.bytes % VECTOR else FULL // plan.threads
    held = {name: value for name, value in plan.constants(n).items() if name not in ("stages", "blocks")}
    return {**held, "beside": beside}


@for_users
def cumsum(x: Any, *, reverse: bool = False, out: Any = None, plan: RowPlan | PiecePlan | None = None) -> Any:
    """Each element becomes the sum of all up to it along the last dimension, itself included, carried in f32.

    The result is the same in all bits each time. Of a vector, 2^28 elements are read once, too.

    Args:
        x: f32, bf16 or f16, of torch, CuPy, or NumPy (then the simulator computes); any leading dimensions.
        reverse: the sum of all from it on. (The gradient of a cumulative sum is that of the result's.)
        out: where the result goes, of x's shape and dtype, without gaps; may be x. Without it, a new array.
        plan: how rows are spread over blocks, instead of the choice of `row_plans` or `piece_plan`.

    Raises:
        LaunchArgumentError: arguments that do not fit.

    Example:
        ```py
        offsets = mt.ops.cumsum(sizes)
        ```
    """
    rows = rows_of("x", x)
    out, y = rows.result(out)
    if not rows.m * rows.n:
        return out
    if plan is None:
        held = next((plan for plan in row_plans(rows.n, rows.dtype, room=rows.room) if not plan.stages), None)
        if held is not None and held.rows * held.columns <= HELD * held.threads:
            plan = held
        else:
            large = rows.target.has("cluster")
            plan = piece_plan(rows.m, rows.n, rows.dtype.bytes, rows.room.multiprocessors, large)
    if isinstance(plan, PiecePlan):
        pieces = math.ceil(rows.n / plan.piece)
        words = 1 + rows.m * (pieces + math.ceil(pieces / plan.threads))
        state = rows.x.zeros((words,), i64)
        cumsum_pieces(rows.matrix, y, state, reverse=reverse, **plan._asdict())
    else:
        cumsum_rows(rows.matrix, y, reverse=reverse, **row_constants(plan, rows.n, rows.dtype))
    return out


@kernel
def cumsum_rows(
    X: T.Tensor(("M", "N"), None),
    Y: T.Tensor(("M", "N"), None),
    rows=1,
    columns=4096,
    threads=128,
    exact=False,
    reverse=False,
    beside=0,
):
    """beside: for how many blocks of a multiprocessor registers are to do; 0: as many as the assembler likes."""
    M, N = X.shape
    if exact:
        T.assume(columns == N)
    with T.Kernel(T.ceildiv(M, rows), threads=threads) as block:
        room_for(beside)
        in_order()
        x = T.alloc_fragment((rows, columns), T.float32)
        T.copy(X[block * rows, 0], x)
        T.cumsum(x, dim=1, reverse=reverse)
        T.copy(x, Y[block * rows, 0])


@kernel
def cumsum_pieces(
    X: T.Tensor(("M", "N"), None),
    Y: T.Tensor(("M", "N"), None),
    state: T.Tensor(("S",), T.int64),
    piece=16384,
    threads=256,
    blocks=264,
    reverse=False,
):
    """state, zeros at first: the next piece's number, a word for each piece, a word for each group of `threads`."""
    M, N = X.shape
    pieces = T.ceildiv(N, piece)
    with T.Kernel(T.min(blocks, M * pieces), threads=threads):
        room_for(BESIDE)
        in_order()
        shared = T.alloc_shared((1,), T.int64)
        loaded = T.alloc_fragment((piece,), X.dtype)
        x = T.alloc_fragment((piece,), T.float32)
        tx = T.get_thread_binding()
        if tx == 0:
            shared[0] = T.atomic_add(state[0], 1, return_prev=True)
        number = T.cast(shared[0], T.int32)
        T.assume(number >= 0)
        T.copy(X[number // pieces, start_of(number % pieces, pieces, piece, reverse)], loaded)
        while number < M * pieces:
            following: Any = T.cast(0, T.int64)
            if tx == 0:
                following = T.atomic_add(state[0], 1, return_prev=True)
            for i in T.Parallel(piece):
                x[i] = T.cast(loaded[i], T.float32)
            T.cumsum(x, reverse=reverse)
            total = x[0 if reverse else piece - 1]
            tell(state, 1 + number, total)
            if tx == 0:
                shared[0] = following
            then = T.cast(shared[0], T.int32)
            T.assume(then >= 0)
            T.copy(X[then // pieces, start_of(then % pieces, pieces, piece, reverse)], loaded)
            row, at = number // pieces, number % pieces
            front = in_front(state, M * pieces, number, at, row, pieces, threads, total)
            for i in T.Parallel(piece):
                x[i] = x[i] + front
            T.copy(x, Y[row, start_of(at, pieces, piece, reverse)])
            number = then


def start_of(at, pieces, piece, reverse):
    """Where the piece begins that is summed at-th in its row."""
    return (pieces - 1 - at if reverse else at) * piece


def in_front(state, words, number, at, row, pieces, threads, total):
    """The sum of all pieces in front in the row, `at` of them; the last of a group tells the next group's."""
    tx = T.get_thread_binding()
    sums = T.alloc_shared((threads,), T.float32)
    front = T.alloc_fragment((1,), T.float32)
    group, place = at // threads, at % threads
    told_at = 1 + words + row * T.ceildiv(pieces, threads) + group
    sums[tx] = 0.0
    last = tx == threads - 1  # which has no piece to wait for
    if tx < place or (last and group > 0):
        sums[tx] = told(state, told_at - 1 if last else 1 + number - place + tx)
    T.reduce_sum(sums, front)
    if place == threads - 1:
        tell(state, told_at, front[0] + total)
    return front[0]


def tell(state, place, number):
    """Stores an f32 where other blocks wait for it."""
    if T.get_thread_binding() == 0:
        bits = T.cast(T.reinterpret(number, T.uint32), T.int64)
        T.atomic_store(state[place], bits | (1 << 32), "relaxed")


def told(state, place):
    """Waits for what `tell` stores."""
    word = T.atomic_load(state[place], "relaxed")
    while word == 0:
        word = T.atomic_load(state[place], "relaxed")
    return T.reinterpret(T.cast(word, T.uint32), T.float32)
