"""Shadow memory: who last wrote and who has read each granule of memory since.

A granule is the smallest access size that the program uses in a space (1 to 16 bytes), so that no two accesses share
a granule without overlapping. Writers are (thread + 1, stamp, site); 0 means never written. Readers are kept exactly
enough to check a later write:

  * `SharedShadow` keeps one record per granule and warp: the last stamp and the lane, or MANY lanes;
  * `GlobalShadow` keeps one reader, or, after unordered readers, the CTA they belong to (or SEVERAL) and their warps.
"""

from __future__ import annotations

import numpy as np

from .scalars import Array

MANY = 63  # in place of a lane: several lanes of the warp
SEVERAL = -1  # in place of a CTA: several CTAs
PENDING = np.int64(1 << 40)  # the stamp of an asynchronous write that nobody has waited for


class Writers:
    """The last writer of each granule."""

    def __init__(self, granules: int) -> None:
        self.thread = np.zeros(granules, np.int32)
        self.stamp = np.zeros(granules, np.int64)
        self.site = np.zeros(granules, np.int32)


class SharedShadow(Writers):
    """Shared memory of a batch: `warps` is the number of warps of a CTA."""

    def __init__(self, size: int, granule: int, warps: int) -> None:
        super().__init__(size // granule)
        self.granule = granule
        self.warps = warps
        self.reads = np.zeros(size // granule * warps, np.int64)

    def record_read(self, where: Array, lane: Array, warp: Array, now: int, floor: Array, site: int) -> None:
        """Remember reads at granules `where`; records before `floor` are known to everybody and may go."""
        key = where * self.warps + warp
        old = self.reads[key]
        same = (old == 0) | (old >> 32 < floor) | ((old >> 24 & 0xFF) == lane)
        entry = (now << 32) + (np.where(same, lane, MANY) << 24) + site
        self.reads[key] = entry
        clash = self.reads[key] != entry
        if clash.any():
            self.reads[key[clash]] = (now << 32) + (MANY << 24) + site

    def readers(self, where: Array) -> tuple[Array, Array, Array]:
        """(stamp, lane, site) of the last read by each warp, as arrays [granules, warps]."""
        entry = self.reads.reshape(-1, self.warps)[where]
        return entry >> 32, entry >> 24 & 0xFF, entry & 0xFFFFFF

    def forget_reads(self, where: Array) -> None:
        """A write has ended these granules' readers."""
        self.reads.reshape(-1, self.warps)[where] = 0


class GlobalShadow(Writers):
    """Global memory, for the whole launch; threads are numbered through the grid."""

    def __init__(self, size: int, granule: int) -> None:
        super().__init__(size // granule)
        self.granule = granule
        self.read_thread = np.zeros(size // granule, np.int32)
        self.read_stamp = np.zeros(size // granule, np.int64)
        self.read_site = np.zeros(size // granule, np.int32)
        self.read_cta = np.zeros(size // granule, np.int32)  # 0: one reader; CTA + 1, or SEVERAL
        self.read_warps = np.zeros(size // granule, np.uint32)
