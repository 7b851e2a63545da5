"""Rows that one block does not hold: softmax, RMS norm and layer norm, cross entropy, with a row split over the blocks
of a cluster (sm_90a; with a cluster of one block these are kernels for every target).

A block copies its part of the row into shared memory, all of it on its way at once, and reads it from there for each of
the row's reductions and for the result: the row is read and written once. What a row needs of all its elements, the
blocks exchange through each other's shared memory (scope="cluster"), each of them in the same order. Shared memory
rather than registers: two or three blocks of a multiprocessor then load while another one computes, or one block loads
the next row while it computes this one (`stages`). Threads take the part a few vectors at a time, so that they need few
registers, however long it is.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import minitile.language as T
from minitile.driver.jit import Kernel, kernel
from minitile.ir.types import DType

LOG2_E = 1.4426950408889634
PART = 64 * 1024  # bytes of a row in a block: three of them are in a multiprocessor's shared memory
MOST_PART = 216 * 1024
STEP = 32  # bytes of the row that a thread takes at a time
WARP, MOST_THREADS = 32, 512
CLUSTERS = (1, 2, 4, 8, 16)


class LongPlan(NamedTuple):
    """A row in a cluster of so many blocks of `threads`, each of which has `columns` of it. exact: they have no columns
    behind the row, and the kernel no masks. stages: so many rows are in a block's shared memory, that of `blocks`
    clusters which go over the rows; 0: there is a cluster for each row."""

    cluster: int
    columns: int
    threads: int
    exact: bool
    stages: int = 0
    blocks: int = 0


@lru_cache
def long_plan(n: int, dtype: DType, tensors: int = 1, clusters: tuple[int, ...] = CLUSTERS) -> LongPlan | None:
    """The plan for rows of n elements, of so many tensors at a time, in one of these clusters; None where none of them
    holds a row."""
    for cluster in clusters:
        share = math.ceil(n / cluster)
        if share * dtype.bytes * tensors <= (PART if cluster < clusters[-1] else MOST_PART):
            width = WARP * STEP // dtype.bytes  # what a warp takes at a time
            warps = min(MOST_THREADS // WARP, math.ceil(share / width))
            columns = math.ceil(share / (warps * width)) * warps * width
            return LongPlan(cluster, columns, warps * WARP, columns * cluster == n)
    return None


def over_parts(work, tensors, cluster, columns, threads, exact, stages, blocks):
    """A kernel's body: work(row, first, *parts) for each row, in all blocks of a cluster. Each has `columns` from
    `first` on of the row of every tensor in shared memory, with 0 behind the row's end."""
    M, N = tensors[0].shape
    if exact:
        T.assume(columns * cluster == N)
    with T.Kernel((blocks if stages else M) * cluster, cluster=cluster, threads=threads) as block:
        parts = [T.alloc_shared((columns,), tensor.dtype) for tensor in tensors]
        first, row = block % cluster * columns, block // cluster
        if stages:
            for k in T.Pipelined(T.ceildiv(M - row, blocks), num_stages=stages):
                for tensor, shared in zip(tensors, parts, strict=True):
                    T.copy(tensor[row + k * blocks, first], shared)
                work(row + k * blocks, first, *parts)
        else:
            for tensor, shared in zip(tensors, parts, strict=True):
                T.copy(tensor[row, first], shared)
            work(row, first, *parts)


def power(x, top, dtype):
    """exp(x - top) as exactly as a result of that dtype needs it: for 16 bits by one multiplication with addition,
    whose rounding of top · log2(e) all powers of a row have in common."""
    return T.exp(x - top) if dtype == T.float32 else T.exp2(x * LOG2_E - top * LOG2_E)


def total_of(columns, threads, dtype, reduce, element):
    """element(j) of all columns of all blocks of the cluster, reduced."""
    width = threads * STEP // dtype.bytes
    mine = T.alloc_fragment((width,), T.float32)
    total = T.alloc_fragment((1,), T.float32)
    T.fill(mine, -T.infinity(T.float32) if reduce is T.reduce_max else 0.0)
    for k in T.serial(columns // width):
        for j in T.Parallel(width):
            x = element(k * width + j)
            mine[j] = T.max(mine[j], x) if reduce is T.reduce_max else mine[j] + x
    reduce(mine, total, scope="cluster")
    return total[0]


def greatest_and_sum(given, exact, end, columns, threads):
    """The greatest element of a row, and the sum of exp(x - that). Elements from `end` on are none."""

    def inside(j, x, otherwise):
        return x if exact else T.if_then_else(j < end, x, otherwise)

    def element(j):
        return inside(j, T.cast(given[j], T.float32), -T.infinity(T.float32))

    top = total_of(columns, threads, given.dtype, T.reduce_max, element)

    def of_sum(j):
        return inside(j, power(T.cast(given[j], T.float32), top, given.dtype), 0.0)

    return top, total_of(columns, threads, given.dtype, T.reduce_sum, of_sum)


@kernel
def long_softmax(
    X: T.Tensor(("M", "N"), None),
    Y: T.Tensor(("M", "N"), None),
    cluster=16,
    columns=32768,
    threads=512,
    exact=False,
    stages=0,
    blocks=0,
    log=False,
):
    """Y = softmax(X), or its logarithm."""
    N = X.shape[1]

    def softmax(row, first, given):
        top, total = greatest_and_sum(given, exact, N - first, columns, threads)
        scale = T.log(total) if log else 1.0 / total
        width = threads * STEP // X.dtype.bytes
        for k in T.serial(columns // width):
            for j in T.Parallel(width):
                x = T.cast(given[k * width + j], T.float32)
                Y[row, first + k * width + j] = x - top - scale if log else power(x, top, X.dtype) * scale

    over_parts(softmax, [X], cluster, columns, threads, exact, stages, blocks)


@kernel
def long_cross_entropy(
    X: T.Tensor(("M", "N"), None),
    Label: T.Tensor(("M",), None),
    Loss: T.Tensor(("M",), T.float32),
    Lse: T.Tensor(("M",), T.float32),
    ignore_index: T.int32,
    cluster=16,
    columns=32768,
    threads=512,
    exact=False,
    stages=0,
    blocks=0,
):
    """Lse = log(sum(exp(X))) of each row; Loss = Lse - X[Label], 0 where the label is `ignore_index`."""
    N = X.shape[1]

    def cross_entropy(row, first, given):
        label = Label[row]
        chosen = T.cast(X[row, label], T.float32)
        top, total = greatest_and_sum(given, exact, N - first, columns, threads)
        if first == 0:
            lse = top + T.log(total)
            Lse[row] = lse
            Loss[row] = T.if_then_else(label == ignore_index, 0.0, lse - chosen)

    over_parts(cross_entropy, [X], cluster, columns, threads, exact, stages, blocks)


@lru_cache
def long_norm(centered: bool, weight: bool, bias: bool, residual: bool) -> Kernel:
    """Layer norm (`centered`) or RMS norm, with what it has of weight, bias and residual: Y = norm(X + R) · W + B,
    Z = X + R. For a tensor that it has not, X is passed."""
    matrix, vector = ("M", "N"), ("N",)

    @kernel
    def long_norm(
        X: T.Tensor(matrix, None),
        R: T.Tensor(matrix, None),
        W: T.Tensor(vector if weight else matrix, None),
        B: T.Tensor(vector if bias else matrix, None),
        Y: T.Tensor(matrix, None),
        Z: T.Tensor(matrix, None),
        eps: T.float32,
        cluster=16,
        columns=32768,
        threads=512,
        exact=False,
        stages=0,
        blocks=0,
    ):
        N = X.shape[1]
        width = threads * STEP // X.dtype.bytes

        def norm(row, first, given, added=None):
            if residual:
                for k in T.serial(columns // width):
                    for j in T.Parallel(width):
                        at = k * width + j
                        given[at] = T.cast(given[at], T.float32) + T.cast(added[at], T.float32)
                        Z[row, first + at] = given[at]

            def sum_of(element):
                return total_of(columns, threads, X.dtype, T.reduce_sum, element) / T.cast(N, T.float32)

            mean = sum_of(lambda j: T.cast(given[j], T.float32)) if centered else 0.0

            def square(j):
                d = T.cast(given[j], T.float32) - mean
                return d * d if exact or not centered else T.if_then_else(first + j < N, d * d, 0.0)

            scale = T.rsqrt(sum_of(square) + eps)
            for k in T.serial(columns // width):
                for j in T.Parallel(width):
                    at = k * width + j
                    y = (T.cast(given[at], T.float32) - mean) * scale
                    y = y * T.cast(W[first + at], T.float32) if weight else y
                    Y[row, first + at] = y + T.cast(B[first + at], T.float32) if bias else y

        over_parts(norm, [X, R] if residual else [X], cluster, columns, threads, exact, stages, blocks)

    return long_norm
