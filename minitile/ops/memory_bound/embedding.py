"""Embedding: rows of a table by their numbers, and the gradient of the table.

A block gathers several rows, or pieces of rows, so that short rows fill it too: each thread reads the number of the row
that its vector is in, then the vector. The gradient adds rows of dY to the table's, either by atomics in f32, in any
order, or row by row of the table: the numbers are sorted, and the blocks that meet the first of some equal numbers add
up what belongs to them, in the order in which the tokens stand.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import minitile.language as T
from minitile.driver.dispatch import for_users
from minitile.driver.jit import kernel
from minitile.ir.types import f32
from minitile.ops.memory_bound.arguments import INDICES, VECTOR, Tile, argument, order_of, tile_for, whole
from minitile.ops.memory_bound.launches import in_order
from minitile.ops.operands import refused

THREADS = 256
VECTORS = 2  # that a thread gathers


@kernel
def gather_rows(
    W: T.Tensor(("V", "D"), None),
    Index: T.Tensor(("S",), None),
    Y: T.Tensor(("S", "D"), None),
    rows=4,
    columns=1024,
    threads=256,
):
    """Y[s] = W[Index[s]]; zeros for a number that W has not."""
    S, D = Y.shape
    across = T.ceildiv(D, columns)
    with T.Kernel(across * T.ceildiv(S, rows), threads=threads) as block:
        row, column = block // across * rows, block % across * columns
        in_order()
        for i, j in T.Parallel(rows, columns):
            Y[row + i, column + j] = W[Index[row + i], column + j]


@kernel
def add_rows(
    dY: T.Tensor(("S", "D"), None),
    Index: T.Tensor(("S",), None),
    dW: T.Tensor(("V", "D"), T.float32),
    rows=4,
    columns=1024,
    threads=256,
):
    """dW[Index[s]] += dY[s], by atomics."""
    S, D = dY.shape
    across = T.ceildiv(D, columns)
    with T.Kernel(across * T.ceildiv(S, rows), threads=threads) as block:
        row, column = block // across * rows, block % across * columns
        in_order()
        for i, j in T.Parallel(rows, columns):
            if row + i < S:
                T.atomic_add(dW[Index[row + i], column + j], T.cast(dY[row + i, column + j], T.float32))


@kernel
def add_sorted_rows(
    dY: T.Tensor(("S", "D"), None),
    Index: T.Tensor(("S",), None),
    Order: T.Tensor(("S",), None),
    dW: T.Tensor(("V", "D"), None),
    columns=1024,
    threads=128,
):
    """dW[v] = the sum of dY[Order[n]] over all n with Index[Order[n]] = v, which are neighbours; other rows stay."""
    S, D = dY.shape
    across = T.ceildiv(D, columns)
    with T.Kernel(across * S, threads=threads) as block:
        first, column = block // across, block % across * columns
        in_order()
        number = Index[Order[first]]
        if first == 0 or Index[Order[first - 1]] != number:
            total = T.alloc_fragment((columns,), T.float32)
            T.clear(total)
            n = first
            while n < S and Index[Order[n]] == number:
                token = Order[n]
                for j in T.Parallel(columns):
                    total[j] += T.cast(dY[token, column + j], T.float32)
                n += 1
            for j in T.Parallel(columns):
                dW[number, column + j] = total[j]


@lru_cache
def embedding_plan(d: int, size: int) -> Tile:
    """For rows of d elements of `size` bytes. To sweep: VECTORS 1, 2, 4; THREADS 128, 256, 512."""
    vector = VECTOR // size
    return tile_for(d, THREADS * VECTORS * vector, THREADS, vector)


@for_users
def embedding(weight: Any, indices: Any, *, out: Any = None, plan: Tile | None = None) -> Any:
    """The rows of a table that `indices` name.

    Args:
        weight: V × D, of any dtype, of torch, CuPy, or NumPy (then the simulator computes).
        indices: […] of int32 or int64; for a number that is not from 0 to V - 1 there are zeros.
        out: where the result goes, […, D], row-major; without it, a new array.
        plan: instead of the one that `embedding_plan` chooses.

    Raises:
        LaunchArgumentError: arguments that do not fit.

    Example:
        ```py
        x = mt.ops.embedding(weight, tokens)
        ```
    """
    table, index = argument("weight", weight, None), argument("indices", indices, INDICES)
    table.together("indices", index.device)
    if len(table.shape) != 2:
        raise refused(f"weight has shape {table.shape}", "it is a matrix: rows by columns")
    d = table.shape[1]
    y = table.result(out, (*index.shape, d))
    count = math.prod(index.shape)
    if count and d:
        chosen = plan or embedding_plan(d, table.dtype.bytes)
        gather_rows(table.given, index.view(count), y.reshape(count, d), **chosen.constants)
    return y


@for_users
def embedding_backward(
    dy: Any, indices: Any, rows: int, *, deterministic: bool = False, out: Any = None, plan: Tile | None = None
) -> Any:
    """The gradient of `embedding`'s table, from that of its result.

    Args:
        dy: the gradient of the result, […, D] of f32, bf16 or f16.
        indices: […], as of `embedding`; what belongs to numbers that the table has not is left out.
        rows: V, of the table.
        deterministic: the same bits in every launch: the numbers are sorted first, and each row of the table is written
            once, in dy's dtype. Else sums are f32 and come about by atomics.
        out: f32, V × D, to which is added; without it, a new array. Not where deterministic.
        plan: instead of the one that `embedding_plan` chooses.

    Raises:
        LaunchArgumentError: arguments that do not fit.

    Example:
        ```py
        dw = mt.ops.embedding_backward(dy, tokens, weight.shape[0])
        ```
    """
    slope, index = argument("dy", dy), argument("indices", indices, INDICES)
    slope.together("indices", index.device)
    if slope.shape[:-1] != index.shape or not slope.shape:
        raise refused(f"dy has shape {slope.shape}", f"it is {index.shape} and the columns of the table")
    rows = whole("rows", rows, 0, (1 << 63) - 1)
    count, d = math.prod(index.shape), slope.shape[-1]
    chosen = plan or embedding_plan(d, slope.dtype.bytes)
    given = slope.view(count, d), index.view(count)
    if deterministic:
        if out is not None:
            raise refused("out and deterministic", "a deterministic gradient is a new array")
        sums = slope.zeros((rows, d))
        if count and d and rows:
            add_sorted_rows(*given, order_of(given[1]), sums, columns=chosen.columns, threads=128)
        return sums
    sums = slope.zeros((rows, d), f32) if out is None else slope.result(out, (rows, d), f32)
    if count and d and rows:
        add_rows(*given, sums, **chosen.constants)
    return sums
