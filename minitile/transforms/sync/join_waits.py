"""Copies that follow one another are awaited together: on thread IR, in front of all that places synchronisation.

    %a = cp_async %As, …                     %a = cp_async %As, …
    %t = join %a ; wait %t             →     %b = cp_async %Bs, …
    %b = cp_async %Bs, …                     %u = join %a, %b ; wait %u
    %u = join %b ; wait %u

A copy that a program does not pipeline is awaited where it stands. Where the next one follows, both are one group, and
under way at the same time: if nothing between the two waits synchronises threads, writes, or reads what is no tensor.
Only a join that its wait alone uses is moved.
"""

from __future__ import annotations

from collections import Counter

from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import thread, tile
from minitile.ir.types import TensorType
from minitile.transforms.manager import PassContext


def join_waits(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    ops = list(kernel.walk())
    if sum(isinstance(op, tile.Wait) for op in ops) > 1 and any(isinstance(op, thread.CpAsync) for op in ops):
        _block(kernel.body, Counter(v for op in ops for v in op.operands))


def _block(block: Block, uses: Counter[Value]) -> None:
    ops: list[Op] = []
    held: list[tuple[tile.Join, tile.Wait]] = []  # a join and its wait, last in `ops` but for what may stand between
    for op in block.ops:
        for region in op.regions:
            _block(region, uses)
        if isinstance(op, tile.Wait) and (own := _own_join(op, uses)) is not None:
            for join, wait in held:
                ops.remove(join)
                ops.remove(wait)
                own.tokens = (*join.tokens, *own.tokens)
            held = [(own, op)]
        elif held and not _may_stand_between(op, held[0][0]):
            held = []
        ops.append(op)
    block.ops = ops


def _own_join(wait: tile.Wait, uses: Counter[Value]) -> tile.Join | None:
    """The join of copies by cp.async that is there for this wait alone."""
    join = wait.token.op
    if not isinstance(join, tile.Join) or uses[join.result] > 1 or not join.tokens:
        return None
    return join if all(isinstance(t.op, thread.CpAsync) and not t.op.wave for t in join.tokens) else None


def _may_stand_between(op: Op, held: tile.Join) -> bool:
    """Whether the copies of `held` may be under way beside an operation: what does nothing, reads tensors, or copies to
    other buffers."""
    if isinstance(op, tile.Join):
        return all(isinstance(t.op, thread.CpAsync) for t in op.tokens)
    if op.regions or op.orders or op.terminator or op.syncs():
        return False
    if isinstance(op, thread.CpAsync):
        return op.dst_mem not in {t.op.dst_mem for t in held.tokens if isinstance(t.op, thread.CpAsync)}
    mems = [None if access.writes else access.mem for access in op.accesses()]
    return all(mem is not None and isinstance(mem.type, TensorType) for mem in mems)
