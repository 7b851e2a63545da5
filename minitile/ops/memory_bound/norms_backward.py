"""Gradients of RMS norm and layer norm: of x by rows, of weight and bias by columns, in one reading of x and dy.

Persistent blocks go over the rows, which wait in shared memory, and keep sums of their own for weight and bias. A
second kernel adds these up, always in the same order. Mean and variance are computed again: that costs no bytes. Rows
whose sums registers do not hold have a kernel for each of the two gradients.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import minitile.language as T
from minitile.driver.dispatch import for_users
from minitile.driver.jit import Kernel, kernel
from minitile.ir.types import f32
from minitile.language.math import dtype_of_name
from minitile.ops.memory_bound.norms import MATRIX, ROW
from minitile.ops.memory_bound.pieces import row_sum, split
from minitile.ops.memory_bound.rows import RowPlan, over_rows, rows_of, vector_of
from minitile.runtime.arrays import describe

PARTS = ("P", "N")


@for_users
def rms_norm_backward(
    dy: Any,
    x: Any,
    weight: Any = None,
    *,
    bias: bool = False,
    dsum: Any = None,
    eps: float = 1e-6,
    plan: RowPlan | None = None,
) -> Any:
    """The gradients of `rms_norm`, for dy of its result.

    Args:
        dy: of x's shape and dtype.
        x: what was normalised: with a residual, the sum.
        weight: as of `rms_norm`.
        bias: whether there was one.
        dsum: with a residual, the gradient of the sum as the second result; is added to dx.
        eps: as of `rms_norm`.
        plan: how rows are spread over blocks, instead of the table's choice.

    Returns:
        (dx, dweight, dbias): of x's dtype, and of the weight's (x's without one); None for what there was not. With a
        residual, dx is its gradient, too.

    Raises:
        LaunchArgumentError: arguments that do not fit.

    Example:
        ```py
        dx, dweight, _ = mt.ops.rms_norm_backward(dy, x, weight)
        ```
    """
    return _backward(False, dy, x, weight, bias, dsum, eps, plan)


@for_users
def layer_norm_backward(
    dy: Any,
    x: Any,
    weight: Any = None,
    *,
    bias: bool = True,
    dsum: Any = None,
    eps: float = 1e-5,
    plan: RowPlan | None = None,
) -> Any:
    """The gradients of `layer_norm`, for dy of its result. Arguments, results and errors as of `rms_norm_backward`.

    Args:
        dy: of x's shape and dtype.
        x: what was normalised: with a residual, the sum.
        weight: as of `layer_norm`.
        bias: whether there was one.
        dsum: with a residual, the gradient of the sum as the second result.
        eps: as of `layer_norm`.
        plan: instead of the table's choice.

    Raises:
        LaunchArgumentError: arguments that do not fit.
    """
    return _backward(True, dy, x, weight, bias, dsum, eps, plan)


def _backward(
    centered: bool, dy: Any, x: Any, weight: Any, bias: bool, dsum: Any, eps: float, plan: RowPlan | None
) -> Any:
    rows = rows_of("x", x)
    x, dy, n = rows.matrix, rows.like("dy", dy), rows.n
    w = x if weight is None else vector_of("weight", weight, n)
    added = x if dsum is None else rows.like("dsum", dsum)
    gradient, dx = rows.result(None)
    plan = plan or rows.gradient_plan(bias + 1)
    height, most = (1, rows.room.multiprocessors) if plan is None else (plan.rows, plan.blocks)
    wanted = (weight is not None, bias)
    parts = [rows.empty((min(most, -(-rows.m // height)), n), f32) if each else x for each in wanted]
    if rows.m * n and plan is not None:
        constants = {name: value for name, value in plan.constants(n).items() if name != "blocks"}
        backward_rows(centered, *wanted, dsum is not None)(x, dy, w, added, dx, *parts, eps, **constants)
    elif rows.m * n:
        mean, scale = rows.empty((rows.m,), f32), rows.empty((rows.m,), f32)
        groups = split(x)
        w = groups if weight is None else w.reshape(groups.shape[1:])
        pieces = backward_pieces(groups.shape[2], centered, weight is not None, dsum is not None)
        pieces(groups, split(dy), w, split(added), split(dx), mean, scale, eps)
        if any(wanted):
            backward_columns(*wanted)(x, dy, mean, scale, *parts)
    sums = [None, None]
    for at, each in enumerate(wanted):
        if each:
            sums[at] = rows.empty((n,), dtype_of_name(describe(w).dtype) if weight is not None else rows.dtype)
            if n:
                summed(parts[at], sums[at])
    return (gradient, *sums)


@lru_cache
def backward_rows(centered: bool, weight: bool, bias: bool, dsum: bool) -> Kernel:
    """DX, and for each block the sums of its rows' gradients of weight and bias. X for tensors that there are not."""

    @kernel
    def backward_rows(
        X: T.Tensor(MATRIX, None),
        DY: T.Tensor(MATRIX, None),
        W: T.Tensor(ROW if weight else MATRIX, None),
        DS: T.Tensor(MATRIX, None),
        DX: T.Tensor(MATRIX, None),
        PW: T.Tensor(PARTS if weight else MATRIX, None),
        PB: T.Tensor(PARTS if bias else MATRIX, None),
        eps: T.float32,
        rows=1,
        columns=4096,
        threads=256,
        exact=False,
        stages=2,
    ):
        M, N = X.shape
        share = 1.0 / T.cast(N, T.float32)
        state = {}

        def before():
            for name in ("weight", "bias"):
                state[name] = T.alloc_fragment((rows, columns), T.float32)
                T.clear(state[name])

        def backward(first, given, grad):
            x = T.alloc_fragment((rows, columns), T.float32)
            d = T.alloc_fragment((rows, columns), T.float32)
            part = T.alloc_fragment((rows, columns), T.float32)
            mean = T.alloc_fragment((rows,), T.float32)
            scale = T.alloc_fragment((rows,), T.float32)
            slope = T.alloc_fragment((rows,), T.float32)
            for i, j in T.Parallel(rows, columns):
                x[i, j] = T.cast(given[i, j], T.float32)
                d[i, j] = T.cast(grad[i, j], T.float32)
            if centered:
                T.reduce_sum(x, mean, dim=1)
                for i, j in T.Parallel(rows, columns):
                    x[i, j] = T.if_then_else(j < N, x[i, j] - mean[i] * share, 0.0)
            for i, j in T.Parallel(rows, columns):
                part[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(part, scale, dim=1)
            for i in T.Parallel(rows):
                scale[i] = T.if_then_else(first + i < M, T.rsqrt(scale[i] * share + eps), 0.0)
            for i, j in T.Parallel(rows, columns):
                x[i, j] = x[i, j] * scale[i]
                if weight:
                    state["weight"][i, j] += d[i, j] * x[i, j]
                if bias:
                    state["bias"][i, j] += d[i, j]
                d[i, j] = d[i, j] * T.cast(W[j], T.float32) if weight else d[i, j]
                part[i, j] = d[i, j] * x[i, j]
            T.reduce_sum(part, slope, dim=1)
            if centered:
                T.reduce_sum(d, mean, dim=1)
            for i, j in T.Parallel(rows, columns):
                y = (
                    d[i, j] - (x[i, j] * slope[i] + mean[i]) * share
                    if centered
                    else d[i, j] - x[i, j] * slope[i] * share
                )
                y = y * scale[i]
                DX[first + i, j] = y + T.cast(DS[first + i, j], T.float32) if dsum else y

        def after(block):
            for name, parts, there in (("weight", PW, weight), ("bias", PB, bias)):
                if there:
                    total = T.alloc_fragment((columns,), T.float32)
                    T.reduce_sum(state[name], total, dim=0)
                    T.copy(total, parts[block, 0])

        blocks = PW.shape[0] if weight else PB.shape[0] if bias else M
        over_rows(backward, [X, DY], rows, columns, threads, exact, stages, blocks, before, after)

    return backward_rows


@lru_cache
def backward_pieces(V: int, centered: bool, weight: bool, dsum: bool) -> Kernel:
    """DX of rows of groups of V elements, of which registers hold some at a time; the rows' means and scales."""
    matrix, row = ("M", "G", V), ("G", V)

    @kernel
    def backward_pieces(
        X: T.Tensor(matrix, None),
        DY: T.Tensor(matrix, None),
        W: T.Tensor(row if weight else matrix, None),
        DS: T.Tensor(matrix, None),
        DX: T.Tensor(matrix, None),
        Mean: T.Tensor(("M",), T.float32),
        Scale: T.Tensor(("M",), T.float32),
        eps: T.float32,
        vectors=2,
        threads=512,
    ):
        M, G, _ = X.shape
        groups = vectors * threads
        N = T.cast(G * V, T.float32)
        with T.Kernel(M, threads=threads) as block:

            def total(element):
                return row_sum(G, V, vectors, threads, element) / N

            def grad(g, v):
                d = T.cast(DY[block, g, v], T.float32)
                return d * T.cast(W[g, v], T.float32) if weight else d

            mean = total(lambda g, v: T.cast(X[block, g, v], T.float32)) if centered else 0.0

            def away(g, v):
                return T.if_then_else(g < G, T.cast(X[block, g, v], T.float32) - mean, 0.0)

            scale = T.rsqrt(total(lambda g, v: away(g, v) * away(g, v)) + eps)
            slope = total(lambda g, v: grad(g, v) * away(g, v)) * scale
            offset = total(grad) if centered else 0.0
            for k in T.serial(T.ceildiv(G, groups)):
                for g, v in T.Parallel(groups, V):
                    at = k * groups + g
                    y = (grad(at, v) - away(at, v) * scale * slope - offset) * scale
                    DX[block, at, v] = y + T.cast(DS[block, at, v], T.float32) if dsum else y
            Mean[block] = mean
            Scale[block] = scale

    return backward_pieces


@lru_cache
def backward_columns(weight: bool, bias: bool) -> Kernel:
    """For each of P parts of the rows, the sums of their gradients of weight and bias."""

    @kernel
    def backward_columns(
        X: T.Tensor(MATRIX, None),
        DY: T.Tensor(MATRIX, None),
        Mean: T.Tensor(("M",), T.float32),
        Scale: T.Tensor(("M",), T.float32),
        PW: T.Tensor(PARTS if weight else MATRIX, None),
        PB: T.Tensor(PARTS if bias else MATRIX, None),
        rows=8,
        columns=512,
        threads=256,
    ):
        M, N = X.shape
        P = PW.shape[0] if weight else PB.shape[0]
        each = T.ceildiv(M, P)
        with T.Kernel(T.ceildiv(N, columns), P, threads=threads) as (bx, part):
            sums = [T.alloc_fragment((rows, columns), T.float32) for _ in range(2)]
            total = T.alloc_fragment((columns,), T.float32)
            for one in sums:
                T.clear(one)
            for k in T.serial(T.ceildiv(each, rows)):
                for i, j in T.Parallel(rows, columns):
                    row, column = part * each + k * rows + i, bx * columns + j
                    if k * rows + i < each:
                        d = T.cast(DY[row, column], T.float32)
                        sums[0][i, j] += d * (T.cast(X[row, column], T.float32) - Mean[row]) * Scale[row]
                        sums[1][i, j] += d
            for one, parts, there in ((sums[0], PW, weight), (sums[1], PB, bias)):
                if there:
                    T.reduce_sum(one, total, dim=0)
                    T.copy(total, parts[part, bx * columns])

    return backward_columns


@kernel
def summed(Parts: T.Tensor(PARTS, T.float32), S: T.Tensor(ROW, None), rows=64, columns=32, threads=256):
    P, N = Parts.shape
    with T.Kernel(T.ceildiv(N, columns), threads=threads) as bx:
        acc = T.alloc_fragment((rows, columns), T.float32)
        total = T.alloc_fragment((columns,), T.float32)
        T.clear(acc)
        for k in T.serial(T.ceildiv(P, rows)):
            for i, j in T.Parallel(rows, columns):
                acc[i, j] += Parts[k * rows + i, bx * columns + j]
        T.reduce_sum(acc, total, dim=0)
        T.copy(total, S[bx * columns])
