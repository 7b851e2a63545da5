"""How tiles lie in tensor memory, and in the registers of those who load them.

    rows of the tile     an instruction's M   where row i and column j are (4 bytes each)
    128 · blocks         128                  lane i % 128, column j of block i / 128, block by block (layout D)
    64                   64, N / 2 twice      lane 32 · (i / 16) + i % 16, and 16 more for j ≥ N / 2; column j % (N / 2)
                                              (layout F, either half of each warp's lanes)

Of 64 rows a warp has 16, and 32 lanes: so either half of the columns is a product of its own, and no lane and no column
is left free. Narrower elements lie several in a column. Sources: PTX ISA 8.8, 9.7.16.10.5; CUTLASS,
include/cute/atom/mma_traits_sm100.hpp (`tmem_frg`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from minitile.backends.base import GemmPlan
from minitile.hardware import WARPGROUP
from minitile.ir.ops import blackwell
from minitile.layout import Digit, Layout
from minitile.layout.shared import AddressDigit, SharedLayout

ROWS, HALF_ROWS = 128, 64  # of the accumulator in one instruction
HALF_LANES = 16 << 16  # from an address to that of the other half of each warp's lanes
WORD_BITS = 32  # of a column


def chains(shape: tuple[int, ...], stride: int) -> list[tuple[int, int, int]]:
    """The parts of an accumulator that an instruction adds to, block by block `stride` columns apart: for each its
    first row and column, and its address from that of the whole."""
    m, n = shape
    if m == HALF_ROWS:
        return [(0, 0, 0), (0, n // 2, HALF_LANES)]
    return [(block * ROWS, 0, block * stride) for block in range(m // ROWS)]


def instruction_shape(shape: tuple[int, ...]) -> tuple[int, int]:
    """M and N of one instruction."""
    m, n = shape
    return (m, n // 2) if m == HALF_ROWS else (ROWS, n)


def words(shape: tuple[int, ...], bits: int = WORD_BITS) -> tuple[int, int]:
    """Blocks of rows of a tile, and the columns of 32 bits that each fills."""
    m, n = shape
    return (1, n // 2 * bits // WORD_BITS) if m == HALF_ROWS else (m // ROWS, n * bits // WORD_BITS)


def columns_of(t: Any) -> int:
    """Of a version of a buffer, all blocks of rows side by side."""
    blocks, columns = words(t.shape, t.dtype.bits)
    return blocks * columns


def own_blocks(shape: tuple[int, ...], groups: int) -> int:
    """Blocks of rows for each warpgroup, where they share those; else 0: they share columns."""
    blocks, rest = divmod(shape[0], ROWS * groups)
    return 0 if rest else blocks


@lru_cache(maxsize=64)
def accumulator(shape: tuple[int, int], threads: int) -> Layout | None:
    """The layout in which threads load an accumulator; None where they cannot share it."""
    m, n = shape
    groups = threads // WARPGROUP
    if blocks := own_blocks(shape, groups):
        registers = Digit(n, 1, 1), Digit(blocks, 0, ROWS)
        return Layout(shape, registers, (Digit(32, 0, 1),), (Digit(4, 0, 32), Digit(groups, 0, m // groups)))
    if m == HALF_ROWS and n % (groups * 16) == 0:
        columns, lanes = n // 2 // groups, (Digit(16, 0, 1), Digit(2, 1, n // 2))
        return Layout(shape, (Digit(columns, 1, 1),), lanes, (Digit(4, 0, 16), Digit(groups, 1, columns)))
    if m % ROWS == 0 and n % (groups * 8) == 0:
        columns = n // groups
        registers = Digit(columns, 1, 1), Digit(m // ROWS, 0, ROWS)
        return Layout(shape, registers, (Digit(32, 0, 1),), (Digit(4, 0, 32), Digit(groups, 1, columns)))
    return None


# Scales of blocks: of row r the word, of four scales, lies in lane r % 32 and column r / 32, the same in each 32 lanes;
# the next word rows / 32 columns behind (PTX ISA 8.8, 9.7.16.10.7; CUTLASS, mma_traits_sm100_frag.hpp, `tmem_sf_frg`).
IN_WORD = 4
IMAGE = 512  # bytes of the words of 128 rows in shared memory, for tcgen05.cp: 32 rows of 16 bytes (9.7.16.9)


def image(shape: tuple[int, ...]) -> SharedLayout:
    """How scales lie in shared memory, so that tcgen05.cp copies them: row r of 128 has its word at 16 · (r % 32) +
    4 · (r / 32); the next 128 rows are the next image, then come the next words. Source: PTX ISA 8.8, 9.7.16.9;
    DeepGEMM, deep_gemm/mma/sm100.cuh (`make_sf_desc`)."""
    rows, count = shape
    of_rows = AddressDigit(32, 128), AddressDigit(4, 32), AddressDigit(rows // ROWS, 8 * IMAGE)
    of_blocks = AddressDigit(IN_WORD, 8), AddressDigit(count // IN_WORD, rows // ROWS * 8 * IMAGE)
    return SharedLayout((rows, count), 8, (of_rows, of_blocks))


def scale_columns(shape: tuple[int, ...]) -> int:
    """Of scales, rows × blocks of K."""
    return shape[0] // 32 * (shape[1] // IN_WORD)


@lru_cache(maxsize=64)
def scales(shape: tuple[int, int], threads: int) -> Layout:
    """The layout in which each warp stores all scales."""
    rows, count = shape
    registers = Digit(IN_WORD, 1, 1), Digit(rows // 32, 0, 32), Digit(count // IN_WORD, 1, IN_WORD)
    return Layout(shape, registers, (Digit(32, 0, 1),), (Digit(threads // 32, None, 0),))


def load_plan(op: blackwell.TensorLoad | blackwell.TensorStore, threads: int) -> GemmPlan:
    """The layout of a load or store, as the plan of the gemm that it is of."""
    moved = op.result if isinstance(op, blackwell.TensorLoad) else op.value
    shape = moved.shape[0], moved.shape[1]
    of_scales = isinstance(op, blackwell.TensorStore) and op.scales
    layout = scales(shape, threads) if of_scales else accumulator(shape, threads)
    assert layout is not None
    return GemmPlan("", (*shape, 0), (0, 0, 0), (0, 0), 0, layout, layout, layout)
