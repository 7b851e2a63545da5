"""Warp specialisation: one role feeds shared memory, the other computes.

    for 0, %n, 1, [%z] {pipelined, 4 stages} (%k, %c) {      %ring = mbarrier_pipeline %As, %Bs {slots = 4}
      copy %A[…], %As                                         warp_specialized producer {
      copy %B[…], %Bs                                           for … [0, 0] (%k, %i, %p) {
      %c1 = gemm %As, %Bs, %c                          →          producer_acquire %ring, %i, %p ; producer_expect_tx
      %ring, %i yield %c1                                                   tma_copy %A[…], %As … ; tma_copy %B[…], %Bs
      …
    }                                                             yield next(%i, %p) } }
    store %c, %C[…]                                           consumer {
                                                                for … [%z, 0, 0] (%k, %c, %i, %p) {
                                                                  consumer_wait %ring, %i, %p
                                                                  %f, %t = async_gemm %As, %Bs, %c   // slot %i
                                                                  %c1 = await %f, %t
                                                                  consumer_release %ring, %i
                                                                  yield %c1, next(%i, %p) }
                                                                store %c, %C[…] }

Either role has the loops and branches of the program that hold its part: the producer those around its copies (with
what their indices, bounds and conditions are computed from, see producer_partition.py), the consumers all. A ring's
slot and phase are carried through them, in both roles alike: nested loops and trip counts of 0 and 1 need no case of
their own.

Here each gemm is awaited at once. `skew` and `sink_wgmma_waits` come next: they let gemms run beside what does not need
them.

A persistent loop may have `teams` (ping_pong.py): each takes every `teams`-th turn, in a program of its own, and its
pipeline states step over the turns of the others. What those are is computed from the bounds of the loops around the
copies, as the producer does it (`_Passed`).

What this pass cannot do it leaves to software pipelining; `context.notes` says why.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from minitile.analysis.occupancy import registers_of
from minitile.analysis.register_budget import ACCUMULATOR_ROOM, budget, producer_threads
from minitile.backends.base import Rules
from minitile.ir.builder import Builder
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import cluster, control, fences, roles, tile
from minitile.ir.origin import ACCUMULATOR, Origin, places
from minitile.ir.rewrite import clone, handing
from minitile.ir.types import I32, BufferType, ScalarType, f32, i32
from minitile.transforms.manager import PassContext
from minitile.transforms.pipeline.ahead import READS
from minitile.transforms.pipeline.async_gemms import call_in, issue, refusal
from minitile.transforms.sync.reasons import of_ring
from minitile.transforms.warp_specialize.multicast import Common, find_common
from minitile.transforms.warp_specialize.ping_pong import Teams, find_teams, part
from minitile.transforms.warp_specialize.producer_partition import PipelineState, Refused, Ring, Rings, find_rings
from minitile.transforms.warp_specialize.second_slots import second_slots

StateValues = dict[PipelineState, tuple[Value, Value]]  # slot and phase


def warp_specialize(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    if not context.target.has("tma") or kernel.attrs.get("explicit_sync"):
        return
    launch = control.find_launch(kernel)
    try:
        rings = find_rings(kernel, launch, common=find_common)
        _check_meetings(launch, rings)
        teams = _teams(launch, rings, context)
        if teams is None:
            check(launch, rings, context.rules, launch.threads)
    except Refused as reason:
        context.notes.append(f"not warp-specialised: {reason}")
        return
    context.notes.extend(f"copied by the consumers: {note}" for note in rings.notes)
    if teams is None:
        rings = second_slots(kernel, rings, context.target)
    together = find_common(launch, rings)
    registers = registers_of(launch, context.target) if kernel.attrs.get("resources_are_hints") else None
    copying = producer_threads(launch.threads, registers, kernel.attrs.get("min_ctas", 1))

    def parts(body: Block, pipelines: dict[Ring, Value], b: Builder) -> roles.WarpSpecialized:
        producer = _Producer(rings, pipelines, together).role(body)
        team = Block().add_arg(I32, "team")
        consumer = Consumer(rings, pipelines, teams, team).role(body)
        if teams is not None:
            consumer = part(consumer, team, teams, b)
        registers = budget(launch.threads)
        return roles.WarpSpecialized(
            producer_threads=copying, registers=registers, producer=producer, consumer=consumer
        )

    rebuild(launch, rings, parts, launch.threads if teams is None else teams.threads, together)
    kernel.attrs["producer_threads"] = copying


def _check_meetings(launch: control.Launch, rings: Rings) -> None:
    """Where all threads of the cluster meet, those that copy must have gone their way, which counts as having come, or
    not yet be apart from the others."""
    ops = launch.body.ops
    holders = [n for n, op in enumerate(ops) if op in rings.copies or op in rings.slice.holders]
    for op in ops[holders[0] : holders[-1] + 1]:
        if any(map(_meets_cluster, [op, *(inner for region in op.regions for inner in region.walk())])):
            raise Refused("all threads of the cluster meet, also those that would only copy")


def _touches(op: Op, written: set[Value | None]) -> bool:
    """Whether it reads or writes memory that the kernel writes."""
    inside = [op, *(inner for region in op.regions for inner in region.walk())]
    return any(access.mem in written for each in inside for access in each.accesses())


def _meets_cluster(op: Op) -> bool:
    return any(sync.on == "cluster" for sync in op.syncs())


def _triggers(op: Op) -> bool:
    """Whether it lets the next grid start, perhaps on a condition, and does nothing else."""
    if isinstance(op, control.If):
        inside = [inner for block in op.regions for inner in block.ops]
        return not op.results and all(inner.terminator or _triggers(inner) for inner in inside)
    return isinstance(op, fences.PdlTrigger)


def _teams(launch: control.Launch, rings: Rings, context: PassContext) -> Teams | None:
    """None where no loop asks for teams, or there is a reason against them."""
    try:
        teams = find_teams(launch, rings)
        if teams is not None:
            check(launch, rings, context.rules, teams.threads)
    except Refused as reason:
        context.notes.append(f"one team instead of several: {reason}")
        return None
    return teams


def check(launch: control.Launch, rings: Rings, rules: Rules, threads: int) -> None:
    """Raises Refused where the consumers' part could not be compiled, for tiles spread over so many threads."""
    holders = [n for n, op in enumerate(launch.body.ops) if op in rings.copies or op in rings.slice.holders]
    if any(isinstance(op, fences.PdlSync) for op in launch.body.ops[holders[0] :]):
        raise Refused("T.pdl_sync stands behind the first copy, which would go ahead of it")
    meetings = [n for n, op in enumerate(launch.body.ops[: holders[0]]) if _meets_cluster(op)]
    if meetings and any(_touches(op, rings.slice.written) for op in launch.body.ops[: meetings[-1]]):
        raise Refused("the cluster meets before the first copy, for what only consumers do")
    gemms = [op for op in launch.body.walk() if isinstance(op, tile.Gemm)]
    if not any(v in rings.of for gemm in gemms for v in (gemm.a, gemm.b)):
        raise Refused("no gemm reads what the copies bring")
    carried: dict[Block, int] = {}

    def rounded(buffer: Value) -> str:
        name = buffer.name or "an operand"
        return "" if buffer in rings.of else f"nothing rounds {name} to tf32 on its way to shared memory"

    for gemm in gemms:
        reason = refusal(gemm, threads, rules, rings.slice.facts, rounded) or call_in(launch.body)
        if reason:
            raise Refused(reason)
        words = math.prod(gemm.c.shape) * gemm.c.dtype.bits // 32 // threads
        if isinstance(gemm.c.owner, Block):  # carried, as others are at the same time
            words = carried[gemm.c.owner] = carried.get(gemm.c.owner, 0) + words
        if words + ACCUMULATOR_ROOM > budget(launch.threads)[1]:
            raise Refused(f"{words} accumulators of {budget(launch.threads)[1]} registers leave a thread too few")
    for op in launch.body.walk():
        for buffer in op.operands:
            if buffer in rings.multiplied and buffer.dtype is f32 and op not in gemms and op not in rings.copies:
                raise Refused(
                    f"{buffer.name or 'a buffer'} is rounded to tf32 for a gemm, and `{op.mnemonic}` reads it"
                )


def rebuild(
    launch: control.Launch,
    rings: Rings,
    parts: Callable[[Block, dict[Ring, Value], Builder], roles.WarpSpecialized],
    consumers: int,
    together: Common,
    pass_name: str = "warp_specialize",
) -> None:
    """Buffers get their versions and rings their pipelines, from which so many `consumers` receive. Buffers, the
    wait for the primary grid, and what scalars, meetings of the cluster and triggers of the next grid stand before the
    first of the copies are for all roles; of the rest `parts` makes what each role does."""
    ops = launch.body.ops
    end = [ops.pop()] if ops and ops[-1].terminator else []
    first = min(n for n, op in enumerate(ops) if op in rings.copies or op in rings.slice.holders)
    common: list[Op] = []
    theirs: set[Value] = set()  # what only the consumers know
    for n, op in enumerate(ops):
        known = op.pure or (isinstance(op, tile.Load) and op.mem not in rings.slice.written)
        scalar = known and all(isinstance(r.type, ScalarType) for r in op.results)
        everybody = isinstance(op, tile.Alloc | cluster.AllReduceBuffer | fences.PdlSync)
        early = n < first and theirs.isdisjoint(op.operands)
        if everybody or (early and (scalar or _triggers(op) or _meets_cluster(op))):
            common.append(op)
        else:
            theirs.update(op.results)
    shared = set(common)
    mine = Block(ops=[op for op in ops if op not in shared])
    launch.body.ops = common
    b = Builder(launch.body, rings.rings[0].copies[0].loc)
    for ring in rings.rings:
        for buffer in ring.buffers:
            alloc = buffer.op
            assert isinstance(alloc, tile.Alloc)
            t = alloc.type_
            alloc.type_ = buffer.type = BufferType(t.space, t.shape, t.dtype, ring.pipeline_state.slots)
    pipelines: dict[Ring, Value] = {}
    for ring in rings.rings:
        with b.because(of_ring(pass_name, ring, rings).pipeline):
            made = roles.MbarrierPipeline(
                ring.buffers, ring.pipeline_state.slots, consumers, common=_together(ring, together)
            )
            pipelines[ring] = b.emit(made).result
        pipelines[ring].name = "ring"
    launch.body.ops.sort(
        key=lambda op: not isinstance(op, tile.Alloc | roles.MbarrierPipeline)
    )  # set up, then wait or compute
    for pipeline_state in rings.pipeline_states:  # the launch's own block is now a role's
        if pipeline_state.block is launch.body:
            pipeline_state.block = mine
    for loop in rings.pipelined:
        loop.kind, loop.stages = "serial", 1
    b.emit(parts(mine, pipelines, b))
    launch.body.ops += end


def _together(ring: Ring, common: Common) -> tuple[int, ...]:
    return tuple(sorted({d for copy in ring.copies for d in common.get(copy, ())}))


class Role:
    """What the roles have in common: the rings' pipeline states, carried through the loops and branches around them."""

    pass_name = "warp_specialize"

    def __init__(self, rings: Rings, pipelines: dict[Ring, Value]) -> None:
        self.rings, self.pipelines = rings, pipelines
        self.why = {ring: of_ring(self.pass_name, ring, rings) for ring in rings.rings}
        self.common: Common = {}  # the dimensions of the cluster along which a copy is made by all
        self.b = Builder(Block())

    def start(self, pipeline_states: Sequence[PipelineState]) -> StateValues:
        zero = self.b.constant(0)
        return dict.fromkeys(pipeline_states, (zero, zero))

    def inside(self, op: Op) -> list[PipelineState]:
        """The pipeline states of the blocks in an operation."""
        blocks = {region for o in op.walk() for region in o.regions}
        return [pipeline_state for pipeline_state in self.rings.pipeline_states if pipeline_state.block in blocks]

    def carried(self, state: StateValues, pipeline_states: Sequence[PipelineState]) -> list[Value]:
        """The values that go through a loop or branch: slots that never change do not."""
        return [
            v
            for pipeline_state in pipeline_states
            for v in (state[pipeline_state] if pipeline_state.multistage else state[pipeline_state][1:])
        ]

    def taken(self, state: StateValues, pipeline_states: Sequence[PipelineState], values: Sequence[Value]) -> None:
        """The inverse of `carried`."""
        left = list(values)
        for pipeline_state in pipeline_states:
            index = left.pop(0) if pipeline_state.multistage else state[pipeline_state][0]
            state[pipeline_state] = index, left.pop(0)

    def arguments(self, block: Block, state: StateValues, pipeline_states: Sequence[PipelineState]) -> StateValues:
        """New arguments of a block for the pipeline states; the state in it."""
        inner = dict(state)
        values = [
            block.add_arg(v.type, name)
            for pipeline_state in pipeline_states
            for v, name in zip(state[pipeline_state], ("slot", "phase"), strict=True)
            if name == "phase" or pipeline_state.multistage
        ]
        self.taken(inner, pipeline_states, values)
        return inner

    def advance_by(self, state: StateValues, block: Block, turns: Value) -> None:
        """The slot after so many turns of a block."""
        b = self.b
        for pipeline_state in self.rings.pipeline_states:
            if pipeline_state.block is not block:
                continue
            index, phase = state[pipeline_state]
            if pipeline_state.multistage:
                following = b.add(index, turns)
                turns_of_ring = b.floordiv(following, pipeline_state.slots)
                index = b.sub(following, b.mul(turns_of_ring, pipeline_state.slots))
                state[pipeline_state] = index, b.xor(phase, b.and_(turns_of_ring, b.constant(1)))
            else:
                state[pipeline_state] = index, b.xor(phase, b.and_(turns, b.constant(1)))

    def advance(self, state: StateValues, block: Block) -> None:
        """The slot after this one: at the ring's end the first again, in the other phase."""
        b = self.b
        for pipeline_state in self.rings.pipeline_states:
            if pipeline_state.block is not block:
                continue
            index, phase = state[pipeline_state]
            following = b.add(index, 1)
            wraps = b.compare("eq", following, pipeline_state.slots)
            if pipeline_state.multistage:
                phase = b.select(wraps, b.xor(phase, 1), phase)
                state[pipeline_state] = b.select(wraps, b.constant(0), following), phase
            else:
                state[pipeline_state] = index, b.xor(phase, 1)

    def feed(self, ring: Ring, index: Value, phase: Value, names: Mapping[Value, Value], acquired: bool = True) -> None:
        """A slot's copies, on values by other names. A slot that is filled once is free, and not `acquired`."""
        pipeline = self.pipelines[ring]
        if acquired:
            with self.b.because(self.why[ring].acquire):
                self.b.emit(roles.ProducerAcquire(pipeline, index, phase))
        with self.b.because(self.why[ring].expect):
            self.b.emit(roles.ProducerExpectTx(pipeline, index))
        for copy in ring.copies:
            at = tuple([names.get(v, v) for v in copy.src_indices])
            self.b.loc = copy.loc
            tf32 = copy.dst.dtype is f32 and copy.dst in self.rings.multiplied
            common = self.common.get(copy, ())
            self.b.emit(
                roles.TmaCopy(
                    copy.src, at, copy.dst, pipeline, index, copy.src_dims, tf32=tf32, common=common, evict=copy.evict
                )
            )


class _Producer(Role):
    """Writes the copies anew, by the copy engine, in a program that has nothing but them and what they need."""

    def __init__(self, rings: Rings, pipelines: dict[Ring, Value], common: Common) -> None:
        super().__init__(rings, pipelines)
        self.common = common
        self.names: dict[Value, Value] = {}
        self.depth = 0  # of loops

    def role(self, body: Block) -> Block:
        role = Block()
        with self.b.inside(role):
            self.block(body, self.start(self.rings.pipeline_states))
        return role

    def get(self, value: Value) -> Value:
        return self.names.get(value, value)

    def block(self, block: Block, state: StateValues) -> None:
        """The producer's part of a block, all but its terminator."""
        for op in block.ops:
            self.b.loc = op.loc
            ring = self.rings.copies.get(op) if isinstance(op, tile.Copy) else None
            if ring is not None and op is ring.copies[-1]:
                self.feed(ring, *state[ring.pipeline_state], self.names, acquired=self.depth > 0)
            elif op not in self.rings.slice.needed:
                continue
            elif op in self.rings.slice.holders and isinstance(op, control.Structured):
                self.holder(op, state)
            else:
                self.b.emit(clone(op, self.names))
        if block.ops:
            self.advance(state, block)

    def holder(self, op: control.Structured, state: StateValues) -> None:
        """A loop or branch with those of its carried values and results that are wanted, and the pipeline states."""
        pipeline_states = self.inside(op)
        self.depth += op.repeats
        init = self.handed(op, None, state, pipeline_states) if op.repeats else ()
        regions, given = {}, op.given()
        for name, source in zip(op.region_fields, op.regions, strict=True):
            regions[name] = block = Block()
            for arg in source.args:
                if arg in self.rings.slice.wanted or arg not in given:
                    self.names[arg] = block.add_arg(arg.type, arg.name)
            inner = self.arguments(block, state, pipeline_states) if op.repeats else dict(state)
            with self.b.inside(block):
                self.block(source, inner)
                end = source.terminator or control.Yield(())
                self.b.emit(handing(end, self.get, self.handed(op, source, inner, pipeline_states)))
        new = self.b.emit(handing(op, self.get, init, **regions))
        if isinstance(new, control.For) and isinstance(op, control.For):
            new.apart, new.dynamic = op.apart, op.dynamic
        self.depth -= op.repeats
        kept = [r for r in op.results if r in self.rings.slice.wanted]
        self.names.update(zip(kept, new.results, strict=False))
        self.taken(state, pipeline_states, new.results[len(kept) :])

    def handed(
        self, op: control.Structured, source: Block | None, state: StateValues, pipeline_states: Sequence[PipelineState]
    ) -> tuple[Value, ...]:
        """What is handed on from a region's end, or to a loop's first turn."""
        transfer = op.transfer(source)
        pairs = zip(transfer.values, transfer.targets[0], strict=True)
        wanted = (self.get(v) for v, target in pairs if target in self.rings.slice.wanted)
        return (*wanted, *self.carried(state, pipeline_states))


class _Passed(_Producer):
    """How the pipeline states advance in iterations of a loop that other teams have: the producer's program without its
    copies, in which a loop that only advances a pipeline state is one step."""

    def __init__(self, rings: Rings, b: Builder) -> None:
        super().__init__(rings, {}, {})
        self.b = b

    def turn(self, loop: control.For, number: Value, state: StateValues) -> None:
        """Step over turn `number` of a loop, if there is such a turn."""
        pipeline_states = self.inside(loop)
        self.names = {loop.iv: number}
        inner, then, orelse = dict(state), Block(), Block()
        exists = self.b.compare("lt", number, loop.upper)
        for block, after in ((then, inner), (orelse, state)):
            with self.b.inside(block):
                if block is then:
                    self.block(loop.body, inner)
                self.b.emit(control.Yield(tuple(self.carried(after, pipeline_states))))
        self.taken(state, pipeline_states, self.b.emit(control.If(exists, then=then, orelse=orelse)).results)

    def feed(self, ring: Ring, index: Value, phase: Value, names: Mapping[Value, Value], acquired: bool = True) -> None:
        """Not in these turns."""

    def holder(self, op: control.Structured, state: StateValues) -> None:
        moves = isinstance(op, control.For) and all(
            pipeline_state.block is op.body for pipeline_state in self.inside(op)
        )
        if moves and self.rings.slice.wanted.isdisjoint(op.results):
            self.advance_by(state, op.regions[0], _count(self.b, *map(self.get, op.decides())))
        else:
            super().holder(op, state)


def _soon(ops: list[Op], last: Op) -> list[Op]:
    """The operations of a block, of the pure ones right before `last` those behind it that it does not need: they may
    wait for the products of the turn, and it need not."""
    n = ops.index(last)
    wanted = set(last.operands)
    behind: list[Op] = []
    while n and ops[n - 1].pure:
        n -= 1
        if wanted.isdisjoint(ops[n].results):
            behind.insert(0, ops[n])
        else:
            wanted.update(ops[n].operands)
    kept = [op for op in ops if op not in set(behind)]
    at = kept.index(last) + 1
    return [*kept[:at], *behind, *kept[at:]]


def _count(b: Builder, lower: Value, upper: Value, step: Value) -> Value:
    """How many turns a loop has."""
    return b.cast(b.max(b.floordiv(b.add(b.sub(upper, lower), b.sub(step, 1)), step), 0), i32)


@dataclass(frozen=True)
class _Tail:
    """Operations for the end of a block; `values` of them take the place of those that the block's arguments stand
    for."""

    block: Block
    values: Sequence[Value]


class Consumer(Role):
    """The program itself, changed in place: without the copies, with receives before and releases behind what uses
    them, and gemms in flight. With teams it is the program of team number `team`."""

    def __init__(
        self, rings: Rings, pipelines: dict[Ring, Value], teams: Teams | None = None, team: Value | None = None
    ) -> None:
        super().__init__(rings, pipelines)
        self.generic: set[Ring] = set()  # rings that others than gemms read
        self.teams, self.team = teams, team or Block().add_arg(I32, "team")

    def role(self, body: Block) -> Block:
        self.b.loc = body.ops[0].loc
        head = Block()
        with self.b.inside(head):
            state = self.start(self.rings.pipeline_states)
        self.block(body, state)
        body.ops = head.ops + body.ops
        return body

    def block(self, block: Block, state: StateValues) -> None:
        old, block.ops = block.ops, []
        end = [old.pop()] if old and old[-1].terminator else []
        if self.teams is not None and self.teams.last in old and not self.teams.last.region_fields:
            old = _soon(old, self.teams.last)
        with self.b.inside(block):
            for op in old:
                self.b.loc = op.loc
                if isinstance(op, tile.Copy) and op in self.rings.copies:
                    self.copied(op, state)
                    continue
                mine = [r for r in self.rings.rings if r.pipeline_state.block is block]
                if self.teams is not None and op is self.teams.first:
                    self.ping_pong_wait()
                for ring in mine:
                    if ring.first is op:
                        with self.b.because(self.why[ring].receive):
                            self.b.emit(roles.ConsumerWait(self.pipelines[ring], *state[ring.pipeline_state]))
                last = self.teams is not None and op is self.teams.last
                if last and not op.region_fields:  # all is received
                    self.ping_pong_arrive()
                self.op(op, state)
                if last and op.region_fields:
                    self.ping_pong_arrive()
                for ring in mine:
                    if ring.last is op:
                        self.release(ring, *state[ring.pipeline_state])
            if old:
                self.advance(state, block)
        block.ops += end

    def copied(self, op: tile.Copy, state: StateValues) -> None:
        """In place of a copy: here nothing."""

    def release(self, ring: Ring, index: Value, phase: Value) -> None:
        with self.b.because(self.why[ring].release):
            self.b.emit(roles.ConsumerRelease(self.pipelines[ring], index, generic=ring in self.generic))

    def op(self, op: Op, state: StateValues) -> None:
        if isinstance(op, control.Structured):
            self.holder(op, state)
        elif isinstance(op, tile.Gemm):
            self.gemm(op, state)
        else:
            for mem, slot in READS.get(type(op), ()):
                ring = self.rings.of.get(getattr(op, mem))
                if ring is not None:
                    self.generic.add(ring)
                    setattr(op, slot, self.slot(getattr(op, mem), state))
            self.b.emit(op)

    def slot(self, buffer: Value, state: StateValues) -> Value | None:
        """The version of a ring's buffer that is at hand; None where there is only one."""
        ring = self.rings.of.get(buffer)
        return state[ring.pipeline_state][0] if ring is not None and ring.pipeline_state.multistage else None

    def gemm(self, op: tile.Gemm, state: StateValues) -> None:
        pairs = (("a_slot", op.a, op.a_slot), ("b_slot", op.b, op.b_slot))
        slots = {name: self.slot(v, state) if v in self.rings.of else own for name, v, own in pairs}
        flight = issue(self.b, op, **slots)
        with self.b.because(Origin(self.pass_name, ACCUMULATOR)):
            awaited = self.b.emit(roles.Await(*flight.results))
        awaited.results = op.results  # the users of the gemm's result keep it
        op.result.owner = awaited

    def holder(self, op: control.Structured, state: StateValues) -> None:
        """Carry the pipeline states in a loop or branch through it."""
        pipeline_states = self.inside(op)
        entering, others, fewer = state, None, None
        if self.teams is not None and op is self.teams.loop:
            loop = self.teams.loop
            others = self.turns_of_others(loop, state, pipeline_states)
            fewer = self.has_fewer_turns(loop) if self.teams.again else None
            entering = self.own_turns(loop, state, pipeline_states)
        if isinstance(op, control.Loop):
            op.init = (*op.init, *self.carried(entering, pipeline_states))
        for block in op.regions:
            inner = self.arguments(block, state, pipeline_states) if op.repeats else dict(state)
            self.region(block, inner, pipeline_states, others)
        self.b.emit(op)
        if fewer is not None:
            self.even_out(fewer)
        types = [v.type for v in self.carried(state, pipeline_states)]
        more = tuple(Value(t, op, len(op.results) + n) for n, t in enumerate(types))
        op.results = (*op.results, *more)
        self.taken(state, pipeline_states, more)

    def own_turns(self, loop: control.For, state: StateValues, pipeline_states: Sequence[PipelineState]) -> StateValues:
        """Let a loop have this team's turns only; the pipeline states at the first of them."""
        b, passed = self.b, _Passed(self.rings, self.b)
        behind, first, number = dict(state), dict(state), loop.lower
        for team in range(1, loop.teams):
            passed.turn(loop, number, behind)
            number = b.add(number, loop.step)
            mine = b.compare("eq", self.team, team)
            for pipeline_state in pipeline_states:
                index, phase = (
                    b.select(mine, new, old)
                    for new, old in zip(behind[pipeline_state], first[pipeline_state], strict=True)
                )
                first[pipeline_state] = index, phase
        loop.lower = b.add(loop.lower, b.mul(b.cast(self.team, loop.lower.dtype), loop.step))
        loop.step, loop.teams = b.mul(loop.step, loop.teams), 1
        return first

    def has_fewer_turns(self, loop: control.For) -> Value:
        """Whether the first team has a turn of a loop more than this one."""
        b = self.b
        left = b.floormod(_count(b, loop.lower, loop.upper, loop.step), loop.teams)
        return b.and_(b.compare("gt", left, 0), b.compare("le", left, self.team))

    def even_out(self, fewer: Value) -> None:
        """A team with fewer iterations passes the order barrier once more: the first team is next where the loop begins
        again."""
        with self.b.when(fewer):
            self.ping_pong_wait()
            self.ping_pong_arrive()

    def ping_pong_wait(self) -> None:
        with self.b.because(self.order()):
            self.b.emit(roles.PingPongWait(self.team))

    def order(self) -> Origin:
        """Of the order barrier of teams: the slots that a team receives are those of its own turns."""
        received = places(ring.first.loc for ring in self.rings.rings)
        return Origin(self.pass_name, "order barrier: teams receive slots in turn", received)

    def ping_pong_arrive(self) -> None:
        assert self.teams is not None
        with self.b.because(self.order()):
            self.b.emit(roles.PingPongArrive(self.b.floormod(self.b.add(self.team, 1), self.teams.count)))

    def turns_of_others(self, loop: control.For, state: StateValues, pipeline_states: Sequence[PipelineState]) -> _Tail:
        """What goes to the end of a loop's body, which has not been changed yet: the turns up to this team's next."""
        tail = Block()
        after = self.arguments(tail, state, pipeline_states)
        with self.b.inside(tail):
            passed, number = _Passed(self.rings, self.b), loop.iv
            for _ in range(1, loop.teams):
                number = self.b.add(number, loop.step)
                passed.turn(loop, number, after)
        return _Tail(tail, self.carried(after, pipeline_states))

    def region(
        self, block: Block, inner: StateValues, pipeline_states: Sequence[PipelineState], tail: _Tail | None = None
    ) -> None:
        self.block(block, inner)
        more = tuple(self.carried(inner, pipeline_states))
        end = block.terminator
        if tail is not None:
            names = dict(zip(tail.block.args, more, strict=True))
            ops = [clone(op, names) for op in tail.block.ops]
            block.ops[len(block.ops) - (end is not None) :] = [*ops, *([end] if end is not None else [])]
            more = tuple(names.get(v, v) for v in tail.values)
        if isinstance(end, (control.Yield, control.Condition)):
            end.values = (*end.values, *more)
        elif more:
            block.ops.append(control.Yield(more))
