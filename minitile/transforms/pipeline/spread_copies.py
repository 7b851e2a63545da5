"""Asynchronous copies of a loop move between its multiplications, so that issuing them hides behind the tensor cores.

    wait %t                                          wait %t
    %a, %b = if %more {                              %f0 = ldmatrix … ; %g0 = ldmatrix …
      %p = cp_async … ; %q = cp_async …              %c1 = mma_sync %f0, %g0, %c
      yield %p, %q                            ->     %p = cp_async … {half of it}, enable = %more
    } orelse { … no_token … }                        %f1 = ldmatrix … ; %g1 = ldmatrix …
    %u = join %a, %b                                 %c2 = mma_sync %f1, %g1, %c1
    %f0 = ldmatrix … ; %c1 = mma_sync …              %p2 = cp_async … {the rest}, enable = %more
    %f1 = ldmatrix … ; %c2 = mma_sync …              %u = join %p, %p2, …

First the branch goes: one that holds only pure operations and copies becomes the operations themselves, the copies
enabled by its condition. Then the copies before the first multiplication are interleaved, in order, with the places
behind each multiplication; the join that collects them moves behind the last one. The copies of an iteration go to a
slot that nothing in it reads (that is what made them asynchronous), so they may move past its reads; they stay behind
the wait and inside the iteration, so what a wait covers is the same. Joins keep their order."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import arith, control, thread, tile
from minitile.transforms.manager import PassContext
from minitile.transforms.schedule.schedule import Step
from minitile.transforms.schedule.verify import ScheduleError, verify_line


def spread_copies(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    if context.target.has("lds_dma_128"):
        # There a copy past the end is made, too, so that what is under way can be counted; also in front of the loop.
        for block in [kernel.body, *(region for op in kernel.walk() for region in op.regions)]:
            flatten_branches(block)
    for op in kernel.walk():
        if isinstance(op, control.For) and any(isinstance(o, thread.MmaSync) for o in op.body.ops):
            flatten_branches(op.body)
            _spread(op)


def flatten_branches(block: Block) -> None:
    """Branches of pure operations and asynchronous copies become straight-line code."""
    ops: list[Op] = []
    renamed: dict[Value, Value] = {}
    for op in block.ops:
        if renamed:
            op.replace_operands(lambda v: renamed.get(v, v))
        if isinstance(op, control.If) and _is_flat(op):
            ops += _flattened(op, renamed)
        else:
            ops.append(op)
    block.ops = ops


def _is_flat(op: control.If) -> bool:
    """Only pure operations and copies on one side, only finished tokens on the other."""
    copies = [o for o in op.then.ops if isinstance(o, thread.CpAsync)]
    made = {o.result for o in copies}
    return (
        bool(copies)
        and all(o.pure or isinstance(o, thread.CpAsync) for o in op.then.before_end)
        and all(isinstance(o, tile.NoToken) for o in op.orelse.before_end)
        and all(v in made for v in op.then.ops[-1].operands)
    )


def _flattened(op: control.If, renamed: dict[Value, Value]) -> list[Op]:
    ops: list[Op] = []
    for inner in op.then.before_end:
        if isinstance(inner, thread.CpAsync):
            if inner.enable is None:
                inner.enable = op.condition
                inner.enable_of = (0,) * len(inner.dst_offsets)
            else:
                both = arith.And(inner.enable, op.condition)
                ops.append(both)
                inner.enable = both.result
        ops.append(inner)
    for result, token in zip(op.results, op.then.ops[-1].operands, strict=True):
        renamed[result] = token
    return ops


def _spread(loop: control.For) -> None:
    """Interleave the copies that stand before the first multiplication with the multiplications."""
    ops = loop.body.before_end
    products = [op for op in ops if isinstance(op, thread.MmaSync)]
    copies = [op for op in ops[: ops.index(products[0])] if isinstance(op, thread.CpAsync)]
    joins = [op for op in ops if isinstance(op, tile.Join)]
    tokens = {c.result for c in copies}
    if not copies or len(joins) != 1 or not tokens <= set(joins[0].tokens) or _waits_behind(ops, copies[0]):
        return
    size = -(-sum(len(c.dst_offsets) for c in copies) // len(products))
    pieces = {copy: _pieces(copy, size) for copy in copies}
    parts = [part for copy in copies for part in pieces[copy]]
    joins[0].tokens = (*(t for t in joins[0].tokens if t not in tokens), *(p.result for p in parts))
    loop.body.ops = [each for op in loop.body.ops for each in pieces.get(op, [op])]  # type: ignore[call-overload]
    line: list[Op] = []
    for op in ops:
        line += [op] if op not in pieces and op is not joins[0] else []
        if op in products:
            n = products.index(op)
            line += parts[len(parts) * n // len(products) : len(parts) * (n + 1) // len(products)]
    line.insert(line.index(parts[-1]) + 1, joins[0])
    with suppress(ScheduleError):
        verify_line(loop, [Step(op) for op in line])
        loop.body.ops = [*line, loop.body.ops[-1]]


def _waits_behind(ops: Sequence[Op], copy: Op) -> bool:
    """Is anything between the copy and the block's end in need of it? Then it must not move."""
    after = ops[ops.index(copy) :]
    return any(isinstance(op, (tile.Wait, thread.Barrier, control.For, control.While, control.If)) for op in after)


def _pieces(copy: thread.CpAsync, size: int) -> list[thread.CpAsync]:
    """The copy as several, of at most `size` accesses each."""
    count = len(copy.dst_offsets)
    pieces = []
    for start in range(0, count, size):
        part = slice(start, start + size)
        piece = thread.CpAsync(
            copy.dst,
            copy.src,
            copy.dst_mem,
            copy.src_mem,
            copy.bytes,
            copy.dst_of[part],
            copy.dst_offsets[part],
            copy.src_of[part],
            copy.src_offsets[part],
            base=copy.base,
            predicate=copy.predicate,
            enable=copy.enable,
            dst_slot=copy.dst_slot,
            predicate_of=copy.predicate_of[part],
            enable_of=copy.enable_of[part],
            span=copy.span,
            wave=copy.wave,
            evict=copy.evict,
            halves=copy.halves[part],
        )
        piece.loc = copy.loc
        pieces.append(piece)
    return pieces
