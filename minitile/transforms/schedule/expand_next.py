"""Writes a loop of which a part runs one iteration ahead, counted by the loop's own index.

    for %lo, %hi, 1 (%k, %c, %t0, %t1) {         %f = if %lo < %hi { wait %t0 ; read slot %lo % 3 } orelse { zeros }
      wait %t0              stage -1             for %lo, %hi, 1 (%k, %c, %t0, %t1, %f) {
      %f = read slot %k % 3 stage -1      →        %c1 = use %c, %f
      %c1 = use %c, %f      stage 0                wait %t1
      %t2 = …               stage 0                %f1 = read slot (%k + 1) % 3
      yield %c1, %t1, %t2                          %t2 = …
    }                                              yield %c1, %t1, %t2, %f1 }

What is ahead is written once in front of the loop, for its first iteration, and once in it, for the next one: with the
next index, and with what this iteration hands on. Pure operations that it needs are written again where they are
different for the next iteration. It is *kept* where no iteration follows: a slot that it reads then is either written
all the same (`clamped` False: LDS-DMA past the end writes zeros), or it reads this iteration's slot once more, and in
front of a loop without iterations nothing.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from minitile.ir.builder import Builder
from minitile.ir.core import Block, Op, Value
from minitile.ir.ops import arith, control, thread
from minitile.ir.rewrite import clone, remake
from minitile.ir.types import dtype_of
from minitile.transforms.schedule.graph import Apart, Body, never
from minitile.transforms.schedule.schedule import Place, Schedule
from minitile.transforms.schedule.verify import verify

Names = dict[Value, Value]
READS = thread.LoadMem | thread.LdMatrix


class Turn(NamedTuple):
    """A turn's operations in order, each with its stage, 0 or -1; `front`: those of stage -1 as they stand in front of
    the loop. What is free may be in both stages, or in none: then it is written where it is needed."""

    line: list[tuple[Op, int]]
    front: list[Op]


def is_free(op: Op) -> bool:
    """Whether it is computed where it is needed: a product is pure, and has a place."""
    return op.pure and not isinstance(op, thread.MmaSync)


def schedule_of_turn(loop: control.For, turn: Turn, apart: Apart = never) -> Schedule:
    """The place of each operation that is not free. Raises ScheduleError where the loop does not allow it."""
    place = {op: Place(stage, n, "kept" if stage else "peeled") for n, (op, stage) in enumerate(turn.line)}
    body = Body(loop, each=True, free={op for op in loop.body.ops if is_free(op)}, apart=apart)
    schedule = Schedule(tuple([place[op] for op in body.unit]))
    verify(body, schedule)
    return schedule


class NextExpansion:
    """One loop in place; what goes before it is emitted through `b`."""

    def __init__(self, b: Builder, loop: control.For, turn: Turn, clamped: bool) -> None:
        self.before, self.loop, self.turn, self.clamped = b, loop, turn, clamped
        self.next_of = dict(zip(loop.carried, loop.body.yielded, strict=True))
        self.pure = {r: op for op in loop.body.ops if is_free(op) for r in op.results}
        here = {v for op, stage in turn.line if not stage for v in op.operands} | set(loop.body.yielded)
        self.more = [r for op in turn.front if not is_free(op) for r in op.results if r in here]
        self.now: Names = {}  # of what was made ahead, in this iteration
        self.done: set[Op] = set()
        self.slots = {op.slot for op in turn.front if clamped and isinstance(op, READS) and op.slot is not None}
        self.by_rule: Names = {}  # the slot that is read where an iteration follows
        self.follows: Value | None = None

    def run(self) -> list[Value]:
        """The loop's new results: what it hands on besides what it handed on before."""
        loop, body = self.loop, Block()
        init = self.front()
        args = [loop.body.add_arg(v.type, v.name) for v in self.more]
        self.now = dict(zip(self.more, args, strict=True))
        b = Builder(body, loop.loc)
        names: Names = {} if self.clamped else self.following(b)
        for op, stage in self.turn.line:
            if not stage:
                self.here(b, op)
                continue
            if not names:
                names = self.following(b)
            self.again(b, op, names)
        end = loop.body.ops[-1]
        assert isinstance(end, control.Yield)
        for op in self.pure.values():
            self.here(b, op)
        end.values = (*(self.now.get(v, v) for v in end.values), *(names[v] for v in self.more))
        loop.body.ops = [*body.ops, end]
        loop.init = (*loop.init, *init)
        more = [Value(v.type, loop, n, v.name) for n, v in enumerate(init, len(loop.results))]
        loop.results = (*loop.results, *more)
        return more

    def front(self) -> list[Value]:
        """The first iteration's part."""
        b, loop = self.before, self.loop
        names: Names = {**dict(zip(loop.carried, loop.init, strict=True)), loop.iv: loop.lower}

        def part() -> list[Value]:
            for op in self.turn.front:
                self.again(b, op, names)
            return [names[v] for v in self.more]

        if not self.clamped:
            return part()
        some, blocks = b.compare("lt", loop.lower, loop.upper), (Block(), Block())
        with b.inside(blocks[0]):
            values = part()
            b.emit(control.Yield(tuple(values)))
        with b.inside(blocks[1]):
            b.emit(control.Yield(tuple([_zeros(b, v) for v in self.more])))
        return list(b.emit(control.If(some, then=blocks[0], orelse=blocks[1])).results)

    def here(self, b: Builder, op: Op) -> None:
        """An operation of this iteration, after the pure ones that it needs."""
        if op not in self.done:
            self.done.add(op)
            for v in op.operands:
                if v in self.pure:
                    self.here(b, self.pure[v])
            op.replace_operands(lambda v: self.now.get(v, v))
            b.block.ops.append(op)

    def following(self, b: Builder) -> Names:
        """The names that are known of the next iteration: its index, and slots that the loop carries."""
        loop = self.loop
        index = b.value(arith.Add(loop.iv, loop.step))
        if self.clamped:
            self.follows = b.compare("lt", index, loop.upper)
        names = {c: self.now.get(y, y) for c, y in self.next_of.items() if c in self.slots} | {loop.iv: index}
        for v in [v for v in names if v in self.slots]:
            self.stay(b, v, names)
        return names

    def stay(self, b: Builder, slot: Value, names: Names) -> None:
        if self.follows is not None:
            self.by_rule[slot] = names[slot]
            names[slot] = b.select(self.follows, names[slot], slot)

    def again(self, b: Builder, op: Op, names: Names) -> None:
        """An operation under other names, which learn what it makes."""
        if is_free(op):
            self.renamed(b, op.results[0], names)
            return
        for v in op.operands:
            self.renamed(b, v, names)
        b.loc = op.loc
        new = b.emit(clone(op, names))
        if isinstance(new, READS) and isinstance(op, READS) and op.slot in self.by_rule:
            new.slot = self.by_rule[op.slot]

    def renamed(self, b: Builder, value: Value, names: Names) -> bool:
        """Whether a value is another one under these names, which learn it."""
        op = self.pure.get(value)
        if value in names:
            return True
        if value in self.next_of:
            following = self.next_of[value]
            if following in self.pure:
                self.here(b, self.pure[following])
            names[value] = self.now.get(following, following)
            return True
        if op is None:
            return False
        differs = [self.renamed(b, v, names) for v in op.operands]
        if self.now and not any(differs):
            self.here(b, op)
            return False
        names[value] = b.emit(clone(op, names)).results[0] if self.clamped else b.value(remake(op, partial(_of, names)))
        if value in self.slots:
            self.stay(b, value, names)
        return True


def _of(names: Names, value: Value) -> Value:
    return names.get(value, value)


def _zeros(b: Builder, like: Value) -> Value:
    dtype = dtype_of(like.type)
    zero = b.constant(0.0 if dtype.is_float else 0, dtype)
    count = thread.count_of(like.type)
    return zero if count == 1 else b.emit(thread.Pick(zero, (0,) * count)).result
