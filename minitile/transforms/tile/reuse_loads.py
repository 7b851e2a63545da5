"""A tile of a tensor that a block has loaded before, and no one writes, is not loaded again.

    %x = load %X[%r, 0]                               %x = load %X[%r, 0]
    %s = reduce %x {dim = 0, kind = "sum"}            %s = reduce %x {dim = 0, kind = "sum"}
    %y = load %X[%r, 0]                        →      %z = mul %x, %s
    %z = mul %y, %s

That is what becomes of two loops over the pieces of a row once they are unrolled. The same elements, under the same
mask and in the same layout, of a tensor that nothing in the kernel writes: barriers do not matter then. What waits
takes registers: KEPT is the most, of 4 bytes in each thread, and no more than leaves room for a second block.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from minitile.analysis.affine import Facts
from minitile.analysis.register_budget import TILE_ROOM, equal_share
from minitile.ir.core import Block, Kernel, Value
from minitile.ir.ops import tile
from minitile.ir.types import TensorType, TileType
from minitile.transforms.manager import PassContext
from minitile.transforms.tile.hoist_loads import registers

KEPT = 64


def reuse_loads(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    loads = Counter(op.mem for op in kernel.walk() if isinstance(op, tile.Load))
    if max(loads.values(), default=0) < 2:
        return
    written = {a.mem for op in kernel.walk() for a in op.accesses() if a.writes}
    if None not in written:
        _Reuse(kernel, written).block(kernel.body)


class _Reuse:
    def __init__(self, kernel: Kernel, written: set[Value | None]) -> None:
        self.facts, self.written, self.threads = Facts(kernel), written, kernel.threads
        self.room = min(KEPT, equal_share(2 * self.threads) - TILE_ROOM)

    def block(self, block: Block) -> None:
        known: dict[Hashable, Value] = {}
        names: dict[Value, Value] = {}
        kept: set[Value] = set()
        for op in [*block.ops]:
            for inner in op.walk() if names else ():
                inner.replace_operands(lambda v: names.get(v, v))
            for region in op.regions:
                self.block(region)
            key = self.key(op) if isinstance(op, tile.Load) else None
            if key is None:
                continue
            before = known.setdefault(key, op.results[0])
            if before is not op.results[0] and self.takes(before, kept):
                names[op.results[0]] = before
                block.ops.remove(op)

    def key(self, op: tile.Load) -> Hashable:
        """What loads of the same have in common; None for what is no tile of a tensor that stays as it is."""
        t = op.result.type
        if not isinstance(op.mem.type, TensorType) or op.mem in self.written or not isinstance(t, TileType):
            return None
        places = tuple(v if isinstance(v.type, TileType) else self.facts.affine(v) for v in op.indices)
        attributes = tuple(getattr(op, name) for name, _ in op.attr_fields)
        others = tuple(v for v in op.operands if v not in op.indices)  # a mask, how a tile is rotated, …
        return others, places, attributes, t

    def takes(self, value: Value, kept: set[Value]) -> bool:
        """Whether there are registers in which it can wait."""
        if value not in kept:
            need = registers(value, self.threads)
            if need > self.room:
                return False
            self.room -= need
            kept.add(value)
        return True
