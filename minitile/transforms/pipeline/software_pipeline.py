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

This pass is a policy. It says in the loop what the copies are made of, one iteration after the other,

    %t = async_copy %A[%k] -> %As[slot %k % 3] ; %j = join %t         stage -2; the copy guarded, the join kept
    wait %j ; use %As[slot %k % 3]                                    stage 0, the wait in front of the copies

has that schedule checked (schedule/verify.py), and written (schedule/expand.py). Each join stands outside the
guard: past the end an empty group is committed, so that the number of groups younger than the awaited one is always
N-2. One barrier between wait and copies, put there by a later pass, does for both hazards: all threads' parts of tile
k' have landed, and all threads have finished reading version (k'-1) mod N = (k'+N-1) mod N, which is overwritten next.

*Through registers*, where nothing copies by itself: the next iteration's tile is loaded while this one's is used.

    %r = load %A[%k]                          stage -1, guarded; behind the last of the stores
    store %r -> %As[slot %k % 2] ; use %As    stage 0, where the copy stood, under its conditions

It waits in registers, not in flight to memory, so that one iteration ahead is all there is, and two versions of a
buffer do whatever N is; the store overwrites what was read two iterations ago, before the last barrier. With one
version, where there is no room for two, a second barrier stands in front of the store. A loop may have both kinds of
copies, under no conditions: the stores then stand in front of the copies, so that one barrier does for all, and so do
the loads: being older than the copies, they can be awaited while those are under way.

After the loop nothing is awaited where empty groups are committed: the copy of iteration k' < trip was waited for in
that iteration. LDS-DMA goes on copying, and what is under way must have landed before the bytes are used again. Inside
another loop each outer iteration starts at version 0 again, with copies that may overwrite what the last iterations
read; the barrier pass sees both accesses with their slots and separates them.
"""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import replace
from typing import TYPE_CHECKING

from minitile.analysis.affine import Facts
from minitile.ir.builder import Builder, constant_of
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import control, tile
from minitile.ir.origin import LANDED, Origin
from minitile.ir.rewrite import clone, erase_unused, recast
from minitile.ir.types import i32
from minitile.transforms.pipeline.ahead import READS, Ahead, plan
from minitile.transforms.schedule.cost import turn_of
from minitile.transforms.schedule.expand import Expansion, nothing
from minitile.transforms.schedule.schedule import Line, Step, forget
from minitile.transforms.schedule.verify import ScheduleError, verify_line

if TYPE_CHECKING:
    from minitile.transforms.manager import PassContext

_WHY = Origin("software_pipeline", LANDED)


def software_pipeline(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    plans = {loop: ahead for loop, ahead in plan(kernel).items() if ahead.copies}
    if plans:
        _blocks(kernel.body, plans, _Means(kernel, context, {v for ahead in plans.values() for v in ahead.buffers}))
        erase_unused(kernel)


class _Means:
    """How copies go ahead: all in flight where there is cp.async; where LDS-DMA copies, what it can copy is in flight
    beside the rest in registers, or all of it goes through these."""

    def __init__(self, kernel: Kernel, context: PassContext, buffers: set[Value]) -> None:
        self.facts, self.context = Facts(kernel), context
        self.threads = kernel.attrs.get("threads", 0)
        allocs = [op for op in kernel.walk() if isinstance(op, tile.Alloc) and op.type_.space == "shared"]
        needed = sum(
            math.prod(op.type_.shape) * op.type_.dtype.bytes * (2 if op.result in buffers else op.type_.versions)
            for op in allocs
        )
        self.crowded = needed > context.target.max_shared  # two versions of each of the buffers

    def flying(self, loop: control.For, ahead: Ahead) -> list[tile.Copy]:
        """The copies that are in flight."""
        if self.context.target.has("cp_async"):
            return ahead.copies
        alone = [op for op in ahead.copies if self.context.rules.copies_itself(self.facts, op, self.threads)]
        both = not self.crowded and _fits_both(loop, ahead)
        return alone if len(alone) == len(ahead.copies) or both else []


def _fits_both(loop: control.For, ahead: Ahead) -> bool:
    """The copies stand under no condition, and where they go is known in front of the loop."""
    places = [i for op in ahead.copies for i in op.dst_indices]
    return all(op in loop.body.ops for op in ahead.copies) and all(constant_of(i) is not None for i in places)


def _blocks(block: Block, plans: dict[control.For, Ahead], means: _Means) -> None:
    old, block.ops = block.ops, []
    b = Builder(block)
    for op in old:
        for region in op.regions:
            _blocks(region, plans, means)
        if not isinstance(op, control.For) or op not in plans:
            b.emit(op)
            continue
        flying = means.flying(op, plans[op])
        under_way = op.stages - 1
        b.loc = op.loc
        pipelined = _Pipelined(b, op, plans[op], flying, 1 if means.crowded else 2)
        refused = pipelined.run()
        if means.context.turns is not None and not refused:
            means.context.turns.append(turn_of(op, pipelined.line, means.context.target.rates))
        b.emit(op)
        if refused:
            means.context.notes.append(f"copies do not go ahead: {refused}")
        elif flying and not means.context.target.has("cp_async"):
            for token in op.results[-under_way:]:
                with b.because(_WHY):
                    b.emit(tile.Wait(token))


class _Pipelined:
    """One loop: its copies in parts, the schedule of these, and what that makes of it."""

    def __init__(self, b: Builder, loop: control.For, ahead: Ahead, flying: list[tile.Copy], held: int) -> None:
        self.before, self.loop, self.ahead = b, loop, ahead
        self.flying = set(flying)
        self.stages = loop.stages
        self.versions = loop.stages if flying else min(loop.stages, held)
        self.held = [op for op in loop.body.walk() if isinstance(op, tile.Copy) and op in self._held()]
        self.loaded: dict[tile.Copy, Value] = {}
        self.line: Line = []
        self.b = Builder(Block(), loop.loc)

    def _held(self) -> set[tile.Copy]:
        return set(self.ahead.copies) - self.flying

    def run(self) -> str:
        """Why the loop does without, one iteration after the other; else nothing."""
        loop, b = self.loop, self.b
        self._make_versions()
        old = [op for op in loop.body.ops if not op.terminator]
        head = Block()
        with b.inside(head):
            number = b.floordiv(b.sub(loop.iv, loop.lower), loop.step)
            self.slot = b.cast(b.floormod(number, self.versions), i32) if self.versions > 1 else None
            if self.slot is not None:
                self.slot.name = self.slot.name or "slot"
        loads, tiles = self._part(set(self.held))
        self.loaded = dict(zip(self.held, tiles, strict=True))
        copies, tokens = self._part(self.flying)
        end = 0 if self.flying else 1 + max(n for n, op in enumerate(old) if any(o in self.loaded for o in op.walk()))
        stores = Block()
        with b.inside(stores):
            for op in self.held if self.flying else ():
                at = tuple(b.constant(int(constant_of(i) or 0), i.dtype) for i in op.dst_indices)
                b.loc = op.loc
                b.emit(tile.Store(op.dst, at, self.loaded[op], dims=op.dst_dims, slot=self.slot))
        first, rest = (Block(ops=ops) for ops in (old[:end], old[end:]))
        for block in (first, rest):
            self._in_place(block)
        line = [Step(op) for op in (*head.ops, *stores.ops, *first.ops)]
        line += [Step(op, -1, "guarded") for op in loads]
        before: list[Op] = [*(op for op in old if op in self.ahead.needed), *loads]  # one iteration after the other
        if self.flying:
            join = tile.Join(tuple(tokens))
            wait = tile.Wait(join.result)
            join.loc = wait.loc = loop.loc
            wait.why = _WHY
            line = [Step(wait), *line, *(Step(op, 1 - self.stages, "guarded") for op in copies)]
            line.append(Step(join, 1 - self.stages, "kept"))
            before += [*copies, join, wait]
        line += [Step(op) for op in rest.ops]
        self.line = line
        before = [*head.ops, *before]
        loop.body.ops = [*before, *(step.op for step in line if step.op not in before), loop.body.ops[-1]]
        forget(loop)
        try:
            verify_line(loop, line, {*head.ops, *self.ahead.needed}, versions=self.versions)
        except ScheduleError as error:
            return error.message
        Expansion(self.before, loop, line).run()
        return ""

    def _make_versions(self) -> None:
        for buffer in self.ahead.buffers:
            alloc = buffer.op
            assert isinstance(alloc, tile.Alloc)
            alloc.type_ = replace(alloc.type_, versions=max(self.versions, alloc.type_.versions))
            buffer.type = alloc.type_

    # Parts -----------------------------------------------------------------------------------------------------------

    def _part(self, wanted: set[tile.Copy]) -> tuple[list[Op], list[Value]]:
        """Some of the copies, with what they need, and what each gives: a token, or a tile."""
        block = Block()
        with self.b.inside(block):
            values = self._parts(self.loop.body, wanted, {}) if wanted else []
        return block.ops, values

    def _parts(self, block: Block, wanted: Container[Op], map: dict[Value, Value]) -> list[Value]:
        values: list[Value] = []
        for op in block.ops:
            self.b.loc = op.loc
            if op in self.ahead.needed:  # at the top of the body: computed where it is needed
                if block is not self.loop.body:
                    self.b.emit(clone(op, map))
            elif isinstance(op, tile.Copy) and op in wanted:
                values.append(self._moved(op, map))
            elif isinstance(op, control.If) and any(inner in wanted for r in op.regions for inner in r.walk()):
                values += self._under(op, wanted, map)
        return values

    def _under(self, op: control.If, wanted: Container[Op], map: dict[Value, Value]) -> list[Value]:
        """Either branch's part; the other one gives complete tokens, or zeros."""
        b, blocks = self.b, (Block(), Block())
        with b.inside(blocks[0]):
            first = self._parts(op.then, wanted, map)
        with b.inside(blocks[1]):
            second = self._parts(op.orelse, wanted, map)
            b.emit(control.Yield((*(nothing(b, v) for v in first), *second)))
        with b.inside(blocks[0]):
            b.emit(control.Yield((*first, *(nothing(b, v) for v in second))))
        condition = map.get(op.condition, op.condition)
        return list(b.emit(control.If(condition, then=blocks[0], orelse=blocks[1])).results)

    def _moved(self, op: tile.Copy, map: dict[Value, Value]) -> Value:
        src, dst = (tuple([map.get(i, i) for i in indices]) for indices in (op.src_indices, op.dst_indices))
        if op in self.flying:
            new: Op = recast(op, tile.AsyncCopy, src_indices=src, dst_indices=dst, dst_slot=self.slot)
            return self.b.emit(new).results[0]
        value = self.b.emit(tile.Load(op.src, src, shape=op.shape, dims=op.src_dims, evict=op.evict)).result
        value.name = op.dst.name
        return value

    def _in_place(self, block: Block) -> None:
        """Take the copies out of a block, or have them store what was loaded; what reads their buffers does so in the
        iteration's version."""
        kept: list[Op] = []
        for op in block.ops:
            if isinstance(op, tile.Copy) and op in self.loaded and not self.flying:
                store = tile.Store(op.dst, op.dst_indices, self.loaded[op], dims=op.dst_dims, slot=self.slot)
                store.loc = op.loc
                kept.append(store)
            if isinstance(op, tile.Copy) and (op in self.loaded or op in self.flying):
                continue
            for mem, slot_name in READS.get(type(op), ()):
                if getattr(op, mem) in self.ahead.buffers:
                    setattr(op, slot_name, self.slot)
            for region in op.regions:
                self._in_place(region)
            if not _is_empty_if(op):
                kept.append(op)
        block.ops = kept


def _is_empty_if(op: Op) -> bool:
    if not isinstance(op, control.If) or op.results:
        return False
    return all(region.is_empty for region in op.regions)
