"""Reductions, layout conversions and single elements: where data goes from thread to thread.

A reduction folds a thread's own registers first, in halves; then lanes, by butterfly shuffles over the lane digits of
the dimension; then warps, through shared memory. A conversion is renaming when each thread already has what it needs,
one shuffle a register where each comes from one other lane, else a round trip through shared memory. The barriers
around scratch buffers are the business of `thread_barriers`, which sees the accesses; where each warp reads only what
it has written itself, the buffer says so, and no others are waited for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

from minitile.analysis.affine import Affine
from minitile.ir.builder import constant_of
from minitile.ir.core import Op, Value
from minitile.ir.ops import arith, thread, tile
from minitile.ir.ops.views import Reshape
from minitile.ir.types import DTYPES, BufferType, DType, TileType, f32, i32, u8, u32
from minitile.layout import LaneSwaps, Layout, lane_exchange, lane_swaps, register_permutation, reshaped, stays_in_warps
from minitile.layout.access import vector_runs, vector_width
from minitile.layout.shared import SharedLayout, row_major
from minitile.lowering.accesses import Addresses, Coord, GuardBuilder, Guards, Place
from minitile.lowering.context import Lowering, Rule, layout_of
from minitile.lowering.memory import (
    Plan,
    buffer_address,
    emit_load,
    emit_store,
    places,
    shared_addresses,
)

MOST_SWAPS = 2  # each costs half a shuffle and one and a half selects a register


def neutral(kind: str, dtype: DType) -> bool | int | float:
    """What changes nothing in a reduction."""
    kind = kind.removesuffix("_nan")
    if kind in ("sum", "abssum", "or", "xor", "absmax"):
        return False if dtype.kind == "bool" else 0.0 if dtype.is_float else 0
    if dtype.kind == "bool":
        return True
    if dtype.is_float:
        return -math.inf if kind == "max" else math.inf
    low, high = dtype.integers[0], dtype.integers[-1]
    return {"max": low, "min": high, "and": -1 if dtype.signed else high}[kind]


def reduce_tile(
    low: Lowering, value: Value, layout: Layout, dims: Sequence[int], kind: str, carried: DType | None = None
) -> Value:
    """The registers of `layout` reduced along `dims`, in the layout of the quotient; every thread has its result.
    `carried`: the dtype of what goes from thread to thread, if another."""
    b, dtype = low.b, value.dtype
    if kind.startswith("abs"):
        value = b.value(arith.Abs(value))
    takes_numbers = dtype.is_float and kind in ("max", "min", "absmax")
    value = mask_overhang(low, value, layout, dims, math.nan if takes_numbers else neutral(kind, dtype))
    kept = [d for d in range(layout.rank) if d not in dims]
    groups: dict[tuple[int, ...], list[int]] = {}
    for reg, at in enumerate(layout.register_offsets()):
        groups.setdefault(tuple(at[d] for d in kept), []).append(reg)
    value = fold_registers(low, value, list(groups.values()), arith.COMBINE[kind])
    if carried is not None:
        value = b.cast(value, carried)
    digits = layout.thread_digits()
    if kind in thread.WARP_REDUCTIONS and value.dtype in (i32, u32) and _whole_warp(low, layout, dims):
        value = b.emit(thread.WarpReduce(value, kind)).result
        digits = ()
    for divisor, size, dim, _ in digits:
        if dim in dims:
            inside = min(size, max(1, layout.num_lanes // divisor)) if divisor < layout.num_lanes else 1
            step = 1
            while step < inside:
                other = b.emit(thread.ShuffleXor(value, divisor * step)).result
                value = b.value(arith.COMBINE[kind](value, other))
                step *= 2
    narrow = layout
    for d in sorted(dims, reverse=True):
        narrow = narrow.quotient(d)
    if any(d.dim in dims for d in layout.warp):
        value = across_warps(low, value, layout, narrow, dims, arith.COMBINE[kind])
    return value


def _whole_warp(low: Lowering, layout: Layout, dims: Sequence[int]) -> bool:
    """Whether all lanes of each warp, each with elements of its own, have parts of one result."""
    return low.target.has("warp_reduce") and all(digit.dim in dims for digit in layout.lane)


def mask_overhang(low: Lowering, value: Value, layout: Layout, dims: Sequence[int], fill: bool | int | float) -> Value:
    """Elements outside the tile count as neutral."""
    b = low.b
    for d in dims:
        extent, size = layout.extents[d], layout.shape[d]
        if extent == size:
            continue
        base = low.thread_coord(layout, d)
        columns = tuple(at[d] for at in layout.register_offsets())
        run = b.emit(thread.Offsets(b.constant(0) if base is None else base, columns)).result
        inside = b.value(arith.Cmp(run, b.constant(size), "lt"))
        value = b.select(inside, value, b.constant(fill, value.dtype))
    return value


def fold_registers(low: Lowering, value: Value, groups: list[list[int]], combine: type[arith.Binary]) -> Value:
    """One register per group: the group's registers combined pairwise, so that additions are a tree. Of elements that
    share registers, neighbours among the groups stay neighbours."""
    length, number = len(groups[0]), len(groups)
    if length == 1:
        return low.pick(value, [g[0] for g in groups])
    rest: Value | None = None
    shared = value.dtype.bits < 32
    while length > 1:
        half = length // 2
        if shared:
            sides = [[g[r] for r in rs for g in groups] for rs in (range(half), range(half, 2 * half))]
        else:
            sides = [[r for g in groups for r in g[n : n + half]] for n in (0, half)]
        first, second = (low.pick(value, side) for side in sides)
        if length % 2:
            odd = low.pick(value, [g[-1] for g in groups])
            rest = odd if rest is None else low.b.value(combine(rest, odd))
        value = low.b.value(combine(first, second))
        groups = [
            list(range(n, half * number, number)) if shared else list(range(n * half, (n + 1) * half))
            for n in range(number)
        ]
        length = half
    return value if rest is None else low.b.value(combine(value, rest))


def across_warps(
    low: Lowering, value: Value, layout: Layout, narrow: Layout, dims: Sequence[int], combine: type[arith.Binary]
) -> Value:
    """Each warp's partial results, combined in every thread."""
    loaded, groups = gather_partials(low, value, layout, narrow, dims)
    return fold_registers(low, loaded, groups, combine)


def gather_partials(
    low: Lowering, value: Value, layout: Layout, narrow: Layout, dims: Sequence[int]
) -> tuple[Value, list[list[int]]]:
    """The partial results of all warps, which meet in shared memory: [parts] x [what is left of the tile]; and which of
    these registers are of one result. Where all lanes want the same ones, the parts are the last dimension, so that one
    load has up to 16 bytes of them."""
    digits = []
    divisor, parts = layout.num_lanes, 1
    for digit in layout.warp:
        if digit.dim in dims:
            digits.append((divisor, digit.size, None, parts))
            parts *= digit.size
        divisor *= digit.size
    part = low.digits_value(digits)
    assert part is not None
    dtype, count = storage(value.dtype), narrow.num_regs
    alike = all(d.dim is None for d in narrow.lane)
    width = min(max(1, 128 // dtype.bits), 1 << parts.bit_length() - 1) if alike else 1
    inner = narrow.rank if alike else 0  # where the parts stand among the buffer's dimensions
    sizes = [*narrow.extents[:inner], -(-parts // width) * width, *narrow.extents[inner:]]
    buffer = scratch(low, row_major(sizes, dtype.bits), dtype, "partial")

    def addresses(of: Place, numbers: Sequence[int]) -> tuple[Addresses, list[Coord]]:
        rest = places(low, [Affine(0)] * narrow.rank, narrow)
        offsets = [(*at[:inner], n, *at[inner:]) for at in narrow.register_offsets() for n in numbers]
        return shared_addresses(low, buffer, None, [*rest[:inner], of, *rest[inner:]], offsets), offsets

    guards = GuardBuilder(low)
    writer = only_one_replica(low, layout, dims)
    if writer is not None:
        guards.always.append(writer)
    to, offsets = addresses(Place(Affine(0), part, parts - 1, (1 << parts.bit_length()) - 1), [0])
    emit_store(
        low, Plan("shared", 1, tuple(range(count)), to, guards.finish(offsets)), buffer, None, stored(low, value)
    )
    loaded: list[Value] = []
    groups: list[list[int]] = [[] for _ in range(count)]
    whole = parts - parts % width
    for numbers, each in ((range(0, whole, width), width), (range(whole, parts), 1)):
        if not numbers:
            continue
        at, offsets = addresses(Place(Affine(0), None, parts - 1, 0), numbers)
        total = len(offsets) * each
        plan = Plan("shared", each, tuple(range(total)), at, GuardBuilder(low).finish(offsets))
        first = sum(map(len, groups))
        for n, group in enumerate(groups):
            group += range(first + n * total // count, first + (n + 1) * total // count)
        loaded.append(emit_load(low, plan, buffer, None, total))
    return loaded_as(low, low.concat(loaded), value.dtype), groups


def only_one_replica(low: Lowering, layout: Layout, dims: Sequence[int]) -> Value | None:
    """True in one of the threads that hold a warp's partial result: lanes along the reduced dimensions are at 0."""
    lanes = [(d.divisor, d.size) for d in layout.replica_digits()]
    for divisor, size, dim, _ in layout.thread_digits():
        if dim in dims and divisor < layout.num_lanes:
            lanes.append((divisor, min(size, layout.num_lanes // divisor)))
    return low.at_zero(lanes)


def storage(dtype: DType) -> DType:
    """bool has no place in shared memory as it is; a byte does."""
    return u8 if dtype.kind == "bool" else dtype


def stored(low: Lowering, value: Value) -> Value:
    to = storage(value.dtype)
    return value if to is value.dtype else low.b.cast(value, to)


def loaded_as(low: Lowering, value: Value, dtype: DType) -> Value:
    return value if value.dtype is dtype else low.b.cast(value, dtype)


def scratch(low: Lowering, shared: SharedLayout, dtype: DType, name: str) -> Value:
    """A shared buffer for the time of one exchange."""
    alloc = tile.Alloc(BufferType("shared", shared.shape, dtype), layout=shared, bytes=shared.stage_bytes)
    alloc.loc = low.b.loc
    alloc.result.name = name
    low.entry.ops.append(alloc)
    return alloc.result


def convert(low: Lowering, value: Value, src: Layout, dst: Layout) -> Value:
    """The registers of the same tile in another layout."""
    moves = register_permutation(src, dst)
    if moves is not None:
        return low.pick(value, moves)
    exchange = lane_exchange(src, dst)
    if exchange is not None and all(move.xor is not None for move in exchange):
        return exchange_lanes(low, value, [(move.reg, move.xor or 0) for move in exchange])
    swaps = lane_swaps(src, dst)
    if low.target.has("shuffle") and swaps is not None and len(swaps.swaps) <= MOST_SWAPS:
        return swap_lanes(low, value, swaps)
    return through_shared(low, value, src, dst)


def swap_lanes(low: Lowering, value: Value, how: LaneSwaps) -> Value:
    """Each lane keeps the half of its registers that is its own by the lane bit, and exchanges the other half with the
    lane whose bit differs."""
    b, held = low.b, list(how.before)
    for bit, atom, other in how.swaps:
        at = held.index(atom)
        below = math.prod(h.size for h in held[:at])
        every = range(math.prod(h.size for h in held))
        first, second = (low.pick(value, [n for n in every if n // below % 2 == half]) for half in (0, 1))
        upper = lane_bit(low, bit)
        given = b.emit(thread.ShuffleXor(b.select(upper, first, second), 1 << bit)).result
        value = low.concat([b.select(upper, given, first), b.select(upper, second, given)])
        held = [*held[:at], *held[at + 1 :], other]
    return low.pick(value, how.order)


def lane_bit(low: Lowering, bit: int) -> Value:
    """Whether a bit of the lane's number is set."""
    value: Value = low.in_entry(("lane bit", bit), lambda b: b.compare("ne", b.and_(low.tid, 1 << bit), 0))
    return value


def exchange_lanes(low: Lowering, value: Value, moves: Sequence[tuple[int, int]]) -> Value:
    """Butterfly shuffles, one for all registers of one mask."""
    parts: list[Value] = []
    where: dict[int, tuple[int, int]] = {}
    start = 0
    for mask in sorted({m for _, m in moves}):
        mine = [n for n, (_, m) in enumerate(moves) if m == mask]
        part = low.pick(value, [moves[n][0] for n in mine])
        parts.append(low.b.emit(thread.ShuffleXor(part, mask)).result if mask else part)
        for n, target in enumerate(mine):
            where[target] = (start + n, mask)
        start += len(mine)
    return low.pick(low.concat(parts), [where[n][0] for n in range(len(moves))])


def through_shared(low: Lowering, value: Value, src: Layout, dst: Layout) -> Value:
    """Padded rows keep both sides nearly free of bank conflicts; 16 bytes of padding keep vectors aligned."""
    dtype = storage(value.dtype)
    pad = 0 if len(src.shape) < 2 else max(1, 128 // dtype.bits)
    shared = row_major(src.shape, dtype.bits, pad)
    buffer = scratch(low, shared, dtype, "exchange")
    if low.target.has("warp_barrier") and stays_in_warps(src, dst):
        assert isinstance(buffer.op, tile.Alloc)
        buffer.op.shared_by = low.target.lanes
    emit_store(
        low,
        plan_whole(low, buffer, shared, src, writes=True),
        buffer,
        None,
        low.pick(stored(low, value), plan_order(src, shared)),
    )
    plan = plan_whole(low, buffer, shared, dst, writes=False)
    return loaded_as(low, emit_load(low, plan, buffer, None, dst.num_regs), value.dtype)


def plan_order(layout: Layout, shared: SharedLayout) -> tuple[int, ...]:
    runs = vector_runs(layout, vector_width(layout, shared), shared.contiguous_dim)
    return tuple(r for registers, _ in runs for r in registers)


def plan_whole(low: Lowering, buffer: Value, shared: SharedLayout, layout: Layout, *, writes: bool) -> Plan:
    """Every element of a tile at its own place in a buffer of the same shape."""
    width = vector_width(layout, shared)
    runs = vector_runs(layout, width, shared.contiguous_dim)
    offsets = [at for _, at in runs]
    where = places(low, [Affine(0)] * layout.rank, layout)
    guards = _own_elements(low, layout, writes)
    addresses: Addresses = shared_addresses(low, buffer, None, where, offsets)
    return Plan("shared", width, plan_order(layout, shared), addresses, guards.finish(offsets))


def _reduce(low: Lowering, op: tile.Reduce) -> Value:
    value, dtype = low.get(op.a), op.a.dtype
    wide = dtype.is_float and dtype.bits < 32  # 16-bit floats are summed in f32
    own = op.kind.startswith(("max", "min", "absmax")) and low.target.has(f"max_{dtype.name}x2")  # exact as they are
    if wide and not own:
        value = low.b.cast(value, f32)
    out = reduce_tile(low, value, layout_of(op.a), (op.dim,), op.kind, f32 if wide else None)
    out = low.b.cast(out, dtype) if wide else out
    return out if isinstance(op.result.type, TileType) else same_in_all_threads(low, out)


def _arg_reduce(low: Lowering, op: tile.ArgReduce) -> Value:
    """Like a reduction of pairs (element, index): a thread's own registers go in the order of their indices, where an
    element gives way only to one that beats it; between lanes and warps the lower of two indices wins a tie."""
    b, layout, dim = low.b, layout_of(op.a), op.dim
    value = low.get(op.a)
    if value.dtype.is_float and value.dtype.bits < 32:
        value = b.cast(value, f32)
    elif value.dtype.kind == "bool" or value.dtype.bits < 32:
        value = b.cast(value, i32)
    value = mask_overhang(low, value, layout, (dim,), neutral(op.kind, value.dtype))
    groups: dict[tuple[int, ...], list[int]] = {}
    offsets = layout.register_offsets()
    for reg in sorted(range(len(offsets)), key=lambda reg: offsets[reg][dim]):
        groups.setdefault((*offsets[reg][:dim], *offsets[reg][dim + 1 :]), []).append(reg)
    narrow = layout.quotient(dim)
    rows = [groups[at] for at in narrow.register_offsets()]
    columns = b.emit(thread.Offsets(b.constant(0), tuple(at[dim] for at in offsets))).result
    value, index = _first_of_registers(low, value, columns, rows, op.kind)
    base = low.thread_coord(layout, dim)
    if base is not None:
        index = b.value(arith.Add(index, base))
        value = _ordered(low, value, op.kind)
        for divisor, size, of, _ in layout.thread_digits():
            inside = min(size, max(1, layout.num_lanes // divisor)) if of == dim and divisor < layout.num_lanes else 1
            step = 1
            while step < inside:
                others = (b.emit(thread.ShuffleXor(x, divisor * step)).result for x in (value, index))
                value, index = _first(low, (value, index), tuple(others), op.kind)
                step *= 2
        if any(d.dim == dim for d in layout.warp):
            values, parts = gather_partials(low, value, layout, narrow, (dim,))
            indices, _ = gather_partials(low, index, layout, narrow, (dim,))
            found = [(low.pick(values, at), low.pick(indices, at)) for at in zip(*parts, strict=True)]
            value, index = reduce(lambda one, other: _first(low, one, other, op.kind), found)
    return index if isinstance(op.result.type, TileType) else same_in_all_threads(low, index)


def _first_of_registers(
    low: Lowering, value: Value, index: Value, groups: list[list[int]], kind: str
) -> tuple[Value, Value]:
    """Of each group, whose registers stand in the order of their indices, the element and its index. Neighbours meet,
    so that all that is on the left of an element has lower indices."""
    b, pairs = low.b, (value, index)
    while len(groups[0]) > 1:
        half = len(groups[0]) // 2
        left, right = (
            [low.pick(x, [g[2 * n + side] for g in groups for n in range(half)]) for x in pairs] for side in (0, 1)
        )
        if left[0].dtype.is_float:  # NaN beats what is none
            number = b.value(arith.Cmp(left[0], left[0], "eq"))
            beats = b.value(arith.Not(b.value(arith.Cmp(right[0], left[0], "le" if kind == "max" else "ge"))))
            beats = b.value(arith.And(number, beats))
        else:
            beats = b.value(arith.Cmp(right[0], left[0], "gt" if kind == "max" else "lt"))
        odd = [[low.pick(x, [g[-1] for g in groups])] if len(groups[0]) % 2 else [] for x in pairs]
        chosen = [b.select(beats, r, le) for le, r in zip(left, right, strict=True)]
        pairs = low.concat([chosen[0], *odd[0]]), low.concat([chosen[1], *odd[1]])
        behind = [[len(groups) * half + n] if odd[0] else [] for n in range(len(groups))]
        groups = [[*range(n * half, (n + 1) * half), *behind[n]] for n in range(len(groups))]
    order = [g[0] for g in groups]
    return low.pick(pairs[0], order), low.pick(pairs[1], order)


def _ordered(low: Lowering, value: Value, kind: str) -> Value:
    """A float as an integer of as many bits that compares likewise, -0 as 0 does, and NaN before all."""
    if not value.dtype.is_float:
        return value
    b, bits = low.b, DTYPES[f"i{value.dtype.bits}"]
    most = bits.integers[-1]
    raw = b.value(arith.Reinterpret(value, bits))
    sign = b.value(arith.Shr(raw, b.constant(bits.bits - 1, bits)))
    key = b.value(arith.Xor(raw, b.value(arith.And(sign, b.constant(most, bits)))))
    key = b.select(b.value(arith.Cmp(value, b.constant(0.0, value.dtype), "eq")), b.constant(0, bits), key)
    nan = b.value(arith.Cmp(value, value, "ne"))
    return b.select(nan, b.constant(most if kind == "max" else -most - 1, bits), key)


def _first(low: Lowering, one: tuple[Value, ...], other: tuple[Value, ...], kind: str) -> tuple[Value, Value]:
    """Of two pairs (element, index) the one that comes first."""
    b = low.b
    better = b.value(arith.Cmp(other[0], one[0], "gt" if kind == "max" else "lt"))
    equal, lower = b.value(arith.Cmp(other[0], one[0], "eq")), b.value(arith.Cmp(other[1], one[1], "lt"))
    wins = b.value(arith.Or(better, b.value(arith.And(equal, lower))))
    return b.select(wins, other[0], one[0]), b.select(wins, other[1], one[1])


def _convert_layout(low: Lowering, op: tile.ConvertLayout) -> Value:
    return convert(low, low.get(op.a), layout_of(op.a), op.layout)


def _extract(low: Lowering, op: tile.Extract) -> Value:
    """The element's owner keeps it, all other threads have 0; the bitwise or of all is the element. Where it is known
    which register of which thread that is, the owner hands it to all in shared memory."""
    b, layout, value = low.b, layout_of(op.a), low.get(op.a)
    dtype = value.dtype
    at = [constant_of(index) for index in op.indices]
    if None not in at and all(0 <= i < size for i, size in zip(at, layout.shape, strict=True)):
        return same_in_all_threads(low, _of_owner(low, value, layout, at))
    bits = integer_of(dtype)
    if dtype.kind == "bool":
        value = b.cast(value, bits)
    elif bits is not dtype:
        value = b.value(arith.Reinterpret(value, bits))
    for d, index in enumerate(op.indices):
        base = low.thread_coord(layout, d)
        here = low.get(index) if base is None else b.sub(low.get(index), base)
        columns = tuple(at[d] for at in layout.register_offsets())
        run = b.emit(thread.Offsets(b.constant(0, here.dtype), columns)).result
        value = b.select(b.value(arith.Cmp(run, here, "eq")), value, b.constant(0, bits))
    out = reduce_tile(low, value, layout, tuple(range(layout.rank)), "or")
    if dtype.kind == "bool":
        out = b.cast(out, dtype)
    elif bits is not dtype:
        out = b.value(arith.Reinterpret(out, dtype))
    return same_in_all_threads(low, out)


def _of_owner(low: Lowering, value: Value, layout: Layout, at: Sequence[int]) -> Value:
    """One element, in all threads."""
    slot = layout.owner(at)
    value = low.pick(value, (slot.reg,))
    if layout.replication == layout.threads:
        return value
    owner = slot.lane + layout.num_lanes * slot.warp
    dtype = storage(value.dtype)
    buffer = scratch(low, row_major((1,), dtype.bits), dtype, "element")
    addresses = Addresses(buffer_address(low, buffer), (0,), (0,))
    mine: Value = low.in_entry(("owner", owner), lambda b: b.compare("eq", low.tid, owner))
    emit_store(low, Plan("shared", 1, (0,), addresses, Guards(mine, (0,))), buffer, None, stored(low, value))
    loaded = emit_load(low, Plan("shared", 1, (0,), addresses, Guards(None, ())), buffer, None, 1)
    return loaded_as(low, loaded, value.dtype)


def same_in_all_threads(low: Lowering, value: Value) -> Value:
    """A scalar that is the program's, not a thread's: branches on it keep the threads together."""
    return low.b.emit(thread.Pick(value, (0,), same=True)).result


def integer_of(dtype: DType) -> DType:
    return dtype if dtype.is_int else DTYPES["u8" if dtype.kind == "bool" else f"u{dtype.bits}"]


def _slice(low: Lowering, op: tile.Slice) -> Value:
    """A part of a tile, through shared memory unless the registers are at hand."""
    src, dst = layout_of(op.a), layout_of(op.result)
    where = {at: reg for reg, at in enumerate(src.register_offsets())}
    wanted = [tuple(a + o for a, o in zip(at, op.offsets, strict=True)) for at in dst.register_offsets()]
    if src.thread_digits() == dst.thread_digits() and all(at in where for at in wanted):
        return low.pick(low.get(op.a), [where[at] for at in wanted])
    value = low.get(op.a)
    dtype = storage(value.dtype)
    shared = row_major(src.shape, dtype.bits)
    buffer = scratch(low, shared, dtype, "slice")
    plan = plan_whole(low, buffer, shared, src, writes=True)
    emit_store(low, plan, buffer, None, low.pick(stored(low, value), plan_order(src, shared)))
    offsets = list(dst.register_offsets())
    at = places(low, [Affine(o) for o in op.offsets], dst)
    guards = GuardBuilder(low)
    guards.overhang(dst)
    addresses = shared_addresses(low, buffer, None, at, offsets)
    plan = Plan("shared", 1, tuple(range(len(offsets))), addresses, guards.finish(offsets))
    return loaded_as(low, emit_load(low, plan, buffer, None, dst.num_regs), value.dtype)


def _reshape(low: Lowering, op: Reshape) -> Value:
    """Nothing where each thread has its elements already; else all of it goes through shared memory, as a row."""
    src, dst, value = layout_of(op.a), layout_of(op.result), low.get(op.a)
    there = reshaped(src, dst.shape)
    if there is not None:
        return convert(low, value, there, dst)
    dtype = storage(value.dtype)
    buffer = scratch(low, row_major((math.prod(dst.shape),), dtype.bits), dtype, "reshape")
    emit_store(low, _plan_row(low, buffer, src, writes=True), buffer, None, stored(low, value))
    return loaded_as(low, emit_load(low, _plan_row(low, buffer, dst), buffer, None, dst.num_regs), value.dtype)


def _plan_row(low: Lowering, buffer: Value, layout: Layout, *, writes: bool = False) -> Plan:
    """Every element of a tile at its own place in a buffer of one dimension, counted row by row."""
    b, units = low.b, [math.prod(layout.shape[d + 1 :]) for d in range(layout.rank)]
    start = buffer_address(low, buffer)
    for d, unit in enumerate(units):
        base = low.thread_coord(layout, d)
        start = start if base is None else b.add(start, b.mul(base, unit * buffer.dtype.bytes))
    offsets = list(layout.register_offsets())
    at = tuple(sum(o * u for o, u in zip(offset, units, strict=True)) * buffer.dtype.bytes for offset in offsets)
    guards = _own_elements(low, layout, writes).finish(offsets)
    return Plan("shared", 1, tuple(range(len(at))), Addresses(start, (0,) * len(at), at), guards)


def _own_elements(low: Lowering, layout: Layout, writes: bool) -> GuardBuilder:
    """The conditions of accesses to the thread's elements of a tile; of writes, to those that are its alone."""
    guards = GuardBuilder(low)
    guards.overhang(layout)
    owner = low.owner(layout) if writes else None
    if owner is not None:
        guards.always.append(owner)
    return guards


EXCHANGE_RULES: dict[type[Op], Rule] = {
    tile.Reduce: _reduce,
    tile.ArgReduce: _arg_reduce,
    tile.ConvertLayout: _convert_layout,
    tile.Extract: _extract,
    tile.Slice: _slice,
    Reshape: _reshape,
}
