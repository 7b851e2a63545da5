"""Softmax and its logarithm along the rows of a matrix.

A row is read once, stays in registers for its greatest element, its sum and its result, and is written once. 16-bit
rows take the power of two as the hardware has it, 2^-22 off, of a product with log2(e); f32 rows take the exponential
function as exactly as there is. Rows that a block does not hold are split over a cluster (`long_rows.py`), or read
twice (`softmax_pieces`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import minitile.language as T
from minitile.driver.dispatch import for_users
from minitile.driver.jit import Kernel, kernel
from minitile.ops.memory_bound.long_rows import LongPlan, long_softmax
from minitile.ops.memory_bound.pieces import greatest_and_sum, raised, row_sum, split
from minitile.ops.memory_bound.rows import LONG, RowPlan, greatest_of_rows, over_rows, rows_of


@for_users
def softmax(x: Any, *, out: Any = None, plan: RowPlan | LongPlan | None = None) -> Any:
    """exp(x) / sum(exp(x)) along the last dimension.

    Args:
        x: f32, bf16 or f16, of torch, CuPy, or NumPy (then the simulator computes); any leading dimensions.
        out: where the result goes, of x's shape and dtype, without gaps; may be x. Without it, a new array.
        plan: how rows are spread over blocks, instead of the table's choice.

    Raises:
        LaunchArgumentError: arguments that do not fit.

    Example:
        ```py
        y = mt.ops.softmax(scores)
        ```
    """
    return _softmax(x, out, plan, False)


@for_users
def log_softmax(x: Any, *, out: Any = None, plan: RowPlan | LongPlan | None = None) -> Any:
    """x - log(sum(exp(x))) along the last dimension. Arguments and errors as of `softmax`.

    Args:
        x: f32, bf16 or f16; any leading dimensions.
        out: where the result goes, of x's shape and dtype; may be x.
        plan: instead of the table's choice.

    Raises:
        LaunchArgumentError: arguments that do not fit.
    """
    return _softmax(x, out, plan, True)


@for_users
def softmax_backward(dy: Any, y: Any, *, out: Any = None, plan: RowPlan | None = None) -> Any:
    """The gradient of `softmax`: y · (dy - sum(y · dy)).

    Args:
        dy: the gradient of the result y, of its shape and dtype.
        y: what `softmax` gave.
        out: where the result goes, of y's shape and dtype; may be dy or y.
        plan: instead of the table's choice.

    Raises:
        LaunchArgumentError: arguments that do not fit.

    Example:
        ```py
        dx = mt.ops.softmax_backward(dy, y)
        ```
    """
    return _backward(dy, y, out, plan, False)


@for_users
def log_softmax_backward(dy: Any, y: Any, *, out: Any = None, plan: RowPlan | None = None) -> Any:
    """The gradient of `log_softmax`: dy - exp(y) · sum(dy). Arguments and errors as of `softmax_backward`.

    Args:
        dy: the gradient of the result y, of its shape and dtype.
        y: what `log_softmax` gave.
        out: where the result goes; may be dy or y.
        plan: instead of the table's choice.

    Raises:
        LaunchArgumentError: arguments that do not fit.
    """
    return _backward(dy, y, out, plan, True)


def _softmax(x: Any, out: Any, plan: RowPlan | LongPlan | None, log: bool) -> Any:
    rows = rows_of("x", x)
    out, y = rows.result(out)
    plan = plan or rows.choose()
    if not rows.m * rows.n:
        return out
    if isinstance(plan, LongPlan):
        long_softmax(rows.matrix, y, log=log, **plan._asdict())
    elif plan is None:
        x, y = split(rows.matrix), split(y)
        softmax_pieces(x.shape[2])(x, y, log=log)
    else:
        softmax_rows(rows.matrix, y, log=log, **plan.constants(rows.n))
    return out


def _backward(dy: Any, y: Any, out: Any, plan: RowPlan | None, log: bool) -> Any:
    rows = rows_of("y", y)
    d, y = rows.like("dy", dy), rows.matrix
    out, dx = rows.result(out)
    plan = plan or (rows.plan(2) if rows.n <= LONG // 2 else rows.pair_plan())
    if not rows.m * rows.n:
        return out
    if plan is None:
        d, y, dx = split(d), split(y), split(dx)
        backward_pieces(y.shape[2])(y, d, dx, log=log)
    else:
        backward_rows(y, d, dx, log=log, **plan.constants(rows.n))
    return out


@kernel
def softmax_rows(
    X: T.Tensor(("M", "N"), None),
    Y: T.Tensor(("M", "N"), None),
    rows=1,
    columns=4096,
    threads=128,
    exact=False,
    stages=0,
    blocks=0,
    log=False,
):
    def softmax(first, given):
        x, top = greatest_of_rows(given, X.shape[1], rows, columns)
        power = T.alloc_fragment((rows, columns), T.float32)
        total = T.alloc_fragment((rows,), T.float32)
        for i, j in T.Parallel(rows, columns):
            x[i, j] = x[i, j] - top[i]
            power[i, j] = raised(x[i, j], X.dtype)
        T.reduce_sum(power, total, dim=1)
        for i in T.Parallel(rows):
            total[i] = T.log(total[i]) if log else 1.0 / total[i]
        for i, j in T.Parallel(rows, columns):
            Y[first + i, j] = x[i, j] - total[i] if log else power[i, j] * total[i]

    over_rows(softmax, [X], rows, columns, threads, exact, stages, blocks)


@lru_cache
def softmax_pieces(V: int) -> Kernel:
    """For rows of groups of V elements, of which registers hold some at a time."""

    @kernel
    def softmax_pieces(
        X: T.Tensor(("M", "G", V), None),
        Y: T.Tensor(("M", "G", V), None),
        vectors=2,
        threads=512,
        log=False,
    ):
        M, G, V = X.shape
        groups = vectors * threads
        with T.Kernel(M, threads=threads) as row:
            top, total = greatest_and_sum(X, row, vectors, threads)
            x = T.alloc_fragment((groups, V), T.float32)
            scale = T.log(total) if log else 1.0 / total
            for k in T.serial(T.ceildiv(G, groups)):
                for g, v in T.Parallel(groups, V):
                    x[g, v] = X[row, k * groups + g, v]
                for g, v in T.Parallel(groups, V):
                    y = x[g, v] - top
                    Y[row, k * groups + g, v] = y - scale if log else raised(y, X.dtype) * scale

    return softmax_pieces


@kernel
def backward_rows(
    Y: T.Tensor(("M", "N"), None),
    DY: T.Tensor(("M", "N"), None),
    DX: T.Tensor(("M", "N"), None),
    rows=1,
    columns=4096,
    threads=128,
    exact=False,
    stages=0,
    blocks=0,
    log=False,
):
    def backward(first, y, d):
        part = T.alloc_fragment((rows, columns), T.float32)
        total = T.alloc_fragment((rows,), T.float32)
        for i, j in T.Parallel(rows, columns):
            part[i, j] = T.cast(d[i, j], T.float32)
            if not log:
                part[i, j] = part[i, j] * T.cast(y[i, j], T.float32)
        T.reduce_sum(part, total, dim=1)
        for i, j in T.Parallel(rows, columns):
            DX[first + i, j] = slope(T.cast(y[i, j], T.float32), T.cast(d[i, j], T.float32), total[i], log, Y.dtype)

    over_rows(backward, [Y, DY], rows, columns, threads, exact, stages, blocks)


def slope(y, d, total, log, dtype):
    """dx from y, dy and the row's sum."""
    return d - raised(y, dtype) * total if log else y * (d - total)


@lru_cache
def backward_pieces(V: int) -> Kernel:
    """As `backward_rows`, for rows of groups of V elements."""

    @kernel
    def backward_pieces(
        Y: T.Tensor(("M", "G", V), None),
        DY: T.Tensor(("M", "G", V), None),
        DX: T.Tensor(("M", "G", V), None),
        vectors=2,
        threads=512,
        log=False,
    ):
        M, G, _ = Y.shape
        groups = vectors * threads
        with T.Kernel(M, threads=threads) as row:

            def part(g, v):
                d = T.cast(DY[row, g, v], T.float32)
                return d if log else d * T.cast(Y[row, g, v], T.float32)

            total = row_sum(G, V, vectors, threads, part)
            for k in T.serial(T.ceildiv(G, groups)):
                for g, v in T.Parallel(groups, V):
                    at = k * groups + g
                    y, d = T.cast(Y[row, at, v], T.float32), T.cast(DY[row, at, v], T.float32)
                    DX[row, at, v] = slope(y, d, total, log, Y.dtype)

    return backward_pieces
