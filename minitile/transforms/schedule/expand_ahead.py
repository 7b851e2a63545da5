"""Writes a loop whose first stages are ahead of it: guarded, so that it needs no prologue of turns and no epilogue.

    for … (%k) {                        %j0 = join (if 0 < %n { A(0) }) ; %j1 = join (if 1 < %n { A(1) })
      %t = A(%k)       stage -2         for … (%k, %j0, %j1) {
      %j = join %t     stage -2           wait %j0
      wait %j                      →      %j2 = join (if %k + 2 < %n { A(%k + 2) })
      B(%k)                               B(%k)
    }                                     yield %j1, %j2 }

The loop stays the one that it is, with all of its iterations; operations of stage 0 stay where the turn has them. Those
of one stage that stand next to each other and are guarded share a condition. Where it does not hold, or is known not
to, tokens are complete, and tiles are zeros. What is kept stands behind it: a group of copies is committed also
where it is empty, so that as many are younger than the awaited one in each turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from minitile.ir.builder import Builder, constant_of
from minitile.ir.core import Block, Op, Value
from minitile.ir.ops import control, tile
from minitile.ir.rewrite import clone, remake
from minitile.ir.types import ScalarType, TokenType, i32
from minitile.transforms.schedule.expand import Expansion
from minitile.transforms.schedule.graph import used
from minitile.transforms.schedule.schedule import forget

Names = dict[Value, Value | None]  # None: a token that is complete


class Step(NamedTuple):
    """An operation of a turn, its stage, and whether it is guarded; those of one `part` share a condition."""

    op: Op
    stage: int
    guarded: bool = False
    part: int = 0


@dataclass(frozen=True, slots=True)
class IterationNumber:
    """The iteration's number in the loop, from 0, and the version that is its turn, of so many."""

    number: Value
    slot: Value | None
    versions: int


def slot_of(b: Builder, number: Value, versions: int, name: str) -> Value:
    slot = b.cast(b.floormod(number, versions), i32)
    slot.name = slot.name or name
    return slot


def nothing(b: Builder, like: Value) -> Value:
    """A token that is complete, or a tile of zeros."""
    if isinstance(like.type, TokenType):
        return b.emit(tile.NoToken()).result
    zero = b.constant(0.0 if like.dtype.is_float else 0, like.dtype)
    return b.emit(tile.Splat(zero, like.shape)).result


class AheadExpansion(Expansion):
    """One loop in place; what goes before it is emitted through `b`. `run` gives what is still under way behind it."""

    def __init__(self, b: Builder, loop: control.For, steps: Sequence[Step], iteration: IterationNumber) -> None:
        super().__init__(b, loop, [(step.op, step.stage) for step in steps])
        self.steps, self.iteration = steps, iteration
        self.more = [(v, turns) for v, turns in self.state if v not in self.next_of]
        self.wanted = {v for v, _ in self.more} | {
            v for s in steps if s.stage < 0 and not s.guarded for v in used(s.op)
        }

    def run(self) -> None:
        b, loop = self.b, self.loop
        self.trip = b.floordiv(b.add(b.sub(loop.upper, loop.lower), b.sub(loop.step, 1)), loop.step)
        first: dict[tuple[Value, int], Value] = {}
        for stage, steps in self.groups():
            for number in range(-stage) if stage < 0 else ():
                made = self.issue(steps, b.constant(number, loop.iv.dtype), b.constant(number))
                first.update({(v, -stage - number): value for v, value in made.items() if value is not None})
        init = [first[each] for each in self.more]
        args = [loop.body.add_arg(v.type, v.name or _name(v)) for v in init]
        here = {v: arg for (v, turns), arg in zip(self.more, args, strict=True) if self.since[v] + turns == 0}
        end = loop.body.terminator
        assert isinstance(end, control.Yield)
        latest: Names = {}
        body = Block()
        with b.inside(body):
            for stage, steps in self.groups():
                if stage < 0:
                    later = b.add(self.iteration.number, -stage)
                    versions, slot = self.iteration.versions, self.iteration.slot
                    named = slot is not None and any(slot in used(step.op) for step in steps)
                    latest |= self.issue(steps, later, slot_of(b, later, versions, "slot_ahead") if named else None)
                else:
                    self.in_place([step.op for step in steps], here)
        at = dict(zip(self.more, args, strict=True))
        handed = [at[v, turns - 1] if turns > 1 else latest[v] for v, turns in self.more]
        end.values = (*end.values, *(v for v in handed if v is not None))
        loop.body.ops = [*body.ops, end]
        loop.init = (*loop.init, *init)
        loop.results = (*loop.results, *[Value(v.type, loop, n) for n, v in enumerate(init, len(loop.results))])
        forget(loop)

    def groups(self) -> list[tuple[int, list[Step]]]:
        return [(stage, list(steps)) for (stage, _), steps in groupby(self.steps, key=attrgetter("stage", "part"))]

    def in_place(self, ops: Sequence[Op], here: dict[Value, Value]) -> None:
        for op in ops:
            for inner in op.walk():
                inner.replace_operands(lambda v: here.get(v, v))
            self.b.block.ops.append(op)

    # Ahead -----------------------------------------------------------------------------------------------------------

    def issue(self, steps: Sequence[Step], number: Value, slot: Value | None) -> Names:
        """A stage's part of iteration `number`, if there is one; what each value is called then."""
        b, loop = self.b, self.loop
        b.loc = loop.loc
        names: Names = {self.iteration.number: number}
        if self.iteration.slot is not None:
            names[self.iteration.slot] = slot
        guarded = [step.op for step in steps if step.guarded]
        out = [r for op in guarded for r in op.results if r in self.wanted]

        def part() -> list[Value]:
            names[loop.iv] = b.add(loop.lower, b.mul(number, loop.step))
            for op in guarded:
                self.write(op, names)
            return [value for r in out if (value := names[r]) is not None]

        guard = b.compare("lt", number, self.trip)
        known = constant_of(guard)
        if known:
            part()
        elif known is None:
            self._branch(guard, part, out, names)
        else:
            names.update({r: None if isinstance(r.type, TokenType) else nothing(b, r) for r in out})
        for step in steps:
            if not step.guarded:
                self.write(step.op, names)
        return names

    def _branch(self, guard: Value, part: Callable[[], list[Value]], out: list[Value], names: Names) -> None:
        b, blocks = self.b, (Block(), Block())
        with b.inside(blocks[0]):
            values = part()
            b.loc = self.loop.loc
            b.emit(control.Yield(tuple(values)))
        with b.inside(blocks[1]):
            b.emit(control.Yield(tuple([nothing(b, v) for v in values])))
        results = iter(b.emit(control.If(guard, then=blocks[0], orelse=blocks[1])).results)
        names.update({r: next(results) for r in out if names[r] is not None})

    def write(self, op: Op, names: Names) -> None:
        """An operation for another iteration, folding what is known of that."""
        b = self.b
        b.loc = op.loc
        if isinstance(op, tile.Join):
            tokens = [names.get(token, token) for token in op.tokens]
            names[op.result] = b.emit(tile.Join(tuple([t for t in tokens if t is not None]))).result
        elif isinstance(op, control.If) and not all(isinstance(r.type, ScalarType) for r in op.results):
            self._either(op, names)
        elif op.pure and len(op.results) == 1 and not op.region_fields and not isinstance(op, tile.NoToken):
            names[op.result] = b.value(remake(op, lambda v: names.get(v, v) or v))
        else:
            known = {v: value for v, value in names.items() if value is not None}
            b.emit(clone(op, known))
            names.update({r: known[r] for r in op.results})

    def _either(self, op: control.If, names: Names) -> None:
        """A branch around copies: the side that is known to be taken, or both."""
        b = self.b
        condition = names.get(op.condition, op.condition)
        assert condition is not None
        known = constant_of(condition)
        if known is not None:
            side = op.then if known else op.orelse
            for inner in side.ops[:-1]:
                if isinstance(inner, tile.NoToken):
                    names[inner.result] = None
                else:
                    self.write(inner, names)
            names.update({r: names.get(v, v) for r, v in zip(op.results, side.yielded, strict=True)})
            return
        blocks = (Block(), Block())
        for block, region in zip(blocks, op.regions, strict=True):
            with b.inside(block):
                for inner in region.ops[:-1]:
                    self.write(inner, names)
                values = [names.get(v, v) or nothing(b, v) for v in region.yielded]
                b.emit(control.Yield(tuple(values)))
        b.loc = op.loc
        new = b.emit(control.If(condition, then=blocks[0], orelse=blocks[1]))
        names.update(zip(op.results, new.results, strict=True))


def _name(value: Value) -> str:
    return "flight" if isinstance(value.type, TokenType) else "ahead"
