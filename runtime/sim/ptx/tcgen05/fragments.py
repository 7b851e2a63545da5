"""Which lane and column of tensor memory each register of each thread of a warp is, in tcgen05.ld and st (PTX ISA 8.8,
9.7.16.2.3.1 "Memory Layout", 9.7.16.8.2 "Packing and Unpacking"; CUTLASS, include/cute/atom/copy_traits_sm100.hpp,
SM100_TMEM_LOAD_*). Of thread t of the warp, register r:

    shape       registers of .x1   lane                           column
    32x32b      1                  t                              r
    16x64b      1                  t / 4 + 8 · (t % 2)            t / 2 % 2 + 2 · r
    16x128b     2                  t / 4 + 8 · (r % 2)            t % 4 + 4 · (r / 2)
    16x256b     4                  t / 4 + 8 · (r / 2 % 2)        2 · (t % 4) + r % 2 + 8 · (r / 4)
    16x32bx2    1                  t % 16                         r, and for t ≥ 16 as many behind as immHalfSplitoff

The lanes of the last four are those from the address's on, which begins at either 16 of the warp's 32. With .pack::16b
(ld) and .unpack::16b (st) a register has the lower halves of two columns, 2 · c and 2 · c + 1 for c of the table;
immHalfSplitoff counts columns as they are in memory.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from ...core.scalars import Array

_REGISTERS = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}  # of .x1
MOST_REGISTERS = 128


@dataclass(frozen=True, slots=True, eq=False)
class Fragment:
    """Lanes and columns [registers, 32 threads] behind the address; if `packed`, each the first of two columns."""

    lanes: Array
    columns: Array
    packed: bool

    @property
    def height(self) -> int:
        """How many lanes it has: 16 or 32."""
        return int(self.lanes.max()) + 1

    @property
    def touched(self) -> Array:
        """All columns behind the address, ascending."""
        found: Array = np.unique(self.columns)
        return np.unique(np.concatenate([found, found + 1])) if self.packed else found

    def load(self, cells: Array, lane: int, column: int) -> Array:
        """The registers [registers, 32] from a CTA's cells, for an address."""
        rows, at = self.lanes + lane, self.columns + column
        if not self.packed:
            words: Array = cells[rows, at]
            return words
        low, high = (cells[rows, at + half] & np.uint32(0xFFFF) for half in (0, 1))
        packed: Array = low | high << np.uint32(16)
        return packed

    def store(self, cells: Array, lane: int, column: int, values: Array) -> None:
        """Registers into a CTA's cells; unpacked ones leave zeros in the upper halves."""
        rows, at = self.lanes + lane, self.columns + column
        if not self.packed:
            cells[rows, at] = values
            return
        cells[rows, at] = values & np.uint32(0xFFFF)
        cells[rows, at + 1] = values >> np.uint32(16)


def registers(shape: str, number: int) -> int:
    """The registers of each thread for .xN; 0 where there is no such number."""
    count = _REGISTERS[shape] * number
    return count if number in (1, 2, 4, 8, 16, 32, 64, 128) and count <= MOST_REGISTERS else 0


@functools.lru_cache(maxsize=256)
def fragment(shape: str, number: int, packed: bool, split: int = 0) -> Fragment:
    """Of a shape, repeated so often. `split`: how many columns the second access of 16x32bx2 is behind the first."""
    r, t = np.arange(registers(shape, number))[:, None], np.arange(32)[None, :]
    if shape == "32x32b":
        lanes, columns = t, r
    elif shape == "16x64b":
        lanes, columns = t // 4 + 8 * (t % 2), t // 2 % 2 + 2 * r
    elif shape == "16x128b":
        lanes, columns = t // 4 + 8 * (r % 2), t % 4 + 4 * (r // 2)
    elif shape == "16x256b":
        lanes, columns = t // 4 + 8 * (r // 2 % 2), 2 * (t % 4) + r % 2 + 8 * (r // 4)
    else:
        lanes, columns = t % 16, r
    columns = (2 * columns if packed else columns) + t // 16 * split
    whole = len(r), 32
    return Fragment(np.broadcast_to(lanes, whole), np.broadcast_to(columns, whole), packed)
