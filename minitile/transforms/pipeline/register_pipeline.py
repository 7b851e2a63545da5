"""Software pipelining where nothing copies from global to shared memory by itself: through registers.

    for %k = 0 to %n, stages = N {            %r = if 0 < %n { load %A[0] } else { zeros }
      copy %A[%k] -> %As                      for %k = 0 to %n carry(%a = %r) {
      use %As                            →      store %a -> %As[slot %k % 2]
    }                                           %r1 = if %k+1 < %n { load %A[%k+1] } else { zeros }
                                                use %As[slot %k % 2]
                                                yield %r1 }

The next iteration's tile is loaded while this one's is used; it waits in registers, not in flight to memory, so that
one iteration ahead is all there is, and two versions of a buffer do whatever N is. A barrier between store and use (put
there by a later pass) then does for both hazards: the store overwrites what was read two iterations ago, before the
last barrier. With one version, where there is no room for two, a second barrier stands in front of the store. The store
stands where the copy stood, under the same conditions. `Both` is for loops of which some copies need no registers.
"""

from __future__ import annotations

from minitile.ir.builder import Builder, constant_of
from minitile.ir.core import Block, Op, Value
from minitile.ir.ops import control, tile
from minitile.ir.types import DType
from minitile.transforms.pipeline.ahead import Ahead
from minitile.transforms.pipeline.software_pipeline import Landing, Pipelined


class ThroughRegisters(Pipelined):
    """Rewrites one loop in place; what goes before it is emitted through `b`."""

    def __init__(self, b: Builder, loop: control.For, ahead: Ahead, versions: int = 2) -> None:
        super().__init__(b, loop, ahead)
        self.versions = min(loop.stages, versions)
        self.order: list[tile.Copy] = []  # the copies, in the order in which `issue` hands over their tiles
        self.loaded: dict[tile.Copy, Value] = {}

    def expand(self) -> None:
        b, loop = self.b, self.loop
        b.loc = loop.loc
        self.make_versions()
        trip = self.trip_count()
        self.order = [op for op in loop.body.walk() if isinstance(op, tile.Copy) and op in self.copies]
        first = self.ahead_of(b.constant(0, loop.iv.dtype), trip)
        carried = [loop.body.add_arg(v.type, v.name or "ahead") for v in first]
        self.loaded = dict(zip(self.order, carried, strict=True))
        last = max(n for n, op in enumerate(loop.body.ops) if any(inner in self.copies for inner in op.walk()))
        start, loads = Block(), Block()
        with b.inside(start):
            number = b.floordiv(b.sub(loop.iv, loop.lower), loop.step)
            slot = self.slot(number, "slot") if self.versions > 1 else None
        with b.inside(loads):
            following = self.ahead_of(b.add(number, 1), trip)
        head, rest = Block(ops=loop.body.ops[: last + 1]), Block(ops=loop.body.ops[last + 1 :])
        self.rest(head, slot)
        self.rest(rest, slot)
        end = rest.terminator
        assert isinstance(end, control.Yield)
        end.values = (*end.values, *following)
        loop.body.ops = start.ops + head.ops + loads.ops + rest.ops
        loop.init = (*loop.init, *first)
        more = [Value(v.type, loop, len(loop.results) + n) for n, v in enumerate(first)]
        loop.results = (*loop.results, *more)
        loop.kind, loop.stages, loop.order, loop.stage_of = "serial", 1, None, None

    def ahead_of(self, number: Value, trip: Value) -> list[Value]:
        """The tiles of iteration `number`, if there is one, else zeros."""
        b, loop = self.b, self.loop

        def loads() -> list[Value]:
            index = b.add(loop.lower, b.mul(number, loop.step))
            return self.copies_of(loop.body, {loop.iv: index}, None)

        guard = b.compare("lt", number, trip)
        if constant_of(guard) is False:
            return [self.zeros(op.shape, op.dst.dtype) for op in self.order]
        return self.branch(guard, loads, list)

    def copies_under(self, op: control.If, map: dict[Value, Value], slot: Value | None) -> list[Value]:
        """A tile for each copy on either side, also where it is known which one is taken."""
        taken = constant_of(map.get(op.condition, op.condition))
        if taken is None:
            return super().copies_under(op, map, slot)
        sides = []
        for region, here in ((op.then, taken), (op.orelse, not taken)):
            copies = [c for c in region.walk() if isinstance(c, tile.Copy) and c in self.copies]
            zeros = [] if here else [self.zeros(c.shape, c.dst.dtype) for c in copies]
            sides += self.copies_of(region, map, slot) if here else zeros
        return sides

    def async_copy(self, op: tile.Copy, map: dict[Value, Value], slot: Value | None) -> Value:
        indices = tuple([map.get(i, i) for i in op.src_indices])
        value = self.b.emit(tile.Load(op.src, indices, shape=op.shape, dims=op.src_dims, evict=op.evict)).result
        value.name = op.dst.name
        return value

    def nothing(self, instead_of: list[Value]) -> list[Value]:
        return [self.zeros(value.shape, value.dtype) for value in instead_of]

    def zeros(self, shape: tuple[int, ...], dtype: DType) -> Value:
        zero = self.b.constant(0.0 if dtype.is_float else 0, dtype)
        return self.b.emit(tile.Splat(zero, shape)).result

    def in_place(self, op: tile.Copy, slot: Value | None) -> list[Op]:
        store = tile.Store(op.dst, op.dst_indices, self.loaded[op], dims=op.dst_dims, slot=slot)
        store.loc = op.loc
        return [store]


class Both(Landing):
    """Copies of either kind in one loop: those that an instruction does are under way for several iterations, the
    others wait in registers for one.

        for %k carry(%a, %u) {
          wait %u
          store %a -> %As[slot %k % N]
          %a1 = load %A[%k+1], or zeros
          %u1 = join (async_copy %B[%k+N-1] -> %Bs[slot (%k+N-1) % N])
          use %As[slot %k % N], %Bs[slot %k % N]
          yield %a1, %u1 }

    The store stands in front of the copies, so that one barrier does for all; so do the loads: being older than the
    copies, they can be awaited while those are under way.
    """

    def __init__(self, b: Builder, loop: control.For, ahead: Ahead, alone: set[tile.Copy]) -> None:
        super().__init__(b, loop, ahead)
        self.copies = alone
        self.registers = ThroughRegisters(b, loop, ahead)
        self.registers.copies = {op for op in ahead.copies if op not in alone}
        self.registers.order = [op for op in ahead.copies if op not in alone]

    @staticmethod
    def fits(loop: control.For, ahead: Ahead) -> bool:
        """The copies stand under no condition, and where they go is known in front of the loop."""
        places = [i for op in ahead.copies for i in op.dst_indices]
        return all(op in loop.body.ops for op in ahead.copies) and all(constant_of(i) is not None for i in places)

    def beside(self, trip: Value) -> list[Value]:
        return self.registers.ahead_of(self.b.constant(0, self.loop.iv.dtype), trip)

    def hand_over(self, held: list[Value], number: Value, slot: Value, trip: Value) -> list[Value]:
        b = self.b
        for op, value in zip(self.registers.order, held, strict=True):
            b.loc = op.loc
            at = tuple(b.constant(int(constant_of(i) or 0), i.dtype) for i in op.dst_indices)
            b.emit(tile.Store(op.dst, at, value, dims=op.dst_dims, slot=slot))
        return self.registers.ahead_of(b.add(number, 1), trip)
