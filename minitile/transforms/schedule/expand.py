"""Writes a loop anew by a schedule: the one place where iterations come to overlap.

    for %lower … (%k, %o) {              if there is an iteration for each of the S - 1 turns before all stages run {
      A ; B ; C                            A(0)                                turns of the prologue: what has begun
    }                                      B(0) ; A(1)
                                           for … (%k, …) {                     the steady loop; %k is stage 0's
    stage of A 0, B 1, C 2         →         C(%k-2) ; B(%k-1) ; A(%k)
    order C, B, A                          }
                                           C(n-2) ; B(n-1)                     turns of the epilogue: what is left
                                           C(n-1)
                                         } else the loop as it was

A value is used in the turn in which it is made, or its last few are carried from turn to turn: as many as stages lie
between the two, one more where it goes through the loop's own carried values. What an `await` makes may still be
written when the next one is issued; where it is used d turns later there are d + 1 turns in a round of the steady loop,
each with registers of its own, and a loop of what is left over:

    for lower + step, middle, 2 step … (%k, %p) { %q = A[k] · B[k] ; use %p ; %r = A[k + step] · B[k + step] ; use %q ;
                                                  yield %r }
    for middle, upper, step … { … }

With two stages no iteration remains for the loop as it was: none is what it gives to begin with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from minitile.ir.builder import Builder
from minitile.ir.core import Block, Op, Value
from minitile.ir.ops import control, roles
from minitile.ir.rewrite import clone
from minitile.transforms.schedule.graph import used
from minitile.transforms.schedule.schedule import forget
from minitile.transforms.schedule.steady import Line

State = list[tuple[Value, int]]  # a value of the loop, so many turns ago
Names = dict[Value, Value]
Beside = Callable[[int], None]  # told the number of the operation in the line that has its turn


class Expansion:
    """One loop by one line; what it becomes is emitted through `b`. `before` and `behind` are called around each
    operation of a steady turn."""

    def __init__(self, b: Builder, loop: control.For, line: Line) -> None:
        self.b, self.loop, self.line = b, loop, line
        self.stages = max(stage for _, stage in line) + 1
        self.ends = loop.body.yielded
        self.next_of = dict(zip(loop.carried, self.ends, strict=True))
        self.made: dict[Value, int] = {}  # the stage that makes it
        often: dict[Op, int] = {}
        for op, stage in line:
            often[op] = often.get(op, 0) + 1
            self.made.update(dict.fromkeys(op.results, stage))
        for op, count in often.items():
            if count > 1:  # made in each stage that uses it
                for r in op.results:
                    del self.made[r]
        self.since = dict(self.made) | {c: self.ready(y) - 1 for c, y in self.next_of.items()}
        self.uses = {(v, stage) for op, stage in line for v in used(op)}
        self.wants_iv = {stage for v, stage in self.uses if v is loop.iv}
        self.state = self._state()
        self.before: Beside = lambda n: None
        self.behind: Beside = lambda n: None

    def ready(self, value: Value) -> int:
        """The first stage that can hand a value on."""
        if value in self.made:
            return self.made[value]
        if value in self.next_of:  # one turn later than its own; a carried value that is handed on to itself, at once
            chain, at = {value}, self.next_of[value]
            while at in self.next_of and at not in chain:
                chain.add(at)
                at = self.next_of[at]
            return max(0, self.made.get(at, 0) - len(chain))
        return 0

    def _state(self) -> State:
        """What goes from turn to turn: the carried values that are known when a turn begins, those that are made in it,
        and what else later stages use."""
        far: dict[Value, int] = {c: 1 for c, h in self.since.items() if c in self.next_of and h < 0}
        uses = {*self.uses, *((y, self.ready(y)) for y in self.ends)}
        for v, stage in uses:
            if v in self.since and stage > self.since[v]:
                far[v] = max(far.get(v, 0), stage - self.since[v])
        own = self.loop.carried
        first = [(c, 1) for c in own if self.since[c] < 0]
        then = [(c, 1) for c in own if self.since[c] >= 0 and c in far]
        rest = [(v, d) for v, most in far.items() for d in range(1, most + 1) if d > 1 or v not in self.next_of]
        return [*first, *then, *sorted(rest, key=lambda each: (each[0].serial, -each[1]))]

    @property
    def unroll(self) -> int:
        """Turns of a round, so that products in flight have registers of their own."""
        return 1 + max((d for v, d in self.state if isinstance(v.op, roles.Await)), default=0)

    # The parts -------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Emit all of it; the loop's results become those of what it is now."""
        b, loop = self.b, self.loop
        then, orelse = Block(), Block()
        enough = b.compare("lt", b.add(loop.lower, b.mul(loop.step, self.stages - 2)), loop.upper)
        results = loop.results
        with b.inside(then):
            b.emit(control.Yield(tuple(self.parts())))
        with b.inside(orelse):
            b.emit(control.Yield(self.as_it_was()))
        branch = b.emit(control.If(enough, then=then, orelse=orelse))
        branch.results = results
        for r in branch.results:
            r.owner = branch

    def as_it_was(self) -> tuple[Value, ...]:
        """For fewer iterations than there are turns in the prologue."""
        loop = self.loop
        if self.stages == 2:
            return loop.init
        forget(loop)
        loop.body.ops = [op for op in loop.body.ops if not isinstance(op, control.Statement)]
        loop.results = tuple([Value(r.type, loop, n, r.name) for n, r in enumerate(loop.results)])
        self.b.emit(loop)
        return loop.results

    def parts(self) -> list[Value]:
        """What the loop's results are when there are enough iterations."""
        b, loop, ramp = self.b, self.loop, self.stages - 1
        start, step = loop.lower, loop.step
        known: Names = dict(zip(loop.carried, loop.init, strict=True))
        values: list[Value | None] = [known.get(v) for v, _ in self.state]
        for turn in range(ramp):
            values = self.prologue(turn, start, values)
            start = b.add(start, step)
        full = [v for v in values if v is not None]
        assert len(full) == len(values), "all stages have run when the steady loop begins"
        count = self.unroll
        if count > 1:
            round_ = b.mul(step, count)
            turns = b.floordiv(b.add(b.sub(loop.upper, start), b.sub(step, 1)), step)
            middle = b.add(start, b.mul(b.floordiv(turns, count), round_))
            full = self.rounds(start, middle, round_, full, count)
            start = middle
        full = self.rounds(start, loop.upper, step, full, 1)
        return self.epilogue(full)

    def prologue(self, turn: int, iv: Value, values: Sequence[Value | None]) -> list[Value | None]:
        """A turn before all stages run: those that have begun."""
        loop = self.loop
        names = self.names(values)
        for stage in range(turn + 1):
            self.at(names, stage, iv)
        for c, init in zip(loop.carried, loop.init, strict=True):
            if self.since[c] == turn:  # no iteration before makes what the first one is handed
                names[turn][c] = init
        self.copy(names, [(op, stage) for op, stage in self.line if stage <= turn])
        return [self.handed(names, values, n, turn) for n in range(len(self.state))]

    def rounds(self, start: Value, stop: Value, stride: Value, init: Sequence[Value], count: int) -> list[Value]:
        """The loop in its steady state, `count` turns a round; what the last one hands on."""
        b, loop, body = self.b, self.loop, Block()
        iv = body.add_arg(loop.iv.type, loop.iv.name)
        values: Sequence[Value | None] = [body.add_arg(v.type, v.name) for v in init]
        with b.inside(body):
            for n in range(count):
                values = self.turn(b.add(iv, b.mul(loop.step, n)), values)
            b.emit(control.Yield(tuple([v for v in values if v is not None])))
        new = control.For(start, stop, stride, tuple(init), kind=loop.kind, stages=loop.stages, body=body)
        return list(b.emit(new).results)

    def turn(self, iv: Value, values: Sequence[Value | None]) -> list[Value | None]:
        """One turn of the steady state, with what the ones before have handed on; what it hands on."""
        names = self.names(values)
        for stage in range(self.stages):
            self.at(names, stage, iv)
        self.copy(names, self.line, steady=True)
        return [self.handed(names, values, n, self.stages) for n in range(len(self.state))]

    def epilogue(self, values: Sequence[Value]) -> list[Value]:
        """The turns behind the last one in which an iteration begins; the loop's results."""
        b, loop = self.b, self.loop
        results: Names = {c: v for (c, d), v in zip(self.state, values, strict=True) if d == 1 and self.since[c] < 0}
        last: Value | None = None
        some: Sequence[Value | None] = values
        for past in range(1, self.stages):  # turns behind the last iteration's first
            names = self.names(some)
            for stage in range(past, self.stages):
                if stage in self.wants_iv:
                    if last is None:
                        trips = b.floordiv(b.sub(b.sub(loop.upper, loop.lower), 1), loop.step)
                        last = b.add(loop.lower, b.mul(trips, loop.step))
                    names[stage][loop.iv] = self.back(last, stage - past)
            line = [
                (op.last() if isinstance(op, roles.ConsumerRelease) and stage == past else op, stage)
                for op, stage in self.line
                if stage >= past
            ]
            self.copy(names, line)
            results |= {c: self.now(names, y, past) for c, y in self.next_of.items() if self.since[c] == past - 1}
            some = [self.handed(names, some, n, self.stages, past) for n in range(len(self.state))]
        return [results[c] for c in loop.carried]

    # Names -----------------------------------------------------------------------------------------------------------

    def names(self, values: Sequence[Value | None]) -> list[Names]:
        """For each stage, what the values of earlier turns are called in it."""
        names: list[Names] = [{} for _ in range(self.stages)]
        for (v, turns), value in zip(self.state, values, strict=True):
            stage = self.since[v] + turns
            if value is not None and stage < self.stages:
                names[stage][v] = value
        return names

    def at(self, names: list[Names], stage: int, iv: Value) -> None:
        """The loop's index in a stage, where stage 0 has `iv`."""
        if not stage or stage in self.wants_iv:
            names[stage][self.loop.iv] = self.back(iv, stage)

    def back(self, iv: Value, iterations: int) -> Value:
        return self.b.sub(iv, self.b.mul(self.loop.step, iterations)) if iterations else iv

    def now(self, names: list[Names], value: Value, stage: int) -> Value:
        """What a value is called in a stage: it has been made in this turn, or one before, or outside."""
        while value not in names[stage] and self.since.get(value) == stage and value in self.next_of:
            value, stage = self.next_of[value], stage + 1
        return names[stage].get(value, value)

    def handed(
        self, names: list[Names], values: Sequence[Value | None], n: int, begun: int, past: int = 0
    ) -> Value | None:
        """What is number `n` of the state when a turn is over, in which stages from `past` up to `begun` have run."""
        v, turns = self.state[n]
        if turns > 1:
            return values[self.state.index((v, turns - 1))]
        stage, made = self.since[v], v
        if v in self.next_of:
            stage, made = stage + 1, self.next_of[v]
        return values[n] if stage < past or stage > begun else self.now(names, made, stage)

    def copy(self, names: list[Names], line: Line, steady: bool = False) -> None:
        for n, (op, stage) in enumerate(line):
            if steady:
                self.before(n)
            for v in used(op):
                if v in self.next_of and self.since[v] == stage and v not in names[stage]:
                    names[stage][v] = self.now(names, v, stage)
            self.b.emit(clone(op, names[stage]))
            if steady:
                self.behind(n)
