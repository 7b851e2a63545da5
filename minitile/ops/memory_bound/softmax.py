"""Softmax and its logarithm along the rows of a matrix.

A row is read once, stays in registers for its greatest element, its sum and its result, and is written once. 16-bit
rows take the power of two as the hardware has it, 2^-22 off, of a product with log2(e); f32 rows take the exponential
function as exactly as there is. Rows that registers do not hold are read twice (`softmax_pieces`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import minitile.language as T
from minitile.driver.dispatch import for_users
from minitile.driver.jit import Kernel, kernel
from minitile.ops.memory_bound.pieces import greatest_and_sum, raised, split
from minitile.ops.memory_bound.rows import RowPlan, over_rows, rows_of


@for_users
def softmax(x: Any, *, out: Any = None, plan: RowPlan | None = None) -> Any:
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
def log_softmax(x: Any, *, out: Any = None, plan: RowPlan | None = None) -> Any:
    """x - log(sum(exp(x))) along the last dimension. Arguments and errors as of `softmax`.

    Args:
        x: f32, bf16 or f16; any leading dimensions.
        out: where the result goes, of x's shape and dtype; may be x.
        plan: instead of the table's choice.

    Raises:
        LaunchArgumentError: arguments that do not fit.
    """
    return _softmax(x, out, plan, True)


def _softmax(x: Any, out: Any, plan: RowPlan | None, log: bool) -> Any:
    rows = rows_of("x", x)
    out, y = rows.result(out)
    plan = plan or rows.plan()
    if not rows.m * rows.n:
        return out
    if plan is None:
        x, y = split(rows.matrix), split(y)
        softmax_pieces(x.shape[2])(x, y, log=log)
    else:
        softmax_rows(rows.matrix, y, log=log, **plan.constants(rows.n))
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
    N = X.shape[1]

    def softmax(first, given):
        x = T.alloc_fragment((rows, columns), T.float32)
        power = T.alloc_fragment((rows, columns), T.float32)
        top = T.alloc_fragment((rows,), T.float32)
        total = T.alloc_fragment((rows,), T.float32)
        for i, j in T.Parallel(rows, columns):
            x[i, j] = T.if_then_else(j < N, T.cast(given[i, j], T.float32), -T.infinity(T.float32))
        T.reduce_max(x, top, dim=1)
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
