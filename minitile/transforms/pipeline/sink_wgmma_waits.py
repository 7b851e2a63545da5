"""Gemms stay in flight until something uses what they make.

    for … [%z, …] (%k, %c, %i, %p) {                  for … [%z, done, -1, …] (%k, %c, %t, %last, %i, %p) {
      consumer_wait %ring, %i, %p                              consumer_wait %ring, %i, %p
      %f, %t1 = async_gemm %As, %Bs, %c                  %f, %t1 = async_gemm %As, %Bs, %c
      %c1 = await %f, %t1                       →        wait %t
      consumer_release %ring, %i                                  consumer_release %ring, %last if %last >= 0
      yield %c1, next(%i, %p)                            yield %f, %t1, %i, next(%i, %p)
    }                                                  } ; %r = await …

A walk over each block keeps the awaits that it has passed, each with the releases behind it, and puts them down as late
as they can be:

* before the first operation that uses the tile. Groups complete in order, so that older ones are complete then as well
  and come first;
* behind the next gemm into the same accumulator, if that is the only use: it needs no await, but the slot gets free.
  Where it holds none, the next gemm's token stands for both, unless something that it reads is written before that one
  is awaited;
* before an operation that writes to shared memory which the gemm still reads;
* before an operation that overwrites registers which the gemm still reads, be it the one of the iteration before:
  those of a carried operand, when its next value is made, or at the loop's end, if that was before; those that a branch
  hands on, when what it hands on is;
* before ordinary instructions that touch an accumulator, be it another gemm's: ptxas would serialise all gemms
  (`accumulators.py` knows which tiles share its registers, across loops and branches, and what writes them);
* before a slot of a ring is received that the producer cannot fill because of the slot that it holds;
* at the end of a loop's body, if the tile is only handed on to the next iteration: it goes there in flight, with its
  token and the slots to release (-1: none), and its await is put down there in the same way. So it is behind the loop.
  Only so where a gemm's accumulator is all that it becomes: ptxas serialises products that are read in a loop
  in which some are always in flight (C7514). Nor where the iteration would begin with the await: nothing would run
  beside it. Nor where copies at the loop's end fill an accumulator.

Where two ways meet in front of such a loop that have written its accumulator differently, the await behind the loop is
made part of the way on which there is a turn. ptxas looks for what writes accumulators on all ways to a wait: one that
leads past the loop, with no gemm in flight, counts (C7515).

    %a = if %p { … } else { … }                %a = if %p { … } else { … }
    %c, %t = for %lo, %hi, … [%a] …      →     %r = if %lo < %hi { %c, %t = for … ; %d = await %c, %t ; yield %d }
    %r = await %c, %t                               else { yield %a }
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from minitile.ir.builder import Builder, known_trips
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import arith, control, roles, tile, views
from minitile.ir.origin import ACCUMULATOR, Origin
from minitile.ir.types import PipelineType, TileType
from minitile.transforms.manager import PassContext
from minitile.transforms.pipeline.accumulators import Accumulators


@dataclass(frozen=True)
class _Slot:
    """A slot to release as `release` does it; a `guarded` one only if it is not negative. `turn`: what the release
    takes from the turn that the slot was received in, the slot's index first."""

    release: roles.ConsumerRelease
    turn: tuple[Value, ...]
    guarded: bool = False

    @property
    def pipeline(self) -> Value:
        return self.release.pipeline

    @property
    def index(self) -> Value:
        return self.turn[0]


@dataclass(eq=False)
class _Flight:
    """A gemm in flight: its tile, its token, what the awaited tile is called; the buffers that it reads, in which slots
    if it was issued in this block, the register operand, and the slots that it holds."""

    tile: Value
    token: Value
    awaited: Value
    reads: frozenset[Value] = frozenset()
    operand: Value | None = None
    at: frozenset[Value] = frozenset()
    slots: list[_Slot] = field(default_factory=list)
    passed: dict[Value, int] = field(default_factory=dict)  # slots of a ring received since it holds one

    @property
    def joins(self) -> bool:
        """Whether a later gemm's token may stand for this one: nothing waits for this one alone."""
        return not self.slots and self.operand is None


def sink_wgmma_waits(kernel: Kernel, context: PassContext) -> None:
    """The pass. Not for programs with explicit roles: T.gemm is complete there when the next operation begins, which
    may tell other roles so."""
    if kernel.attrs.get("explicit_sync"):
        return
    ties = Accumulators(kernel.body)
    apart = [op for op in kernel.walk() if isinstance(op, roles.WarpSpecialized)]
    for op in apart:
        _Walk(op.consumer, ties).run([])
        _drop_last(op.consumer, set())
    if not apart and any(isinstance(op, roles.AsyncGemm) for op in kernel.walk()):
        _Walk(control.find_launch(kernel).body, ties).run([])


class _Walk:
    """One block, rewritten in place."""

    def __init__(self, block: Block, ties: Accumulators, loop: control.For | None = None) -> None:
        self.block, self.ties, self.loop = block, ties, loop
        self.b = Builder(block)
        self.flights: list[_Flight] = []  # oldest first
        self.chained: dict[roles.AsyncGemm, _Flight] = {}  # of the iteration before, and what stands for it
        self.received: dict[Value, list[Value]] = {}  # a ring's slots as received in this block, the latest first
        self.issued: dict[Value, int] = {}  # where in the block a token's gemm is
        self.uses = Counter(v for op in block.walk() for v in op.operands)
        carried = zip(loop.carried, block.yielded, strict=True) if loop is not None else ()
        self.next_of = dict(carried)  # what a carried value is in the next iteration

    def run(self, entering: Sequence[_Flight]) -> list[_Flight]:
        """What is in flight at the end: for a loop's body what can be handed on to the next iteration, else nothing."""
        self.flights = list(entering)
        old, self.block.ops = self.block.ops, []
        end = old.pop() if old and old[-1].terminator else None
        for op in old:
            self.b.loc = op.loc
            if isinstance(op, roles.AsyncGemm):
                self.issued[op.results[1]] = len(self.block.ops)
            if isinstance(op, roles.Await) and (flight := self.flight(op)) is not None:
                self.flights.append(flight)
                self.flights.sort(key=lambda f: self.issued.get(f.token, -1))
            elif isinstance(op, roles.ConsumerRelease):
                self.release(_Slot(op, op.turn, op.condition is not None))
            else:
                self.op(op)
        staying = [] if self.refills(end) else [f for f in self.flights if self.stays(f, end)]
        self.settle([f for f in self.flights if f not in staying])
        if end is not None:
            self.block.ops.append(end)
        return staying

    def flight(self, op: roles.Await) -> _Flight | None:
        """The gemm of an await, also where loops hand its token on that were rewritten before; None if it cannot be
        told (a token of a loop around that is being rewritten): such an await stays where it is."""
        gemm = self.issuing(op.token)
        if gemm is None:
            return None
        operand = gemm.a if isinstance(gemm.a.type, TileType) else None
        reads = self.read_by(gemm)
        if gemm.results[1] is not op.token:
            return _Flight(op.a, op.token, op.result, reads)
        at = frozenset(slot for slot in (gemm.a_slot, gemm.b_slot) if slot is not None)
        return _Flight(op.a, op.token, op.result, reads, operand, at)

    def issuing(self, token: Value) -> roles.AsyncGemm | None:
        while not isinstance(gemm := token.op, roles.AsyncGemm):
            if isinstance(gemm, control.For):
                token = gemm.body.yielded[token.index]
            elif token in self.next_of:
                token = self.next_of[token]
            elif isinstance(token.owner, Block) and token.owner.terminator is not None:
                token = token.owner.yielded[token.index - 1]  # the first argument is the loop's variable
            else:
                return None
        return gemm

    def read_by(self, gemm: roles.AsyncGemm) -> frozenset[Value]:
        """The buffers that a gemm reads, and those behind which it is issued."""
        seen: dict[roles.AsyncGemm, None] = {}
        issued: roles.AsyncGemm | None = gemm
        while issued is not None and issued not in seen:
            seen[issued] = None
            issued = None if issued.behind is None else self.issuing(issued.behind)
        return frozenset(v for each in seen for v in (each.a, each.b) if not isinstance(v.type, TileType))

    def op(self, op: Op) -> None:
        if isinstance(op, roles.AsyncGemm):
            fed = next((f for f in self.flights if f.awaited is op.c and self.uses[f.awaited] == 1), None)
        else:
            fed = None
        used = {v for inner in op.walk() for v in inner.operands}
        if isinstance(op, tile.Wait):
            self.completed(op.token)
        self.unchain(op)
        self.make_room(op)
        late = [n for n, f in enumerate(self.flights) if f is not fed and (f.awaited in used or self.overwrites(op, f))]
        if late:
            self.settle([f for f in self.flights[: late[-1] + 1] if f is not fed])
        if self.flights and self.touches(op, fed):
            self.settle([f for f in self.flights if f is not fed])
        if isinstance(op, control.For):
            left = _loop(self.b, op, self.ties)
            self.issued |= {f.token: len(self.block.ops) for f in left}
            self.flights += left
            return
        for region in op.regions:
            _Walk(region, self.ties).run([])
        if fed is None or not isinstance(op, roles.AsyncGemm):
            self.b.emit(op)
            return
        op.c = fed.tile
        self.b.emit(op)
        older = self.flights[: self.flights.index(fed)]
        self.flights.remove(fed)
        if fed.joins and not older:
            op.behind = fed.token
            if fed.token in self.block.args:
                self.chained[op] = fed
            return
        self.wait_for(fed)
        self.let_go(fed)
        self.settle(older)

    def unchain(self, op: Op) -> None:
        """A wait of its own for a gemm of the iteration before, if its memory is written while the gemm that stands for
        it may be in flight: the await of that one was placed before it was known to."""
        for gemm, fed in list(self.chained.items()):
            if self.overwrites(op, fed):
                self.wait_for(fed)
                gemm.behind = None
                del self.chained[gemm]

    def completed(self, token: Value) -> None:
        """Groups complete in order: with one all that were issued before it, and what they stand for."""
        if self.chained:
            at = self.issued.get(token, -1)
            self.chained = {g: f for g, f in self.chained.items() if self.issued[g.results[1]] > at}

    def wait_for(self, flight: _Flight) -> None:
        with self.b.because(Origin("sink_wgmma_waits", ACCUMULATOR)):
            self.b.emit(tile.Wait(flight.token))

    def touches(self, op: Op, fed: _Flight | None = None) -> bool:
        """Whether ordinary instructions touch registers that products add to where an operation stands. A product that
        must not overwrite its accumulator, since that is used again, begins with a copy."""
        if not isinstance(op, roles.AsyncGemm):
            return self.ties.touched_by(op)
        own = op.c.owner is self.block or op.c.op in self.block.ops
        return fed is None and self.ties.mixed(op.c) and not (own and self.uses[op.c] == 1)

    def make_room(self, op: Op) -> None:
        """Slots are filled in order: a consumer that waits for the slot behind the last of a ring must have released
        the first. In a loop, a branch or a prologue, how many that are is not known."""
        waits = (roles.ConsumerWait, roles.ProducerAcquire)
        received = {inner.pipeline for inner in op.walk() if isinstance(inner, waits)}
        if isinstance(op, roles.ConsumerWait):
            self.received.setdefault(op.pipeline, []).insert(0, op.index)
        due = [f for f in self.flights if self.conflicts(f, received, bool(op.regions))]
        if due:
            self.settle(self.flights[: self.flights.index(due[-1]) + 1])

    def conflicts(self, flight: _Flight, received: set[Value], many: bool) -> bool:
        """Whether a gemm holds a slot that the producer needs for what is received now."""
        held = {slot.pipeline for slot in flight.slots} & received
        for pipeline in held:
            flight.passed[pipeline] = flight.passed.get(pipeline, 0) + 1
        return any(many or flight.passed[c] >= _slots_of(c) for c in held)

    def overwrites(self, op: Op, flight: _Flight) -> bool:
        """Whether an operation makes the next content of memory or registers that the gemm reads."""
        if any(a.writes and a.mem in flight.reads for inner in op.walk() for a in inner.accesses()):
            return True
        if flight.operand is None:
            return False
        return any(v in op.results or self.next_of.get(v) in op.results for v in _registers_of(flight.operand))

    def only_yielded(self, flight: _Flight, end: Op | None) -> bool:
        if self.loop is None or end is None or self.uses[flight.awaited] != 1 or flight.awaited not in end.operands:
            return False
        assert isinstance(end, control.Yield)
        becomes = self.loop.carried[end.values.index(flight.awaited)]
        users = [op for op in (*self.block.walk(), end) if becomes in op.operands]
        return bool(users) and all(isinstance(op, roles.AsyncGemm) and op.c is becomes for op in users)

    def stays(self, flight: _Flight, end: Op | None) -> bool:
        return self.only_yielded(flight, end) and not self.awaited_first(flight, end) and not self.replaced(flight)

    def replaced(self, flight: _Flight) -> bool:
        """Whether the loop's end copies something to the registers that the gemm reads: it was made before the gemm was
        issued, so that nothing behind it stands for the copy."""
        read = () if flight.operand is None else _registers_of(flight.operand)
        return any(self.next_of.get(v, v) is not v for v in read)

    def refills(self, end: Op | None) -> bool:
        """Whether an accumulator is filled by copies at the loop's end: with a splat or a tile of outside, with one
        that the next iteration knows by another name, or with one that becomes two."""
        if self.loop is None or end is None:
            return False
        made = {*self.block.ops, *(f.awaited.owner for f in self.flights)}
        often = Counter(self.next_of.values())
        copied = (to for to, v in self.next_of.items() if to is not v and (v.owner not in made or often[v] > 1))
        return any(map(self.ties.mixed, copied))

    def awaited_first(self, flight: _Flight, end: Op | None) -> bool:
        """Whether the next iteration has to wait for the gemm before anything can run beside it. Where it holds slots
        of a ring, that is the wait for the next slot."""
        assert self.loop is not None
        assert isinstance(end, control.Yield)
        becomes = self.loop.carried[end.values.index(flight.awaited)]
        held = {slot.pipeline for slot in flight.slots}
        for op in self.block.ops:
            if isinstance(op, roles.AsyncGemm) and op.c is becomes:
                return False
            if isinstance(op, roles.ConsumerWait) and held:
                return op.pipeline in held and flight.passed.get(op.pipeline, 0) + 1 >= _slots_of(op.pipeline)
            if self.overwrites(op, flight) or self.touches(op):
                return True
        return False

    def release(self, slot: _Slot) -> None:
        """Now, or when the youngest of the gemms that read the slot is complete."""
        payload = slot.pipeline.op.operands if slot.pipeline.op is not None else []
        holding = [f for f in self.flights if not (f.reads.isdisjoint(payload) or self.elsewhere(f, slot))]
        if holding:
            holding[-1].slots.append(slot)
            received = self.received.get(slot.pipeline, [])
            behind = received.index(slot.index) if slot.index in received else 0
            passed = holding[-1].passed
            passed[slot.pipeline] = max(passed.get(slot.pipeline, 0), behind)
        else:
            _release(self.b, slot)

    def elsewhere(self, flight: _Flight, slot: _Slot) -> bool:
        """Whether a gemm reads other slots than this one: two that are received and not released are not the same."""
        received = {index for indices in self.received.values() for index in indices}
        return bool(flight.at) and flight.at <= received and slot.index not in flight.at

    def settle(self, flights: Sequence[_Flight]) -> None:
        """The youngest first: its wait is that of all."""
        for flight in reversed(flights):
            self.flights.remove(flight)
            with self.b.because(Origin("sink_wgmma_waits", ACCUMULATOR)):
                awaited = self.b.emit(roles.Await(flight.tile, flight.token))
            _define(awaited, 0, flight.awaited)
            self.completed(flight.token)
        for flight in flights:
            self.let_go(flight)

    def let_go(self, flight: _Flight) -> None:
        for slot in flight.slots:
            _release(self.b, slot)


_RENAMES = (
    arith.Reinterpret,
    views.Recast,
    views.Reshape,
    views.Interleave,
    tile.Permute,
    tile.Expand,
    tile.Repeat,
    tile.InterleavedSlice,
)


def _registers_of(operand: Value) -> list[Value]:
    """A register operand, what it is another name of, and what the sides of a branch hand on to it: where one of these
    is made, the registers are written."""
    found = [operand]
    for value in found:
        if isinstance(value.op, _RENAMES):
            found += [v for v in value.op.operands if v not in found]
        elif isinstance(value.op, control.If):
            found += [region.yielded[value.index] for region in value.op.regions]
    return found


def _release(b: Builder, slot: _Slot) -> None:
    condition = b.compare("ge", slot.index, 0) if slot.guarded else None
    b.emit(slot.release.later(slot.turn, condition))


def _slots_of(pipeline: Value) -> int:
    assert isinstance(pipeline.type, PipelineType)
    return pipeline.type.slots


def _loop(b: Builder, loop: control.For, ties: Accumulators) -> list[_Flight]:
    """Rewrite a loop's body and emit the loop; what is in flight behind it."""
    staying, count = _Walk(loop.body, ties, loop).run([]), len(loop.results)
    end = loop.body.terminator
    entering, behind = [], []
    for flight in staying:
        assert isinstance(end, control.Yield)
        n = end.values.index(flight.awaited)
        end.values = (*end.values[:n], flight.tile, *end.values[n + 1 :])
        tile_in, token_in, token_out = loop.carried[n], *_carry(loop, _done(b), flight.token, "flight")
        awaited, awaited_out = Value(tile_in.type, name=tile_in.name), loop.results[n]
        _define(loop, n, Value(tile_in.type, name=tile_in.name))
        ties.join(awaited, tile_in)
        ties.join(loop.results[n], tile_in)
        _rename(loop.body, tile_in, awaited)
        inner = _Flight(tile_in, token_in, awaited, flight.reads, flight.operand, passed=dict(flight.passed))
        outer = _Flight(loop.results[n], token_out, awaited_out, flight.reads, passed=dict(flight.passed))
        for slot in flight.slots:
            index, *others = slot.turn
            last_in, last_out = _carry(loop, b.constant(-1), index, "last")
            more = [_carry(loop, b.constant(0, v.dtype), v, v.name)[0] for v in others]
            inner.slots.append(_Slot(slot.release, (last_in, *more), guarded=True))
            outer.slots.append(_Slot(slot.release.last(), (last_out,), guarded=True))
        entering.append(inner)
        behind.append(outer)
    if entering:
        _Walk(loop.body, ties, loop).run(entering)
    if known_trips(loop) != 1 and not all(ties.begins_in_one_place(loop, flight.tile) for flight in behind):
        _entered(b, loop, behind, count, ties)
        return []
    b.emit(loop)
    return behind


def _entered(b: Builder, loop: control.For, behind: list[_Flight], count: int, ties: Accumulators) -> None:
    """Emit a loop of `count` results with the awaits of what it leaves in flight, all of it where there is a turn."""
    branch = control.If(b.compare("lt", loop.lower, loop.upper), then=Block(), orelse=Block())
    branch.loc, branch.results = b.loc, loop.results[:count]
    flying = {flight.tile: flight for flight in behind}
    for n, value in enumerate(branch.results):
        if value in flying:
            _define(branch, n, flying[value].awaited)
        else:
            _define(loop, n, Value(value.type, name=value.name))
            ties.join(loop.results[n], value)
            _define(branch, n, value)
    with b.inside(branch.then):
        b.emit(loop)
        with b.because(Origin("sink_wgmma_waits", ACCUMULATOR)):
            landed = {f.tile: b.emit(roles.Await(f.tile, f.token)).result for f in reversed(behind)}
        for tile_out, awaited in landed.items():
            awaited.name = flying[tile_out].awaited.name
            ties.join(awaited, tile_out)
        for slot in (slot for flight in behind for slot in flight.slots):
            _release(b, slot)
        b.emit(control.Yield(tuple(landed.get(v, v) for v in loop.results[:count])))
    with b.inside(branch.orelse):
        b.emit(control.Yield(loop.init[:count]))
    b.emit(branch)


def _done(b: Builder) -> Value:
    return b.emit(tile.NoToken(counter="wgmma")).result


def _carry(loop: control.For, init: Value, following: Value, name: str) -> tuple[Value, Value]:
    """Carry one more value through a loop: what it is in the body and behind the loop."""
    end = loop.body.terminator
    assert isinstance(end, control.Yield)
    end.values = (*end.values, following)
    loop.init = (*loop.init, init)
    result = Value(init.type, loop, len(loop.results), name)
    loop.results = (*loop.results, result)
    return loop.body.add_arg(init.type, name), result


def _define(op: Op, n: int, value: Value) -> None:
    """Let an existing value be the n-th result of an operation: its users stay as they are."""
    op.results = (*op.results[:n], value, *op.results[n + 1 :])
    value.owner, value.index = op, n


def _rename(block: Block, old: Value, new: Value) -> None:
    for op in block.walk():
        op.replace_operands(lambda v: new if v is old else v)


def _drop_last(block: Block, later: set[Value]) -> None:
    """Remove the releases outside of loops of slots that no receive will wait for again; `later`: the pipelines that
    are received behind the block, and then behind its beginning."""
    kept: list[Op] = []
    for op in reversed(block.ops):
        if isinstance(op, roles.ConsumerRelease) and op.pipeline not in later:
            continue
        if isinstance(op, control.If):
            for region in op.regions:
                _drop_last(region, set(later))
        later |= {o.pipeline for o in op.walk() if isinstance(o, roles.ConsumerWait)}
        kept.append(op)
    block.ops = kept[::-1]
