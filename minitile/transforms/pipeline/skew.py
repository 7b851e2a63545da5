"""Two gemms of which one needs the other's result run side by side: the second one an iteration behind.

    for lower … (%k, %o) {                       if lower < upper {
      %s = Q · K[k]                                %s = Q · K[lower] ; %p = f(%s) ; %o' = g(%o, %s)
      %p = f(%s) ; %o' = g(%o, %s)                 for lower + step … (%k, %o', %p) {
      %o'' = %o' + %p · V[k]                  →      %s = Q · K[k]
      yield %o''                                     %o'' = %o' + %p · V[k - step]
    }                                                %p' = f(%s) ; %o''' = g(%o'', %s)
                                                     yield %o''', %p' }
                                                   %o' + %p · V[last] }

The tensor cores work on the second gemm of one iteration while the other units compute f of the next. `late` is the
second gemm with its receives, awaits and releases; the rest stays in its iteration. What late operations use of the
rest is carried, and the operations that use what they make come behind them.

A loop is rewritten by itself where its body's last gemm needs an earlier one of the same iteration, which needs nothing
that the last one makes, and the registers do for both: that is attention's shape. No operation may pass another one
that accesses the same memory. A slot that is received early and released late, since both gemms read it, is held for
two iterations: a ring of three slots or more has one that is filled meanwhile. With two, each iteration would begin
with the whole time of its copy, which costs more than the other units' work beside the tensor cores is worth.

A product that is used an iteration later is still in flight when the next one is issued: they need registers of their
own, alternately. Such a loop is unrolled by two, and one of what may be left over:

    for lower + step, middle, 2 step … (%k, %p) { %q = A[k] · B[k] ; use %p ; %r = A[k + step] · B[k + step] ; use %q ;
                                                  yield %r }
    for middle, upper, step … { … }

A loop with a schedule of the user's own (`order` and `stage_of`, in check_schedule's normal form) is written by that
instead, specialised or not: stage 1 is late, and the new body is in the order of `order`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from minitile.analysis.register_budget import TILE_ROOM
from minitile.hardware import THREAD_REGISTERS, WARPGROUP
from minitile.ir.builder import Builder
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import arith, control, explicit, roles
from minitile.ir.origin import Origin, places
from minitile.ir.rewrite import clone
from minitile.ir.types import PipelineType, TileType
from minitile.transforms.manager import PassContext
from minitile.transforms.pipeline.schedule import Body, Steady, used

SHARED_SLOTS = 3  # of a ring that both gemms read
_Threads = tuple[int, int]  # of the team whose program it is, of all consumers
LIMIT = {
    1: THREAD_REGISTERS,
    2: 240,
    3: 160,
}  # registers of a consumer thread, by warpgroups: setmaxnreg's sum over all must fit


def skew(kernel: Kernel, context: PassContext) -> None:
    """The pass. Raises LanguageError where a schedule needs more versions of a buffer than there are."""
    _block(kernel.body, None, set())
    for op in list(kernel.walk()):
        if isinstance(op, roles.WarpSpecialized):
            late: set[Value] = set()
            threads = kernel.threads
            _block(op.consumer, (threads, threads), late)
            _feed_last(op.producer, late)
            if any(isinstance(inner, roles.OrderBarrierWait) for inner in op.consumer.walk()):
                init = roles.OrderBarrierInit()
                init.why = next(inner.why for inner in op.consumer.walk() if isinstance(inner, roles.OrderBarrierWait))
                op.consumer.ops.insert(0, init)


def _block(block: Block, threads: _Threads | None, late: set[Value]) -> None:
    """`threads`: of the consumers whose block it is. `late` learns the pipelines that are received late."""
    old, block.ops = block.ops, []
    b = Builder(block)
    for op in old:
        if not isinstance(op, roles.WarpSpecialized):
            sides = explicit.sides(op, 0 if threads is None else threads[0])
            for region, mine in zip(op.regions, sides, strict=True):
                _block(region, None if threads is None else (mine, threads[1]), late)
        split = _split(op, threads) if isinstance(op, control.For) else None
        if split is None:
            b.emit(op)
        else:
            b.loc = op.loc
            late |= {o.pipeline for o in split.of(1) if isinstance(o, roles.ConsumerWait)}
            alone = threads is None or threads[0] <= WARPGROUP or threads[0] < threads[1]
            _Skewed(b, split, not alone).rewrite()


def _feed_last(block: Block, late: set[Value]) -> None:
    """In each iteration the producer feeds what is received late behind what is received early. The other way round it
    would wait for a slot that is released in that turn, while the consumers wait for what it feeds after."""
    feeds = [n for n, op in enumerate(block.ops) if any(isinstance(v.type, PipelineType) for v in op.operands)]
    moved = [block.ops[n] for n in feeds if not late.isdisjoint(block.ops[n].operands)]
    if moved:
        end = feeds[-1] + 1
        block.ops = [*(op for op in block.ops[:end] if op not in moved), *moved, *block.ops[end:]]
    for op in block.ops:
        for region in op.regions:
            _feed_last(region, late)


@dataclass
class _Split:
    """The operations of the new loop but its terminator, in order, each with the stage that it is in: 1 is late. What
    is in both is written twice. `ordered`: warpgroups may issue the gemms in order."""

    loop: control.For
    ops: list[tuple[Op, int]]
    ordered: bool = True

    def of(self, stage: int) -> list[Op]:
        return [op for op, s in self.ops if s == stage]


def _split(loop: control.For, threads: _Threads | None) -> _Split | None:
    if loop.order is not None:
        return _scheduled(loop)
    return None if threads is None or loop.kind == "pipelined" else _side_by_side(loop, threads)


def _scheduled(loop: control.For) -> _Split | None:
    """By the user's own schedule; None, and the body in its new order, where all of it is in one stage."""
    ops = Steady(Body(loop)).ops
    loop.order = loop.stage_of = None
    if not any(stage for _, stage in ops):
        loop.body.ops = [*(op for op, _ in ops), *(op for op in loop.body.ops if op.terminator)]
        return None
    gemms = [n for n, (op, _) in enumerate(ops) if isinstance(op, roles.AsyncGemm)]
    between = [op for op, _ in ops[gemms[0] : gemms[-1]]] if gemms else []
    issued = {r for op in between for r in op.results if isinstance(op, roles.AsyncGemm)}
    waits = any(op for op in _depending(between, issued) if not isinstance(op, (roles.Await, roles.AsyncGemm)))
    return _Split(loop, ops, len(gemms) > 1 and not waits)


def _side_by_side(loop: control.For, threads: _Threads) -> _Split | None:
    """The second of two gemms behind the first one of the next iteration."""
    ops = [op for op in loop.body.ops if not op.terminator]
    gemms = [op for op in ops if isinstance(op, roles.AsyncGemm)]
    if len(gemms) < 2 or _registers(gemms, threads[0]) + TILE_ROOM > LIMIT.get(threads[1] // WARPGROUP, 128):
        return None
    last = gemms[-1]
    late = _late(ops, last)
    needs = _depending(ops, {r for g in gemms[:-1] for r in g.results})
    if late is None or last not in needs:
        return None
    made = {r for op in ops if op in late for r in op.results}
    after = {c for c, y in zip(loop.carried, loop.body.yielded, strict=True) if y in made}
    behind = _depending(ops, after)
    rest_from = next((n for n, op in enumerate(ops) if op not in late and op in behind), len(ops))
    issued = max(n for n, op in enumerate(ops) if op in gemms[:-1])
    if issued >= rest_from:
        return None
    wanted = {v for op in late for v in op.operands}
    twice = {op for op in ops if isinstance(op, arith.Constant) and op.result in wanted}  # cheaper again than carried
    if _reordered_in_memory(ops, late, issued):
        return None
    first = [(op, 0) for op in ops[: issued + 1] if op not in late]
    rest = [(op, 0) for op in ops[issued + 1 :] if op not in late]
    return _Split(loop, [*first, *((op, 1) for op in ops if op in late | twice), *rest])


def _reordered_in_memory(ops: Sequence[Op], late: set[Op], issued: int) -> bool:
    """Whether late operations would be reordered with others that access the same memory. Up to `issued` an operation
    comes in front of the late ones of the iteration before; behind it, in front of those of its own. The slots of
    pipelines have an order of their own."""
    for n, op in enumerate(ops):
        if op in late or isinstance(op, roles.ConsumerWait | roles.ConsumerRelease):
            continue
        passed = late if n <= issued else [other for other in ops[:n] if other in late]
        if any(
            _conflict(op, other)
            for other in passed
            if not isinstance(other, roles.ConsumerWait | roles.ConsumerRelease)
        ):
            return True
    return False


def _conflict(one: Op, other: Op) -> bool:
    """Whether two operations, with all that is in them, access the same memory, and one of them writes it."""
    theirs = [a for inner in other.walk() for a in inner.accesses()]
    return any(
        (a.writes or b.writes) and (a.mem is b.mem or a.mem is None or b.mem is None)
        for inner in one.walk()
        for a in inner.accesses()
        for b in theirs
    )


def _registers(gemms: Sequence[roles.AsyncGemm], threads: int) -> int:
    """Of a thread: for the tiles that gemms read or make, each in registers of its own."""
    tiles = [v for g in gemms for v in (g.a, g.c) if isinstance(v.type, TileType)]
    return sum(math.prod(t.shape) * t.dtype.bits // 32 for t in tiles) // threads


def _late(ops: Sequence[Op], gemm: roles.AsyncGemm) -> set[Op] | None:
    """The gemm, what depends on it, and the receives and releases of the rings that only it reads."""
    late = _depending(ops, set(gemm.results)) | {gemm}
    if any(op is not gemm and isinstance(op, roles.AsyncGemm) for op in late):
        return None
    early = {v for op in ops if isinstance(op, roles.AsyncGemm) and op is not gemm for v in op.operands}
    early |= {v for op in ops if op not in late and not isinstance(op, roles.AsyncGemm) for v in op.operands}
    for op in ops:
        if not isinstance(op, (roles.ConsumerWait, roles.ConsumerRelease)):
            continue
        ring = op.pipeline.op
        assert ring is not None
        assert isinstance(op.pipeline.type, PipelineType)
        reads = [v for v in ring.operands if v in (gemm.a, gemm.b)]
        if not reads:
            continue
        shared = any(v in early for v in ring.operands)
        if shared and op.pipeline.type.slots < SHARED_SLOTS:
            return None
        if isinstance(op, roles.ConsumerRelease) or not shared:
            late.add(op)
    return late


def _depending(ops: Sequence[Op], values: set[Value]) -> set[Op]:
    """The operations that need some of the values, directly or through others."""
    known, found = set(values), set()
    for op in ops:
        if not known.isdisjoint(used(op)):
            found.add(op)
            known.update(op.results)
    return found


_Ends = Callable[[dict[Value, Value], dict[int, Value]], list[Value]]


class _Skewed:
    """Writes the three parts: the first iteration's early operations, the loop, the last iteration's late ones."""

    def __init__(self, b: Builder, split: _Split, several: bool) -> None:
        self.b, self.split, self.loop = b, split, split.loop
        gemms = [n for n, (op, _) in enumerate(split.ops) if isinstance(op, roles.AsyncGemm)]
        self.ordered = (gemms[0], gemms[-1]) if several and split.ordered and gemms else None
        work = places(op.loc for op, _ in split.ops if isinstance(op, roles.AsyncGemm))
        self.order = Origin("skew", "order barrier: one warpgroup after the other has the tensor cores", work)
        self.ends = self.loop.body.yielded
        early, late = split.of(0), split.of(1)
        twice = set(early) & set(late)
        made = {r for op in late if op not in twice for r in op.results}
        self.wanted = {v for op in late for v in used(op)}
        own = {*self.loop.carried, *(r for op in early for r in op.results)} - {r for op in late for r in op.results}
        late_args = [c for c, y in zip(self.loop.carried, self.ends, strict=True) if y in made]
        self.early = [n for n, y in enumerate(self.ends) if y not in made]
        self.late_args = [c.index - 1 for c in late_args if c in self.wanted]
        self.passed = sorted((v for v in self.wanted & own if v not in late_args), key=lambda v: v.serial)
        self.alternate = any(isinstance(v.op, roles.Await) for v in self.passed)

    def rewrite(self) -> None:
        b, loop = self.b, self.loop
        then, orelse = Block(), Block()
        some = b.compare("lt", loop.lower, loop.upper)
        with b.inside(then):
            b.emit(control.Yield(tuple(self.parts())))
        with b.inside(orelse):
            b.emit(control.Yield(loop.init))
        branch = b.emit(control.If(some, then=then, orelse=orelse))
        branch.results = loop.results
        for r in branch.results:
            r.owner = branch

    def parts(self) -> list[Value]:
        """What the loop's results are when there is an iteration."""
        b, loop = self.b, self.loop
        early, late_args, passed = self.early, self.late_args, self.passed
        first = {loop.iv: loop.lower, **dict(zip(loop.carried, loop.init, strict=True))}
        self.copy(self.split.of(0), first)

        def at_end(names: dict[Value, Value], late: dict[int, Value]) -> list[Value]:
            """What goes on from an iteration whose early part has these names, to the one whose late part follows."""
            ends = [names.get(self.ends[n], self.ends[n]) for n in early]
            return [*ends, *(late[n] for n in late_args), *(names.get(v, v) for v in passed)]

        values = at_end(first, {n: loop.init[n] for n in late_args})
        start, step = b.add(loop.lower, loop.step), loop.step
        if self.alternate:
            twice = b.mul(step, 2)
            rounds = b.floordiv(b.add(b.sub(loop.upper, start), b.sub(step, 1)), step)
            middle = b.add(start, b.mul(b.floordiv(rounds, 2), twice))
            values = self.rounds(start, middle, twice, values, 2, at_end)
            start = middle
        values = self.rounds(start, loop.upper, step, values, 1, at_end)
        last = self.late_names(values)
        if loop.iv in self.wanted:
            trips = b.floordiv(b.sub(b.sub(loop.upper, loop.lower), 1), loop.step)
            last[loop.iv] = b.add(loop.lower, b.mul(trips, loop.step))
        self.copy([op.last() if isinstance(op, roles.ConsumerRelease) else op for op in self.split.of(1)], last)
        results = dict(zip(early, values, strict=False))
        return [results[n] if n in results else last[y] for n, y in enumerate(self.ends)]

    def rounds(
        self, start: Value, stop: Value, stride: Value, init: Sequence[Value], count: int, at_end: _Ends
    ) -> list[Value]:
        """The loop in its steady state, `count` iterations a round; what the last one hands on."""
        b, loop, body = self.b, self.loop, Block()
        iv = body.add_arg(loop.iv.type, loop.iv.name)
        values: Sequence[Value] = [body.add_arg(v.type, v.name) for v in init]
        with b.inside(body):
            for n in range(count):
                values = self.steady(b.add(iv, b.mul(loop.step, n)), values, at_end)
            b.emit(control.Yield(tuple(values)))
        new = control.For(start, stop, stride, tuple(init), kind=loop.kind, stages=loop.stages, body=body)
        return list(b.emit(new).results)

    def steady(self, iv: Value, values: Sequence[Value], at_end: _Ends) -> list[Value]:
        """One iteration of the steady state, with what the one before has handed on; what it hands on."""
        b, loop = self.b, self.loop
        names: dict[Value, Value] = {loop.iv: iv}
        names.update({loop.carried[n]: a for n, a in zip(self.early, values, strict=False)})
        before = self.late_names(values)
        if loop.iv in self.wanted:
            before[loop.iv] = b.sub(iv, loop.step)
        for n, (op, stage) in enumerate(self.split.ops):
            if self.ordered is not None and n == self.ordered[0]:
                with b.because(self.order):
                    b.emit(roles.OrderBarrierWait())
            self.copy([op], before if stage else names)
            if self.ordered is not None and n == self.ordered[1]:
                with b.because(self.order):
                    b.emit(roles.OrderBarrierArrive())
            if stage:  # what it makes for the next iteration is known there from here on
                ends = [(c, y) for c, y in zip(loop.carried, self.ends, strict=True) if y in op.results]
                names.update({c: before[y] for c, y in ends if c.index - 1 not in self.early})
        return at_end(names, {n: before[self.ends[n]] for n in self.late_args})

    def late_names(self, values: Sequence[Value]) -> dict[Value, Value]:
        """What the late operations use, in values that an iteration has handed on."""
        own = [*(self.loop.carried[n] for n in self.late_args), *self.passed]
        return dict(zip(own, values[len(self.early) :], strict=True))

    def copy(self, ops: Sequence[Op], names: dict[Value, Value]) -> None:
        for op in ops:
            self.b.emit(clone(op, names))
