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

A loop is rewritten where its body's last gemm needs an earlier one of the same iteration, which needs nothing that the
last one makes, and the registers do for both: that is attention's shape. A slot that is received early and released
late takes a ring of two slots or more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from minitile.ir.builder import Builder
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import arith, control, roles
from minitile.ir.rewrite import clone
from minitile.ir.types import ChannelType, TileType
from minitile.passes.manager import PassContext

WORKING = 40  # registers of a thread besides accumulators and operands
LIMIT = {1: 255, 2: 240, 3: 160}  # registers of a consumer thread, by warpgroups: setmaxnreg's sum over all must fit


def skew(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    for op in list(kernel.walk()):
        if isinstance(op, roles.Specialised):
            threads = kernel.attrs["threads"]
            _block(op.consumer, threads)
            if any(isinstance(inner, roles.TakeTurn) for inner in op.consumer.walk()):
                op.consumer.ops.insert(0, roles.OpenTurns())


def _block(block: Block, threads: int) -> None:
    old, block.ops = block.ops, []
    b = Builder(block)
    for op in old:
        for region in op.regions:
            _block(region, threads)
        split = _split(op, threads) if isinstance(op, control.For) else None
        if split is None:
            b.emit(op)
        else:
            b.loc = op.loc
            _Skewed(b, split, threads > 128).rewrite()


@dataclass
class _Split:
    """The loop's operations but its terminator: `first`, then the `late` ones of the iteration before, then `rest`."""

    loop: control.For
    first: list[Op]
    late: list[Op]
    rest: list[Op]


def _split(loop: control.For, threads: int) -> _Split | None:
    ops = [op for op in loop.body.ops if not op.terminator]
    gemms = [op for op in ops if isinstance(op, roles.AsyncGemm)]
    if (
        len(gemms) < 2
        or loop.kind == "pipelined"
        or _registers(gemms, threads) + WORKING > LIMIT.get(threads // 128, 128)
    ):
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
    first = [op for op in ops[: issued + 1] if op not in late]
    used = {v for op in late for v in op.operands}
    late |= {op for op in ops if isinstance(op, arith.Constant) and op.result in used}  # cheaper again than carried
    rest = [op for op in ops[issued + 1 :] if op not in late]
    return _Split(loop, first, [op for op in ops if op in late], rest)


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
        if not isinstance(op, (roles.Receive, roles.Release)):
            continue
        ring = op.channel.op
        assert ring is not None
        assert isinstance(op.channel.type, ChannelType)
        reads = [v for v in ring.operands if v in (gemm.a, gemm.b)]
        if not reads:
            continue
        shared = any(v in early for v in ring.operands)
        if shared and op.channel.type.slots < 2:
            return None
        if isinstance(op, roles.Release) or not shared:
            late.add(op)
    return late


def _depending(ops: Sequence[Op], values: set[Value]) -> set[Op]:
    """The operations that need some of the values, directly or through others."""
    known, found = set(values), set()
    for op in ops:
        used = [v for inner in (op, *(o for r in op.regions for o in r.walk())) for v in inner.operands]
        if not known.isdisjoint(used):
            found.add(op)
            known.update(op.results)
    return found


class _Skewed:
    """Writes the three parts: the first iteration's rest, the loop, the last iteration's late operations."""

    def __init__(self, b: Builder, split: _Split, turns: bool) -> None:
        self.b, self.split, self.loop, self.turns = b, split, split.loop, turns
        self.ends = self.loop.body.yielded
        made = {r for op in split.late for r in op.results}
        used = {v for op in split.late for o in (op, *(o for r in op.regions for o in r.walk())) for v in o.operands}
        own = {self.loop.iv, *self.loop.carried, *(r for op in (*split.first, *split.rest) for r in op.results)} - made
        late_args = [c for c, y in zip(self.loop.carried, self.ends, strict=True) if y in made]
        self.early = [n for n, y in enumerate(self.ends) if y not in made]
        self.late_args = [c.index - 1 for c in late_args if c in used]
        self.passed = sorted((v for v in used & own if v not in late_args), key=lambda v: v.serial)

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
        self.copy((*self.split.first, *self.split.rest), first)

        def at_end(names: dict[Value, Value], late: dict[int, Value]) -> list[Value]:
            """What goes on from an iteration whose early part has these names, to the one whose late part follows."""
            ends = [names.get(self.ends[n], self.ends[n]) for n in early]
            return [*ends, *(late[n] for n in late_args), *(names.get(v, v) for v in passed)]

        init = at_end(first, {n: loop.init[n] for n in late_args})
        body = Block()
        iv = body.add_arg(loop.iv.type, loop.iv.name)
        args = [body.add_arg(v.type, v.name) for v in init]
        names: dict[Value, Value] = {loop.iv: iv}
        names.update({loop.carried[n]: a for n, a in zip(early, args, strict=False)})
        before = self.late_names(args)
        with b.inside(body):
            head, late = self.split.first, self.split.late
            at = next(n for n, op in enumerate(head) if isinstance(op, roles.AsyncGemm))
            to = next(n for n, op in enumerate(late) if isinstance(op, roles.AsyncGemm)) + 1
            self.copy(head[:at], names)
            if self.turns:
                b.emit(roles.TakeTurn())
            self.copy(head[at:], names)
            self.copy(late[:to], before)
            if self.turns:
                b.emit(roles.PassTurn())
            self.copy(late[to:], before)
            names.update({loop.carried[n]: before[y] for n, y in enumerate(self.ends) if n not in early})
            self.copy(self.split.rest, names)
            b.emit(control.Yield(tuple(at_end(names, {n: before[self.ends[n]] for n in late_args}))))
        new = b.emit(control.For(b.add(loop.lower, loop.step), loop.upper, loop.step, tuple(init), body=body))
        last = self.late_names(new.results)
        self.copy(self.split.late, last)
        results = dict(zip(early, new.results, strict=False))
        return [results[n] if n in results else last[y] for n, y in enumerate(self.ends)]

    def late_names(self, values: Sequence[Value]) -> dict[Value, Value]:
        """What the late operations use, in values that an iteration has handed on."""
        own = [*(self.loop.carried[n] for n in self.late_args), *self.passed]
        return dict(zip(own, values[len(self.early) :], strict=True))

    def copy(self, ops: Sequence[Op], names: dict[Value, Value]) -> None:
        for op in ops:
            self.b.emit(clone(op, names))
