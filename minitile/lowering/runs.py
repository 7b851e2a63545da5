"""Runs of scalars: each thread's own neighbours in memory, in the widest accesses that alignment allows.

    %x0, …, %x7 = load_run %A[%row, %at] {count = 8}         %a = …the address of A[row, at]
                                                       →     %r = load_mem %a {count = 8, width = 8, offsets = (0,)}
                                                             %x0 = pick %r, 0 …

A run is a tile of one dimension that every thread has for itself: addresses, widths and predicates are those of tiles
(memory.py), without threads in them. A predicate for each access, as always: where it cannot be proven that all of an
access is inside, its width divides the size, so that it is inside or outside as a whole.
"""

from __future__ import annotations

import math

from minitile.ir.core import Op, Value
from minitile.ir.ops import arith, thread
from minitile.ir.ops.explicit import ElementCopy
from minitile.ir.ops.runs import AtomicRun, LoadRun, StoreRun
from minitile.ir.types import ScalarType, TensorType
from minitile.layout.access import atomic_bytes
from minitile.layout.register import Digit, Layout
from minitile.lowering.accesses import GuardBuilder, Place
from minitile.lowering.context import Lowering, Rule
from minitile.lowering.memory import (
    Plan,
    access_width,
    bits_of_start,
    emit_load,
    emit_store,
    global_addresses,
    shared_addresses,
)


def _plan(low: Lowering, op: LoadRun | StoreRun | AtomicRun, count: int, most: int = 16) -> Plan:
    """`most`: bytes of an access."""
    mem, along = op.mem, op.along
    starts = [low.facts.affine(v) for v in op.indices]
    where = [
        Place(start, None, count - 1 if d == along else 0, bits_of_start(low, start)) for d, start in enumerate(starts)
    ]
    width = _width(low, mem, where, along, count, most)
    offsets = [tuple(n if d == along else 0 for d in range(len(where))) for n in range(0, count, width)]
    guards = GuardBuilder(low)
    if op.mask is not None:
        guards.always.append(low.get(op.mask))
    if isinstance(op, StoreRun) and not low.divergent and _same_in_all_threads(low, op):
        guards.always.append(low.first_thread())
    order = tuple(range(count))
    if isinstance(mem.type, TensorType):
        guards.bounds(mem, where)
        addresses, space = global_addresses(low, mem, where, offsets), "global"
    else:
        addresses, space = shared_addresses(low, mem, op.slot, where, offsets), "shared"
    begin = tuple(low.get(v) for v in op.indices) if space == "shared" or mem in low.written else ()
    extent = tuple(count if d == along else 1 for d in range(len(begin)))
    return Plan(space, width, order, addresses, guards.finish(offsets), begin, extent)


def _width(low: Lowering, mem: Value, where: list[Place], along: int, count: int, most: int) -> int:
    """Elements of one access, a divisor of `count`."""
    shape = tuple(count if d == along else 1 for d in range(len(where)))
    whole_warps = (Digit(low.target.lanes, None, 0),), (Digit(low.threads // low.target.lanes, None, 0),)
    layout = Layout(shape, (Digit(count, along, 1),), *whole_warps)
    return math.gcd(count, access_width(low, mem, where, layout, most))


def _same_in_all_threads(low: Lowering, op: StoreRun) -> bool:
    return all(low.facts.uniform(v) for v in op.operands if isinstance(v.type, ScalarType))


def _load(low: Lowering, op: LoadRun) -> tuple[Value, ...]:
    plan = _plan(low, op, op.count)
    loaded = emit_load(low, plan, op.mem, op.slot, op.count, op.evict)
    return tuple(low.pick(loaded, (n,)) for n in range(op.count))


def _store(low: Lowering, op: StoreRun) -> None:
    plan = _plan(low, op, len(op.values))
    value = low.concat([low.get(v) for v in op.values])
    emit_store(low, plan, op.mem, op.slot, value, op.evict)


def _atomic(low: Lowering, op: AtomicRun) -> None:
    dtype, in_tensor = op.mem.dtype, isinstance(op.mem.type, TensorType)
    plan = _plan(low, op, len(op.values), atomic_bytes(low.target, dtype, in_tensor))
    low.b.emit(
        thread.AtomicMem(
            plan.addresses.value,
            low.concat([low.get(v) for v in op.values]),
            low.get(op.mem),
            start=plan.start,
            extent=plan.extent,
            predicate=plan.guards.value,
            space=plan.space,
            kind="add",
            width=plan.width,
            address_of=plan.addresses.index,
            offsets=plan.addresses.offsets,
            predicate_of=plan.guards.index,
            returns=False,
        )
    )


def _dot4(low: Lowering, op: arith.Dot4) -> Value:
    """Factors as registers of one value each, which are a word."""
    a, b = (low.concat([low.get(v) for v in factor]) for factor in (op.a, op.b))
    return low.b.emit(arith.Dot4((a,), (b,), low.get(op.c))).result


def copied_run(low: Lowering, op: ElementCopy) -> None:
    """By registers."""
    values = _load(low, _source(op))
    store = StoreRun(op.dst, op.dst_indices, values, slot=op.dst_slot, along=len(op.dst_indices) - 1)
    store.loc = op.loc
    plan = _plan(low, store, op.count)
    emit_store(low, plan, op.dst, op.dst_slot, low.concat(list(values)))


def _source(op: ElementCopy) -> LoadRun:
    return LoadRun(op.src, op.src_indices, mask=op.enable, count=op.count, along=len(op.src_indices) - 1)


def plans_of_copy(low: Lowering, op: ElementCopy) -> tuple[Plan, Plan]:
    """Of its source and of its destination, in accesses of one width."""
    to = LoadRun(op.dst, op.dst_indices, slot=op.dst_slot, count=op.count, along=len(op.dst_indices) - 1)
    source, dest = _plan(low, _source(op), op.count), _plan(low, to, op.count)
    most = min(source.width, dest.width) * op.dst.dtype.bytes
    if source.width != dest.width:
        source, dest = _plan(low, _source(op), op.count, most), _plan(low, to, op.count, most)
    return source, dest


RUN_RULES: dict[type[Op], Rule] = {
    LoadRun: _load,
    StoreRun: _store,
    AtomicRun: _atomic,
    ElementCopy: copied_run,
    arith.Dot4: _dot4,
}
