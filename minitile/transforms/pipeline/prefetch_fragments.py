"""A policy: the first fragments of the next iteration are loaded before the last multiplication of this one.

    for … (%k, %c, %t0, %t1) {                     %f = if %trips { wait %t0 ; ldmatrix slot 0 … } orelse { zeros }
      wait %t0                                     for … (%k, %c, %t0, %t1, %f) {
      %f = ldmatrix slot(%k) …                       %c1 = mma_sync %f, %c
      %c1 = mma_sync %f, %c                  ->      %g = ldmatrix slot(%k) …
      %g = ldmatrix slot(%k) …                       wait %t1
      %c2 = mma_sync %g, %c1                         %f1 = ldmatrix slot(%k + 1) …
      %t2 = join …                                   %c2 = mma_sync %g, %c1
      yield %c2, %t1, %t2                            %t2 = join …
    }                                                yield %c2, %t1, %t2, %f1
                                                   }

So the wait, the barrier that follows it and the latency of ldmatrix hide behind the tensor cores instead of standing
between two iterations. Only for loops of nothing but loads, multiplications and asynchronous copies, with a token for
the next iteration at hand (three versions or more).

The schedule: waits and the first multiplication's reads in stage -1, in front of the last multiplication, all else
where it is. In the last iteration there is no next one. Its load reads the slot at hand once more instead of one that
may never have been written; the analyses are told the slot of the rule (`slot`), since no iteration follows whose
accesses could tell."""

from __future__ import annotations

from contextlib import suppress

from minitile.ir.builder import Builder
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import control, thread, tile
from minitile.ir.rewrite import rewrite_loops
from minitile.transforms.manager import PassContext
from minitile.transforms.schedule.expand import READS, Expansion
from minitile.transforms.schedule.schedule import Line, Step, computed_anywhere
from minitile.transforms.schedule.verify import ScheduleError, verify_line


def prefetch_fragments(kernel: Kernel, context: PassContext) -> None:
    """The pass. Not for LDS-DMA: the earlier wait would leave one iteration's copies fewer under way, and LLVM moves
    the reads up by itself."""
    if context.target.has("cp_async"):
        rewrite_loops(kernel.body, _ahead)


def _ahead(loop: control.For, before: Block) -> None:
    line = _line(loop) if all(_is_plain(op) for op in loop.body.ops) else None
    if line is None:
        return
    with suppress(ScheduleError):  # nothing is under way for the next iteration, or not known yet where it is needed
        verify_line(loop, line)
        Expansion(Builder(before, loop.loc), loop, line).run()


def _line(loop: control.For) -> Line | None:
    ops = loop.body.before_end
    products = [op for op in ops if isinstance(op, thread.MmaSync)]
    waits = {op for op in ops if isinstance(op, tile.Wait)}
    if not products or not waits or any(w in ops[ops.index(products[0]) :] for w in waits):
        return None
    wanted: set[Value] = {products[0].a, products[0].b}
    head: list[Op] = []
    for op in reversed(ops[: ops.index(products[0])]):
        if op in waits or any(r in wanted for r in op.results):
            head.insert(0, op)
            wanted.update(op.operands)
    early = [op for op in head if op in waits or isinstance(op, READS)]
    if len(early) == len(waits) or not all(op in early or computed_anywhere(op) for op in head):
        return None  # nothing to read, or what is waited for is under way since this iteration alone
    line: Line = []
    for op in ops:
        line += [Step(each, -1, "clamped") for each in early] if op is products[-1] else []
        line += [Step(op)] if op not in early else []
    return line


def _is_plain(op: Op) -> bool:
    if isinstance(op, thread.LoadMem):
        return op.space == "shared"
    kinds = (thread.LdMatrix, thread.MmaSync, thread.CpAsync, tile.Join, tile.Wait, tile.NoToken, control.Yield)
    return op.pure or isinstance(op, kinds)
