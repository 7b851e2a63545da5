"""RMS norm and layer norm whose result is quantised to fp8 (e4m3), as products of fp8 take it.

A row is read once and stays in registers for its norm, the greatest of its results (of each block of 128 columns, or of
all) and their quotients by the scale, which are written as bytes.
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd
from typing import Any

import minitile.language as T
from minitile.driver.dispatch import for_users
from minitile.driver.jit import Kernel, kernel
from minitile.ir.types import e4m3, f32
from minitile.language.math import dtype_of_name
from minitile.ops.memory_bound.arguments import refused
from minitile.ops.memory_bound.rows import rows_of, vector_of

BLOCK = 128  # columns of a scale
GREATEST = e4m3.largest
LEAST = 1e-12  # of a scale, so that rows of zeros have one
MOST = 16384  # columns that registers of a block hold


@for_users
def rms_norm_fp8(
    x: Any, weight: Any = None, *, bias: Any = None, residual: Any = None, block: bool = False, eps: float = 1e-6
) -> Any:
    """`rms_norm`, quantised: a scale for each row, or for each `block` of 128 columns of one.

    Args:
        x: f32, bf16 or f16, of up to 16384 columns.
        weight: as of `rms_norm`.
        bias: as of `rms_norm`.
        residual: as of `rms_norm`.
        block: a scale for each 1×128, which divides the columns, as `grouped_matmul` takes them.
        eps: as of `rms_norm`.

    Returns:
        (q, scales): q of float8_e4m3fn and x's shape, q · scale is the norm; scales, f32, of the leading dimensions,
        with `block` times columns / 128. With a residual (q, scales, x + residual).

    Raises:
        LaunchArgumentError: arguments that do not fit.

    Example:
        ```py
        q, scales = mt.ops.rms_norm_fp8(x, weight, block=True)
        ```
    """
    return _quantised(False, x, weight, bias, residual, block, eps)


@for_users
def layer_norm_fp8(
    x: Any, weight: Any = None, bias: Any = None, *, residual: Any = None, block: bool = False, eps: float = 1e-5
) -> Any:
    """`layer_norm`, quantised. Arguments, results and errors as of `rms_norm_fp8`.

    Args:
        x: f32, bf16 or f16, of up to 16384 columns.
        weight: as of `layer_norm`.
        bias: as of `layer_norm`.
        residual: as of `layer_norm`.
        block: a scale for each 1×128.
        eps: as of `layer_norm`.

    Raises:
        LaunchArgumentError: arguments that do not fit.
    """
    return _quantised(True, x, weight, bias, residual, block, eps)


def _quantised(centered: bool, x: Any, weight: Any, bias: Any, residual: Any, block: bool, eps: float) -> Any:
    rows = rows_of("x", x)
    n, v = rows.n, gcd(rows.n, BLOCK)
    if n > MOST or (block and v != BLOCK):
        raise refused(f"x has {n} columns", f"they are at most {MOST}, and blocks take multiples of {BLOCK}")
    shape = (rows.m, n // v if v else 0, v)
    q, bytes_ = rows.result(None, dtype_of_name("e4m3"))
    scales = rows.empty((*rows.shape[:-1], n // BLOCK) if block else rows.shape[:-1], f32)
    total, z = (None, rows.matrix) if residual is None else rows.result(None)
    if rows.m * n:
        x = rows.matrix.reshape(shape)
        w, b = (
            x if one is None else vector_of(name, one, n).reshape(shape[1:])
            for name, one in (("weight", weight), ("bias", bias))
        )
        r = x if residual is None else rows.like("residual", residual).reshape(shape)
        has = (weight is not None, bias is not None, residual is not None)
        groups, threads = -(-n // v), min(512, max(32, 1 << (-(-n // 32) - 1).bit_length()))
        norm_quantised(v, centered, *has)(
            x, r, w, b, bytes_.reshape(shape), scales.reshape(rows.m, -1), z.reshape(shape), eps,
            rows=max(1, 128 // threads), groups=groups, threads=max(128, threads), block=block,
        )  # fmt: skip
    return (q, scales) if total is None else (q, scales, total)


@lru_cache
def norm_quantised(V: int, centered: bool, weight: bool, bias: bool, residual: bool) -> Kernel:
    """Of rows of groups of V elements: Q · Scale = norm(X + R) · W + B, Z = X + R. X for tensors that there are not."""
    matrix, row = ("M", "G", V), ("G", V)

    @kernel
    def norm_quantised(
        X: T.Tensor(matrix, None),
        R: T.Tensor(matrix, None),
        W: T.Tensor(row if weight else matrix, None),
        B: T.Tensor(row if bias else matrix, None),
        Q: T.Tensor(matrix, T.float8_e4m3fn),
        Scale: T.Tensor(("M", "S"), T.float32),
        Z: T.Tensor(matrix, None),
        eps: T.float32,
        rows=1,
        groups=32,
        threads=128,
        block=False,
    ):
        M, G, _ = X.shape
        share = 1.0 / T.cast(G * V, T.float32)
        with T.Kernel(T.ceildiv(M, rows), threads=threads) as bx:
            x = T.alloc_fragment((rows, groups, V), T.float32)
            part = T.alloc_fragment((rows, groups, V), T.float32)
            sums = T.alloc_fragment((rows, groups), T.float32)
            of_row = T.alloc_fragment((rows,), T.float32)
            first = bx * rows
            for i, g, v in T.Parallel(rows, groups, V):
                x[i, g, v] = T.cast(X[first + i, g, v], T.float32)
                if residual:
                    z = T.cast(x[i, g, v] + T.cast(R[first + i, g, v], T.float32), X.dtype)
                    Z[first + i, g, v] = z
                    x[i, g, v] = T.cast(z, T.float32)
            if centered:
                T.reduce_sum(x, sums, dim=2)
                T.reduce_sum(sums, of_row, dim=1)
                for i, g, v in T.Parallel(rows, groups, V):
                    x[i, g, v] = T.if_then_else(g < G, x[i, g, v] - of_row[i] * share, 0.0)
            for i, g, v in T.Parallel(rows, groups, V):
                part[i, g, v] = x[i, g, v] * x[i, g, v]
            T.reduce_sum(part, sums, dim=2)
            T.reduce_sum(sums, of_row, dim=1)
            for i, g, v in T.Parallel(rows, groups, V):
                x[i, g, v] = x[i, g, v] * T.rsqrt(of_row[i] * share + eps)
                x[i, g, v] = x[i, g, v] * T.cast(W[g, v], T.float32) if weight else x[i, g, v]
                x[i, g, v] = x[i, g, v] + T.cast(B[g, v], T.float32) if bias else x[i, g, v]
            T.reduce_absmax(x, sums, dim=2)
            if not block:
                T.reduce_max(sums, of_row, dim=1)
            for i, g in T.Parallel(rows, groups):
                sums[i, g] = T.max((sums[i, g] if block else of_row[i]) / GREATEST, LEAST)
                if block:
                    Scale[first + i, g] = sums[i, g]
            if not block:
                for i in T.Parallel(rows):
                    Scale[first + i, 0] = T.max(of_row[i] / GREATEST, LEAST)
            for i, g in T.Parallel(rows, groups):
                sums[i, g] = 1.0 / sums[i, g]
            for i, g, v in T.Parallel(rows, groups, V):
                Q[first + i, g, v] = T.cast(x[i, g, v] * sums[i, g], T.float8_e4m3fn)

    return norm_quantised
