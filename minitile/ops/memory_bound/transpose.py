"""The transpose of a matrix, or of each matrix of a batch, of elements of 1, 2, 4 or 8 bytes.

Two ways. A thread loads squares: as many rows as a vector of 16 bytes has elements, one vector of each; what it stores
are the square's columns, which are vectors of the result, but short runs of memory. Nothing leaves its registers in
between (the compiler's `crossed` layout), and no thread waits for others. Or a tile is turned on its way into shared
memory, and leaves it by long rows: the faster way for large matrices of 2 bytes (0.95 of a copy's speed instead of 0.90
on an H200, benchmarks/sweep_memory.py), and the only one for sizes that vectors do not divide.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import minitile.language as T
from minitile.driver.dispatch import for_users
from minitile.driver.jit import kernel
from minitile.ops.memory_bound.arguments import VECTOR, argument
from minitile.ops.memory_bound.launches import in_order
from minitile.ops.operands import refused

MOST_ROWS = 2048  # of a tile, or columns


def tile_of(block, M, N, block_M, block_N, panel):
    """The matrix of the batch, the row and the column where a block's tile begins: row by row of tiles, or in panels of
    so many rows of tiles, each column by column."""
    across, down = T.ceildiv(N, block_N), T.ceildiv(M, block_M)
    matrix, tile = block // (across * down), block % (across * down)
    if not panel:
        return matrix, tile // across * block_M, tile % across * block_N
    first, inside = tile // (panel * across) * panel, tile % (panel * across)
    height = T.min(panel, down - first)
    return matrix, (first + inside % height) * block_M, inside // height * block_N


@kernel
def transpose_registers(
    A: T.Tensor(("S", "M", "N"), None),
    B: T.Tensor(("S", "N", "M"), None),
    block_M=128,
    block_N=128,
    threads=256,
    panel=0,
):
    S, M, N = A.shape
    with T.Kernel(T.ceildiv(N, block_N) * T.ceildiv(M, block_M) * S, threads=threads) as block:
        s, row, column = tile_of(block, M, N, block_M, block_N, panel)
        in_order()
        for i, j in T.Parallel(block_M, block_N):
            B[s, column + j, row + i] = A[s, row + i, column + j]


@kernel
def transpose_shared(
    A: T.Tensor(("S", "M", "N"), None),
    B: T.Tensor(("S", "N", "M"), None),
    block_M=64,
    block_N=64,
    threads=256,
    panel=0,
):
    S, M, N = A.shape
    with T.Kernel(T.ceildiv(N, block_N) * T.ceildiv(M, block_M) * S, threads=threads) as block:
        s, row, column = tile_of(block, M, N, block_M, block_N, panel)
        in_order()
        turned = T.alloc_shared((block_N, block_M), A.dtype)
        for i, j in T.Parallel(block_M, block_N):
            turned[j, i] = A[s, row + i, column + j]
        for j, i in T.Parallel(block_N, block_M):
            B[s, column + j, row + i] = turned[j, i]


class TransposePlan(NamedTuple):
    """A block of `threads` turns a tile of block_M × block_N; tiles are visited in panels of so many (0: row by row).

    To sweep: benchmarks/sweep_memory.py.
    """

    registers: bool
    block_M: int
    block_N: int
    threads: int = 256
    panel: int = 0

    @property
    def constants(self) -> dict[str, Any]:
        """As a kernel's compile-time arguments."""
        return {name: value for name, value in self._asdict().items() if name != "registers"}


LARGE = TransposePlan(False, 128, 128, 512)
_SQUARES = {1: (128, 256, 128), 2: (128, 128, 256), 4: (64, 128, 256), 8: (64, 64, 256)}


@lru_cache
def transpose_plan(m: int, n: int, size: int) -> TransposePlan:
    """For an m × n matrix of elements of `size` bytes. A narrow one has narrow tiles, long if they can be."""
    vector = VECTOR // size
    registers = not (m % vector or n % vector)
    if registers and size == 2 and min(m, n) >= LARGE.block_M:
        return LARGE
    block_m, block_n, threads = _SQUARES[size] if registers else (64, 32 if size == 8 else 64, 256)
    elements, least = block_m * block_n, vector if registers else 1
    narrow_m, narrow_n = (max(least, 1 << max(0, extent - 1).bit_length()) for extent in (m, n))
    if narrow_n < block_n:
        block_m, block_n = min(elements // narrow_n, MOST_ROWS), narrow_n
    elif narrow_m < block_m:
        block_n = min(elements // narrow_m, MOST_ROWS)
    block_m, block_n = min(block_m, narrow_m), min(block_n, narrow_n)
    return TransposePlan(registers, block_m, block_n, max(64, threads * block_m * block_n // elements))


@for_users
def transpose(x: Any, *, out: Any = None, plan: TransposePlan | None = None) -> Any:
    """A matrix with rows and columns exchanged, or a batch of such, in memory: `x.transpose(-1, -2).contiguous()`.

    Args:
        x: […, M, N] of torch, CuPy, or NumPy (then the simulator computes), of any of T's dtypes: elements of 1, 2,
            4 or 8 bytes.
        out: where the result goes, […, N, M], row-major; without it, a new array.
        plan: instead of the one that `transpose_plan` chooses.

    Raises:
        LaunchArgumentError: arguments that do not fit.

    Example:
        ```py
        y = mt.ops.transpose(x)
        ```
    """
    x = argument("x", x, None)
    if len(x.shape) < 2:
        raise refused(f"x has shape {x.shape}", "a matrix has two dimensions")
    *outer, m, n = x.shape
    y = x.result(out, (*outer, n, m))
    if math.prod(x.shape):
        chosen = plan or transpose_plan(m, n, x.dtype.bytes)
        turn = transpose_registers if chosen.registers else transpose_shared
        turn(x.view(-1, m, n), y.reshape(-1, n, m), **chosen.constants)
    return y
