"""Copies to shared memory are issued as early as their indices are known, and waited for where they are read.

    copy %Q[…], %Qs                             %t0 = async_copy %Q[…], %Qs
    %i = load %indices[%bx]                     %i = load %indices[%bx]
    copy %K[%i, …], %Ks                         %t1 = async_copy %K[%i, …], %Ks
    %s = gemm %Qs, %Ks, %z               →      %t2 = async_copy %V[%i, …], %Vs
    … softmax …                                 wait %t0 ; wait %t1
    copy %V[%i, …], %Vs                         %s = gemm %Qs, %Ks, %z
    %o = gemm %p, %Vs, %z                       … softmax …
                                                wait %t2
                                                %o = gemm %p, %Vs, %z

That is for what neither roles nor a pipelined loop copies: in front of loops, under conditions, in loops whose copies
cannot go ahead. A copy that waits where it stands costs all of the memory's latency each time, one after the other. So
it is done for TileLang's programs (the attribute `resources_are_hints`), where cp.async copies: elsewhere registers
would hold what is on its way.

A copy moves up in its block, with the scalars that its indices are computed by, past what does not touch its buffer,
write its tensor or order threads; not past branches and loops, and not past the wait for a product in flight that
may read the buffer. Its wait goes down to the first operation that touches the buffer, writes the tensor or orders
threads, or holds one that does; at the latest to the block's end. Groups of copies are counted later, in their order.

A buffer that is in use earlier shares no bytes with those in use until then. Where a multiprocessor would have fewer
blocks if no buffers shared bytes (`analysis/occupancy.py`), a copy therefore stays behind what reads shared memory.
"""

from __future__ import annotations

from minitile.analysis.occupancy import room_of
from minitile.analysis.variables import is_shared
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import control, roles, tile
from minitile.ir.origin import LANDED, Origin
from minitile.ir.rewrite import recast
from minitile.ir.types import TOKEN, ScalarType, TensorType
from minitile.transforms.manager import PassContext


def hoist_copies(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    if (
        not kernel.attrs.get("resources_are_hints")
        or kernel.attrs.get("explicit_sync")
        or not context.target.has("cp_async")
    ):
        return
    blocks = [kernel.body, *(region for op in kernel.walk() for region in op.regions)]
    if not any(map(_waits, (op for block in blocks for op in block.ops))):
        return
    room = room_of(kernel, context.target, roles=False)
    apart = room.blocks({}) >= room.limit
    for block in blocks:
        for op in [op for op in block.ops if _waits(op)]:
            assert isinstance(op, tile.Copy)
            _split(block, op, apart)


def _waits(op: Op) -> bool:
    """Whether an operation is a copy that all threads wait for where it stands."""
    return (
        type(op) is tile.Copy
        and isinstance(op.src.type, TensorType)
        and is_shared(op.dst)
        and op.src.dtype is op.dst.dtype
        and not op.tf32
    )


def _split(block: Block, copy: tile.Copy, apart: bool) -> None:
    """One copy in its block: issued early, waited for late."""
    issue = recast(copy, tile.AsyncCopy)
    group = tile.Join((issue.result,))
    wait = tile.Wait(group.result)
    group.loc = wait.loc = copy.loc
    wait.why = Origin("hoist_copies", LANDED)
    at = block.ops.index(copy)
    below = at + 1
    while below < len(block.ops) and not _needs(block.ops[below], copy):
        below += 1
    ops = block.ops[at + 1 : below]
    first, along = _earliest(block, at, copy, apart)
    rest = [op for op in block.ops[first:at] if op not in along]
    block.ops[first:below] = [*along, issue, group, *rest, *ops, wait]


def _earliest(block: Block, at: int, copy: tile.Copy, apart: bool) -> tuple[int, list[Op]]:
    """Where in its block a copy can be issued, and the scalars that go with it, in order."""
    needed: set[Value] = set(copy.operands)
    along: list[Op] = []
    while at > 0:
        op = block.ops[at - 1]
        if not needed.isdisjoint(op.results):
            if not _moves(op):
                break
            needed.update(op.operands)
            along.insert(0, op)
        elif not _passes(op, copy) or not (apart or _keeps(op)):
            break
        at -= 1
    return at, along


def _moves(op: Op) -> bool:
    """Whether an operation is arithmetic on scalars."""
    return (
        op.pure
        and not op.uniform
        and not op.region_fields
        and all(isinstance(v.type, ScalarType) for v in (*op.results, *op.operands))
    )


def _passes(op: Op, copy: tile.Copy) -> bool:
    """Whether a copy can be issued in front of an operation."""
    if isinstance(op, roles.Await):
        made = op.token.op
        return isinstance(made, roles.AsyncGemm) and made.behind is None and copy.dst not in made.operands
    if isinstance(op, tile.Wait) and op.token.type == TOKEN:
        return True
    if isinstance(op, tile.Join) or op.region_fields:
        return False
    return not isinstance(op, tile.Alloc) and not _conflicts(op, copy)


def _keeps(op: Op) -> bool:
    """Whether an operation is no use of shared memory that may be the last one."""
    return not any(a.kind != "write" and a.mem is not None and is_shared(a.mem) for a in op.accesses())


def _needs(op: Op, copy: tile.Copy) -> bool:
    """Whether the copy must be complete in front of an operation."""
    return op.terminator or any(
        _conflicts(inner, copy) for inner in (op, *(o for region in op.regions for o in region.walk()))
    )


def _conflicts(op: Op, copy: tile.Copy) -> bool:
    """Whether an operation touches the copy's buffer, writes its tensor, or orders what threads do."""
    if isinstance(op, tile.Wait | tile.Join | tile.NoToken | tile.AsyncCopy) and op.syncs() == ():
        return isinstance(op, tile.AsyncCopy) and op.dst is copy.dst
    if isinstance(op, roles.Await | roles.Unset | tile.Alloc) or op.pure or op.terminator:
        return False
    if op.orders or op.syncs():
        return True
    accesses = op.accesses()
    if not accesses:
        return not isinstance(op, control.Structured)
    return any(a.mem in (None, copy.dst) or (a.writes and a.mem is copy.src) for a in accesses)
