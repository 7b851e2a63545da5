"""The k greatest or least elements of each row, and where they stand.

A row is read once and stays in registers as integers that compare as its elements do. The k-th greatest of them is
found bit by bit: are k elements still as great if this bit is set? Those that are greater, and as many of its equals as
are wanted, the first ones, are numbered by a scan, meet in shared memory, and each goes behind all those that come
before it. Rows that registers do not hold are done in parts, and then the parts' results.
"""

from __future__ import annotations

import math
from typing import Any

import minitile.language as T
from minitile.driver.dispatch import for_users
from minitile.driver.jit import kernel
from minitile.ir.types import DType, i64
from minitile.ops.memory_bound.arguments import whole
from minitile.ops.memory_bound.rows import H200, HELD, Room, RowPlan, row_plan, rows_of

MOST = 64  # of k: each of them is compared with each other one
PART = 8192  # elements of a row
BITS = {"bf16": 16, "f16": 19, "f32": 32}  # of an f32, that tell numbers of this dtype apart


@for_users
def top_k(x: Any, k: int, *, largest: bool = True, plan: RowPlan | None = None) -> tuple[Any, Any]:
    """The k greatest elements of each row along the last dimension, in their order, and their indices (i64).

    Of equal elements the first ones come first; a NaN is greater than any number, as in torch.topk.

    Args:
        x: f32, bf16 or f16, of torch, CuPy, or NumPy (then the simulator computes); any leading dimensions.
        k: how many: 1 to 64, and no more than a row has.
        largest: False: the k least elements.
        plan: how rows are spread over blocks, instead of the table's choice.

    Returns:
        Values and indices, of x's shape but for the last dimension, which is k.

    Raises:
        LaunchArgumentError: arguments that do not fit.

    Example:
        ```py
        weights, experts = mt.ops.top_k(scores, 8)
        ```
    """
    rows = rows_of("x", x)
    k = whole("k", k, 1, min(MOST, rows.n), f", for rows of {rows.n} elements")
    values, indices = (rows.x.empty((*rows.shape[:-1], k), d) for d in (rows.dtype, i64))
    if not rows.m:
        return values, indices
    y, at = values.reshape(rows.m, k), indices.reshape(rows.m, k)
    parts = 1 if rows.n <= 2 * PART else math.ceil(rows.n / PART)
    if parts == 1:
        select(rows.matrix, y, at, **constants(rows.n, rows.dtype, k, largest, plan, rows.room))
        return values, indices
    part = part_of(rows.n, parts, k)
    parts = math.ceil(rows.n / part)
    some, there = (rows.x.empty((rows.m, parts * k), d) for d in (rows.dtype, i64))
    select(rows.matrix, some, there, **constants(part, rows.dtype, k, largest, plan, rows.room))
    found, chosen = top_k(some, k, largest=largest)
    gather(found, chosen, there, y, at)
    return values, indices


def part_of(n: int, parts: int, k: int) -> int:
    """How many elements each of about so many parts of n has: a multiple of 8, of which the last part has k left."""
    part = 8 * math.ceil(n / parts / 8)
    while (n - 1) % part + 1 < k:
        part += 8
    return part


def constants(
    part: int, dtype: DType, k: int, largest: bool, plan: RowPlan | None, room: Room = H200
) -> dict[str, Any]:
    """Compile-time arguments of `select` for rows, or parts of rows, of so many elements."""
    plan = plan or row_plan(part, dtype, room=room)
    assert plan is not None
    rows = max(1, min(plan.rows, HELD * plan.threads // (k * k)))
    sizes = {"rows": rows, "columns": plan.columns, "threads": plan.threads}
    return {"k": k, "part": part, "bits": BITS[dtype.name], "largest": largest, **sizes}


@kernel
def select(
    X: T.Tensor(("M", "N"), None),
    Y: T.Tensor(("M", "R"), None),
    I: T.Tensor(("M", "R"), T.int64),  # noqa: E741
    k=8,
    part=4096,
    bits=32,
    largest=True,
    rows=1,
    columns=4096,
    threads=128,
):
    M, N = X.shape
    with T.Kernel(T.ceildiv(N, part), T.ceildiv(M, rows), threads=threads) as (at, block):
        keys = T.alloc_fragment((rows, columns), T.uint32)
        count = T.alloc_fragment((rows, columns), T.int32)
        beaten = T.alloc_fragment((rows, k, k), T.int32)
        number, place = T.alloc_fragment((rows,), T.int32), T.alloc_fragment((rows, k), T.int32)
        found, where = T.alloc_shared((rows, k), T.uint32), T.alloc_shared((rows, k), T.int32)
        for i, j in T.Parallel(rows, columns):
            inside = (j < part) & (at * part + j < N)
            x = T.cast(X[block * rows + i, at * part + j], T.float32)
            keys[i, j] = T.if_then_else(inside, ordered(x, largest) >> (32 - bits), 0)
        limit = kth(keys, count, number, k, bits)
        for i, j in T.Parallel(rows, columns):
            count[i, j] = T.if_then_else(keys[i, j] > limit[i], 1, 0)
        T.reduce_sum(count, number, dim=1)
        for i, j in T.Parallel(rows, columns):
            count[i, j] = count[i, j] + T.if_then_else(keys[i, j] == limit[i], 1 << 16, 0)
        T.cumsum(count, dim=1)  # of the greater ones, and 2^16 times that of the equal ones
        for i, j in T.Parallel(rows, columns):
            p = T.if_then_else(keys[i, j] > limit[i], count[i, j] & 0xFFFF, number[i] + (count[i, j] >> 16)) - 1
            if (keys[i, j] >= limit[i]) & (p < k):
                found[i, p] = keys[i, j]
                where[i, p] = j
        for i, a, b in T.Parallel(rows, k, k):
            first = (found[i, b] == found[i, a]) & (where[i, b] < where[i, a])
            beaten[i, a, b] = T.if_then_else((found[i, b] > found[i, a]) | first, 1, 0)
        T.reduce_sum(beaten, place, dim=2)
        for i, a in T.Parallel(rows, k):
            row, column = block * rows + i, at * part + where[i, a]
            Y[row, at * k + place[i, a]] = X[row, column]
            I[row, at * k + place[i, a]] = T.cast(column, T.int64)


def kth(keys, count, number, k, bits):
    """The k-th greatest key of each row, of so many bits; what is counted on the way is left in count and number."""
    rows, columns = keys.shape
    limit, bit = T.alloc_fragment((rows,), T.uint32), T.alloc_fragment((rows,), T.uint32)
    T.clear(limit)
    for n in T.serial(bits):
        for i in T.Parallel(rows):
            bit[i] = limit[i] | (T.uint32(1) << T.cast(bits - 1 - n, T.uint32))
        for i, j in T.Parallel(rows, columns):
            count[i, j] = T.if_then_else(keys[i, j] >= bit[i], 1, 0)
        T.reduce_sum(count, number, dim=1)
        for i in T.Parallel(rows):
            limit[i] = T.if_then_else(number[i] >= k, bit[i], limit[i])
    return limit


def ordered(x, largest):
    """An f32 as an integer over 0 that compares likewise, zeros of both signs alike, NaN after all."""
    bits = T.reinterpret(x + 0.0, T.int32)
    sign = bits >> 31
    key = T.reinterpret(bits ^ (sign | T.min_value(T.int32)), T.uint32)
    key = T.if_then_else(x == x, key, T.uint32(0xFFFFFFFE))
    return key if largest else ~key


@kernel
def gather(
    V: T.Tensor(("M", "K"), None),
    C: T.Tensor(("M", "K"), T.int64),
    A: T.Tensor(("M", "R"), T.int64),
    Y: T.Tensor(("M", "K"), None),
    I: T.Tensor(("M", "K"), T.int64),  # noqa: E741
    threads=64,
):
    """Values as they are; of their indices among parts' results, those in the row."""
    M, K = V.shape
    with T.Kernel(M, threads=threads) as row:
        for j in T.Parallel(threads):
            if j < K:
                Y[row, j] = V[row, j]
                I[row, j] = A[row, C[row, j]]
