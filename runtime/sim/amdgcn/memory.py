"""Global memory and the data share (LDS) of a launch, as byte arenas.

Global memory holds the kernel arguments' segment, the module's constants and each array as an allocation of its own
with guard space between, so that one byte too far is noticed. Its addresses lie above 2**32, as on the device, so that
lost upper halves are noticed too. The LDS arena has one window per workgroup of the batch.
"""

from __future__ import annotations

import numpy as np

from ..core.memory import Allocation, Arena
from ..core.scalars import UNSIGNED, Array, some
from ..core.sparse import LARGE

GLOBAL_BASE = 0x7F32_4000_0000
GUARD = 4096  # the module's constants begin here
POISON = 0xFF  # NaN as a float, -1 as an index


class Global:
    """Global memory of a launch."""

    def __init__(self) -> None:
        self.allocations: list[Allocation] = []
        self.top = GUARD
        self.arena = Arena(0)

    def reserve(self, name: str, size: int, skew: int = 0) -> int:
        """Room for `size` bytes, `skew` bytes behind a multiple of 256; returns the arena offset."""
        start = self.top + skew
        self.allocations.append(Allocation(start, start + size, name))
        self.top = -(-(start + size + GUARD) // 256) * 256
        return start

    def finish(self) -> None:
        """All is reserved: make the bytes."""
        self.arena = Arena(self.top)
        start = 0
        for each in self.allocations:  # all but large arrays, which are sparse
            end = each.end if each.end - each.start < LARGE else each.start
            self.arena.data[start:end] = 0xA5
            start = each.end
        self.arena.data[start:] = 0xA5
        self.starts = np.array([each.start for each in self.allocations], np.int64)
        self.ends = np.array([each.end for each in self.allocations], np.int64)

    def outside(self, where: Array, size: int) -> Array:
        """Which of these accesses (arena offsets) are not inside one allocation."""
        owner = np.searchsorted(self.starts, where, "right") - 1
        return (owner < 0) | (where + size > self.ends[np.maximum(owner, 0)])

    def owner(self, where: int) -> tuple[str | None, int, int]:
        """The allocation nearest to an arena offset, the offset in it, and its size."""
        distance = [max(each.start - where, where - each.end + 1, 0) for each in self.allocations]
        best = self.allocations[distance.index(min(distance))]
        if min(distance) > 1 << 30:
            return None, where, 0
        return best.name, where - best.start, best.end - best.start


def load(arena: Arena, where: Array, elem: int, count: int) -> Array:
    """`count` elements of `elem` bytes from each of the byte offsets [n]: an unsigned array [n, count]."""
    if elem > 1 and some(where & (elem - 1)):
        raw = arena.data[where[:, None] + np.arange(elem * count)]
        return raw.view(UNSIGNED[elem])
    first = where // elem
    if count in (1, 2, 4) and not some(first % count):
        rows: Array = arena.view(elem, count)[first // count]
        return rows
    flat: Array = arena.view(elem, 1)[:, 0]
    pieces: Array = flat[first[:, None] + np.arange(count)]
    return pieces


def store(arena: Arena, where: Array, value: Array) -> None:
    """Write the unsigned elements [n, count] to the byte offsets [n]."""
    elem, count = value.dtype.itemsize, value.shape[1]
    if elem > 1 and some(where & (elem - 1)):
        raw = np.ascontiguousarray(value).view(np.uint8)
        arena.data[where[:, None] + np.arange(elem * count)] = raw
        return
    flat = arena.view(elem, 1)[:, 0]
    flat[(where // elem)[:, None] + np.arange(count)] = value
