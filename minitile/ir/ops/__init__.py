"""All operations. `arith` and `control` are legal in both stages, `tile` in the tile stage, `thread` in the thread
stage."""

from minitile.ir.ops import arith, control, hopper, roles, thread, tile

__all__ = ["arith", "control", "hopper", "roles", "thread", "tile"]
