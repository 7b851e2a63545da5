"""The layout algebra: where a tile's elements live in registers, lanes, warps and shared memory.

`register` has the representation, `blocked` and `atoms` build layouts, `convert` says what moving between two takes,
`shared` maps coordinates to bytes of shared memory. Nothing here knows the IR; see docs/layouts.md.
"""

from minitile.layout.register import Digit, Layout, LayoutError, OwnerDigit, Slot, ThreadDigit

__all__ = ["Digit", "Layout", "LayoutError", "OwnerDigit", "Slot", "ThreadDigit"]
