"""Copies that need not wait for the primary grid go ahead of that wait: as many as there are slots for.

    pdl_sync %B                                     producer:
    producer:                                         for %k = %0 to min(%n, %0 + slots) { expect; copy B }
      for %k = %0 to %n {                             pdl_sync
        acquire ; expect                   →          for %k = %0 to min(%n, %0 + slots) { copy A }
        copy A ; copy B                               for %k = min(%n, %0 + slots) to %n {
      }                                                 acquire ; expect ; copy A ; copy B }
    consumer: …                                     consumer:
                                                      pdl_sync ; …

A kernel that reads weights is bound by memory, and memory has little to do while one grid ends and the next one sets
up. The tensors that `pdl_sync` names (`ahead`) are those that no primary grid writes. The slots of a ring are free
when a kernel starts, so the first round of them can be filled with these before the wait; the bytes of a slot are
announced all at once, by the first of the copies. Of several rings that the loop feeds the one with the fewest slots
says how many rounds that are.

Where the producer is another program than one loop over its rings, all of it waits, and a note says so.
"""

from __future__ import annotations

from collections.abc import Callable

from minitile.ir.builder import Builder, constant_of
from minitile.ir.core import Block, Kernel, Op
from minitile.ir.ops import arith, control, fences, roles
from minitile.ir.rewrite import clone
from minitile.transforms.manager import PassContext


def pdl_prefetch(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    launch = control.find_launch(kernel)
    sync = next((op for op in launch.body.ops if isinstance(op, fences.PdlSync)), None)
    if sync is None or not sync.ahead:
        return
    parts = next((op for op in launch.body.ops if isinstance(op, roles.WarpSpecialized)), None)
    reason = "no role of its own copies" if parts is None else _split(parts.producer, sync)
    if reason:
        context.notes.append(f"nothing goes ahead of T.pdl_sync: {reason}")
        sync.ahead = ()
        return
    assert parts is not None
    ops = launch.body.ops
    behind = [op for op in ops[ops.index(sync) :] if isinstance(op, fences.PdlTrigger)]
    launch.body.ops = [op for op in ops if op is not sync and op not in behind]
    parts.consumer.ops[:0] = [_wait(sync), *behind]


def _wait(sync: fences.PdlSync) -> fences.PdlSync:
    wait = fences.PdlSync(())
    wait.loc, wait.why = sync.loc, sync.why
    return wait


def _split(producer: Block, sync: fences.PdlSync) -> str:
    """Give the producer its wait; or why not."""
    loops = [op for op in producer.ops if not op.pure]
    if len(loops) != 1 or not isinstance(loops[0], control.For):
        return "the copies are not those of one loop"
    loop = loops[0]
    work = [op for op in loop.body.ops if not op.pure and not op.terminator]
    acquires = [op for op in work if isinstance(op, roles.ProducerAcquire)]
    copies = [op for op in work if isinstance(op, roles.TmaCopy)]
    if not acquires or any(constant_of(v) != 0 for v in loop.init):
        return "the copies are not those of rings that the loop begins with"
    early = {copy for copy in copies if copy.src in sync.ahead}
    late = set(copies) - early
    if not early or not late:
        return "the tensors are all, or none, of those that the loop copies"

    pipelines = [acquire.pipeline.op for acquire in acquires]
    slots = min(op.slots for op in pipelines if isinstance(op, roles.MbarrierPipeline))
    old, new = producer.ops, Block()
    b = Builder(new, loop.loc)
    with b.inside(new):
        for op in old:
            if op is not loop:
                b.emit(op)
        end = b.value(arith.Min(loop.upper, b.add(loop.lower, b.mul(loop.step, slots))))
        first = _loop(loop, lambda op: op not in late and op not in acquires)
        first.upper = end
        b.emit(first)
        b.emit(_wait(sync))
        second = _loop(loop, lambda op: op.pure or op.terminator or op in late)
        second.upper = end
        b.emit(second)
        loop.lower, loop.init = end, first.results
        b.emit(loop)
    producer.ops = new.ops
    return ""


def _loop(loop: control.For, keeps: Callable[[Op], bool]) -> control.For:
    """The loop with some of the operations of its body."""
    ops = loop.body.ops
    loop.body.ops = [op for op in ops if keeps(op)]
    new = clone(loop, {})
    loop.body.ops = ops
    assert isinstance(new, control.For)
    return new
