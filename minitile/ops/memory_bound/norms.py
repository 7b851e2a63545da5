"""RMS norm and layer norm along the rows of a matrix, also of a sum with a residual.

A row is read once, stays in registers for its mean, its variance and its result, and is written once. The variance is
that of the differences from the mean, not a difference of sums. Weight and bias are the same for all rows and come out
of the caches. Rows that a block does not hold are split over a cluster (`long_rows.py`), or read again for each of
these (`norm_pieces`). Rows that begin anywhere, with weight or bias, are for persistent blocks (`persistent_norm.py`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import minitile.language as T
from minitile.driver.dispatch import for_users
from minitile.driver.jit import Kernel, kernel
from minitile.ops.memory_bound.long_rows import LongPlan, long_norm
from minitile.ops.memory_bound.persistent_norm import PersistentPlan, persistent_norm
from minitile.ops.memory_bound.pieces import row_sum, split
from minitile.ops.memory_bound.rows import RowPlan, over_rows, rows_of, vector_of

MATRIX, ROW = ("M", "N"), ("N",)


@for_users
def rms_norm(
    x: Any,
    weight: Any = None,
    *,
    bias: Any = None,
    residual: Any = None,
    eps: float = 1e-6,
    out: Any = None,
    plan: RowPlan | LongPlan | PersistentPlan | None = None,
) -> Any:
    """x / sqrt(mean(x²) + eps) · weight + bias along the last dimension, in f32.

    With a residual, x + residual takes the place of x, rounded to x's dtype, and is a second result.

    Args:
        x: f32, bf16 or f16, of torch, CuPy, or NumPy (then the simulator computes); any leading dimensions.
        weight: of as many elements as x has columns, of any of these dtypes; 1 without it.
        bias: likewise; 0 without it.
        residual: of x's shape.
        eps: is added to the mean of squares.
        out: where the norm goes, of x's shape and dtype, without gaps; may be x. Without it, a new array.
        plan: how rows are spread over blocks, instead of the table's choice.

    Returns:
        The norm, of x's shape and dtype; with a residual, (norm, x + residual).

    Raises:
        LaunchArgumentError: arguments that do not fit.

    Example:
        ```py
        y, x = mt.ops.rms_norm(attention, weight, residual=x)
        ```
    """
    return _norm(False, x, weight, bias, residual, eps, out, plan)


@for_users
def layer_norm(
    x: Any,
    weight: Any = None,
    bias: Any = None,
    *,
    residual: Any = None,
    eps: float = 1e-5,
    out: Any = None,
    plan: RowPlan | LongPlan | PersistentPlan | None = None,
) -> Any:
    """(x - mean(x)) / sqrt(var(x) + eps) · weight + bias along the last dimension, in f32.

    Arguments, results and errors are those of `rms_norm`; var is the mean of the squared differences from the mean.

    Args:
        x: f32, bf16 or f16; any leading dimensions.
        weight: of as many elements as x has columns; 1 without it.
        bias: likewise; 0 without it.
        residual: of x's shape, added to x before.
        eps: is added to the variance.
        out: where the norm goes; may be x.
        plan: instead of the table's choice.

    Raises:
        LaunchArgumentError: arguments that do not fit.

    Example:
        ```py
        y = mt.ops.layer_norm(x, weight, bias)
        ```
    """
    return _norm(True, x, weight, bias, residual, eps, out, plan)


def _norm(
    centered: bool,
    x: Any,
    weight: Any,
    bias: Any,
    residual: Any,
    eps: float,
    out: Any,
    plan: RowPlan | LongPlan | PersistentPlan | None,
) -> Any:
    rows = rows_of("x", x)
    ahead = out is not x  # blocks may read rows beside those that others write
    out, y = rows.result(out)
    x, n = rows.matrix, rows.n
    w = x if weight is None else vector_of("weight", weight, n)
    b = x if bias is None else vector_of("bias", bias, n)
    r = z = x
    total = None
    if residual is not None:
        r = rows.like("residual", residual)
        total, z = rows.result(None)
    tensors = 1 if residual is None else 2
    factors = (weight is not None) + (bias is not None)
    plan = plan or (rows.persistent_plan(tensors, factors) if ahead else None) or rows.choose(tensors, factors)
    has = (weight is not None, bias is not None, residual is not None)
    if rows.m * n and isinstance(plan, PersistentPlan):
        flat = x.reshape(-1)
        args = (flat, flat if weight is None else w, flat if bias is None else b, y, eps)
        persistent_norm(centered, *has[:2])(*args, **plan._asdict())
    elif rows.m * n and isinstance(plan, LongPlan):
        long_norm(centered, *has)(x, r, w, b, y, z, eps, **plan._asdict())
    elif rows.m * n and isinstance(plan, RowPlan):
        norm_rows(centered, *has)(x, r, w, b, y, z, eps, **plan.constants(n))
    elif rows.m * n:
        x, r, y, z = (split(matrix) for matrix in (x, r, y, z))
        w, b = (x if given is None else given.reshape(x.shape[1:]) for given in (weight, bias))
        norm_pieces(x.shape[2], centered, *has)(x, r, w, b, y, z, eps)
    return out if total is None else (out, total)


@lru_cache
def norm_rows(centered: bool, weight: bool, bias: bool, residual: bool) -> Kernel:
    """Layer norm (`centered`) or RMS norm, with what it has of weight, bias and residual: Y = norm(X + R) · W + B,
    Z = X + R. For a tensor that it has not, X is passed."""

    @kernel
    def norm_rows(
        X: T.Tensor(MATRIX, None),
        R: T.Tensor(MATRIX, None),
        W: T.Tensor(ROW if weight else MATRIX, None),
        B: T.Tensor(ROW if bias else MATRIX, None),
        Y: T.Tensor(MATRIX, None),
        Z: T.Tensor(MATRIX, None),
        eps: T.float32,
        rows=1,
        columns=4096,
        threads=128,
        exact=False,
        stages=0,
        blocks=0,
    ):
        N = X.shape[1]
        share = 1.0 / T.cast(N, T.float32)

        def norm(first, given, added=None):
            x = T.alloc_fragment((rows, columns), T.float32)
            square = T.alloc_fragment((rows, columns), T.float32)
            mean = T.alloc_fragment((rows,), T.float32)
            scale = T.alloc_fragment((rows,), T.float32)
            for i, j in T.Parallel(rows, columns):
                x[i, j] = T.cast(given[i, j], T.float32)
                if residual:
                    z = T.cast(x[i, j] + T.cast(added[i, j], T.float32), X.dtype)
                    Z[first + i, j] = z
                    x[i, j] = T.cast(z, T.float32)
            if centered:
                T.reduce_sum(x, mean, dim=1)
                for i, j in T.Parallel(rows, columns):
                    x[i, j] = T.if_then_else(j < N, x[i, j] - mean[i] * share, 0.0)
            for i, j in T.Parallel(rows, columns):
                square[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(square, scale, dim=1)
            for i in T.Parallel(rows):
                scale[i] = T.rsqrt(scale[i] * share + eps)
            for i, j in T.Parallel(rows, columns):
                y = x[i, j] * scale[i]
                y = y * T.cast(W[j], T.float32) if weight else y
                Y[first + i, j] = y + T.cast(B[j], T.float32) if bias else y

        over_rows(norm, [X, R] if residual else [X], rows, columns, threads, exact, stages, blocks)

    return norm_rows


@lru_cache
def norm_pieces(V: int, centered: bool, weight: bool, bias: bool, residual: bool) -> Kernel:
    """As `norm_rows`, for rows of groups of V elements, of which registers hold some at a time."""
    matrix, row = ("M", "G", V), ("G", V)

    @kernel
    def norm_pieces(
        X: T.Tensor(matrix, None),
        R: T.Tensor(matrix, None),
        W: T.Tensor(row if weight else matrix, None),
        B: T.Tensor(row if bias else matrix, None),
        Y: T.Tensor(matrix, None),
        Z: T.Tensor(matrix, None),
        eps: T.float32,
        vectors=2,
        threads=512,
    ):
        M, G, _ = X.shape
        groups = vectors * threads
        N = T.cast(G * V, T.float32)
        with T.Kernel(M, threads=threads) as block:
            if residual:
                for k in T.serial(T.ceildiv(G, groups)):
                    for g, v in T.Parallel(groups, V):
                        at = k * groups + g
                        Z[block, at, v] = T.cast(X[block, at, v], T.float32) + T.cast(R[block, at, v], T.float32)
            S = Z if residual else X
            mean = (
                row_sum(G, V, vectors, threads, lambda g, v: T.cast(S[block, g, v], T.float32)) / N if centered else 0.0
            )

            def square(g, v):
                x = T.cast(S[block, g, v], T.float32) - mean
                return T.if_then_else(g < G, x * x, 0.0)

            scale = T.rsqrt(row_sum(G, V, vectors, threads, square) / N + eps)
            for k in T.serial(T.ceildiv(G, groups)):
                for g, v in T.Parallel(groups, V):
                    at = k * groups + g
                    y = (T.cast(S[block, at, v], T.float32) - mean) * scale
                    y = y * T.cast(W[at, v], T.float32) if weight else y
                    Y[block, at, v] = y + T.cast(B[at, v], T.float32) if bias else y

    return norm_pieces
