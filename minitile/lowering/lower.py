"""Tile IR to thread IR: each tile value becomes one thread's registers of it.

    %s = add %a, %b : tile<128x64xf32, layout<…>>            (128 threads)
    →
    %s = add %a, %b : regs<64xf32>

`Lowering` (context.py) walks the kernel once. Arithmetic is the same operation on registers; memory (memory.py) and
exchange between threads (exchange.py) have rules of their own; what a backend registers in `Rules.lower` comes first.
The launch region is inlined: block indices become special registers, and the grid is the host's business.
"""

from __future__ import annotations

from collections.abc import Callable

from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.diagnostics import LanguageError
from minitile.ir.ops import arith, control, fences, thread, tile, warp
from minitile.ir.ops.views import Interleave, Recast
from minitile.ir.types import BOOL, TileType, bool_
from minitile.layout import Layout
from minitile.lowering.context import Lowering, Rule, layout_of
from minitile.lowering.cut_runs import any_of
from minitile.lowering.exchange import EXCHANGE_RULES
from minitile.lowering.inline import INLINE_RULES
from minitile.lowering.memory_rules import MEMORY_RULES
from minitile.lowering.random import RANDOM_RULES
from minitile.lowering.runs import RUN_RULES
from minitile.lowering.scan import SCAN_RULES
from minitile.transforms.manager import PassContext


def lower(kernel: Kernel, context: PassContext) -> None:
    rules = {
        **RULES,
        **MEMORY_RULES,
        **EXCHANGE_RULES,
        **SCAN_RULES,
        **RANDOM_RULES,
        **RUN_RULES,
        **INLINE_RULES,
        **context.rules.lower,
    }
    Lowering(kernel, context.target, rules, context.rules.gemm_plan, context.notes).run()


# Rules of control flow and of operations that move no data between threads --------------------------------------------


def _launch(low: Lowering, op: control.Launch) -> None:
    for axis, arg in zip("xyz", op.body.args, strict=True):
        low.map[arg] = low.special(f"ctaid.{axis}", arg.name)
    low.ops(op.body)


def _for(low: Lowering, op: control.For) -> tuple[Value, ...]:
    init = tuple(low.get(v) for v in op.init)
    with low.decided_by(op.decides()):
        body = low.block(op.body, Block())
    bounds = low.get(op.lower), low.get(op.upper), low.get(op.step)
    new = control.For(*bounds, init, kind=op.kind, apart=op.apart, body=body)
    return low.b.emit(new).results


def _while(low: Lowering, op: control.While) -> tuple[Value, ...]:
    init = tuple(low.get(v) for v in op.init)
    with low.decided_by(op.decides()):
        before = low.block(op.before, Block())
        body = low.block(op.body, Block())
    return low.b.emit(control.While(init, apart=op.apart, before=before, body=body)).results


def _if(low: Lowering, op: control.If) -> tuple[Value, ...]:
    condition = low.get(op.condition)
    if isinstance(op.condition.op, warp.SomeInWarp) and any(inner.uniform for inner in op.then.walk()):
        condition = low.b.constant(True, bool_)  # threads exchange elements, for which all have to come
    with low.decided_by(op.decides()):
        with low.facts.assuming(op.condition):
            then = low.block(op.then, Block())
        with low.facts.assuming(op.condition, holds=False):
            orelse = low.block(op.orelse, Block())
    return low.b.emit(control.If(condition, then=then, orelse=orelse)).results


def _nothing(low: Lowering, op: control.Statement) -> None:
    """Marks are for the passes before; where these are left out, nothing becomes of them."""


def _terminator(low: Lowering, op: control.Yield | control.Condition) -> None:
    low.same(op)


def _iota(low: Lowering, op: tile.Iota) -> Value:
    layout = layout_of(op.result)
    constants = tuple(at[op.dim] for at in layout.register_offsets())
    base = low.thread_coord(layout, op.dim)
    if base is None:
        base = low.b.constant(0)
    return low.b.emit(thread.Offsets(base, constants)).result


def _splat(low: Lowering, op: tile.Splat) -> Value:
    count = layout_of(op.result).num_regs
    value = low.get(op.value)
    return value if count == 1 else low.b.emit(thread.Pick(value, (0,) * count)).result


def _expand(low: Lowering, op: tile.Expand) -> Value:
    if not isinstance(op.a.type, TileType):
        return low.pick(low.get(op.a), (0,) * layout_of(op.result).num_regs)
    where = {at: reg for reg, at in enumerate(layout_of(op.a).register_offsets())}
    wide = layout_of(op.result).register_offsets()
    return low.pick(low.get(op.a), [where[at[: op.dim] + at[op.dim + 1 :]] for at in wide])


def _permute(low: Lowering, op: tile.Permute) -> Value:
    where = {at: reg for reg, at in enumerate(layout_of(op.a).register_offsets())}
    order = [op.order.index(d) for d in range(len(op.order))]
    out = layout_of(op.result).register_offsets()
    return low.pick(low.get(op.a), [where[tuple(at[d] for d in order)] for at in out])


def _interleaved_slice(low: Lowering, op: tile.InterleavedSlice) -> Value:
    """Registers of the same threads."""
    where = {at: reg for reg, at in enumerate(layout_of(op.a).register_offsets())}
    out = layout_of(op.result).register_offsets()
    return low.pick(low.get(op.a), [where[(*at[: op.dim], op.of_source(at[op.dim]), *at[op.dim + 1 :])] for at in out])


def _repeat(low: Lowering, op: tile.Repeat) -> Value:
    """Registers of the same threads."""
    where = {at: reg for reg, at in enumerate(layout_of(op.a).register_offsets())}
    out = layout_of(op.result).register_offsets()
    return low.pick(low.get(op.a), [where[(*at[: op.dim], at[op.dim] // op.times, *at[op.dim + 1 :])] for at in out])


def _interleave(low: Lowering, op: Interleave) -> Value:
    """Registers of the same threads."""
    count, each = len(op.parts), layout_of(op.parts[0])
    where = {at: reg for reg, at in enumerate(each.register_offsets())}
    order = []
    for at in layout_of(op.result).register_offsets():
        narrow = (*at[: op.dim], at[op.dim] // count, *at[op.dim + 1 :])
        order.append(at[op.dim] % count * each.num_regs + where[narrow])
    return low.pick(low.concat([low.get(part) for part in op.parts]), order)


def _recast(low: Lowering, op: Recast) -> Value:
    """Registers of the same threads, those of an element of the wider dtype side by side."""
    value, wide, narrow = low.get(op.a), layout_of(op.a), layout_of(op.result)
    times = op.a.dtype.bits // op.to.bits
    if times:
        where = {at: reg * times for reg, at in enumerate(wide.register_offsets())}
        found = low.b.value(Recast(value, op.to))
        out = narrow.register_offsets()
        return low.pick(found, [where[(*at[:-1], at[-1] // times)] + at[-1] % times for at in out])
    times, (wide, narrow) = op.to.bits // op.a.dtype.bits, (narrow, wide)
    where = {at: reg for reg, at in enumerate(narrow.register_offsets())}
    order = [where[(*at[:-1], at[-1] * times + n)] for at in wide.register_offsets() for n in range(times)]
    return low.b.value(Recast(low.pick(value, order), op.to))


def _insert(low: Lowering, op: tile.Insert) -> Value:
    layout = layout_of(op.result)
    hit: Value | None = None
    for dim, index in enumerate(op.indices):
        base = low.thread_coord(layout, dim)
        here = low.get(index) if base is None else low.b.sub(low.get(index), base)
        constants = tuple(at[dim] for at in layout.register_offsets())
        zero = low.b.constant(0, here.dtype)
        columns = low.b.emit(thread.Offsets(zero, constants)).result
        same = low.b.value(arith.Cmp(columns, here, "eq"))
        hit = same if hit is None else low.b.value(arith.And(hit, same))
    value, old = low.get(op.value), low.get(op.a)
    return value if hit is None else low.b.select(hit, value, old)


def _sync(low: Lowering, op: tile.SyncThreads) -> None:
    id, threads = low.meeting
    low.b.emit(thread.Barrier(id=id, threads=threads))


def _grid_sync(low: Lowering, op: fences.GridSync) -> None:
    """Block 0 adds 2^31 less what the others add: 1 each."""
    b, (id, threads) = low.b, low.meeting
    if low.team is not None:
        raise LanguageError("T.sync_grid in a role of T.ws", op.loc, "write it where all threads of the block come")
    number, count = b.constant(0), b.constant(1)
    for axis in "zyx":
        number = b.value(arith.Or(number, low.special(f"ctaid.{axis}")))
        count = b.mul(count, low.special(f"nctaid.{axis}"))
    rest = b.value(arith.Sub(b.constant(-(1 << 31) + 1), count))
    step = b.select(b.compare("eq", number, 0), rest, b.constant(1))
    b.emit(fences.GridMeet(low.first_thread(), step, id=id, threads=threads))


def _thread_index(low: Lowering, op: tile.ThreadIndex) -> Value:
    return low.special("tid.x", "tid")


def _assume(low: Lowering, op: arith.Assume) -> None:
    low.b.emit(arith.Assume(low.get(op.condition)))


def _some_in_warp(low: Lowering, op: warp.SomeInWarp) -> Value:
    mask = low.get(op.mask)
    count = thread.count_of(mask.type)
    return low.b.value(warp.SomeInWarp(any_of(low, [low.pick(mask, (n,)) for n in range(count)])))


def _print(low: Lowering, op: tile.Print) -> None:
    """Scalars once per CTA, a tile once per element: its indices come before its value."""
    tiles = [v for v in op.values if isinstance(v.type, TileType)]
    if not tiles:
        _guarded(low, low.first_thread(), lambda: low.b.emit(thread.Printf(tuple(map(low.get, op.values)), op.text)))
        return
    for reg, at in enumerate(layout_of(tiles[0]).register_offsets()):
        layout = layout_of(tiles[0])
        inside = element_guard(low, layout, at)
        values: list[Value] = []
        for dim in range(layout.rank):
            base = low.thread_coord(layout, dim)
            values.append(low.b.constant(at[dim]) if base is None else low.b.add(base, at[dim]))
        for v in op.values:
            values.append(low.pick(low.get(v), (reg,)) if isinstance(v.type, TileType) else low.get(v))
        text = "[" + ", ".join(["%d"] * layout.rank) + "] " + op.text
        _guarded(low, inside, lambda: low.b.emit(thread.Printf(tuple(values), text)))  # noqa: B023


def element_guard(low: Lowering, layout: Layout, at: tuple[int, ...]) -> Value | None:
    """Does this thread own the element at offset `at` from its base, and is that inside the tile?"""
    guard = low.owner(layout)
    for dim, (extent, size) in enumerate(zip(layout.extents, layout.shape, strict=True)):
        base = low.thread_coord(layout, dim)
        if extent > size and base is not None:
            here = low.b.compare("lt", base, size - at[dim])
            guard = here if guard is None else low.b.and_(guard, here)
    return guard


def _guarded(low: Lowering, guard: Value | None, emit: Callable[[], object]) -> None:
    if guard is None:
        emit()
        return
    with low.b.when(guard):
        emit()


def _device_assert(low: Lowering, op: tile.DeviceAssert) -> None:
    condition = low.get(op.condition)
    count = thread.count_of(condition.type)
    if isinstance(op.condition.type, TileType):
        layout = layout_of(op.condition)
        holds: Value | None = None
        for reg, at in enumerate(layout.register_offsets()):
            one = low.pick(condition, (reg,)) if count > 1 else condition
            guard = element_guard(low, layout, at)
            if guard is not None:
                one = low.b.value(arith.Or(one, low.b.value(arith.Not(guard))))
            holds = one if holds is None else low.b.and_(holds, one)
        assert holds is not None
        condition = holds
    assert condition.type == BOOL

    def fail() -> None:
        text = f"assertion failed: {op.text} ({op.loc})\n" if op.loc else f"assertion failed: {op.text}\n"
        low.b.emit(thread.Printf((), text.replace("%", "%%")))
        low.b.emit(thread.Trap())

    _guarded(low, low.b.value(arith.Not(condition)), fail)


RULES: dict[type[Op], Rule] = {
    control.Launch: _launch,
    control.For: _for,
    control.While: _while,
    control.If: _if,
    control.Yield: _terminator,
    control.Condition: _terminator,
    control.Statement: _nothing,
    tile.Iota: _iota,
    tile.Splat: _splat,
    tile.Expand: _expand,
    tile.Permute: _permute,
    tile.InterleavedSlice: _interleaved_slice,
    tile.Repeat: _repeat,
    tile.Insert: _insert,
    Interleave: _interleave,
    Recast: _recast,
    tile.SyncThreads: _sync,
    tile.ThreadIndex: _thread_index,
    fences.GridSync: _grid_sync,
    tile.Print: _print,
    tile.DeviceAssert: _device_assert,
    arith.Assume: _assume,
    warp.SomeInWarp: _some_in_warp,
}
