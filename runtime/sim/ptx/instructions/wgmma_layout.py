"""Where wgmma finds its operands in shared memory: matrix descriptors and canonical layouts.

From PTX ISA 8.0, 9.7.14.5 ("Shared Memory Matrix Layout", "Matrix Descriptor Format"), and the canonical layouts in the
comments of CUTLASS's mma_sm90_desc.hpp. The unit is a piece of 16 bytes along the contiguous dimension; with row = row
of A or column of B, and W the swizzle's bytes:

    K-major     piece p of a row:      (row / 8) * SBO + (row % 8) * W + 16 * p
      unswizzled                       (row / 8) * SBO + (row % 8) * 16 + p * LBO
    MN-major    piece p of a k:        (p / (W/16)) * LBO + (k / 8) * SBO + (k % 8) * W + 16 * (p % (W/16))
      unswizzled                       p * SBO + (k / 8) * LBO + (k % 8) * 16

The swizzle then works on the whole address, as TMA's does. A base offset says in which row of the pattern it starts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.scalars import Array

_SWIZZLES = {0: 16, 1: 128, 2: 64, 3: 32}


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A decoded matrix descriptor; all numbers are bytes, `width` is 16 without a swizzle."""

    start: int
    leading: int
    stride: int
    base: int
    width: int

    @staticmethod
    def decode(word: int) -> Descriptor:
        """Take the 64-bit word apart."""
        return Descriptor(
            (word & 0x3FFF) << 4,
            (word >> 16 & 0x3FFF) << 4,
            (word >> 32 & 0x3FFF) << 4,
            word >> 49 & 7,
            _SWIZZLES[word >> 62 & 3],
        )

    def k_major(self, rows: int, pieces: int) -> Array:
        """Addresses [rows, pieces] of the pieces along k."""
        row, piece = np.arange(rows, dtype=np.int64)[:, None], np.arange(pieces, dtype=np.int64)[None, :]
        step = self.leading if self.width == 16 else 16
        return self.swizzled(row // 8 * self.stride + row % 8 * self.width + piece * step)

    def mn_major(self, depth: int, pieces: int) -> Array:
        """Addresses [depth, pieces] of the pieces along m or n."""
        k, piece = np.arange(depth, dtype=np.int64)[:, None], np.arange(pieces, dtype=np.int64)[None, :]
        if self.width == 16:
            return self.swizzled(piece * self.stride + k // 8 * self.leading + k % 8 * 16)
        per = self.width // 16
        return self.swizzled(
            piece // per * self.leading + k // 8 * self.stride + k % 8 * self.width + 16 * (piece % per)
        )

    def swizzled(self, offsets: Array) -> Array:
        """Shared addresses of these offsets from the start."""
        addr = self.start + offsets
        mask = self.width // 16 - 1
        pieces: Array = addr ^ (((addr >> 7) - self.base & mask) << 4)
        return pieces
