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
from minitile.ir.ops.runs import LoadRun, StoreRun
from minitile.ir.types import TensorType
from minitile.layout.register import Digit, Layout
from minitile.lowering.context import Lowering, Rule
from minitile.lowering.memory import (
    GuardBuilder,
    Place,
    Plan,
    access_width,
    bits_of_start,
    emit_load,
    emit_store,
    global_addresses,
    shared_addresses,
)


def _plan(low: Lowering, op: LoadRun | StoreRun, count: int, writes: bool) -> Plan:
    mem, along = op.mem, op.along
    starts = [low.facts.affine(v) for v in op.indices]
    where = [
        Place(start, None, count - 1 if d == along else 0, bits_of_start(low, start)) for d, start in enumerate(starts)
    ]
    width = _width(low, mem, where, along, count)
    offsets = [tuple(n if d == along else 0 for d in range(len(where))) for n in range(0, count, width)]
    guards = GuardBuilder(low)
    if op.mask is not None:
        guards.always.append(low.get(op.mask))
    if writes and not low.divergent and all(low.facts.uniform(v) for v in op.operands if not hasattr(v.type, "shape")):
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


def _width(low: Lowering, mem: Value, where: list[Place], along: int, count: int) -> int:
    """Elements of one access, a divisor of `count`."""
    shape = tuple(count if d == along else 1 for d in range(len(where)))
    whole_warps = (Digit(low.target.lanes, None, 0),), (Digit(low.threads // low.target.lanes, None, 0),)
    return math.gcd(count, access_width(low, mem, where, Layout(shape, (Digit(count, along, 1),), *whole_warps)))


def _load(low: Lowering, op: LoadRun) -> tuple[Value, ...]:
    plan = _plan(low, op, op.count, writes=False)
    loaded = emit_load(low, plan, op.mem, op.slot, op.count, op.evict)
    return tuple(low.pick(loaded, (n,)) for n in range(op.count))


def _store(low: Lowering, op: StoreRun) -> None:
    plan = _plan(low, op, len(op.values), writes=True)
    value = low.concat([low.get(v) for v in op.values])
    emit_store(low, plan, op.mem, op.slot, value, op.evict)


RUN_RULES: dict[type[Op], Rule] = {LoadRun: _load, StoreRun: _store}
