"""The layout algebra: where a tile's elements live in registers, lanes, warps and shared memory.

`register` has the representation, `blocked` and `atoms` build layouts, `convert` says what moving between two
takes, `shared` maps coordinates to bytes of shared memory. Nothing here knows the IR; see docs/layouts.md.
"""

from minitile.layout.atoms import (
    ATOMS_OF_DTYPE,
    MMA_ATOMS,
    MmaAtom,
    mma_accumulator,
    mma_operand_a,
    mma_operand_b,
    warp_partition,
    wgmma_accumulator,
    wgmma_operand_a,
)
from minitile.layout.blocked import blocked, coalesced, replicated, row_blocked
from minitile.layout.convert import LaneMove, conversion, lane_exchange, register_permutation
from minitile.layout.register import Digit, Layout, LayoutError, OwnerDigit, Slot, ThreadDigit

__all__ = [
    "ATOMS_OF_DTYPE",
    "MMA_ATOMS",
    "Digit",
    "LaneMove",
    "Layout",
    "LayoutError",
    "MmaAtom",
    "OwnerDigit",
    "Slot",
    "ThreadDigit",
    "blocked",
    "coalesced",
    "conversion",
    "lane_exchange",
    "mma_accumulator",
    "mma_operand_a",
    "mma_operand_b",
    "register_permutation",
    "replicated",
    "row_blocked",
    "warp_partition",
    "wgmma_accumulator",
    "wgmma_operand_a",
]
