"""Writes a loop anew by a schedule: the one place where iterations come to overlap.

    for %lower … (%k, %o) {              A(0) if there is one ; …               turns in which none is at stage 0
      A ; B ; C ; D                      if there is an iteration for each of the turns before all stages run {
    }                                      B(0)                                  turns of the prologue: what has begun
                                           for … (%k, …) {                       the steady loop; %k is stage 0's
    stage of A -1, B 0, C 1, D 1     →       D(%k-1) ; A(%k+1) if there is one ; B(%k) ; C(%k-1)
    order D, A, B, C                       }
                                           D(n-1) ; C(n-1)                       turns of the epilogue: what is left
                                         } else the loop as it was

In turn t what has stage s runs iteration t - s. The line of a turn is a list of `Step`s, each an operation, its stage,
and how it ends (schedule.py): *peeled*, it is written only where its iteration is one, which makes the prologue and the
epilogue; *guarded*, it stands under a condition, shared by neighbours, and makes complete tokens or zeros where that
does not hold; *kept*, it runs on what is there; *clamped*, it is guarded in front of the loop, and reads this
iteration's slot once more where no iteration follows. A *steady* step, such as a barrier between warpgroups, is written
in the steady loop alone. Where no stage is behind, the loop itself stays, its operations are moved, not copied, and it
needs no condition; where one is, fewer iterations than turns in the prologue run the loop as it was, which with two
stages are none: then the values to begin with are the result.

A value is used in the turn in which it is made, or its last few are carried from turn to turn: as many as stages lie
between the two, one more where it goes through the loop's own carried values. An operation without a place is computed
where it is needed, in each stage that needs it; so is one that is needed in an earlier stage than its own. What is the
same in all iterations is written once a turn where the loop stays.

What an `await` makes may still be written when the next one is issued; where it is used d turns later there are d + 1
turns in a round of the steady loop, each with registers of its own, and a loop of what is left over:

    for lower + step, middle, 2 step … (%k, %p) { %q = A[k] · B[k] ; use %p ; %r = A[k + step] · B[k + step] ; use %q ;
                                                  yield %r }
    for middle, upper, step … { … }
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter

from minitile.ir.builder import Builder, constant_of
from minitile.ir.core import Block, Op, Value
from minitile.ir.ops import control, roles, thread, tile
from minitile.ir.rewrite import clone, remake
from minitile.ir.types import TileType, TokenType, dtype_of
from minitile.transforms.schedule.graph import used
from minitile.transforms.schedule.schedule import STEADY, Line, Step, computed_anywhere, forget

State = list[tuple[Value, int]]  # a value of the loop, so many turns ago
Names = dict[int, dict[Value, Value]]  # stage -> what values are called in it
NOWHERE = 1 << 16  # the stage of what has none: behind all others
READS = thread.LoadMem | thread.LdMatrix


class Expansion:
    """One loop by one line; what it becomes is emitted through `b`, but for the loop itself where that stays."""

    def __init__(self, b: Builder, loop: control.For, line: Line) -> None:
        self.b, self.loop, self.line = b, loop, line
        self.first, self.last = (f([0, *(step.stage for step in line)]) for f in (min, max))
        self.ends = loop.body.yielded
        self.next_of = dict(zip(loop.carried, self.ends, strict=True))
        self.place: dict[Op | Block | None, int] = dict.fromkeys(loop.body.ops, NOWHERE)
        self.place |= {step.op: step.stage for step in line}
        self.known_in: dict[Value, int] = {}
        self.since = {r: step.stage for step in line for r in step.op.results}
        self.since |= {c: self.ready(y) - 1 for c, y in self.next_of.items()}
        self.uses = self._uses()
        self.wants_iv = {stage for v, stage in self.uses if v is loop.iv}
        self.conditional = {step.stage for step in line if step.end in ("guarded", "clamped")}
        self.state = self._state()
        late = {v for v, _ in self.state} | {v for s in line if s.stage < 0 for v in used(s.op)}
        self.wanted = late.difference(self.next_of)  # of what is guarded
        self.slots = {s.op.slot for s in line if s.end == "clamped" and isinstance(s.op, READS)} - {None}
        self.index: Callable[[int], Value] = lambda stage: loop.iv  # of a stage, in this turn
        self.follows: Value | None = None  # in a steady turn: whether an iteration does
        self.by_rule: dict[Value, Value] = {}  # the slot that is read where one does
        self.steady = False
        self.moving: set[Op] | None = None  # what is still to be moved, in the turn of a loop that stays
        self.varying = self._varying() if not self.last else set()

    def ready(self, value: Value) -> int:
        """The first stage, none ahead, that can hand a value on."""
        if value not in self.known_in:
            self.known_in[value] = 0  # a carried value that is handed on to itself
            stage, found = self.place.get(value.owner, 0), 0
            if stage != NOWHERE:
                found = stage
            elif value.op is not None:
                found = max(map(self.ready, used(value.op)), default=0)
            if value in self.next_of:
                found = self.ready(self.next_of[value]) - 1
            self.known_in[value] = max(0, found)
        return self.known_in[value]

    def _uses(self) -> set[tuple[Value, int]]:
        """The values that stages use, also through what is computed where it is needed."""
        found = {(v, step.stage) for step in self.line for v in used(step.op)}
        found |= {(y, self.ready(y)) for y in self.ends}
        work = list(found)
        for v, stage in work:  # which grows
            if self.place.get(v.owner, stage) > stage:
                more = {(o, stage) for o in used(v.owner)}  # type: ignore[arg-type]
            elif v in self.next_of and self.since[v] >= stage:
                more = {(self.next_of[v], stage + 1)}
            else:
                continue
            work += more - found
            found |= more
        return found

    def _state(self) -> State:
        """What goes from turn to turn: the carried values that are known when a turn begins, those that are made in it,
        and what else later stages use."""
        since = self.since
        far: dict[Value, int] = {c: 1 for c in self.next_of if since[c] < 0}
        for v, stage in self.uses:
            if v in since and stage > since[v]:
                far[v] = max(far.get(v, 0), stage - since[v])
        own = self.loop.carried
        first = [(c, 1) for c in own if since[c] < 0]
        then = [(c, 1) for c in own if since[c] >= 0 and c in far]
        rest = [(v, d) for v, most in far.items() for d in range(1, most + 1) if d > 1 or v not in self.next_of]
        return [*first, *then, *sorted(rest, key=lambda each: (each[0].serial, -each[1]))]

    def _varying(self) -> set[Value]:
        """What is not the same in all iterations."""
        found: set[Value] = {self.loop.iv, *self.next_of}
        for op in self.loop.body.ops:
            if not computed_anywhere(op) or not found.isdisjoint(op.operands):
                found.update(op.results)
        return found

    @property
    def unroll(self) -> int:
        """Turns of a round, so that products in flight have registers of their own."""
        return 1 + max((d for v, d in self.state if isinstance(v.op, roles.Await)), default=0)

    # The parts -------------------------------------------------------------------------------------------------------

    def run(self) -> list[Value]:
        """Emit all of it; the loop's results become those of what it is now. What it hands on besides."""
        b, loop = self.b, self.loop
        if not self.last:
            return self.in_place(self.prologue())
        then, orelse = Block(), Block()
        enough = b.compare("lt", b.add(loop.lower, b.mul(loop.step, self.last - 1)), loop.upper)
        results = loop.results
        with b.inside(then):
            b.emit(control.Yield(tuple(self.parts())))
        with b.inside(orelse):
            b.emit(control.Yield(self.as_it_was()))
        branch = b.emit(control.If(enough, then=then, orelse=orelse))
        branch.results = results
        for r in branch.results:
            r.owner = branch
        return []

    def as_it_was(self) -> tuple[Value, ...]:
        """For fewer iterations than there are turns in the prologue."""
        loop = self.loop
        if self.last == 1:
            return loop.init
        forget(loop)
        loop.body.ops = [op for op in loop.body.ops if not isinstance(op, control.Statement)]
        loop.results = tuple([Value(r.type, loop, n, r.name) for n, r in enumerate(loop.results)])
        self.b.emit(loop)
        return loop.results

    def parts(self) -> list[Value]:
        """What the loop's results are when there are enough iterations."""
        b, loop, step = self.b, self.loop, self.loop.step
        full = self.prologue()
        start = b.add(loop.lower, b.mul(step, self.last))
        count = self.unroll
        if count > 1:
            round_ = b.mul(step, count)
            turns = b.floordiv(b.add(b.sub(loop.upper, start), b.sub(step, 1)), step)
            middle = b.add(start, b.mul(b.floordiv(turns, count), round_))
            full = self.rounds(start, middle, round_, full, count)
            start = middle
        full = self.rounds(start, loop.upper, step, full, 1)
        return self.epilogue(full)

    def prologue(self) -> list[Value]:
        """The turns before all stages run: those that have begun. One that no iteration of stage 0 is in, and one stage
        only, is in the order of the body."""
        loop = self.loop
        values: list[Value | None] = [dict(zip(loop.carried, loop.init, strict=True)).get(v) for v, _ in self.state]
        at = {op: n for n, op in enumerate(loop.body.ops)}
        for turn in range(self.first, self.last):
            line = [step for step in self.line if step.stage <= turn and step.end != STEADY]
            if turn < 0 and len({step.stage for step in line}) == 1:
                line.sort(key=lambda step: at[step.op])
            names = self.names(values)
            self.index = partial(self.numbered, turn)
            for c, init in zip(loop.carried, loop.init, strict=True):
                if self.since[c] >= turn:  # no iteration before makes what the first one is handed
                    names[turn][c] = init
            self.write(names, line)
            values = [self.handed(names, values, n, turn) for n in range(len(self.state))]
        full = [v for v in values if v is not None]
        assert len(full) == len(values), "all stages have run when the steady loop begins"
        return full

    def in_place(self, values: Sequence[Value]) -> list[Value]:
        """The loop with what goes from turn to turn; its new results."""
        b, loop, body, own = self.b, self.loop, Block(), len(self.loop.carried)
        loop.init = tuple(values)
        args = [loop.body.add_arg(v.type, v.name or _name(v)) for v in values[own:]]
        end = loop.body.terminator
        assert isinstance(end, control.Yield)
        self.moving = {op for op in loop.body.ops if self.place[op] == NOWHERE}
        self.moving |= {op for op in loop.body.ops if not self.place[op] and computed_anywhere(op)}
        with b.inside(body):
            end.values = tuple([v for v in self.turn(loop.iv, [*loop.carried[:own], *args]) if v is not None])
        loop.body.ops = [*body.ops, end]
        more = [Value(v.type, loop, n, v.name) for n, v in enumerate(values[own:], own)]
        loop.results = (*loop.results, *more)
        return more

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
        self.index, self.steady = partial(self.back, iv), True
        for stage in sorted(self.wants_iv - self.conditional):
            if stage or self.last:
                self.value(names, self.loop.iv, stage)
        self.write(names, self.line)
        self.steady, self.follows = False, None
        return [self.handed(names, values, n, self.last + 1) for n in range(len(self.state))]

    def epilogue(self, values: Sequence[Value]) -> list[Value]:
        """The turns behind the last one in which an iteration begins; the loop's results."""
        b, loop = self.b, self.loop
        results = {c: v for (c, d), v in zip(self.state, values, strict=True) if d == 1 and self.since[c] < 0}
        last: Value | None = None
        some: Sequence[Value | None] = values
        for past in range(1, self.last + 1):  # turns behind the last iteration's first
            names = self.names(some)
            for stage in range(past, self.last + 1):
                if stage in self.wants_iv:
                    if last is None:
                        trips = b.floordiv(b.sub(b.sub(loop.upper, loop.lower), 1), loop.step)
                        last = b.add(loop.lower, b.mul(trips, loop.step))
                    names[stage][loop.iv] = self.back(last, stage - past)
            line = [
                step._replace(op=step.op.last())
                if isinstance(step.op, roles.ConsumerRelease) and step.stage == past
                else step
                for step in self.line
                if step.stage >= past and step.end != STEADY
            ]
            self.write(names, line)
            results |= {c: self.value(names, y, past) for c, y in self.next_of.items() if self.since[c] == past - 1}
            some = [self.handed(names, some, n, self.last + 1, past) for n in range(len(self.state))]
        return [results[c] for c in loop.carried]

    # Names -----------------------------------------------------------------------------------------------------------

    def names(self, values: Sequence[Value | None]) -> Names:
        """For each stage, what the values of earlier turns are called in it."""
        names: Names = {stage: {} for stage in range(self.first, self.last + 1)}
        for (v, turns), value in zip(self.state, values, strict=True):
            stage = self.since[v] + turns
            if value is not None and value is not v and stage <= self.last:
                names[stage][v] = value
        return names

    def numbered(self, turn: int, stage: int) -> Value:
        """The index of what a stage runs in a turn of the prologue."""
        return self.b.add(self.loop.lower, self.b.mul(self.loop.step, turn - stage))

    def back(self, iv: Value, iterations: int) -> Value:
        b, step = self.b, self.loop.step
        if iterations < 0:
            return b.add(iv, b.mul(step, -iterations))
        return b.sub(iv, b.mul(step, iterations)) if iterations else iv

    def value(self, names: Names, value: Value, stage: int) -> Value:
        """What a value is called in a stage: it has been made in this turn, or one before, or outside; or it is
        computed here."""
        known = names[stage]
        if value in known:
            return known[value]
        at = self.place.get(value.owner, stage)
        if self.moving is not None and (stage == 0 or value not in self.varying):
            if value.owner in self.moving:
                self.move(names, value.owner)
            return names[0].get(value, value)
        if value is self.loop.iv:
            found = self.index(stage)
        elif value in self.next_of and self.since[value] >= stage:
            found = self.value(names, self.next_of[value], stage + 1)
        elif at > stage:
            assert isinstance(value.owner, Op)
            self.again(names, value.owner, stage)
            found = known[value]
        else:
            return value
        known[value] = found
        if value in self.slots and self.follows is not None and stage < 0:
            self.clamp(names, value, stage)
        return known[value]

    def clamp(self, names: Names, slot: Value, stage: int) -> None:
        """A slot of a stage ahead is this iteration's where no other follows."""
        assert self.follows is not None
        self.by_rule[slot] = names[stage][slot]
        names[stage][slot] = self.b.select(self.follows, names[stage][slot], self.value(names, slot, stage + 1))

    def again(self, names: Names, op: Op, stage: int) -> None:
        """An operation in a stage, under the names that values have there; what it makes gets its own."""
        known = names[stage]
        for v in used(op):
            self.value(names, v, stage)
        loc, self.b.loc = self.b.loc, op.loc
        taken = constant_of(known.get(op.condition, op.condition)) if isinstance(op, control.If) else None
        if isinstance(op, control.If) and taken is not None:
            side = op.then if taken else op.orelse
            for inner in side.before_end:
                self.again(names, inner, stage)
            known.update({r: known.get(v, v) for r, v in zip(op.results, side.yielded, strict=True)})
        elif op.pure and len(op.results) == 1 and not op.region_fields and self.place.get(op, 0) > stage:
            name = op.result.name and f"{op.result.name}_ahead" if stage < 0 else op.result.name
            known[op.result] = self.b.value(remake(op, lambda v: known.get(v, v)), name)
        else:
            new = self.b.emit(clone(op, known))
            if self.follows is not None and isinstance(new, READS) and getattr(op, "slot", None) in self.by_rule:
                new.slot = self.by_rule[op.slot]  # type: ignore[attr-defined]
        self.b.loc = loc

    def move(self, names: Names, op: Op) -> None:
        """An operation of the loop that stays to its place in the turn."""
        assert self.moving is not None
        self.moving.discard(op)
        for v in used(op) if self.moving else ():
            if v.owner in self.moving:
                self.move(names, v.owner)
        known = names[0]
        if known:
            for inner in op.walk():
                inner.replace_operands(lambda v: known.get(v, v))
        self.b.block.ops.append(op)

    def handed(
        self, names: Names, values: Sequence[Value | None], n: int, begun: int, past: int = -NOWHERE
    ) -> Value | None:
        """What is number `n` of the state when a turn is over, in which stages from `past` up to `begun` have run."""
        v, turns = self.state[n]
        if turns > 1:
            return values[self.state.index((v, turns - 1))]
        stage, made = self.since[v], v
        if v in self.next_of:
            stage, made = stage + 1, self.next_of[v]
        return values[n] if stage < past or stage > begun else self.value(names, made, stage)

    # Steps -----------------------------------------------------------------------------------------------------------

    def write(self, names: Names, line: Iterable[Step]) -> None:
        """The steps of a turn."""
        for (stage, end), group in groupby(line, key=itemgetter(1, 2)):
            steps = list(group)
            if end == "guarded" or (end == "clamped" and not self.steady):
                self.guarded(names, stage, steps)
                continue
            if end == "clamped":
                self.follows = self.there(names, stage)
                for slot in [v for v in names[stage] if v in self.slots]:  # the index itself
                    self.clamp(names, slot, stage)
                for v in [v for step in steps for v in used(step.op)]:
                    self.value(names, v, stage)  # addresses in front of the wait
            for step in steps:
                if self.moving is None or stage:
                    self.again(names, step.op, stage)
                elif step.op in self.moving or not computed_anywhere(step.op):
                    self.move(names, step.op)

    def there(self, names: Names, stage: int) -> Value:
        """Whether what a stage runs in this turn is an iteration."""
        return self.b.compare("lt", self.value(names, self.loop.iv, stage), self.loop.upper)

    def guarded(self, names: Names, stage: int, steps: Sequence[Step]) -> None:
        """Steps of an iteration, if there is one; where it is known whether there is, without a condition."""
        b, known = self.b, names[stage]
        b.loc = self.loop.loc
        out = [r for step in steps for r in step.op.results if r in self.wanted]
        self.value(names, self.loop.iv, stage)
        for access in [a for step in steps for inner in step.op.walk() for a in inner.accesses()]:
            if access.slot is not None:
                self.value(names, access.slot, stage)  # in front of the condition
        there = self.there(names, stage)
        if constant_of(there) is not None:
            for step in steps if constant_of(there) else ():
                self.again(names, step.op, stage)
            known.update({r: nothing(b, r) for r in out if r not in known})
            return
        blocks, inside = (Block(), Block()), {each: dict(called) for each, called in names.items()}
        moving, self.moving = self.moving, None
        with b.inside(blocks[0]):
            for step in steps:
                self.again(inside, step.op, stage)
            b.emit(control.Yield(tuple([inside[stage][r] for r in out])))
        with b.inside(blocks[1]):
            b.emit(control.Yield(tuple([nothing(b, r) for r in out])))
        self.moving = moving
        known.update(zip(out, b.emit(control.If(there, then=blocks[0], orelse=blocks[1])).results, strict=True))


def nothing(b: Builder, like: Value) -> Value:
    """A token that is complete, or a tile or registers of zeros."""
    if isinstance(like.type, TokenType):
        return b.emit(tile.NoToken()).result
    dtype = dtype_of(like.type)
    zero = b.constant(0.0 if dtype.is_float else 0, dtype)
    if isinstance(like.type, TileType):
        return b.emit(tile.Splat(zero, like.shape)).result
    count = thread.count_of(like.type)
    return zero if count == 1 else b.emit(thread.Pick(zero, (0,) * count)).result


def _name(value: Value) -> str:
    return "flight" if isinstance(value.type, TokenType) else "ahead" if isinstance(value.type, TileType) else ""
