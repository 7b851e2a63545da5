"""Loops whose iterations overlap are written anew: by the user's own schedule, or by one that lets two gemms run side
by side.

    for lower … (%k, %o) {                       if lower < upper {
      %s = Q · K[k]                                %s = Q · K[lower] ; %p = f(%s) ; %o' = g(%o, %s)
      %p = f(%s) ; %o' = g(%o, %s)                 for lower + step … (%k, %o', %p) {
      %o'' = %o' + %p · V[k]                  →      %s = Q · K[k]
      yield %o''                                     %o'' = %o' + %p · V[k - step]
    }                                                %p' = f(%s) ; %o''' = g(%o'', %s)
                                                     yield %o''', %p' }
                                                   %o' + %p · V[last] }

A schedule of the user's own (`order` and `stage_of`, in check_schedule's normal form) goes first, specialised or not;
`side_by_side` has one for attention's shape, where consumers are apart. Either is data (schedule/schedule.py), and
written by schedule/expand.py. What is left here is the roles: the producer feeds in the order in which is received, and
warpgroups have the tensor cores one after the other.
"""

from __future__ import annotations

from minitile.hardware import WARPGROUP
from minitile.ir.builder import Builder
from minitile.ir.core import Block, Kernel, Value
from minitile.ir.ops import control, explicit, roles
from minitile.ir.origin import Origin, places
from minitile.ir.types import PipelineType
from minitile.transforms.manager import PassContext
from minitile.transforms.schedule.cost import turn_of
from minitile.transforms.schedule.expand import Expansion
from minitile.transforms.schedule.schedule import STEADY, Line, Step, schedule_of
from minitile.transforms.schedule.side_by_side import depending, side_by_side
from minitile.transforms.schedule.steady import in_order, steady

_Threads = tuple[int, int]  # of the team whose program it is, of all consumers


def skew(kernel: Kernel, context: PassContext) -> None:
    """The pass. Raises LanguageError where a schedule needs more versions of a buffer than there are."""
    _block(kernel.body, None, set(), context)
    for op in list(kernel.walk()):
        if isinstance(op, roles.WarpSpecialized):
            late: set[Value] = set()
            threads = kernel.threads
            for loop in op.producer.walk() if context.turns is not None else ():
                if isinstance(loop, control.For):
                    _draw(loop, None, context)
            _block(op.consumer, (threads, threads), late, context)
            _feed_last(op.producer, late)
            if any(isinstance(inner, roles.OrderBarrierWait) for inner in op.consumer.walk()):
                init = roles.OrderBarrierInit()
                init.why = next(inner.why for inner in op.consumer.walk() if isinstance(inner, roles.OrderBarrierWait))
                op.consumer.ops.insert(0, init)


def _block(block: Block, threads: _Threads | None, late: set[Value], context: PassContext) -> None:
    """`threads`: of the consumers whose block it is. `late` learns the pipelines that are received late."""
    old, block.ops = block.ops, []
    b = Builder(block)
    for op in old:
        if not isinstance(op, roles.WarpSpecialized):
            sides = explicit.sides(op, 0 if threads is None else threads[0])
            for region, mine in zip(op.regions, sides, strict=True):
                _block(region, None if threads is None else (mine, threads[1]), late, context)
        own = isinstance(op, control.For) and op.order is not None
        line = _line(op, threads) if isinstance(op, control.For) else None
        if context.turns is not None and isinstance(op, control.For) and (line or threads):
            _draw(op, line, context)
        if line is None or not isinstance(op, control.For):
            b.emit(op)
        elif not any(step.stage for step in line):
            Expansion(b, op, line).run()
            b.emit(op)
        else:
            b.loc = op.loc
            late |= {each.pipeline for each, stage, _ in line if stage and isinstance(each, roles.ConsumerWait)}
            several = threads is not None and threads[0] > WARPGROUP and threads[0] == threads[1]
            Expansion(b, op, _with_barriers(line, own) if several else line).run()


def _draw(loop: control.For, line: Line | None, context: PassContext) -> None:
    """What a turn is expected to cost: of a loop by a schedule, or of a role's that stays as it is and has no other in
    it."""
    ops = loop.body.before_end
    if context.turns is not None and (line or not any(isinstance(op, control.Loop) for op in ops)):
        turn = turn_of(loop, line or [Step(op) for op in ops], context.target.rates)
        context.turns += [turn] if turn.interval else []


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


def _line(loop: control.For, threads: _Threads | None) -> Line | None:
    """The turn of a loop that is written anew: by its own schedule, or by that of two gemms side by side."""
    schedule = schedule_of(loop)
    if schedule is not None:
        line = steady(loop, schedule)
        loop.order = loop.stage_of = None
        return line
    if threads is None or loop.kind == "pipelined":
        return None
    schedule = side_by_side(loop, *threads)
    return None if schedule is None else in_order(loop, schedule)


def _with_barriers(line: Line, own: bool) -> Line:
    """A turn in which each of several warpgroups has the tensor cores between the first and the last gemm."""
    turns = _turns(line, own)
    if turns is None:
        return line
    work = places(step.op.loc for step in line if isinstance(step.op, roles.AsyncGemm))
    barriers = roles.OrderBarrierWait(), roles.OrderBarrierArrive()
    for op in barriers:
        op.why = Origin("skew", "order barrier: one warpgroup after the other has the tensor cores", work)
    first, last = turns
    wait, arrive = (Step(op, line[first].stage, STEADY) for op in barriers)
    return [*line[:first], wait, *line[first : last + 1], arrive, *line[last + 1 :]]


def _turns(line: Line, own: bool) -> tuple[int, int] | None:
    """The first and last gemm of a turn; None where, by a schedule of the user's own, something in between waits for
    one of them."""
    gemms = [n for n, step in enumerate(line) if isinstance(step.op, roles.AsyncGemm)]
    if not gemms:
        return None
    between = [step.op for step in line[gemms[0] : gemms[-1]]]
    issued = {r for op in between for r in op.results if isinstance(op, roles.AsyncGemm)}
    waits = any(not isinstance(op, (roles.Await, roles.AsyncGemm)) for op in depending(between, issued))
    return None if own and (waits or len(gemms) < 2) else (gemms[0], gemms[-1])
