"""Rows piece by piece: what a row's elements have to be read twice for, or what only their sum is wanted of.

A row is a list of G groups of V elements, each of which is a vector that one thread loads. A thread meets the others
behind the last piece only.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import minitile.language as T
from minitile.ir.types import DType

LOG2_E = 1.4426950408889634
LEAST = -3.4028234663852886e38  # of f32: no element is below it but -inf, whose power beside it is 0
VECTOR = 8
MOST_THREADS = 256
LONG = 1 << 16  # elements of a row, of which a multiprocessor should have one at a time


class PiecePlan(NamedTuple):
    """A block of `threads` has so many `vectors` of each thread at a time."""

    vectors: int
    threads: int


def piece_plan(n: int, dtype: DType, lanes: int = 32, most: int = MOST_THREADS) -> PiecePlan:
    """The plan for rows of n elements, of which a block of up to `most` threads has one."""
    vectors = 4 // dtype.bytes
    return PiecePlan(vectors, min(most, lanes * max(1, math.ceil(n / (vectors * VECTOR * lanes)))))


def gradient_plan(n: int, dtype: DType, lanes: int = 32) -> PiecePlan:
    """As `piece_plan`, for rows that are read a second time, which the cache has only if few blocks share it."""
    return piece_plan(n, dtype, lanes, 4 * MOST_THREADS if n > LONG else MOST_THREADS)


def split(matrix: Any) -> Any:
    """The rows of a matrix as groups of as many elements as divide them, up to VECTOR."""
    m, n = matrix.shape
    v = math.gcd(n, VECTOR)
    return matrix.reshape(m, n // v, v)


def raised(x, dtype):
    """exp(x) as exactly as a result of that dtype needs it."""
    return T.exp(x) if dtype == T.float32 else T.exp2(x * LOG2_E)


def greatest_and_sum(X, row, vectors, threads):
    """The greatest element of a row, at least LEAST, and the sum of exp(x - that). Each thread has its own so far, of
    the elements that it has loaded itself, and takes in a vector at a time."""
    G, V = X.shape[1:]
    groups = vectors * threads
    x = T.alloc_fragment((groups, V), T.float32)
    new = T.alloc_fragment((groups,), T.float32)
    more = T.alloc_fragment((groups,), T.float32)
    top = T.alloc_fragment((groups,), T.float32)
    total = T.alloc_fragment((groups,), T.float32)
    T.fill(top, LEAST)
    T.clear(total)
    for k in T.serial(T.ceildiv(G, groups)):
        for g, v in T.Parallel(groups, V):
            at = k * groups + g
            x[g, v] = T.if_then_else(at < G, T.cast(X[row, at, v], T.float32), -T.infinity(T.float32))
        T.reduce_max(x, new, dim=1)
        for g in T.Parallel(groups):
            new[g] = T.max(new[g], top[g])
        for g, v in T.Parallel(groups, V):
            x[g, v] = raised(x[g, v] - new[g], X.dtype)
        T.reduce_sum(x, more, dim=1)
        for g in T.Parallel(groups):
            total[g] = total[g] * raised(top[g] - new[g], X.dtype) + more[g]
            top[g] = new[g]
    row_top = T.alloc_fragment((1,), T.float32)
    row_total = T.alloc_fragment((1,), T.float32)
    T.reduce_max(top, row_top, dim=0)
    for g in T.Parallel(groups):
        total[g] = total[g] * raised(top[g] - row_top[0], X.dtype)
    T.reduce_sum(total, row_total, dim=0)
    return row_top[0], row_total[0]


def row_sum(G, V, vectors, threads, element):
    """The sum of element(g, v) over a row's G groups of V; element gives 0 behind them."""
    groups = vectors * threads
    part = T.alloc_fragment((groups, V), T.float32)
    sums = T.alloc_fragment((groups,), T.float32)
    total = T.alloc_fragment((1,), T.float32)
    T.clear(sums)
    for k in T.serial(T.ceildiv(G, groups)):
        for g, v in T.Parallel(groups, V):
            part[g, v] = element(k * groups + g, v)
        T.reduce_sum(part, sums, dim=1, clear=False)
    T.reduce_sum(sums, total, dim=0)
    return total[0]
