"""All operations. `arith` and `control` are legal in both stages, `tile` and `roles` in the tile stage, `thread` and
`hopper` (what sm_90a alone has) in the thread stage."""

from minitile.ir.ops import arith, control, hopper, roles, thread, tile

__all__ = ["arith", "control", "hopper", "roles", "thread", "tile"]
