"""Software pipelining for one kind of thread: copies from global to shared memory are issued iterations ahead.

    for %k = 0 to %n, stages = 3 {            %t0 = join (if 0 < %n { async_copy %A[0] -> %As[slot 0] })
      copy %A[%k] -> %As                      %t1 = join (if 1 < %n { async_copy %A[1] -> %As[slot 1] })
      use %As                            →    for %k = 0 to %n carry(%u0 = %t0, %u1 = %t1) {
    }                                           wait %u0
                                                %u2 = join (if %k+2 < %n {
                                                        async_copy %A[%k+2] -> %As[slot (%k+2) % 3] })
                                                use %As[slot %k % 3]
                                                yield %u1, %u2 }

With N stages the buffers get N versions and N-1 copies are in flight. Iteration k' (counted from 0) uses version
k' mod N. Which copies can go ahead is found by `ahead.py`; the others stay in place, synchronous. The scalar arithmetic
that a copy needs (indices, conditions, scalar loads) is written again for iteration k' + N-1; an `if` around a copy is
split into one ahead around the copy and one in place around the rest.

Each join stands outside the guard: past the end an empty group is committed, so that the number of groups younger than
the awaited one is always N-2. A trip count of 0, 1 or fewer than N-1 only makes guards false.

The order in the body is wait, copies, rest. One barrier between wait and copies, put there by a later pass, then does
for both hazards: all threads' parts of tile k' have landed, and all threads have finished reading version
(k'-1) mod N = (k'+N-1) mod N, which is overwritten next.

After the loop nothing is awaited: the copy of iteration k' < trip was waited for in that iteration, so the tokens that
leave the loop are of empty groups. Inside another loop each outer iteration starts at version 0 again, with copies that
may overwrite what the last iterations read; the barrier pass sees both accesses with their slots and separates them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from minitile.analysis.affine import Facts
from minitile.ir.builder import Builder, constant_of
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import control, tile
from minitile.ir.origin import LANDED, Origin
from minitile.ir.rewrite import clone, erase_unused, recast, remake
from minitile.ir.types import TOKEN, i32
from minitile.transforms.pipeline.ahead import READS, Ahead, plan

if TYPE_CHECKING:
    from minitile.transforms.manager import PassContext

Emit = Callable[[], list[Value]]
How = Callable[[Builder, control.For, Ahead], "Pipelined"]


def software_pipeline(kernel: Kernel, context: PassContext) -> None:
    plans = plan(kernel)
    plans = {loop: ahead for loop, ahead in plans.items() if ahead.copies}
    if plans:
        _expand_loops(kernel.body, plans, _how(kernel, context, {b for a in plans.values() for b in a.buffers}))
        erase_unused(kernel)


def _how(kernel: Kernel, context: PassContext, buffers: set[Value]) -> How:
    """What becomes of a loop: cp.async commits empty groups past the end; LDS-DMA goes on copying, and what is under
    way must have landed before the bytes are used again; and where nothing copies by itself, registers do, with one
    version of each of the `buffers` where there is no room for two. Loops with copies of both kinds, not under
    conditions, have both."""
    from minitile.transforms.pipeline.register_pipeline import Both, ThroughRegisters

    facts = Facts(kernel)

    def choose(b: Builder, loop: control.For, ahead: Ahead) -> Pipelined:
        if context.target.has("cp_async"):
            return Pipelined(b, loop, ahead)
        threads = kernel.attrs.get("threads", 0)
        alone = {op for op in ahead.copies if context.rules.copies_itself(facts, op, threads)}
        if len(alone) == len(ahead.copies):
            return Landing(b, loop, ahead)
        if alone and not crowded and Both.fits(loop, ahead):
            return Both(b, loop, ahead, alone)
        return ThroughRegisters(b, loop, ahead, 1 if crowded else 2)

    allocs = [op for op in kernel.walk() if isinstance(op, tile.Alloc) and op.type_.space == "shared"]
    needed = sum(
        math.prod(op.type_.shape) * op.type_.dtype.bytes * (2 if op.result in buffers else op.type_.versions)
        for op in allocs
    )
    crowded = needed > context.target.max_shared
    return choose


def _expand_loops(block: Block, plans: dict[control.For, Ahead], how: How) -> None:
    old, block.ops = block.ops, []
    b = Builder(block)
    for op in old:
        for region in op.regions:
            _expand_loops(region, plans, how)
        if isinstance(op, control.For) and op in plans:
            pipelined = how(b, op, plans[op])
            pipelined.expand()
            b.emit(op)
            pipelined.after()
        else:
            b.emit(op)


class Pipelined:
    """Rewrites one loop in place; what goes before it is emitted through `b`."""

    def __init__(self, b: Builder, loop: control.For, ahead: Ahead) -> None:
        self.b = b
        self.loop = loop
        self.ahead = ahead
        self.copies = set(ahead.copies)  # those that `copies_of` emits
        self.gone = self.copies  # those that leave the body
        self.versions = loop.stages

    def expand(self) -> None:
        b, loop, versions = self.b, self.loop, self.versions
        b.loc = loop.loc
        self.make_versions()
        trip = self.trip_count()
        body = Block()
        beside = self.beside(trip)
        tokens = [self.issue(b.constant(s, loop.iv.dtype), b.constant(s), trip) for s in range(versions - 1)]
        held = [loop.body.add_arg(v.type, v.name or "ahead") for v in beside]
        carried = [loop.body.add_arg(TOKEN, "flight") for _ in tokens]
        with b.inside(body):
            with b.because(Origin("software_pipeline", LANDED)):
                b.emit(tile.Wait(carried[0], pending=None))
            number = b.floordiv(b.sub(loop.iv, loop.lower), loop.step)
            slot = self.slot(number, "slot")
            following = self.hand_over(held, number, slot, trip)
            later = b.add(number, versions - 1)
            issued = self.issue(later, self.slot(later, "slot_ahead"), trip)
            self.rest(loop.body, slot)
        end = loop.body.terminator
        assert isinstance(end, control.Yield)
        end.values = (*end.values, *following, *carried[1:], issued)
        loop.body.ops = body.ops + loop.body.ops
        loop.init = (*loop.init, *beside, *tokens)
        more = enumerate((*beside, *tokens), len(loop.results))
        loop.results = (*loop.results, *[Value(v.type, loop, i) for i, v in more])
        loop.kind, loop.stages, loop.order, loop.stage_of = "serial", 1, None, None

    def after(self) -> None:
        """Emit what stands behind the loop."""

    def beside(self, trip: Value) -> list[Value]:
        """What the loop carries besides tokens, for its first iteration."""
        return []

    def hand_over(self, held: list[Value], number: Value, slot: Value, trip: Value) -> list[Value]:
        """Use up what is carried for iteration `number`, behind its wait; the same for the next one."""
        return []

    def make_versions(self) -> None:
        for buffer in self.ahead.buffers:
            alloc = buffer.op
            assert isinstance(alloc, tile.Alloc)
            alloc.type_ = replace(alloc.type_, versions=max(self.versions, alloc.type_.versions))
            buffer.type = alloc.type_

    def trip_count(self) -> Value:
        b, loop = self.b, self.loop
        return b.floordiv(b.add(b.sub(loop.upper, loop.lower), b.sub(loop.step, 1)), loop.step)

    def slot(self, number: Value, name: str) -> Value:
        slot = self.b.cast(self.b.floormod(number, self.versions), i32)
        slot.name = slot.name or name
        return slot

    # Ahead ----------------------------------------------------------------------------------------------------------

    def issue(self, number: Value, slot: Value, trip: Value) -> Value:
        """The copies of iteration `number`, if there is one; the token for all of them."""

        def copies() -> list[Value]:
            index = self.b.add(self.loop.lower, self.b.mul(number, self.loop.step))
            return self.copies_of(self.loop.body, {self.loop.iv: index}, slot)

        guard = self.b.compare("lt", number, trip)
        return self.b.emit(tile.Join(tuple(self.branch(guard, copies, list)))).result

    def copies_of(self, block: Block, map: dict[Value, Value], slot: Value | None) -> list[Value]:
        """Emit a block's copies, asynchronous, and what they need, on other values; a token for each copy."""
        tokens: list[Value] = []
        for op in block.ops:
            self.b.loc = op.loc
            if op in self.ahead.needed:
                if op.pure:
                    map[op.result] = self.b.value(remake(op, lambda v: map.get(v, v)))
                else:
                    self.b.emit(clone(op, map))
            elif isinstance(op, tile.Copy) and op in self.copies:
                tokens.append(self.async_copy(op, map, slot))
            elif isinstance(op, control.If) and any(inner in self.copies for r in op.regions for inner in r.walk()):
                tokens += self.copies_under(op, map, slot)
        return tokens

    def copies_under(self, op: control.If, map: dict[Value, Value], slot: Value | None) -> list[Value]:
        then, orelse = (partial(self.copies_of, region, map, slot) for region in op.regions)
        return self.branch(map.get(op.condition, op.condition), then, orelse)

    def async_copy(self, op: tile.Copy, map: dict[Value, Value], slot: Value | None) -> Value:
        indices = {name: tuple([map.get(i, i) for i in getattr(op, name)]) for name in ("src_indices", "dst_indices")}
        return self.b.emit(recast(op, tile.AsyncCopy, **indices, dst_slot=slot)).result

    def branch(self, condition: Value, then: Emit, orelse: Emit) -> list[Value]:
        """Either branch's tokens under a condition; those of the branch that is not taken are complete."""
        known = constant_of(condition)
        if known is not None:
            return then() if known else orelse()
        blocks = (Block(), Block())
        with self.b.inside(blocks[0]):
            first = then()
        with self.b.inside(blocks[1]):
            second = orelse()
            self.b.emit(control.Yield((*self.nothing(first), *second)))
        with self.b.inside(blocks[0]):
            self.b.emit(control.Yield((*first, *self.nothing(second))))
        return list(self.b.emit(control.If(condition, then=blocks[0], orelse=blocks[1])).results)

    def nothing(self, instead_of: list[Value]) -> list[Value]:
        return [self.b.emit(tile.NoToken()).result for _ in instead_of]

    # In place -------------------------------------------------------------------------------------------------------

    def rest(self, block: Block, slot: Value | None) -> None:
        """Take the copies out of a block; what reads their buffers does so in `slot`."""
        kept: list[Op] = []
        for op in block.ops:
            if isinstance(op, tile.Copy) and op in self.gone:
                kept += self.in_place(op, slot)
                continue
            for mem, slot_of in READS.get(type(op), ()):
                if getattr(op, mem) in self.ahead.buffers:
                    setattr(op, slot_of, slot)
            for region in op.regions:
                self.rest(region, slot)
            if not _is_empty_if(op):
                kept.append(op)
        block.ops = kept

    def in_place(self, op: tile.Copy, slot: Value | None) -> list[Op]:
        """What stays where a copy was."""
        return []


class Landing(Pipelined):
    """The copies past the end are waited for."""

    def after(self) -> None:
        for token in self.loop.results[-(self.versions - 1) :]:
            with self.b.because(Origin("software_pipeline", LANDED)):
                self.b.emit(tile.Wait(token))


def _is_empty_if(op: Op) -> bool:
    if not isinstance(op, control.If) or op.results:
        return False
    return all(region.is_empty for region in op.regions)
