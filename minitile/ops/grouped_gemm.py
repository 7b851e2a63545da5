"""The kernels of `grouped_matmul` and of `matmul` on batches: persistent; each block finds its tiles by itself.

How many rows a group has is known on the GPU only. So a launch has as many blocks as the GPU has multiprocessors, and
block b takes the tiles b, b + blocks, … of all groups' tiles in a row; `tile_at` walks over the groups to find which
tile a number stands for. On sm_90a both the warp that copies and those that multiply do that, each for itself.

Tiles begin where their group begins, which is anywhere, and the last one of a group may be partly another group's.
Reading too much does no harm; what is stored is cut off at the group's end: whole tiles go by the copy engine, partial
ones from the registers, under a mask.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import minitile.language as T
from minitile.driver.jit import Kernel, kernel
from minitile.ir.types import DType

SCALED = 128  # elements along K, and columns of B, that share a scale
GRAIN = 4  # scales of 4 bytes in the copy engine's 16
AT_ONCE = 8  # groups that are looked at together: their loads are on their way at the same time
PART = 32  # of K, of the steps that are only partly a group's
SLACK = 32  # scales that are copied besides those of a tile: whole 128 bytes, as the copy engine wants them


def ends_of(bounds: Any, g: Any) -> tuple[Any, ...]:
    """Of AT_ONCE groups from g on, loaded together; 0 behind the last one."""
    first = bounds[g], bounds[g + 1], bounds[g + 2], bounds[g + 3]
    return (*first, bounds[g + 4], bounds[g + 5], bounds[g + 6], bounds[g + 7])


def tiles_of(bounds: Any, masked: bool, columns: Any, block_M: int) -> Any:
    """How many tiles all groups have: `columns` for each block_M rows begun."""
    rows, start = 0, 0
    for g in range(0, bounds.shape[0], AT_ONCE):
        for end in ends_of(bounds, g):
            end = T.max(end, start)
            rows += T.ceildiv(end - start, block_M)
            if not masked:
                start = end
    return rows * columns


def tile_at(number: Any, bounds: Any, masked: bool, columns: Any, block_M: int, block_N: int, panel: int) -> Any:
    """Tile `number`: its group, its first row, the row at which the group ends, its first column. Within a group tiles
    are numbered down panels of `panel` rows of tiles, column by column; `columns`: of tiles.

    `bounds` has where each group's rows end; with `masked` each group's rows count from 0.
    """
    group, low, high, first = 0, 0, 0, 0
    rows, start, wanted = 0, 0, number // columns  # in rows of tiles
    for g in range(0, bounds.shape[0], AT_ONCE):
        next_group = g
        for end in ends_of(bounds, g):
            end = T.max(end, start)
            if rows <= wanted:  # the last such group: those without rows in front of it begin with the same one
                group, low, high, first = next_group, start, end, rows
            rows += T.ceildiv(end - start, block_M)
            next_group += 1
            if not masked:
                start = end
    inside = number - first * columns
    top = inside // (columns * panel) * panel
    inside -= top * columns
    height = T.min(T.ceildiv(high - low, block_M) - top, panel)
    row, left = low + (top + inside % height) * block_M, inside // height * block_N
    T.assume(group >= 0 and row >= 0 and left >= 0)
    return group, row, high, left


def store_rows(C_local: Any, C: Any, group: Any, row: Any, end: Any, left: Any) -> None:
    """C from `row` and column `left` on, but no row from `end` on. `group`: of a C of three dimensions."""
    block_M, block_N = C_local.shape
    if row + block_M <= end:
        if C.ndim == 3:
            T.copy(C_local, C[group, row, left])
        else:
            T.copy(C_local, C[row, left])
    else:
        for i, j in T.Parallel(block_M, block_N):
            if row + i < end:
                if C.ndim == 3:
                    C[group, row + i, left + j] = C_local[i, j]
                else:
                    C[row + i, left + j] = C_local[i, j]


@lru_cache
def grouped(dtype: DType, result: DType, masked: bool, transpose_b: bool) -> Kernel:
    """C[rows of g] = A[rows of g] · op(B[g]) with sums in f32, op the identity or the transpose.

    A is M × K and C M × N, the groups' rows contiguous, `bounds` where each group's end; with `masked` they are
    G × M × K and G × M × N, and `bounds` has how many rows of each group count. B is G × K × N (G × N × K). Other rows
    of C stay as they are. teams, panel: see T.Persistent.
    """
    lead = ("G",) if masked else ()
    b_dims = ("G", "N", "K") if transpose_b else ("G", "K", "N")

    @kernel
    def grouped(
        A: T.Tensor((*lead, "M", "K"), dtype),
        B: T.Tensor(b_dims, dtype),
        C: T.Tensor((*lead, "M", "N"), result),
        bounds: T.Tensor(("G",), T.int32),
        block_M=128,
        block_N=128,
        block_K=64,
        stages=4,
        threads=256,
        panel=8,
        blocks=132,
        teams=1,
    ):
        N, K = C.shape[-1], A.shape[-1]
        with T.Kernel(blocks, threads=threads) as block:
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_N, block_K) if transpose_b else (block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), T.float32)
            columns = T.ceildiv(N, block_N)
            total = tiles_of(bounds, masked, columns, block_M)
            for (number,) in T.Persistent([total], blocks, block, teams=teams):
                group, row, end, left = tile_at(number, bounds, masked, columns, block_M, block_N, panel)
                T.clear(C_local)
                for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
                    if masked:
                        T.copy(A[group, row, k * block_K], A_shared)
                    else:
                        T.copy(A[row, k * block_K], A_shared)
                    if transpose_b:
                        T.copy(B[group, left, k * block_K], B_shared)
                    else:
                        T.copy(B[group, k * block_K, left], B_shared)
                    T.gemm(A_shared, B_shared, C_local, transpose_B=transpose_b)
                store_rows(C_local, C, group, row, end, left)

    return grouped


@lru_cache
def grouped_scaled(dtype: DType, result: DType, masked: bool) -> Kernel:
    """As `grouped`, of fp8 with B as G × N × K, and a scale for each 1 × 128 of A and 128 × 128 of B (DeepGEMM's form).

    scale_A is KB × L, with `masked` G × KB × L, L at least M; scale_B is G × NB × KB; KB and NB are K and N by 128,
    rounded up. block_N divides 128. The sum of 128 products, which the tensor cores add, is scaled and added in f32.
    """
    lead = ("G",) if masked else ()

    @kernel
    def grouped_scaled(
        A: T.Tensor((*lead, "M", "K"), dtype),
        B: T.Tensor(("G", "N", "K"), dtype),
        scale_A: T.Tensor((*lead, "KB", "L"), T.float32),
        scale_B: T.Tensor(("G", "NB", "KB"), T.float32),
        C: T.Tensor((*lead, "M", "N"), result),
        bounds: T.Tensor(("G",), T.int32),
        block_M=128,
        block_N=128,
        stages=4,
        threads=256,
        panel=8,
        blocks=132,
        teams=1,
    ):
        N, K = C.shape[-1], A.shape[-1]
        with T.Kernel(blocks, threads=threads) as block:
            A_shared = T.alloc_shared((block_M, SCALED), dtype)
            B_shared = T.alloc_shared((block_N, SCALED), dtype)
            scales = T.alloc_shared((block_M + SLACK,), T.float32)
            C_local = T.alloc_fragment((block_M, block_N), T.float32)
            part = T.alloc_fragment((block_M, block_N), T.float32)
            columns = T.ceildiv(N, block_N)
            total = tiles_of(bounds, masked, columns, block_M)
            for (number,) in T.Persistent([total], blocks, block, teams=teams):
                group, row, end, left = tile_at(number, bounds, masked, columns, block_M, block_N, panel)
                aligned = row // GRAIN * GRAIN  # where the copy engine can begin
                shift = row - aligned
                T.clear(C_local)
                for k in T.Pipelined(T.ceildiv(K, SCALED), num_stages=stages):
                    if masked:
                        T.copy(A[group, row, k * SCALED], A_shared)
                        T.copy(scale_A[group, k, aligned], scales)
                    else:
                        T.copy(A[row, k * SCALED], A_shared)
                        T.copy(scale_A[k, aligned], scales)
                    T.copy(B[group, left, k * SCALED], B_shared)
                    T.gemm(A_shared, B_shared, part, transpose_B=True, clear_accum=True)
                    column_scale = scale_B[group, left // SCALED, k]
                    for i, j in T.Parallel(block_M, block_N):
                        C_local[i, j] += part[i, j] * (scales[i + shift] * column_scale)
                store_rows(C_local, C, group, row, end, left)

    return grouped_scaled


@lru_cache
def grouped_along_k(dtype: DType, result: DType, transpose_a: bool, transpose_b: bool) -> Kernel:
    """C[g] = op(A)[:, those of g] · op(B)[those of g, :] with sums in f32; the gradients of the groups' matrices.

    A is M × K (K × M where transposed), B is K × N (N × K), C is G × M × N; `bounds` has where each group ends along K.
    The copy engine brings whole steps, if K is not the dimension in which neighbours lie. What is left at a group's end
    threads copy in parts, with zeros for what is the next group's.
    """
    a_dims = ("K", "M") if transpose_a else ("M", "K")
    b_dims = ("N", "K") if transpose_b else ("K", "N")

    @kernel
    def grouped_along_k(
        A: T.Tensor(a_dims, dtype),
        B: T.Tensor(b_dims, dtype),
        C: T.Tensor(("G", "M", "N"), result),
        bounds: T.Tensor(("G",), T.int32),
        block_M=128,
        block_N=128,
        block_K=64,
        stages=4,
        threads=256,
        panel=8,
        blocks=132,
        teams=1,
    ):
        G, M, N = C.shape
        zero = T.cast(0, dtype)

        def a_shape(deep):
            return (deep, block_M) if transpose_a else (block_M, deep)

        def b_shape(deep):
            return (block_N, deep) if transpose_b else (deep, block_N)

        with T.Kernel(blocks, threads=threads) as block:
            A_shared, B_shared = T.alloc_shared(a_shape(block_K), dtype), T.alloc_shared(b_shape(block_K), dtype)
            A_rest, B_rest = T.alloc_shared(a_shape(PART), dtype), T.alloc_shared(b_shape(PART), dtype)
            C_local = T.alloc_fragment((block_M, block_N), T.float32)
            tiles = [G, T.ceildiv(M, block_M), T.ceildiv(N, block_N)]
            for g, by, bx in T.Persistent(tiles, blocks, block, group_size=panel, teams=teams):
                m, n = by * block_M, bx * block_N
                low = bounds[g - 1] if g > 0 else 0
                high = bounds[g]
                steps = (high - low) // block_K
                T.clear(C_local)
                for k in T.Pipelined(steps, num_stages=stages):
                    at = low + k * block_K
                    if transpose_a:
                        T.copy(A[at, m], A_shared)
                    else:
                        T.copy(A[m, at], A_shared)
                    if transpose_b:
                        T.copy(B[n, at], B_shared)
                    else:
                        T.copy(B[at, n], B_shared)
                    T.gemm(A_shared, B_shared, C_local, transpose_A=transpose_a, transpose_B=transpose_b)
                for at in range(low + steps * block_K, high, PART):
                    left = high - at
                    for i, j in T.Parallel(*a_shape(PART)):
                        if transpose_a:
                            A_rest[i, j] = A[at + i, m + j] if i < left else zero
                        else:
                            A_rest[i, j] = A[m + i, at + j] if j < left else zero
                    for i, j in T.Parallel(*b_shape(PART)):
                        if transpose_b:
                            B_rest[i, j] = B[n + i, at + j] if j < left else zero
                        else:
                            B_rest[i, j] = B[at + i, n + j] if i < left else zero
                    T.gemm(A_rest, B_rest, C_local, transpose_A=transpose_a, transpose_B=transpose_b)
                T.copy(C_local, C[g, m, n])

    return grouped_along_k


@lru_cache
def batched(dtype: DType, result: DType, transpose_a: bool, transpose_b: bool, one_a: bool, one_b: bool) -> Kernel:
    """C[i] = op(A[i]) · op(B[i]) with sums in f32. C is S × M × N; A is S × M × K (S × K × M where transposed), with
    `one_a` 1 × …, the same matrix for all; B likewise."""
    a_dims = ("K", "M") if transpose_a else ("M", "K")
    b_dims = ("N", "K") if transpose_b else ("K", "N")

    @kernel
    def batched(
        A: T.Tensor((1 if one_a else "S", *a_dims), dtype),
        B: T.Tensor((1 if one_b else "S", *b_dims), dtype),
        C: T.Tensor(("S", "M", "N"), result),
        block_M=128,
        block_N=128,
        block_K=64,
        stages=4,
        threads=256,
        panel=8,
        blocks=132,
        teams=1,
    ):
        S, M, N = C.shape
        K = A.shape[1] if transpose_a else A.shape[2]
        with T.Kernel(blocks, threads=threads) as block:
            A_shared = T.alloc_shared((block_K, block_M) if transpose_a else (block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_N, block_K) if transpose_b else (block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), T.float32)
            tiles = [S, T.ceildiv(M, block_M), T.ceildiv(N, block_N)]
            for i, by, bx in T.Persistent(tiles, blocks, block, group_size=panel, teams=teams):
                of_a, of_b = 0 if one_a else i, 0 if one_b else i
                T.clear(C_local)
                for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
                    if transpose_a:
                        T.copy(A[of_a, k * block_K, by * block_M], A_shared)
                    else:
                        T.copy(A[of_a, by * block_M, k * block_K], A_shared)
                    if transpose_b:
                        T.copy(B[of_b, bx * block_N, k * block_K], B_shared)
                    else:
                        T.copy(B[of_b, k * block_K, bx * block_N], B_shared)
                    T.gemm(A_shared, B_shared, C_local, transpose_A=transpose_a, transpose_B=transpose_b)
                T.copy(C_local, C[i, by * block_M, bx * block_N])

    return batched
