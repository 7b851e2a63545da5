"""Loads of tensors go as early as they can, so that many bytes are on their way before the first of them is used.

    %x = load %X[%r, 0]                               %x = load %X[%r, 0]
    %s = reduce %x {dim = 0, kind = "sum"}     →      %w = load %W[0]
    %w = load %W[0]                                   %s = reduce %x {dim = 0, kind = "sum"}

    for %k = 0 to %n {                                %x0 = if 0 < %n { load %X[0] } else { zeros }
      %x = load %X[%k*512]                     →      for %k = 0 to %n carry(%x = %x0) {
      use %x                                            %x1 = if %k+1 < %n { load %X[(%k+1)*512] } else { zeros }
    }                                                   use %x
                                                        yield %x1 }

Within a block a load goes to the front of the pure operations before it, with what it needs of them; what exchanges
data between threads (a reduction) or is loaded itself it does not need. A loop's loads go a turn ahead, where nothing
in the loop writes to memory or synchronises and their places depend on the loop's number alone; beside copies to shared
memory, and the waits and barriers for these, loads of tensors that the kernel does not write; in programs of
minitile.tilelang (`resources_are_hints`) also beside stores to tensors. Loops that multiply tiles keep theirs, since
their registers are counted: all but GATHERED of what such a program gathers, which is loaded as soon as the turn's own
is used. What waits takes registers: HOISTED and AHEAD are the most, of 4 bytes in each thread. More would cost blocks
that run beside, which load as well; within a block it may not cost the second one: what waits shares half a
multiprocessor's registers with the largest tile.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from minitile.analysis.register_budget import TILE_ROOM, equal_share
from minitile.analysis.variables import is_shared
from minitile.ir.builder import Builder
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import control, roles, tile
from minitile.ir.rewrite import clone, made_by, rewrite_loops
from minitile.ir.types import TensorType, TileType
from minitile.transforms.manager import PassContext

HOISTED = 16
AHEAD = 16
GATHERED = 8


def hoist_loads(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    if not any(isinstance(op, tile.Load) and _is_row(op) for op in kernel.body.walk()):
        return
    threads = kernel.threads
    tiles = (v for op in kernel.body.walk() for v in op.results if isinstance(v.type, TileType))
    largest = max((registers(v, threads) for v in tiles), default=0)
    room = min(HOISTED, equal_share(2 * threads) - TILE_ROOM - largest)
    written = {a.mem for op in kernel.walk() for a in op.accesses() if a.writes}
    stores = bool(kernel.attrs.get("resources_are_hints"))
    rewrite_loops(kernel.body, lambda loop, before: _a_turn_ahead(loop, before, threads, written, stores))
    _hoist(kernel.body, threads, room)


def _is_row(op: Op) -> bool:
    """Whether an operation loads a tile of a tensor."""
    return isinstance(op, tile.Load) and isinstance(op.mem.type, TensorType) and isinstance(op.result.type, TileType)


def _only_reads(op: Op) -> bool:
    """Whether a load may pass an operation: it writes no memory and orders nothing."""
    if op.pure or op.terminator or isinstance(op, control.Structured):
        return True
    accesses = op.accesses()
    return bool(accesses) and not op.syncs() and not any(a.writes for a in accesses)


def is_quiet(op: Op, stores: bool) -> bool:
    """Whether a load of what the kernel does not write may pass an operation: it reads, copies, or waits for copies,
    and does not wait for what others do. stores: it may write to tensors."""
    if isinstance(op, tile.Wait | tile.Join | tile.NoToken | tile.SyncThreads | tile.AsyncCopy):
        return True
    if type(op) in (tile.Copy, tile.Store):
        return stores or not any(a.writes and not (a.mem is not None and is_shared(a.mem)) for a in op.accesses())
    return _only_reads(op)


def is_pipelines(op: Op) -> bool:
    """Whether an operation belongs to products, or to the pipelines of what they multiply."""
    return isinstance(op, tile.Gemm | roles.Await) or op.mnemonic in ("async_gemm", "consumer_wait", "consumer_release")


def gathers(op: Op) -> bool:
    """Whether an operation loads a matrix from places of its elements' own, as no instruction copies it."""
    return isinstance(op, tile.Load) and len(op.shape) == 2 and any(isinstance(v.type, TileType) for v in op.indices)


def registers(value: Value, threads: int) -> int:
    return -(-math.prod(value.shape) * value.dtype.bits // (32 * threads))


# Within a block -----------------------------------------------------------------------------------------------------


def _hoist(block: Block, threads: int, room: int) -> None:
    ops: list[Op] = []
    stretch: list[Op] = []  # of pure operations and loads
    for op in block.ops:
        for region in op.regions:
            _hoist(region, threads, room)
        if (op.pure and not op.region_fields) or _is_row(op):
            stretch.append(op)
        else:
            ops += _loads_first(stretch, threads, room)
            ops.append(op)
            stretch = []
    block.ops = ops + _loads_first(stretch, threads, room)


def _loads_first(ops: list[Op], threads: int, room: int) -> list[Op]:
    inside, first = {*ops}, dict[Op, None]()
    for n, op in enumerate(ops):
        needed = made_by(op, inside) if _is_row(op) else None
        if needed is None:
            continue
        if any(earlier not in first and earlier not in needed for earlier in ops[:n]):
            room -= registers(op.results[0], threads)
            if room < 0:
                break
        first.update(dict.fromkeys((*needed, op)))
    return [*first, *(op for op in ops if op not in first)]


# Around a loop ------------------------------------------------------------------------------------------------------


def _a_turn_ahead(loop: control.For, before: Block, threads: int, written: set[Value | None], stores: bool) -> None:
    body = loop.body
    multiplies = any("gemm" in op.mnemonic for op in body.walk())
    if loop.kind != "serial" or not all(is_quiet(op, stores) or (stores and is_pipelines(op)) for op in body.walk()):
        return
    reads = all(map(_only_reads, body.walk()))
    if not reads and multiplies and not stores:
        return
    room, rows, inside = GATHERED if multiplies else AHEAD, list[tuple[Op, list[Op]]](), {*body.ops}
    for op in body.ops:
        if multiplies and not gathers(op):
            continue
        needed = made_by(op, inside) if _is_row(op) else None
        used = {v for one in (*(needed or ()), op) for v in one.operands}
        if needed is None or loop.iv not in used or not used.isdisjoint(loop.carried):
            continue
        if not reads and (op.accesses()[0].mem in written or None in written):
            continue
        room -= registers(op.results[0], threads)
        if room >= 0:
            rows.append((op, needed))
    if not rows:
        return
    b = Builder(before)
    b.loc = loop.loc
    first = loaded(b, rows, loop, loop.lower)
    taken = {op.results[0]: body.add_arg(op.results[0].type, op.results[0].name) for op, _ in rows}
    rest = [op for op in body.ops if not any(op is moved for moved, _ in rows)]
    place = _place(rest, taken) if multiplies else 0
    body.ops = rest[:place]
    with b.inside(body):
        following = loaded(b, rows, loop, b.add(loop.iv, loop.step))
    for op in rest:
        for inner in (op, *(inner for region in op.regions for inner in region.walk())):
            inner.replace_operands(lambda v: taken.get(v, v))
    body.ops += rest[place:]
    end = body.terminator
    assert isinstance(end, control.Yield)
    end.values = (*end.values, *following)
    loop.init = (*loop.init, *first)
    count = len(loop.results)
    loop.results = (*loop.results, *(Value(v.type, loop, count + n, v.name) for n, v in enumerate(first)))


def _place(ops: list[Op], taken: Collection[Value]) -> int:
    """Where the next turn's loads go in a loop that multiplies: behind the last use of this turn's, which then lie in
    the same registers; ptxas waits for what it has to move. Behind the products, too, that are not waited for at once:
    a fence for these would wait for the loads."""
    last = -1
    for n, op in enumerate(ops):
        inner = (one for region in op.regions for one in region.walk())
        if op.mnemonic == "async_gemm" or any(v in taken for one in (op, *inner) for v in one.operands):
            last = n
    return last + 1


def loaded(b: Builder, rows: list[tuple[Op, list[Op]]], loop: control.For, number: Value) -> tuple[Value, ...]:
    """What the loop's turn of this number loads; zeros where there is none."""
    then, orelse = Block(), Block()
    names = {loop.iv: number}
    with b.inside(then):
        for op, needed in rows:
            for one in (*needed, op):
                if one.results[0] not in names:
                    b.emit(clone(one, names))
        b.emit(control.Yield(tuple(names[op.results[0]] for op, _ in rows)))
    with b.inside(orelse):
        zeros = [
            b.value(tile.Splat(b.constant(0.0 if v.dtype.is_float else 0, v.dtype), v.shape))
            for op, _ in rows
            for v in op.results
        ]
        b.emit(control.Yield(tuple(zeros)))
    return b.emit(control.If(b.compare("lt", number, loop.upper), then=then, orelse=orelse)).results
