"""Cumulative sums along the rows of a matrix.

A row that registers hold is read, scanned and written by one block (`cumsum_rows`). A longer one is cut in pieces of a
block each, and still read once (`cumsum_pieces`): each block tells the sum of its piece as soon as it knows that, and
then waits for what it needs to know of those in front (decoupled look-back: Merrill and Garland, "Single-pass Parallel
Prefix Scan with Decoupled Look-back", NVIDIA 2016). So that the bits of the result do not depend on who is first, it
always adds the same numbers in the same order: the sums of the pieces in front in its group of as many as a block has
threads, and the sum up to the group, which the last piece of each group tells the next.

Blocks take their pieces by an atomic counter, so that all pieces in front are under way or done, whatever the order in
which the GPU starts blocks. A word of 64 bits has a sum and the mark that it is one, and is stored in one piece.
"""

from __future__ import annotations

import math
from typing import Any

import minitile.language as T
from minitile.driver.dispatch import for_users
from minitile.driver.jit import kernel
from minitile.ir.types import i64
from minitile.ops.memory_bound.rows import HELD, RowPlan, row_plans, rows_of

PIECE = 8192  # elements
THREADS = 256


@for_users
def cumsum(x: Any, *, reverse: bool = False, out: Any = None, plan: RowPlan | None = None) -> Any:
    """Each element becomes the sum of all up to it along the last dimension, itself included, carried in f32.

    The result is the same in all bits each time. Of a vector, 2^28 elements are read once, too.

    Args:
        x: f32, bf16 or f16, of torch, CuPy, or NumPy (then the simulator computes); any leading dimensions.
        reverse: the sum of all from it on. (The gradient of a cumulative sum is that of the result's.)
        out: where the result goes, of x's shape and dtype, without gaps; may be x. Without it, a new array.
        plan: how rows are spread over blocks, instead of the table's choice.

    Raises:
        LaunchArgumentError: arguments that do not fit.

    Example:
        ```py
        offsets = mt.ops.cumsum(sizes)
        ```
    """
    rows = rows_of("x", x)
    out, y = rows.result(out)
    plan = plan or next((plan for plan in row_plans(rows.n, rows.dtype) if not plan.stages), None)
    if not rows.m * rows.n:
        return out
    if plan is None or plan.rows * plan.columns > HELD * plan.threads:
        pieces = math.ceil(rows.n / PIECE)
        words = 1 + rows.m * (pieces + math.ceil(pieces / THREADS))
        state = rows.frame.zeros((words,), i64, rows.given)
        cumsum_pieces(rows.matrix, y, state, reverse=reverse, piece=PIECE, threads=THREADS)
    else:
        held = {name: value for name, value in plan.constants(rows.n).items() if name not in ("stages", "blocks")}
        cumsum_rows(rows.matrix, y, reverse=reverse, **held)
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
):
    M, N = X.shape
    if exact:
        T.assume(columns == N)
    with T.Kernel(T.ceildiv(M, rows), threads=threads) as block:
        x = T.alloc_fragment((rows, columns), T.float32)
        T.copy(X[block * rows, 0], x)
        T.cumsum(x, dim=1, reverse=reverse)
        T.copy(x, Y[block * rows, 0])


@kernel
def cumsum_pieces(
    X: T.Tensor(("M", "N"), None),
    Y: T.Tensor(("M", "N"), None),
    state: T.Tensor(("S",), T.int64),
    piece=PIECE,
    threads=THREADS,
    reverse=False,
):
    """state, zeros at first: the next piece's number, a word for each piece, a word for each group of `threads`."""
    M, N = X.shape
    pieces = T.ceildiv(N, piece)
    with T.Kernel(M * pieces, threads=threads):
        shared = T.alloc_shared((1,), T.int64)
        in_front = T.alloc_shared((threads,), T.float32)
        front = T.alloc_fragment((1,), T.float32)
        x = T.alloc_fragment((piece,), T.float32)
        tx = T.get_thread_binding()
        if tx == 0:
            shared[0] = T.atomic_add(state[0], 1, return_prev=True)
        number = T.cast(shared[0], T.int32)
        T.assume(number >= 0)
        row, at = number // pieces, number % pieces
        start = (pieces - 1 - at if reverse else at) * piece
        T.copy(X[row, start], x)
        T.cumsum(x, reverse=reverse)
        total = x[0 if reverse else piece - 1]
        tell(state, 1 + number, total)
        group, place = at // threads, at % threads
        told_at = 1 + M * pieces + row * T.ceildiv(pieces, threads) + group
        in_front[tx] = 0.0
        last = tx == threads - 1  # which has no piece to wait for
        if tx < place or (last and group > 0):
            in_front[tx] = told(state, told_at - 1 if last else 1 + number - place + tx)
        T.reduce_sum(in_front, front)
        if place == threads - 1:
            tell(state, told_at, front[0] + total)
        for i in T.Parallel(piece):
            x[i] = x[i] + front[0]
        T.copy(x, Y[row, start])


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
