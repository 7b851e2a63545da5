"""tcgen05's fences and waits for stores, where they are needed: a pass on thread IR behind all that synchronises.

    barrier ; %x = tensor_registers …       →   barrier ; fence after ; %x = tensor_registers …
    tensor_write … ; barrier                →   tensor_write … ; wait st ; fence before ; barrier

    fence after     in front of an access of tensor memory, where a synchronisation may stand between it and the fence
                    before, and another access before that
    fence before    in front of a synchronisation by which others learn of this thread's accesses, where loads or stores
                    may stand between it and the fence before
    wait st         the same for stores, and in front of a load of the same columns, or of another store to them

A synchronisation is one between threads that access tensor memory: a barrier, or an mbarrier at which commits arrive;
where the program orders its roles itself, any mbarrier. An arrival tells others and learns nothing, a wait the other
way round. A product is fenced where it is `reused`, and threads may have loaded or stored before, or another role may
have done anything; otherwise those before it are its thread's own, of the same accumulator, and in order; so are copies
of scales. A commit has a fence in itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from minitile.backends.nvidia.blackwell.layouts import ROWS
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import blackwell, control, explicit, roles, thread
from minitile.ir.origin import Origin, places

WARP = 32
_ACCESSES = (
    *(blackwell.TensorProducts, blackwell.TensorCopies),  # by one thread
    *(blackwell.TensorRegisters, blackwell.TensorWrite),
)


_Columns = tuple[int, int]  # the first, and one behind the last


@dataclass(frozen=True, slots=True)
class _State:
    """What may be so on some path: tensor memory has been accessed; by others than the thread that issues products; a
    synchronisation stands behind an access, and no fence after it; loads or stores have no fence behind them; stores,
    to these columns, no wait."""

    accessed: bool = False
    by_others: bool = False
    met: bool = False
    told: bool = True
    stored: frozenset[_Columns] = frozenset()

    def join(self, other: _State) -> _State:
        some = (self.accessed or other.accessed, self.by_others or other.by_others, self.met or other.met)
        return _State(*some, self.told and other.told, self.stored | other.stored)


def tensor_fences(kernel: Kernel, context: Any) -> None:
    """The pass."""
    found = [op for op in kernel.walk() if isinstance(op, _ACCESSES)]
    rings = {op.ring for op in found if isinstance(op, blackwell.TensorProducts)}
    if kernel.attrs.get("explicit_sync"):  # any barrier of the program may be between accesses
        rings |= {sync.on for op in kernel.walk() for sync in op.syncs() if isinstance(sync.on, Value)}
    if found:
        apart = any(isinstance(op, roles.ByRole) for op in kernel.walk())
        _Walk(rings).block(kernel.body, _State(by_others=apart), True)


class _Walk:
    def __init__(self, rings: set[Value]) -> None:
        self.rings = rings

    def block(self, block: Block, state: _State, inserts: bool) -> _State:
        """The state at a block's end. `inserts`: what is missing."""
        ops: list[Op] = []
        for op in block.ops:
            if isinstance(op, control.Structured):
                state = self.structured(op, state, inserts)
                ops.append(op)
                continue
            missing, state = self.step(op, state)
            at = len(ops) - (bool(ops) and isinstance(ops[-1], explicit.WarpBarrier) and self.meets(op))
            ops[at:at] = missing
            ops.append(op)
        if inserts:
            block.ops = ops
        return state

    def structured(self, op: control.Structured, state: _State, inserts: bool) -> _State:
        if not op.repeats:
            ends = [self.block(region, state, inserts) for region in op.regions]
            return ends[0].join(ends[1])
        head, before = state, None
        while head != before:
            before, end = head, head
            for region in op.regions:
                end = self.block(region, end, False)
            head = head.join(end)
        end = head
        for region in op.regions:
            end = self.block(region, end, inserts)
        return head.join(end)

    def meets(self, op: Op) -> bool:
        """Whether threads that access tensor memory synchronise."""
        in_warp = isinstance(op, thread.Barrier) and op.threads == WARP
        if in_warp or isinstance(op, explicit.WarpBarrier | blackwell.Tcgen05Commit):
            return False
        return any(sync.kind == "meet" or sync.on in self.rings for sync in op.syncs())

    def step(self, op: Op, state: _State) -> tuple[list[Op], _State]:
        """What must stand in front of an operation, and the state behind it."""
        missing: list[Op] = []
        if isinstance(op, blackwell.Tcgen05Fence):
            return missing, replace(state, met=False) if op.side == "after" else replace(state, told=True)
        if self.meets(op):
            kinds = {sync.kind for sync in op.syncs()}
            if kinds != {"acquire"}:
                if not state.told:
                    missing = [*_wait(op, state), _fence(op, "before", "accesses before")]
                state = replace(state, told=True, stored=frozenset())
            if "acquire" in kinds:  # behind accesses of another role's
                state = replace(state, met=True)
            elif "meet" in kinds:
                state = replace(state, met=state.met or state.accessed)
            return missing, state
        if not isinstance(op, _ACCESSES):
            return missing, state
        alone = isinstance(op, blackwell.TensorProducts | blackwell.TensorCopies)
        ordered = alone and not (state.by_others and isinstance(op, blackwell.TensorProducts) and op.reused)
        if state.met and not ordered:
            missing.append(_fence(op, "after", "accesses before"))
            state = replace(state, met=False)
        mine = {_columns(op)} if isinstance(op, blackwell.TensorRegisters | blackwell.TensorWrite) else set()
        if any(first < end and other < behind for first, behind in mine for other, end in state.stored):
            missing += _wait(op, state)
            state = replace(state, stored=frozenset())
        stored = state.stored | (mine if isinstance(op, blackwell.TensorWrite) else set())
        by_others = state.by_others or not alone
        return missing, replace(state, accessed=True, by_others=by_others, told=state.told and alone, stored=stored)


def _columns(op: blackwell.TensorRegisters | blackwell.TensorWrite) -> _Columns:
    """Of tensor memory, those that it may touch."""
    alloc = op.mem.op
    assert isinstance(alloc, blackwell.TensorAlloc)
    blocks = max(1, op.mem.shape[0] // ROWS) * alloc.type_.versions
    first, behind = op.span or (0, blocks * alloc.stride)
    return alloc.column + first, alloc.column + behind


def _fence(op: Op, side: str, reason: str) -> Op:
    return _made(blackwell.Tcgen05Fence(side), op, reason)


def _wait(op: Op, state: _State) -> list[Op]:
    return [_made(blackwell.Tcgen05Wait("st"), op, "stores complete")] if state.stored else []


def _made(new: Op, op: Op, reason: str) -> Op:
    new.loc, new.why = op.loc, Origin("tensor_fences", reason, after=places([op.loc]))
    return new
