"""All operations. `arith`, `control` and `fences` are legal in both stages, `tile`, `roles` and `by_hand` in the tile
stage, `thread`, `hopper` (what sm_90a has on top), `blackwell` (sm_100a) and `cdna` (AMD) in the thread stage."""

from minitile.ir.ops import arith, blackwell, cdna, control, fences, hopper, roles, thread, tile
from minitile.ir.ops import explicit as by_hand

__all__ = ["arith", "blackwell", "by_hand", "cdna", "control", "fences", "hopper", "roles", "thread", "tile"]
