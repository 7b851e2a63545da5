"""Sums of a matrix's columns in f32, the same bit for bit in every launch.

A first kernel adds rows: each block has a strip of columns and every so-many-th group of rows; a thread keeps sums of a
vector's columns and has the vectors of `ahead` rows on their way. The second launch, of the same kernel, adds what the
first one's blocks have left; it is set up while the first one runs.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import minitile.language as T
from minitile.driver.dispatch import for_users
from minitile.driver.jit import kernel
from minitile.ir.types import f32
from minitile.ops.memory_bound.arguments import VECTOR, argument, refused, sized
from minitile.ops.memory_bound.launches import in_order


@kernel
def partial_sums(
    X: T.Tensor(("M", "N"), None), S: T.Tensor(("P", "N"), T.float32), rows=8, columns=256, ahead=4, threads=256
):
    """S[p] = the sum over all k of the k·P + p-th group of rows · ahead rows."""
    M, N = X.shape
    P = S.shape[0]
    with T.Kernel(T.ceildiv(N, columns), P, threads=threads) as (bx, p):
        in_order()
        total = T.alloc_fragment((rows, columns), T.float32)
        loaded = [T.alloc_fragment((rows, columns), X.dtype) for _ in range(ahead)]
        T.clear(total)
        for k in T.serial(p, T.ceildiv(M, rows * ahead), P):
            for q in T.unroll(ahead):
                T.copy(X[(k * ahead + q) * rows, bx * columns], loaded[q])
            for q in T.unroll(ahead):
                for i, j in T.Parallel(rows, columns):
                    total[i, j] += T.cast(loaded[q][i, j], T.float32)
        shared = T.alloc_shared((rows, columns), T.float32)
        T.copy(total, shared)
        for j in T.Parallel(columns):
            column = 0.0
            for i in T.unroll(rows):
                column += shared[i, j]
            S[p, bx * columns + j] = column


class SumPlan(NamedTuple):
    """`parts` blocks share a strip of columns; `fold` rows count as one of so many times the columns.

    To sweep: rows × columns 8 × 256, 4 × 512, 16 × 128 with 256 threads; half of the rows with 128; ahead 2, 4, 8;
    parts for 2, 4, 8 blocks a multiprocessor.
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


BLOCKS = 4 * 132  # that an H200 has at once
AHEAD = 4
THREADS = 256


@lru_cache
def sum_plan(m: int, n: int, size: int, contiguous: bool = True) -> SumPlan:
    """For an m × n matrix of elements of `size` bytes. Rows that are short, or no multiples of a vector, are folded,
    unless there are gaps between them."""
    vector, fold = VECTOR // size, 1
    columns = 32 * vector
    while contiguous and m % (2 * fold) == 0 and (fold * n % vector or fold * n < columns) and m:
        fold *= 2
    rows = THREADS * vector // columns
    strips, groups = math.ceil(fold * n / columns), math.ceil(m / (fold * rows * AHEAD))
    return SumPlan(rows, columns, AHEAD, THREADS, max(1, min(groups, round(BLOCKS / max(1, strips)))), fold)


def last_plan(parts: int) -> SumPlan:
    """For the sums of so many blocks: few rows, all of which are on their way at once."""
    return SumPlan(32, 32, max(1, min(AHEAD, math.ceil(parts / 32))), THREADS, 1)


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
    m, n = sized(x.shape[:-1]), x.shape[-1]
    sums = x.result(out, (n,), f32)
    if n:
        first = plan or sum_plan(m, n, x.dtype.bytes, x.contiguous)
        rows = first.parts * first.fold
        parts = sums.reshape(1, n) if rows == 1 else x.empty((rows, n), f32)
        folded = (x.view(m // first.fold, first.fold * n), parts.reshape(first.parts, first.fold * n))
        partial_sums(*folded, **first.constants)
        if rows > 1:
            partial_sums(parts, sums.reshape(1, n), **last_plan(rows).constants)
    return sums
