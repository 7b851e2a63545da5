"""All operations. `arith`, `control` and `fences` are legal in both stages, `tile` and `roles` in the tile stage,
`thread` and `hopper` (what sm_90a alone has) in the thread stage."""

from minitile.ir.ops import arith, control, fences, hopper, roles, thread, tile

__all__ = ["arith", "control", "fences", "hopper", "roles", "thread", "tile"]
