"""The layout algebra: where a tile's elements live in registers, lanes, warps and shared memory.

`register` has the representation, `blocked` and `atoms` build layouts, `convert` says what moving between two takes;
`shared` maps coordinates to bytes of shared memory, `access` and `ldmatrix` say how threads reach them. Nothing here
knows the IR; see docs/layouts.md.
"""

from minitile.layout.access import (
    VectorAccess,
    accesses,
    bank_conflicts,
    bits_of_digits,
    thread_bits,
    vector_runs,
    vector_width,
)
from minitile.layout.atoms import (
    ATOMS_OF_DTYPE,
    MFMA_ATOMS,
    MFMA_CHAINED,
    MFMA_OF_DTYPE,
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
from minitile.layout.convert import (
    LaneMove,
    LaneSwaps,
    conversion,
    lane_exchange,
    lane_swaps,
    register_permutation,
    stays_in_warps,
)
from minitile.layout.ldmatrix import (
    MatrixAccess,
    MatrixPlan,
    ldmatrix_conflicts,
    ldmatrix_legal,
    ldmatrix_plan,
    stmatrix_plan,
)
from minitile.layout.parts import block, warp_groups
from minitile.layout.register import Digit, Layout, LayoutError, OwnerDigit, Slot, ThreadDigit
from minitile.layout.shared import (
    AddressDigit,
    AddressTerm,
    ConstantSplit,
    SharedLayout,
    Swizzle,
    bits_of_multiple,
    boxed,
    row_major,
    swizzled,
)

__all__ = [
    "ATOMS_OF_DTYPE",
    "MFMA_ATOMS",
    "MFMA_CHAINED",
    "MFMA_OF_DTYPE",
    "MMA_ATOMS",
    "AddressDigit",
    "AddressTerm",
    "ConstantSplit",
    "Digit",
    "LaneMove",
    "LaneSwaps",
    "Layout",
    "LayoutError",
    "MatrixAccess",
    "MatrixPlan",
    "MmaAtom",
    "OwnerDigit",
    "SharedLayout",
    "Slot",
    "Swizzle",
    "ThreadDigit",
    "VectorAccess",
    "accesses",
    "bank_conflicts",
    "bits_of_digits",
    "bits_of_multiple",
    "block",
    "blocked",
    "boxed",
    "coalesced",
    "conversion",
    "lane_exchange",
    "lane_swaps",
    "ldmatrix_conflicts",
    "ldmatrix_legal",
    "ldmatrix_plan",
    "mma_accumulator",
    "mma_operand_a",
    "mma_operand_b",
    "register_permutation",
    "replicated",
    "row_blocked",
    "row_major",
    "stays_in_warps",
    "stmatrix_plan",
    "swizzled",
    "thread_bits",
    "vector_runs",
    "vector_width",
    "warp_groups",
    "warp_partition",
    "wgmma_accumulator",
    "wgmma_operand_a",
]
