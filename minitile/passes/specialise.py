"""Warp specialisation: one role feeds shared memory, the other multiplies.

    for 0, %n, 1, [%z] {pipelined, 4 stages} (%k, %c) {      %ring = channel %As, %Bs {slots = 4}
      copy %A[…], %As                                         specialised producer {
      copy %B[…], %Bs                                           for … [0, 0] (%k, %i, %p) {
      %c1 = gemm %As, %Bs, %c                          →          acquire %ring, %i, %p ; expect %ring, %i
      yield %c1                                                   tma_copy %A[…], %As … ; tma_copy %B[…], %Bs …
    }                                                             yield next(%i, %p) } }
    store %c, %C[…]                                           consumer {
                                                                for … [%z, done, 0, 0, 0] (%k, %c, %t, %last, %i, %p) {
                                                                  receive %ring, %i, %p
                                                                  %c1, %t1 = async_gemm %As, %Bs, %c   // slot %i
                                                                  wait %t ; release %ring, %last if %k > 0
                                                                  yield %c1, %t1, %i, next(%i, %p) }
                                                                %r = await %c, %t ; store %r, %C[…] }

A gemm whose result only goes into the next iteration stays in flight until something there uses it, and its slot is
released then (behind the issue of the next gemm, when that is the use). Any other gemm is awaited at once. `index` and
`phase` are carried, so trip counts of 0 and 1 need no case of their own.

What this pass cannot do yet it leaves to software pipelining; `context.notes` says why. It wants one pipelined loop,
whose copies TMA can make (16-byte strides, whole buffers), and whose shared buffers only gemms read.
"""

from __future__ import annotations

from dataclasses import dataclass

from minitile.ir.builder import Builder, constant_of
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import control, roles, tile
from minitile.ir.rewrite import clone
from minitile.ir.types import BufferType, ScalarType, TensorType, TileType, f32
from minitile.passes.affine import Affine, Facts
from minitile.passes.manager import PassContext
from minitile.passes.rules import Rules

BOX = 256  # elements of a box in each dimension: cuTensorMapEncodeTiled
PRODUCER = 128  # threads of the producer's warpgroup


class Refused(Exception):
    """Why a kernel is not specialised."""


def specialise(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    if not context.target.has("wgmma"):
        return
    launch = next(op for op in kernel.body.ops if isinstance(op, control.Launch))
    try:
        plan = _analyse(kernel, launch, context)
    except Refused as reason:
        context.notes.append(f"not warp-specialised: {reason}")
        return
    launch.body.ops = _rebuild(launch, plan)
    kernel.attrs["producer_threads"] = PRODUCER


@dataclass
class _Ring:
    """Copies that the same gemms read: they share a channel."""

    copies: list[tile.Copy]
    gemms: list[tile.Gemm]


@dataclass
class _Plan:
    """`early` copies stand before the loop and stay for all of it."""

    loop: control.For
    at: int
    rings: list[_Ring]
    early: list[tile.Copy]
    gemms: list[tile.Gemm]
    slots: int

    @property
    def copies(self) -> list[tile.Copy]:
        return [c for ring in self.rings for c in ring.copies]


def _analyse(kernel: Kernel, launch: control.Launch, context: PassContext) -> _Plan:
    loops = [(n, op) for n, op in enumerate(launch.body.ops) if isinstance(op, control.For) and op.kind == "pipelined"]
    if len(loops) != 1:
        raise Refused(f"{len(loops)} pipelined loops stand in the kernel's body")
    at, loop = loops[0]
    if loop.stages < 2:
        raise Refused("num_stages is less than 2")
    if constant_of(loop.lower) != 0 or constant_of(loop.step) != 1:
        raise Refused("the pipelined loop does not count from 0 by 1")
    body = loop.body.ops
    copies = [op for op in body if isinstance(op, tile.Copy) and isinstance(op.src.type, TensorType)]
    gemms = [op for op in body if isinstance(op, tile.Gemm)]
    if not copies or not gemms:
        raise Refused("the pipelined loop does not copy and multiply")
    wanted = {v for g in gemms for v in (g.a, g.b)}
    early = [op for op in launch.body.ops[:at] if isinstance(op, tile.Copy) and op.dst in wanted]
    facts = Facts(kernel)
    for copy in (*copies, *early):
        _check_copy(kernel, copy, facts)
    buffers = {c.dst for c in (*copies, *early)}
    if len(buffers) != len(copies) + len(early):
        raise Refused("two copies fill one buffer")
    for gemm in gemms:
        _check_gemm(gemm, buffers, launch.threads, context.rules)
    for op in launch.body.walk():
        if op not in copies and op not in early and op not in gemms:
            _check_op(op, buffers)
    _slice(loop, copies)
    return _Plan(loop, at, _rings(copies, gemms), early, gemms, loop.stages)


def _rings(copies: list[tile.Copy], gemms: list[tile.Gemm]) -> list[_Ring]:
    """In the order in which the gemms first want them."""
    rings: dict[tuple[int, ...], _Ring] = {}
    for copy in copies:
        readers = [n for n, g in enumerate(gemms) if copy.dst in (g.a, g.b)]
        if not readers:
            raise Refused(f"no gemm reads the copy of {copy.src.name}")
        rings.setdefault(tuple(readers), _Ring([], [gemms[n] for n in readers])).copies.append(copy)
    return [rings[key] for key in sorted(rings)]


def _check_copy(kernel: Kernel, copy: tile.Copy, facts: Facts) -> None:
    shape, dtype = copy.dst.shape, copy.dst.dtype
    if not isinstance(copy.dst.type, BufferType) or copy.dst.type.space != "shared" or copy.src.dtype is not dtype:
        raise Refused(f"the copy of {copy.src.name} does not go to shared memory as it is")
    if copy.shape != shape or any(constant_of(i) != 0 for i in copy.dst_indices) or len(shape) != 2:
        raise Refused(f"the copy of {copy.src.name} does not fill all of a matrix")
    order = [d for d in copy.src_dims if d is not None]
    if order != list(range(len(shape))) or copy.src_dims[-1] is None or len(copy.src.shape) > 5:
        raise Refused(f"the copy of {copy.src.name} turns it")
    if any(isinstance(i.type, TileType) for i in copy.src_indices):
        raise Refused(f"the copy of {copy.src.name} gathers")
    if shape[0] > BOX or shape[1] * dtype.bytes % 32:
        raise Refused(f"a box of {shape[0]}x{shape[1]} is not TMA's")
    if len(copy.src.shape) > 1:
        last = copy.src.shape[-1]
        row = facts.affine(kernel.dims[last]) if isinstance(last, str) else Affine(last)
        if facts.multiple(row) * dtype.bytes % 16:
            raise Refused(f"the rows of {copy.src.name} may not be multiples of 16 bytes")


def _check_gemm(gemm: tile.Gemm, buffers: set[Value], threads: int, rules: Rules) -> None:
    if gemm.b not in buffers or (gemm.a not in buffers and not isinstance(gemm.a.type, TileType)):
        raise Refused("a gemm's operand is not one of the copied buffers")
    if any(constant_of(i) != 0 for i in (*gemm.a_indices, *gemm.b_indices)):
        raise Refused("a gemm reads part of a buffer")
    reason = rules.refuses_async(gemm, threads)
    if reason:
        raise Refused(reason)


def _check_op(op: Op, buffers: set[Value]) -> None:
    """No accesses of the rings but the copies and gemms."""
    if isinstance(op, (tile.Alloc, control.For, control.If, control.Yield)):
        return
    if any(v in buffers for v in op.operands):
        raise Refused(f"`{op.mnemonic}` uses a buffer of the pipeline")
    if isinstance(op, (tile.Gemm, control.While)) or any(a.mem is None for a in op.accesses()):
        raise Refused(f"`{op.mnemonic}` stands beside the pipelined loop")


# The two roles -------------------------------------------------------------------------------------------------------


def _rebuild(launch: control.Launch, plan: _Plan) -> list[Op]:
    """What stands before the loop and yields no tiles is for both roles; the consumer has the rest."""
    before, after = launch.body.ops[: plan.at], launch.body.ops[plan.at + 1 :]
    end = [after.pop()] if after and after[-1].terminator else []
    common = [
        op for op in before if (op.results or op.pure) and not any(isinstance(r.type, TileType) for r in op.results)
    ]
    mine = [op for op in before if op not in common and op not in plan.early]
    outer = Block(ops=common)
    b = Builder(outer, plan.loop.loc)
    for copy in plan.copies:
        alloc = copy.dst.op
        assert isinstance(alloc, tile.Alloc)
        t = alloc.type_
        alloc.type_ = copy.dst.type = BufferType(t.space, t.shape, t.dtype, plan.slots)
    rings = [_channel(b, ring.copies, plan.slots, launch.threads) for ring in plan.rings]
    early = _channel(b, plan.early, 1, launch.threads) if plan.early else None
    producer, consumer = Block(), Block(ops=mine)
    _producer(Builder(producer, plan.loop.loc), plan, rings, early)
    _consumer(Builder(consumer, plan.loop.loc), plan, rings, early)
    consumer.ops += after
    registers = {1: (56, 256), 2: (40, 232), 3: (32, 160)}.get(launch.threads // 128, (24, 112))
    b.emit(roles.Specialised(producer_threads=PRODUCER, registers=registers, producer=producer, consumer=consumer))
    return outer.ops + end


def _channel(b: Builder, copies: list[tile.Copy], slots: int, threads: int) -> Value:
    ring = b.emit(roles.Channel(tuple(c.dst for c in copies), slots, threads)).result
    ring.name = "ring"
    return ring


def _next(b: Builder, index: Value, phase: Value, slots: int) -> tuple[Value, Value]:
    """The slot after this one: at the ring's end the first again, in the other phase."""
    following = b.add(index, 1)
    wraps = b.compare("eq", following, slots)
    return (
        b.select(wraps, b.constant(0), following),
        b.select(wraps, b.xor(phase, 1), phase),
    )


def _producer(b: Builder, plan: _Plan, rings: list[Value], early: Value | None) -> None:
    loop, body = plan.loop, Block()
    zero = b.constant(0)
    if early is not None:
        _feed(b, plan.early, early, zero, {})
    k = body.add_arg(loop.iv.type, loop.iv.name)
    index, phase = body.add_arg(zero.type, "slot"), body.add_arg(zero.type, "phase")
    names: dict[Value, Value] = {loop.iv: k}
    with b.inside(body):
        for op in _slice(loop, plan.copies):
            b.emit(clone(op, names))
        for ring, channel in zip(plan.rings, rings, strict=True):
            b.emit(roles.Acquire(channel, index, phase))
            _feed(b, ring.copies, channel, index, names)
        b.emit(control.Yield(_next(b, index, phase, plan.slots)))
    b.emit(control.For(loop.lower, loop.upper, loop.step, (zero, zero), body=body))


def _feed(b: Builder, copies: list[tile.Copy], channel: Value, index: Value, names: dict[Value, Value]) -> None:
    b.emit(roles.Expect(channel, index))
    for copy in copies:
        at = tuple(names.get(v, v) for v in copy.src_indices)
        tf32 = copy.dst.dtype is f32  # only gemms read the rings
        new = b.emit(roles.TmaCopy(copy.src, at, copy.dst, channel, index, copy.src_dims, tf32=tf32))
        new.loc = copy.loc


def _slice(loop: control.For, copies: list[tile.Copy]) -> list[Op]:
    """The loop's operations that the copies' places are computed by. Refused where the producer can't do those."""
    wanted = {v for c in copies for v in c.src_indices}
    found: list[Op] = []
    for op in reversed(loop.body.ops):
        if any(r in wanted for r in op.results):
            if not (op.pure or isinstance(op, tile.Load)) or not all(
                isinstance(r.type, ScalarType) for r in op.results
            ):
                raise Refused(f"a copy depends on `{op.mnemonic}`")
            found.append(op)
            wanted.update(op.operands)
    if wanted & set(loop.carried):
        raise Refused("a copy depends on what the loop carries")
    return found[::-1]


def _consumer(b: Builder, plan: _Plan, rings: list[Value], early: Value | None) -> None:
    """The loop's own body, rewritten: receives before a ring's first gemm, releases behind its last one."""
    loop, body = plan.loop, plan.loop.body
    end = loop.body.ops[-1]
    assert isinstance(end, control.Yield)
    carried = {gemm: n for gemm in plan.gemms if (n := _handed_on(loop, gemm, end)) is not None}
    staying = {c.dst for c in plan.early}
    zero = b.constant(0)
    if early is not None:
        b.emit(roles.Receive(early, zero, zero))
    done = b.emit(tile.NoToken(counter="wgmma")).result
    flight = {gemm: body.add_arg(done.type, "flight") for gemm in carried}
    last, index, phase = (body.add_arg(zero.type, n) for n in ("last", "slot", "phase"))
    first_of = {ring.gemms[0]: channel for ring, channel in zip(plan.rings, rings, strict=True)}
    last_of = {ring.gemms[-1]: channel for ring, channel in zip(plan.rings, rings, strict=True)}
    old, body.ops = body.ops, []
    tokens: dict[tile.Gemm, Value] = {}
    renamed: dict[Value, Value] = {}
    waiting = dict(carried)  # gemms of the iteration before that nobody has awaited yet

    def settle(gemm: tile.Gemm) -> None:
        """The gemm of the iteration before is complete: its slot is free."""
        del waiting[gemm]
        if gemm in last_of:
            more = b.compare("gt", body.args[0], loop.lower)
            b.emit(roles.Release(last_of[gemm], last, condition=more))

    with b.inside(body):
        for op in old[:-1]:
            for gemm, n in list(waiting.items()):
                # Its result is used, or the registers that it reads A from are about to be written again.
                if op is not gemm and (loop.carried[n] in _uses(op) or gemm.a in op.results):
                    renamed[loop.carried[n]] = b.emit(roles.Await(loop.carried[n], flight[gemm])).result
                    settle(gemm)
            _replace_uses(op, renamed)
            if op in plan.copies:
                continue
            if not isinstance(op, tile.Gemm):
                b.emit(op)
                continue
            if op in first_of:
                b.emit(roles.Receive(first_of[op], index, phase))
            issued = _issue(b, op, index, staying)
            if op not in carried:
                renamed[op.result] = b.emit(roles.Await(*issued.results)).result
                renamed[op.result].name = op.result.name
                if op in last_of:
                    b.emit(roles.Release(last_of[op], index))
                continue
            renamed[op.result], tokens[op] = issued.results
            if op in waiting:
                b.emit(tile.Wait(flight[op]))
                settle(op)
        values = tuple(renamed.get(v, v) for v in end.values)
        b.emit(control.Yield((*values, *(tokens[g] for g in carried), index, *_next(b, index, phase, plan.slots))))
    starts = (*loop.init, *(done for _ in carried), zero, zero, zero)
    new = b.emit(control.For(loop.lower, loop.upper, loop.step, starts, body=body))
    at = {n: len(loop.results) + i for i, n in enumerate(carried.values())}
    for n, result in enumerate(loop.results):
        fresh = new.results[n]
        if n in at:
            fresh = b.emit(roles.Await(fresh, new.results[at[n]])).result
        # The code behind the loop keeps using the old results: they are what the new values define.
        _replace_result(result, fresh)


def _uses(op: Op) -> set[Value]:
    """The operands of an operation and of all in its regions."""
    return {v for inner in (op, *(o for region in op.regions for o in region.walk())) for v in inner.operands}


def _replace_uses(op: Op, renamed: dict[Value, Value]) -> None:
    op.replace_operands(lambda v: renamed.get(v, v))
    for region in op.regions:
        for inner in region.walk():
            inner.replace_operands(lambda v: renamed.get(v, v))


def _replace_result(old: Value, new: Value) -> None:
    owner = new.owner
    assert isinstance(owner, Op)
    owner.results = tuple(old if r is new else r for r in owner.results)
    old.owner, old.index = owner, new.index


def _handed_on(loop: control.For, gemm: tile.Gemm, end: control.Yield) -> int | None:
    """The number of the carried value that the gemm's result is, if it is nothing else: it may stay in flight."""
    if [op for op in loop.body.walk() if gemm.result in op.operands] != [end]:
        return None
    places = [n for n, v in enumerate(end.values) if v is gemm.result]
    return places[0] if len(places) == 1 else None


def _issue(b: Builder, op: tile.Gemm, slot: Value, staying: set[Value]) -> roles.AsyncGemm:
    """The gemm in flight; the slot is that of its operands in rings."""
    ringed = [isinstance(v.type, BufferType) and v not in staying for v in (op.a, op.b)]
    gemm = roles.AsyncGemm(
        op.a,
        op.a_indices,
        op.b,
        op.b_indices,
        op.c,
        a_slot=slot if ringed[0] else None,
        b_slot=slot if ringed[1] else None,
        transpose_a=op.transpose_a,
        transpose_b=op.transpose_b,
        a_dims=op.a_dims,
        b_dims=op.b_dims,
        policy=op.policy,
    )
    gemm.loc = op.loc
    gemm.results[0].name = op.result.name
    return b.emit(gemm)
