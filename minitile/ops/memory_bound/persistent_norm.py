"""RMS norm and layer norm of rows that begin anywhere, by persistent blocks that keep weight and bias in registers.

    row 0    |……… ……… ……… …|            N = 8·q + 1 elements of 2 bytes: row r begins (r·N) mod 8 elements behind a
    row 1     |……… ……… ……… …|           multiple of 16 bytes, s = that distance
    …
    row 8    |……… ……… ……… …|            begins where row 0 does: s is the same for rows r, r + 8·g, …

Columns are counted from the multiple of 16 bytes in front of the row, so that a row is read and written by vectors. A
column's weight is then s elements off such a multiple, and costs two vectors and their shifting. A block whose rows are
a multiple of 8 apart has one s: it puts its threads' weights together once, and keeps them.

Rows are copied to shared memory as parts of a matrix without rows, whole vectors each, while the row before is at work;
what lies beside a row in its first and last vector is masked.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import minitile.language as T
from minitile.driver.jit import Kernel, kernel
from minitile.hardware import BLOCK_REGISTERS
from minitile.ops.memory_bound.launches import in_order

VECTOR = 8  # elements of 2 bytes: which rows are apart by multiples of begin alike, and how many a vector has
FEW, MANY = 16, 32  # elements of a row that a thread has: of rows of up to SHORT elements and factors, of longer ones
SHORT = 4096
LONGEST = 9216  # elements: longer rows are faster from shared memory (long_rows.py)
WASTE = 1.15  # times a row's elements: more columns are not worth it
BESIDE = 40  # registers of a thread beside its elements and their factors
ROUNDS = 4  # rows of a block from which its weights are worth keeping
WARP = 32


class PersistentPlan(NamedTuple):
    """`blocks` blocks of `threads`, `resident` of them on a multiprocessor, go over all rows. Each row is in `columns`,
    of which a thread takes `step` at a time; `stages` rows of a block are in shared memory."""

    columns: int
    step: int
    threads: int
    blocks: int
    resident: int
    stages: int = 2


@lru_cache
def persistent_plan(n: int, factors: int, multiprocessors: int, shared: int) -> PersistentPlan | None:
    """The plan for rows of n elements of 2 bytes with so many numbers for each column; None where no such plan is worth
    it (measured: benchmarks/results/memory_h200.md)."""
    need = n + VECTOR - 1
    if not factors or need > LONGEST or n % VECTOR == 0:
        return None
    each = FEW if need * factors <= SHORT else MANY
    for step in (2 * VECTOR, VECTOR) if factors > 1 else (2 * VECTOR,):
        mine = each if step > VECTOR else step
        threads = math.ceil(need / (mine * WARP)) * WARP
        columns = math.ceil(need / (threads * step)) * threads * step
        if columns <= WASTE * n:
            registers = columns // threads * (2 + factors) // 2 + BESIDE
            resident = min(BLOCK_REGISTERS // (registers * threads), shared // (2 * columns * 2 + 1024))
            blocks = resident * multiprocessors // VECTOR * VECTOR
            return PersistentPlan(columns, step, threads, blocks, resident) if blocks else None
    return None


@lru_cache
def persistent_norm(centered: bool, weight: bool, bias: bool) -> Kernel:
    """Layer norm (`centered`) or RMS norm: Y = norm(X) · W + B, of which there is what the flags say. X: the matrix as
    a vector; for a vector that is not there, X is passed."""

    @kernel
    def persistent_norm(
        X: T.Tensor(("L",), None),
        W: T.Tensor(("N",) if weight else ("L",), None),
        B: T.Tensor(("N",) if bias else ("L",), None),
        Y: T.Tensor(("M", "N"), None),
        eps: T.float32,
        columns=8192,
        step=16,
        threads=256,
        blocks=264,
        resident=2,
        stages=2,
    ):
        M, N = Y.shape
        share = 1.0 / T.cast(N, T.float32)
        width = threads * step
        steps = columns // width
        with T.Kernel(blocks, threads=threads) as block:
            T.annotate_min_blocks_per_sm(resident)
            in_order()
            start = block * N // VECTOR * VECTOR
            first = start - block * N  # the column of the row at which a block's columns begin: 0 or below

            def inside(at, x):
                return T.if_then_else((first + at >= 0) & (first + at < N), x, 0.0)

            def summed(element):
                mine = T.alloc_fragment((width,), T.float32)
                total = T.alloc_fragment((1,), T.float32)
                for j in T.Parallel(width):
                    x = element(0, j)
                    for k in T.unroll(1, steps):
                        x = x + element(k, j)
                    mine[j] = x
                T.reduce_sum(mine, total)
                return total[0]

            factors = []
            for k in T.unroll(steps):
                found = []
                for tensor, there in ((W, weight), (B, bias)):
                    if there:
                        found.append(T.alloc_fragment((width,), tensor.dtype))
                        T.copy(tensor[first + k * width], found[-1])
                factors.append(found)
            row_shared = T.alloc_shared((columns,), X.dtype)
            xs = [T.alloc_fragment((width,), T.float32) for _ in range(steps)]
            for r in T.Pipelined(T.ceildiv(M - block, blocks), num_stages=stages):
                T.copy(X[start + r * blocks * N], row_shared)
                for k in T.unroll(steps):
                    for j in T.Parallel(width):
                        xs[k][j] = inside(k * width + j, T.cast(row_shared[k * width + j], T.float32))
                if centered:
                    mean = summed(lambda k, j: xs[k][j]) * share
                    for k in T.unroll(steps):
                        for j in T.Parallel(width):
                            xs[k][j] = inside(k * width + j, xs[k][j] - mean)
                scale = T.rsqrt(summed(lambda k, j: xs[k][j] * xs[k][j]) * share + eps)
                for k in T.unroll(steps):
                    for j in T.Parallel(width):
                        y = xs[k][j] * scale
                        y = y * T.cast(factors[k][0][j], T.float32) if weight else y
                        y = y + T.cast(factors[k][-1][j], T.float32) if bias else y
                        Y[block + r * blocks, first + k * width + j] = y

    return persistent_norm
