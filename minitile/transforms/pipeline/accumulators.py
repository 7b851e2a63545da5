"""Which tiles are one accumulator, and which of those ordinary instructions write as well.

    %a = for … [%z] (%k, %c) {        %c, %f, %d and %a are one accumulator: each is handed on to the next,
      %f, %t = async_gemm %A, %B, %c     as the operand of a product, as its result, around a loop, out of it.
      %d = await %f, %t                  Its writers are the place where %z, a splat, becomes the loop's first value,
      yield %d                           and the subtraction.
    }
    %e = sub %a, %x ; … async_gemm %A, %B, %e

ptxas keeps the registers of an accumulator apart from all others as long as a wgmma may be in flight: whatever else
touches those that some product adds to, in whichever part of the program, may only do so when none is. Otherwise it
serialises all products ("non wgmma instructions defining accumulator registers", C7515) or waits by itself (C7517).
What products alone write, each from nothing (an attention's scores), is under no such rule: it is read while others
are in flight. Neither is what has just been awaited.
"""

from __future__ import annotations

from minitile.ir.core import Block, Op, Value
from minitile.ir.ops import control, roles, tile
from minitile.ir.types import TileType

Writer = tuple[Op, int]  # an operation that computes a tile, -1; one that begins a value from a splat, and which


class Accumulators:
    """The analysis of all that a block contains. A splat belongs to none: it is written again for each use."""

    def __init__(self, body: Block) -> None:
        self._parent: dict[Value, Value] = {}
        self._around: dict[Op, list[Block]] = {}  # the blocks that each operation is in
        self._place(body, [])
        ops = list(self._around)
        for op in ops:
            for value, target in _handed_on(op):
                self.join(value, target)
        self._products = {self.find(op.results[0]) for op in ops if isinstance(op, roles.AsyncGemm)}
        self._writers: dict[Value, dict[Writer, None]] = {}
        for op in ops:
            for value, n in _written(op):
                self._writers.setdefault(self.find(value), {})[op, n] = None

    def _place(self, block: Block, around: list[Block]) -> None:
        around = [*around, block]
        for op in block.ops:
            self._around[op] = around
            for region in op.regions:
                self._place(region, around)

    def find(self, value: Value) -> Value:
        """The one tile that stands for an accumulator."""
        parent = self._parent
        while (above := parent.get(value)) is not None:
            if (top := parent.get(above)) is not None:
                parent[value] = top  # the next search is half as long
            value = above
        return value

    def join(self, one: Value, other: Value) -> None:
        if isinstance(one.owner, tile.Splat):
            return
        one, other = self.find(one), self.find(other)
        if one is not other:
            self._parent[one] = other

    def mixed(self, value: Value) -> bool:
        """Whether products and ordinary instructions write a tile's registers."""
        top = self.find(value)
        return top in self._products and top in self._writers

    def begins_in_one_place(self, loop: Op, value: Value) -> bool:
        """Whether ordinary instructions write a tile's registers in one place at most, which is on every way to a
        loop, so that no two ways that meet in front of it have written them differently."""
        writers = list(self._writers.get(self.find(value), ()))
        if len(writers) != 1:
            return not writers
        writer, _ = writers[0]
        return not isinstance(writer, control.If) and self._around[writer][-1] in self._around[loop]

    def touched_by(self, op: Op) -> bool:
        """Whether an operation, or one inside of it, reads or writes such registers by ordinary instructions. To read
        what has been awaited is none: the wait says that it is complete."""
        return any(self.mixed(value) for inner in op.walk() for value in _touched(inner))


def _handed_on(op: Op) -> list[tuple[Value, Value]]:
    """The tiles that an operation keeps in their registers, and what they are called behind it."""
    if isinstance(op, tile.Gemm):
        return [(op.c, op.results[0])]
    if isinstance(op, roles.Await):
        return [(op.a, op.result)]
    if isinstance(op, control.Structured):
        pairs = [pair for t in op.transfers() for row in t.targets for pair in zip(t.values, row, strict=True)]
        return [pair for pair in pairs if isinstance(pair[0].type, TileType)]
    return []


def _plain(op: Op) -> bool:
    return not (op.regions or op.terminator or isinstance(op, (tile.Gemm, roles.Await, tile.Splat)))


def _written(op: Op) -> list[tuple[Value, int]]:
    """The tiles that ordinary instructions write where an operation stands."""
    if isinstance(op, control.Structured):
        handed = (
            (v, target, n)
            for t in op.transfers()
            for n, (v, target) in enumerate(zip(t.values, t.targets[0], strict=True))
        )
        return [(target, n) for v, target, n in handed if isinstance(v.owner, tile.Splat)]
    return [(r, -1) for r in op.results if isinstance(r.type, TileType)] if _plain(op) else []


def _touched(op: Op) -> list[Value]:
    if isinstance(op, control.Structured):
        return [v for v in op.given() if isinstance(v.type, TileType)]
    if not _plain(op):
        return []
    read = [v for v in op.operands if isinstance(v.type, TileType) and not isinstance(v.owner, roles.Await)]
    return [*read, *(r for r in op.results if isinstance(r.type, TileType))]
