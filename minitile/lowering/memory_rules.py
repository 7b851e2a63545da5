"""The rules of operations on memory: loads, stores, atomics, copies, allocation."""

from __future__ import annotations

import math

from minitile.ir.core import Op, Value
from minitile.ir.ops import arith, thread, tile
from minitile.ir.ops.views import RotatedIota
from minitile.ir.types import TensorType, TileType
from minitile.layout import Layout, RowAccess, cheapest_vector, coalesced, row_blocked
from minitile.layout.access import atomic_bytes
from minitile.lowering.context import Lowering, Rule, layout_of
from minitile.lowering.guarded_selects import select
from minitile.lowering.memory import (
    Plan,
    Walk,
    contiguous_dim,
    emit_load,
    emit_store,
    in_memory,
    moved_width,
    places,
    plan,
)
from minitile.lowering.rotated import load_between, load_rotated, rotated_iota, store_rotated

MOST_ROWS = 16  # of a tensor that a thread copies together: the address of each takes two registers


def _load(low: Lowering, op: tile.Load) -> Value:
    if op.shift is not None:
        return load_rotated(low, op)
    between = load_between(low, op)
    if between is not None:
        return between
    p = plan(low, op, op.result, writes=False)
    count = layout_of(op.result).num_regs if isinstance(op.result.type, TileType) else 1
    return emit_load(low, p, op.mem, op.slot, count, op.evict)


def _store(low: Lowering, op: tile.Store) -> None:
    if op.shift is not None:
        store_rotated(low, op, _as_tf32(low, op, low.get(op.value)))
        return
    subject = op.value if isinstance(op.value.type, TileType) else None
    p = plan(low, op, subject, writes=True)
    value = _as_tf32(low, op, low.get(op.value))
    emit_store(low, p, op.mem, op.slot, _spread(low, value, p), op.evict)


def _as_tf32(low: Lowering, op: tile.Store | tile.Copy, value: Value) -> Value:
    """What an operation writes, rounded to tf32 where a gemm wants it so."""
    return low.b.value(thread.RoundTf32(value)) if op.tf32 else value


def _spread(low: Lowering, value: Value, p: Plan) -> Value:
    if thread.count_of(value.type) == 1:
        return low.pick(value, (0,) * len(p.order))
    return low.pick(value, p.order)


def _atomic(low: Lowering, op: tile.AtomicRmw) -> tuple[Value, ...]:
    subject = op.value if isinstance(op.value.type, TileType) else None
    returns = bool(op.results) and op.result in low.used
    p = plan(low, op, subject, writes=True, max_width=_atomic_bytes(low, op, returns))
    value = _spread(low, low.get(op.value), p)
    new = low.b.emit(
        thread.AtomicMem(
            p.addresses.value,
            value,
            low.get(op.mem),
            start=p.start,
            extent=p.extent,
            predicate=p.guards.value,
            space=p.space,
            kind=op.kind,
            width=p.width,
            address_of=p.addresses.index,
            offsets=p.addresses.offsets,
            predicate_of=p.guards.index,
            returns=returns,
        )
    )
    if not returns:
        return tuple(value for _ in op.results)
    back = [0] * len(p.order)
    for n, register in enumerate(p.order):
        back[register] = n
    return (low.pick(new.result, back),)


def _atomic_bytes(low: Lowering, op: tile.AtomicRmw, returns: bool) -> int:
    """The most bytes of one access: neighbours are added by one instruction, where there is one."""
    if returns or op.kind != "add":
        return op.mem.dtype.bytes
    return atomic_bytes(low.target, op.mem.dtype, isinstance(op.mem.type, TensorType))


def _copy(low: Lowering, op: tile.Copy) -> None:
    """Through registers: a load and a store in the layout that suits both."""
    move_through_registers(low, op)


def move_through_registers(low: Lowering, op: tile.Copy) -> None:
    layout = copied_layout(low, op)
    value = Value(TileType(op.shape, op.src.dtype, layout))
    load = tile.Load(op.src, op.src_indices, op.shape, op.src_dims, slot=op.src_slot)
    p = plan(low, load, value, writes=False, walk=Walk())
    registers = emit_load(low, p, op.src, op.src_slot, layout.num_regs, op.evict if p.space == "global" else "")
    store = tile.Store(op.dst, op.dst_indices, value, op.dst_dims, slot=op.dst_slot)
    store.loc = op.loc
    q = plan(low, store, value, writes=True)
    registers = _as_tf32(low, op, registers)
    emit_store(low, q, op.dst, op.dst_slot, low.pick(registers, q.order), op.evict if q.space == "global" else "")


def copied_layout(low: Lowering, op: tile.Copy) -> Layout:
    """Coalesced, with vectors that are cheap for both sides, as far as the registers for their addresses go."""
    turned = _turned_layout(low, op)
    if turned is not None:
        return turned
    widest = coalesced(op.shape, low.threads, op.src.dtype.bits, low.target.lanes)
    uses = []
    for kind, mem, indices, dims in (
        ("load", op.src, op.src_indices, op.src_dims),
        ("store", op.dst, op.dst_indices, op.dst_dims),
    ):
        layout, starts = in_memory(widest, dims), [low.facts.affine(v) for v in indices]
        in_tensor, fast = isinstance(mem.type, TensorType), contiguous_dim(mem)
        if fast is not None and dims[fast] == len(op.shape) - 1:
            width = moved_width(low, mem, places(low, starts, layout), layout)
            uses.append(RowAccess(kind if in_tensor else "shared", width, mem.dtype.bytes))
    vec = cheapest_vector(uses) if uses else widest.vector_width()
    while vec < widest.vector_width():
        layout = row_blocked(op.shape, low.threads, vec, None, low.target.lanes)
        if len({at[:-1] for at in layout.register_offsets()}) <= MOST_ROWS:
            return layout
        vec *= 2
    return widest


def _turned_layout(low: Lowering, op: tile.Copy) -> Layout | None:
    """Of a tensor whose contiguous dimension is not the tile's last one (a transposed one): lanes and vectors along
    that, since global memory takes it in sectors; None where there is no such tensor."""
    for mem, indices, dims in ((op.src, op.src_indices, op.src_dims), (op.dst, op.dst_indices, op.dst_dims)):
        along = contiguous_dim(mem) if isinstance(mem.type, TensorType) else None
        dim = None if along is None else dims[along]
        if dim is None or dim == len(op.shape) - 1:
            continue
        starts = [low.facts.affine(v) for v in indices]
        order = (dim, *(d for d in reversed(range(len(op.shape))) if d != dim))
        vec = 16 // mem.dtype.bytes
        while vec > 1:
            layout = in_memory(row_blocked(op.shape, low.threads, vec, order, low.target.lanes), dims)
            enough = op.shape[dim] % vec == 0 and vec * low.threads <= math.prod(op.shape)
            if enough and moved_width(low, mem, places(low, starts, layout), layout) == vec:
                break
            vec //= 2
        return row_blocked(op.shape, low.threads, vec, order, low.target.lanes)
    return None


def _alloc(low: Lowering, op: tile.Alloc) -> Value:
    new = tile.Alloc(op.type_, layout=op.layout, offset=op.offset, bytes=op.version_bytes, lifetime=op.lifetime)
    new.loc = op.loc
    low.entry.ops.append(new)
    return new.result


MEMORY_RULES: dict[type[Op], Rule] = {
    tile.Alloc: _alloc,
    tile.Load: _load,
    tile.Store: _store,
    tile.AtomicRmw: _atomic,
    tile.Copy: _copy,
    RotatedIota: rotated_iota,
    arith.Select: select,
}
