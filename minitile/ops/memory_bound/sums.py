"""Sums of a matrix's columns in f32, the same bit for bit in every launch.

Each block adds rows: it has a strip of columns and every so-many-th group of rows; a thread keeps sums of a vector's
columns and has the vectors of `ahead` rows on their way. What a strip's blocks have left is added up, in the order of
the blocks, by a second launch, which is set up while the first one runs.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import minitile.language as T
from minitile.driver.dispatch import for_users
from minitile.driver.jit import kernel
from minitile.ir.types import f32
from minitile.ops.memory_bound.arguments import VECTOR, argument, multiprocessors
from minitile.ops.memory_bound.launches import in_order, room_for
from minitile.ops.operands import refused


def strip_sums(X, bx, p, P, rows, columns, ahead):
    """The sums of every P-th group of rows · ahead rows of a strip of columns, a row of them for each of `rows`, in
    shared memory."""
    total = T.alloc_fragment((rows, columns), T.float32)
    loaded = [T.alloc_fragment((rows, columns), X.dtype) for _ in range(ahead)]
    T.clear(total)
    for k in T.serial(p, T.ceildiv(X.shape[0], rows * ahead), P):
        for q in T.unroll(ahead):
            T.copy(X[(k * ahead + q) * rows, bx * columns], loaded[q])
        for q in T.unroll(ahead):
            for i, j in T.Parallel(rows, columns):
                total[i, j] += T.cast(loaded[q][i, j], T.float32)
    shared = T.alloc_shared((rows, columns), T.float32)
    T.copy(total, shared)
    return shared


def column_of(sums, rows, j):
    """Of so many rows."""
    column = 0.0
    for i in T.unroll(rows):
        column += sums[i, j]
    return column


@kernel
def partial_sums(
    X: T.Tensor(("M", "N"), None), S: T.Tensor(("P", "N"), T.float32), rows=8, columns=256, ahead=8, threads=256
):
    """S[p] = the sum over all k of the k·P + p-th group of rows · ahead rows."""
    P = S.shape[0]
    with T.Kernel(T.ceildiv(X.shape[1], columns), P, threads=threads) as (bx, p):
        room_for(BESIDE * THREADS // threads)
        in_order()
        shared = strip_sums(X, bx, p, P, rows, columns, ahead)
        for j in T.Parallel(columns):
            S[p, bx * columns + j] = column_of(shared, rows, j)


class SumPlan(NamedTuple):
    """`parts` blocks share a strip of columns; `fold` rows count as one of so many times the columns.

    To sweep: benchmarks/sweep_memory.py.
    """

    rows: int
    columns: int
    ahead: int
    threads: int
    parts: int
    fold: int = 1

    @property
    def constants(self) -> dict[str, Any]:
        """As the kernel's compile-time arguments."""
        return {name: value for name, value in self._asdict().items() if name not in ("parts", "fold")}


BESIDE = 2  # blocks of THREADS that a multiprocessor has at once
AHEAD = 8
THREADS = 256


@lru_cache
def sum_plan(m: int, n: int, size: int, contiguous: bool = True, multiprocessors: int = 132) -> SumPlan:
    """For an m × n matrix of elements of `size` bytes. Rows that are short, or no multiples of a vector, are folded,
    unless there are gaps between them. Fewer rows are ahead where a small matrix would leave blocks idle, and where
    elements may have to be loaded one by one, each with registers of its own."""
    vector, fold = VECTOR // size, 1
    columns = 32 * vector
    while contiguous and m % (2 * fold) == 0 and (fold * n % vector or fold * n < columns) and m:
        fold *= 2
    rows, blocks = THREADS * vector // columns, BESIDE * multiprocessors
    strips = max(1, math.ceil(fold * n / columns))
    alone = not contiguous or fold * n % vector
    for ahead in (size, 2) if alone else (AHEAD, AHEAD // 2, AHEAD // 4):  # 4 rows of f32, 2 of 16 bits
        groups = math.ceil(m / (fold * rows * ahead))
        if groups >= blocks // strips:
            break
    return SumPlan(rows, columns, ahead, THREADS, max(1, min(groups, blocks // strips)), fold)


def last_plan(parts: int) -> SumPlan:
    """For the sums of so many blocks: few rows, all of which are on their way at once."""
    return SumPlan(32, 32, max(1, min(AHEAD // 2, math.ceil(parts / 32))), THREADS, 1)


@for_users
def column_sums(x: Any, *, out: Any = None, plan: SumPlan | None = None) -> Any:
    """The sums of x over all dimensions but the last, in f32; the gradient of a bias.

    Args:
        x: […, N] of f32, bf16 or f16, of torch, CuPy, or NumPy (then the simulator computes).
        out: where the result goes: N of f32; without it, a new array.
        plan: instead of the one that `sum_plan` chooses.

    Raises:
        LaunchArgumentError: arguments that do not fit.

    Example:
        ```py
        db = mt.ops.column_sums(dy)
        ```
    """
    x = argument("x", x)
    if not x.shape:
        raise refused("x has no dimensions", "the sums are over all dimensions but the last")
    m, n = math.prod(x.shape[:-1]), x.shape[-1]
    sums = x.result(out, (n,), f32)
    if not n:
        return sums
    plan = plan or sum_plan(m, n, x.dtype.bytes, x.contiguous, multiprocessors(x))
    rows = plan.parts * plan.fold
    parts = sums.reshape(1, n) if rows == 1 else x.empty((rows, n), f32)
    folded = x.view(m // plan.fold, plan.fold * n), parts.reshape(plan.parts, plan.fold * n)
    partial_sums(*folded, **plan.constants)
    if rows > 1:
        partial_sums(parts, sums.reshape(1, n), **last_plan(rows).constants)
    return sums
