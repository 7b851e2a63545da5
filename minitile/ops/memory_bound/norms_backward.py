"""Gradients of RMS norm and layer norm: of x by rows, of weight and bias by columns, in one reading of x and dy.

Persistent clusters go over the rows, of which each block has a part: the next rows are on their way to shared memory,
weights and the block's own sums for weight and bias stay in registers. Mean and variance are computed again, which
costs no bytes: each block does so for its part, and they exchange all they have once a row (`long_rows.py`). A second
kernel adds the clusters' sums up, always in the same order. Rows whose sums registers do not hold have a kernel for
each of the two gradients.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import minitile.language as T
from minitile.driver.dispatch import for_users
from minitile.driver.jit import Kernel, kernel
from minitile.ir.types import DType, f32
from minitile.language.math import dtype_of_name
from minitile.ops.memory_bound.arguments import VECTOR
from minitile.ops.memory_bound.launches import in_order
from minitile.ops.memory_bound.long_rows import BLOCK_SHARED, CLUSTERS, Part
from minitile.ops.memory_bound.norms import MATRIX, ROW
from minitile.ops.memory_bound.pieces import MOST_THREADS, row_sum, split
from minitile.ops.memory_bound.rows import H200, Room, rows_of, vector_of
from minitile.ops.operands import refused
from minitile.runtime.arrays import describe

PARTS = ("P", "N")
HELD = 64  # elements of a row, at most, of which a thread has sums
# For rows of up to so many bytes: cluster, threads, stages and resident blocks that were the fastest for RMS norm and
# for layer norm on an H200 (benchmarks/sweep_memory.py). Longer rows are spread over larger clusters.
FASTEST = {
    2048: ((1, 64, 2, 8), (1, 64, 2, 8)),
    4096: ((1, 128, 2, 4), (1, 128, 3, 4)),
    8192: ((2, 128, 3, 3), (1, 256, 3, 2)),
    16384: ((2, 256, 3, 2), (2, 128, 2, 3)),
    32768: ((2, 256, 3, 1), (2, 256, 2, 2)),
}


class GradientPlan(NamedTuple):
    """A cluster of so many blocks of `threads`, each of which has `columns` of a row. exact: they have no columns
    behind the row. stages: so many rows are in shared memory. resident: of as many blocks there is room in a
    multiprocessor; `clusters` of them fill the GPU."""

    cluster: int
    columns: int
    threads: int
    exact: bool
    stages: int
    resident: int
    clusters: int


@lru_cache
def gradient_plan(
    n: int, dtype: DType, centered: bool, tensors: int = 2, room: Room = H200, clusters: bool = True
) -> GradientPlan | None:
    """The plan for rows of n elements, of so many tensors at a time; None where registers do not hold their sums, or
    shared memory two rows. clusters: whether the target has any."""
    longest = max(FASTEST)
    bytes_ = n * dtype.bytes
    row = min((each for each in FASTEST if each >= bytes_), default=longest)
    cluster, threads, stages, resident = FASTEST[row][centered]
    spread = 1
    while bytes_ > longest * spread and cluster * spread < CLUSTERS[-1]:
        spread *= 2
    cluster *= spread
    if not clusters:
        threads, cluster = min(threads * cluster, MOST_THREADS), 1
    grain = threads * VECTOR // dtype.bytes
    columns = math.ceil(max(n, 1) / cluster / grain) * grain
    part = columns * dtype.bytes * tensors
    stages = min(stages, (room.shared - BLOCK_SHARED) // part)
    if columns > HELD * threads or stages < 2:
        return None
    resident = max(1, min(resident, room.shared // (stages * part + BLOCK_SHARED)))
    fill = room.multiprocessors * resident // cluster
    return GradientPlan(cluster, columns, threads, columns * cluster == n, stages, resident, fill)


@for_users
def rms_norm_backward(
    dy: Any,
    x: Any,
    weight: Any = None,
    *,
    bias: bool = False,
    dsum: Any = None,
    eps: float = 1e-6,
    plan: GradientPlan | None = None,
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
    plan: GradientPlan | None = None,
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
    centered: bool, dy: Any, x: Any, weight: Any, bias: bool, dsum: Any, eps: float, plan: GradientPlan | None
) -> Any:
    if getattr(bias, "shape", ()):
        raise refused("bias is an array", "say whether there was one, True or False: its gradient does not need it")
    rows = rows_of("x", x)
    x, dy, n = rows.matrix, rows.like("dy", dy), rows.n
    w = x if weight is None else vector_of("weight", weight, n)
    added = x if dsum is None else rows.like("dsum", dsum)
    gradient, dx = rows.result(None)
    tensors = 2 if dsum is None else 3
    plan = plan or gradient_plan(n, rows.dtype, centered, tensors, rows.room, rows.target.has("cluster"))
    most = rows.room.multiprocessors if plan is None else plan.clusters
    wanted = (weight is not None, bias)
    parts = [rows.x.empty((min(most, rows.m), n), f32) if each else x for each in wanted]
    if rows.m * n and plan is not None:
        constants = {name: value for name, value in plan._asdict().items() if name != "clusters"}
        backward_rows(centered, *wanted, dsum is not None)(x, dy, w, added, dx, *parts, eps, **constants)
    elif rows.m * n:
        mean, scale = rows.x.empty((rows.m,), f32), rows.x.empty((rows.m,), f32)
        groups = split(x)
        w = groups if weight is None else w.reshape(groups.shape[1:])
        pieces = backward_pieces(groups.shape[2], centered, weight is not None, dsum is not None)
        pieces(groups, split(dy), w, split(added), split(dx), mean, scale, eps)
        if any(wanted):
            backward_columns(*wanted)(x, dy, mean, scale, *parts)
    sums = [None, None]
    for at, each in enumerate(wanted):
        if each:
            sums[at] = rows.x.empty((n,), dtype_of_name(describe(w).dtype) if weight is not None else rows.dtype)
            if n:
                summed(parts[at], sums[at])
    return (gradient, *sums)


def moments(part, grad, factors, centered):
    """Of a block's columns, with d = grad times the factors, if there are any: their number, the mean of x;
    Σ(x - mean)², Σ d · (x - mean), Σ d."""
    count = T.cast(T.min(T.max(part.end, 0), part.columns), T.float32)
    mean = 0.0
    if centered:
        mean = part.total(T.reduce_sum, lambda j: T.cast(part.given[j], T.float32)) / T.max(count, 1.0)
    mine = [T.alloc_fragment((part.width,), T.float32) for _ in range(3)]
    totals = [T.alloc_fragment((1,), T.float32) for _ in range(3)]
    for one in mine:
        T.clear(one)
    for k in T.unroll(part.steps):
        for j in T.Parallel(part.width):
            x = T.cast(part.given[k * part.width + j], T.float32) - mean
            x = part.inside(k * part.width + j, x, 0.0) if centered else x
            d = T.cast(grad[k * part.width + j], T.float32)
            d = d if factors is None else d * T.cast(factors[k][j], T.float32)
            mine[0][j] += x * x
            mine[1][j] += d * x
            mine[2][j] += d
    for one, total in zip(mine, totals, strict=True):
        T.reduce_sum(one, total)
    return count, mean, *(total[0] for total in totals)


def together(part, share, centered, count, mean, squares, slope, offset):
    """The moments of the whole row, but for the number of its columns, whose inverse is `share`, from those of all
    blocks."""
    if part.cluster == 1:
        return mean, squares, slope, offset
    every = part.gathered(count, mean, squares, slope, offset)

    def total(element):
        return part.over_blocks(T.reduce_sum, element)

    whole = total(lambda i: every[0, i] * every[1, i]) * share if centered else 0.0
    squares = total(lambda i: every[2, i] + every[0, i] * (every[1, i] - whole) * (every[1, i] - whole))
    slope = total(lambda i: every[3, i] + every[4, i] * (every[1, i] - whole))
    return whole, squares, slope, total(lambda i: every[4, i]) if centered else 0.0


@lru_cache
def backward_rows(centered: bool, weight: bool, bias: bool, dsum: bool) -> Kernel:
    """DX, and for each cluster the sums of its rows' gradients of weight and bias. X for tensors that there are not."""

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
        cluster=1,
        columns=4096,
        threads=256,
        exact=False,
        stages=2,
        resident=1,
    ):
        M, N = X.shape
        share = 1.0 / T.cast(N, T.float32)
        clusters = PW.shape[0] if weight else PB.shape[0] if bias else M
        width = threads * VECTOR // X.dtype.bytes
        steps = columns // width
        if exact:
            T.assume(columns * cluster == N)

        with T.Kernel(clusters * cluster, cluster=cluster, threads=threads) as block:
            T.annotate_min_blocks_per_sm(resident)
            in_order()
            rank, first_row = block % cluster, block // cluster
            first = rank * columns
            given, grad, added = [T.alloc_shared((columns,), X.dtype) for _ in (X, DY, DS)]
            factors: list[Any] = []
            sums: tuple[list[Any], list[Any]] = ([], [])
            for k in T.unroll(steps):
                factors.append(T.alloc_fragment((width,), W.dtype))
                if weight:
                    T.copy(W[first + k * width], factors[k])
                for each in sums:
                    each.append(T.alloc_fragment((width,), T.float32))
                    T.clear(each[k])
            for n in T.Pipelined(T.ceildiv(M - first_row, clusters), num_stages=stages):
                row = first_row + n * clusters
                T.copy(X[row, first], given)
                T.copy(DY[row, first], grad)
                if dsum:
                    T.copy(DS[row, first], added)
                part = Part(given, row, rank, first, N - first, cluster, columns, width, exact)
                own = moments(part, grad, factors if weight else None, centered)
                mean, squares, slope, offset = together(part, share, centered, *own)
                scale = T.rsqrt(squares * share + eps)
                slope, offset = slope * scale * share, offset * share
                for k in T.unroll(steps):
                    for j in T.Parallel(width):
                        x = (T.cast(given[k * width + j], T.float32) - mean) * scale
                        d = T.cast(grad[k * width + j], T.float32)
                        if weight:
                            sums[0][k][j] += d * x
                        if bias:
                            sums[1][k][j] += d
                        d = d * T.cast(factors[k][j], T.float32) if weight else d
                        y = (d - offset - x * slope if centered else d - x * slope) * scale
                        y = y + T.cast(added[k * width + j], T.float32) if dsum else y
                        DX[row, first + k * width + j] = y
            for parts, there, each in ((PW, weight, sums[0]), (PB, bias, sums[1])):
                if there:
                    for k in T.unroll(steps):
                        T.copy(each[k], parts[first_row, first + k * width])

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
        in_order()
        acc = T.alloc_fragment((rows, columns), T.float32)
        total = T.alloc_fragment((columns,), T.float32)
        T.clear(acc)
        for k in T.serial(T.ceildiv(P, rows)):
            for i, j in T.Parallel(rows, columns):
                acc[i, j] += Parts[k * rows + i, bx * columns + j]
        T.reduce_sum(acc, total, dim=0)
        T.copy(total, S[bx * columns])
