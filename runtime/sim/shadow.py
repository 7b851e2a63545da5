"""Shadow memory: who last wrote each granule of memory, and who has read it or updated it atomically since.

A granule is the smallest access size that the program uses in a space (1 to 16 bytes), so that no two accesses share
a granule without overlapping. Writers are (thread + 1, stamp, site), 0 meaning nobody. Strong writes (atomics,
volatile, relaxed) do not conflict with each other, so they are no "last writer" but a crowd, as readers are; a plain
write ends the crowds. A crowd is kept exactly enough to check a later access:

  * in shared memory (`WarpRecords`) one record per granule and warp: the last stamp and the lane, or MANY lanes;
  * in global memory (`GridRecords`) one thread, or, after unordered ones, the CTA they belong to (or SEVERAL) and
    their warps.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .scalars import Array

MANY = 63  # in place of a lane: several lanes of the warp
SEVERAL = -1  # in place of a CTA: several CTAs
PENDING = np.int64(1 << 40)  # the stamp of an asynchronous write that nobody has waited for


class Writers:
    """The last plain writer of each granule."""

    def __init__(self, granules: int) -> None:
        self.thread = np.zeros(granules, np.int32)
        self.stamp = np.zeros(granules, np.int64)
        self.site = np.zeros(granules, np.int32)


class WarpRecords:
    """The accesses to shared memory by each of the `warps` warps of a CTA since the last plain write."""

    def __init__(self, granules: int, warps: int) -> None:
        self.warps = warps
        self.entry = np.zeros(granules * warps, np.int64)

    def record(
        self, where: Array, lane: Array, warp: Array, now: int, site: int, known: Callable[[Array, Array, Array], Array]
    ) -> None:
        """Remember accesses to granules `where`. A warp's earlier record gives way if the new thread knows of it,
        which `known(positions, lane, stamp)` tells; else the record stands for MANY lanes."""
        key = where * self.warps + warp
        old = self.entry[key]
        before = old >> 24 & 0xFF
        alone = (old == 0) | (before == lane)
        if not alone.all():
            doubtful = np.flatnonzero(~alone)
            alone[doubtful] = known(doubtful, before[doubtful], old[doubtful] >> 32)
        entry = (now << 32) + (np.where(alone, lane, MANY) << 24) + site
        self.entry[key] = entry
        clash = self.entry[key] != entry
        if clash.any():
            self.entry[key[clash]] = (now << 32) + (MANY << 24) + site

    def read(self, where: Array) -> tuple[Array, Array, Array]:
        """(stamp, lane, site) of the last access by each warp, as arrays [granules, warps]; stamp 0: none."""
        entry = self.entry.reshape(-1, self.warps)[where]
        return entry >> 32, entry >> 24 & 0xFF, entry & 0xFFFFFF

    def forget(self, where: Array) -> None:
        """A plain write has ended these records."""
        self.entry.reshape(-1, self.warps)[where] = 0


class GridRecords:
    """The accesses to global memory since the last plain write; threads and CTAs are numbered through the grid."""

    def __init__(self, granules: int) -> None:
        self.thread = np.zeros(granules, np.int32)  # the last one, + 1
        self.stamp = np.zeros(granules, np.int64)
        self.site = np.zeros(granules, np.int32)
        self.cta = np.zeros(granules, np.int32)  # 0: one thread; else the CTA + 1 of several, or SEVERAL
        self.warps = np.zeros(granules, np.uint32)

    def record(self, where: Array, me: Array, now: int, site: int, padded: int, known: Callable[[], Array]) -> None:
        """Remember accesses by grid threads `me`. `known()` tells which of them know everything recorded before."""
        mine = (me // padded + 1).astype(np.int32)
        bit = np.uint32(1) << (me % padded // 32).astype(np.uint32)
        entry = (me + 1).astype(np.int32)
        previous, many = self.thread[where], self.cta[where]
        fresh = (previous == 0) | ((previous == entry) & (many == 0))
        if fresh.all():
            self.cta[where] = 0
            self.warps[where] = bit
        else:
            last = (previous - 1) // padded + 1
            fresh |= known()
            joined = np.where((last == mine) & ((many == 0) | (many == mine)), mine, np.int32(SEVERAL))
            self.cta[where] = np.where(fresh, 0, joined)
            old = np.uint32(1) << ((previous - 1) % padded // 32).astype(np.uint32)
            self.warps[where] = np.where(fresh, bit, self.warps[where] | bit | old)
        self.thread[where] = entry
        self.stamp[where] = now
        self.site[where] = site
        clash = self.thread[where] != entry
        if clash.any():
            self._several(where[clash], mine[clash], bit[clash], padded)

    def _several(self, where: Array, mine: Array, bit: Array, padded: int) -> None:
        """Several threads touched one granule with one instruction."""
        winner = (self.thread[where] - 1) // padded + 1
        joined = np.where((winner == mine) & (self.cta[where] != SEVERAL), mine, SEVERAL)
        order = np.argsort(joined == SEVERAL, kind="stable")  # where both occur, SEVERAL must win
        self.cta[where[order]] = joined[order]
        winners = np.uint32(1) << ((self.thread[where] - 1) % padded // 32).astype(np.uint32)
        np.bitwise_or.at(self.warps, where, bit | winners)

    def forget(self, where: Array) -> None:
        """A plain write has ended these records."""
        self.thread[where] = 0
        self.cta[where] = 0
