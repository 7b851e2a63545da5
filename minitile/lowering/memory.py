"""Loads, stores, atomics and copies: from regions of memory to addresses, widths and predicates.

The element at tile offset `at` from the thread's base lies, in memory dimension d, at

    start[d] + thread[d] + at[d]          start: scalars of the program; thread: of the thread's number; at: constant

Global memory is linear in these, with strides that may be run-time values: one address per combination of offsets
that meet a run-time stride, the other offsets are immediates. Shared memory has a layout: one address per combination
that the swizzle does not let through as an immediate. What varies in deeper loops is added last, so that the rest can
be hoisted.

Widths come from the layout, the alignment that `Facts` proves, and 16 bytes. Predicates are there where bounds cannot
be proven: index < size in each dimension, and inside the tile where the layout overhangs it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from minitile.analysis.affine import Affine
from minitile.analysis.strides import row_alignment, strides_of, tile_alignment
from minitile.ir.core import Block, Value
from minitile.ir.diagnostics import LanguageError
from minitile.ir.ops import arith, control, thread, tile
from minitile.ir.types import ScalarType, TensorType, TileType, i32, i64
from minitile.layout import Layout
from minitile.layout.access import thread_bits, vector_runs
from minitile.layout.shared import SharedLayout, add_maybe_bits, bits_of_multiple
from minitile.lowering.accesses import Addresses, GuardBuilder, Guards, Place, index_dtype, may_wrap
from minitile.lowering.context import Lowering, layout_of
from minitile.lowering.cut_runs import Cut, RunMask, Turn, chosen, cut_guards, in_turn

Coord = tuple[int, ...]
FAR = 1 << 30  # bytes: an address's constant and the immediate on top of it are less each, so that 32 bits hold both
LEAST_CUT = 4  # bytes of an access whose ends are tested


@dataclass(slots=True)
class Walk:
    """Through a tensor, each row's address from that of the row before: the steps are the same, and few, so that few
    registers hold them. (All rows' addresses as sums of one base are hoisted from loops one by one, two registers
    each.) `address` is the last one, `at` its place in bytes, as far as it is known."""

    address: Value | None = None
    at: Affine = field(default_factory=Affine)


def in_memory(layout: Layout, dims: tile.Dims) -> Layout:
    """The layout with the memory's dimensions: one of size 1 where no tile dimension runs."""
    shape = [1 if t is None else layout.shape[t] for t in dims]
    return layout.renumbered({t: m for m, t in enumerate(dims) if t is not None}, shape)


def places(low: Lowering, starts: Sequence[Affine], layout: Layout) -> list[Place]:
    """The places of a tile whose layout is given in memory dimensions."""
    bits = thread_bits(layout)
    out = []
    for d, start in enumerate(starts):
        mine = bits_of_start(low, start)
        out.append(Place(start, low.thread_coord(layout, d), layout.shape[d] - 1, add_maybe_bits(bits[d], mine)))
    return out


def bits_of_start(low: Lowering, start: Affine) -> int:
    if start.is_constant and not start.const:
        return 0
    return bits_of_multiple(low.facts.multiple(start)) & ((1 << 32) - 1)


def coordinate(low: Lowering, tensor: Value, d: int, start: Affine, extent: int) -> Value:
    """Where a box that reaches so far starts in dimension d, for TMA, which takes 32 bits: just outside where the start
    is far outside. (TMA copies no tensor whose dimensions 32 bits do not hold.)"""
    if index_dtype(low, start) is i32:
        return low.emit(start)
    b = low.b
    at = b.max(low.emit(start, i64), -extent)
    return b.cast(b.min(at, low.emit(low.facts.size(tensor, d), i64)), i32)


# Addresses -----------------------------------------------------------------------------------------------------------


def global_addresses(
    low: Lowering, tensor: Value, where: Sequence[Place], offsets: Sequence[Coord], walk: Walk | None = None
) -> Addresses:
    b, element = low.b, tensor.dtype.bytes
    strides = strides_of(low.facts, tensor)
    run_time = [d for d, s in enumerate(strides) if not s.is_constant]
    base = low.in_entry(("global", tensor), lambda b: b.emit(thread.GlobalAddress(tensor)).result)
    later: dict[int, list[Value]] = {}
    for place, stride in zip(where, strides, strict=True):
        parts, dtype = low.by_depth(place.start), index_dtype(low, place.start)
        first = parts.pop(0, None)
        at = low.emit(first, dtype) if first is not None else None
        if place.thread is not None:
            at = place.thread if at is None else b.add(at, b.cast(place.thread, dtype))
        if at is not None:
            base = b.add(base, b.mul(b.cast(at, i64), low.emit(stride * element, i64)))
        for depth, part in parts.items():
            moved = b.mul(b.cast(low.emit(part, dtype), i64), low.emit(stride * element, i64))
            later.setdefault(depth, []).append(moved)
    constant = sum((p.start.const * s for p, s in zip(where, strides, strict=True)), Affine(0))

    def reached(total: Affine) -> Value:
        if walk is not None and walk.address is not None:
            address, step = walk.address, Affine(0, (total - walk.at).terms)
        else:
            address, step = base, Affine(0, total.terms)
        if not step.is_constant:
            address = b.add(address, low.emit(step, i64))
        if walk is None or walk.address is None:
            for depth in sorted(later):
                for moved in later[depth]:
                    address = b.add(address, moved)
        if walk is not None:
            walk.address, walk.at = address, total
        return address

    bases: dict[Coord, int] = {}
    values: list[Value] = []
    index, immediates = [], []
    for at_ in offsets:
        total = sum((o * s for o, s in zip(at_, strides, strict=True)), constant) * element
        far = total.const if abs(total.const) >= FAR else 0
        key = (far, *(at_[d] for d in run_time))
        if key not in bases:
            bases[key] = len(values)
            values.append(b.add(reached(total), far) if far else reached(total))
        index.append(bases[key])
        immediates.append(total.const - far)
    return Addresses(low.concat(values), tuple(index), tuple(immediates))


def shared_addresses(
    low: Lowering,
    buffer: Value,
    slot: Value | None,
    where: Sequence[Place],
    offsets: Sequence[Coord],
    rank: Value | None = None,
) -> Addresses:
    """`where` and `offsets` in the buffer's dimensions."""
    b, shared = low.b, shared_layout(buffer)
    start = buffer_address(low, buffer, rank)
    bits = [p.bits for p in where]
    version = None if slot is None else b.mul(low.get(slot), shared.stage_bytes)
    values: list[Value] = []
    bases: dict[object, int] = {}
    index, immediates = [], []
    swizzled: Value | None = None
    negative = tuple(not low.facts.nonnegative(p.start) for p in where)
    below = any(negative)  # an immediate may not lead over the end of 32 bits
    for at in offsets:
        split = shared.split_constant(at, bits, negative)
        key: object = at if split is None else (split.xor, below and split.add)
        if key not in bases:
            bases[key] = len(values)
            if split is None:
                inside = swizzle(low, shared, coordinates(low, where, at))
            else:
                if swizzled is None:
                    swizzled = swizzle(low, shared, coordinates(low, where, (0,) * len(at)))
                inside = b.xor(swizzled, split.xor)
                inside = b.add(inside, split.add) if below else inside
            address = b.add(start, inside)
            values.append(address if version is None else b.add(address, version))
        index.append(bases[key])
        immediates.append(0 if split is None or below else split.add)
    return Addresses(low.concat(values), tuple(index), tuple(immediates))


def buffer_address(low: Lowering, buffer: Value, rank: Value | None = None) -> Value:
    """Of version 0; in another block of the cluster, by its rank."""
    start: Value = low.in_entry(("buffer", buffer), lambda b: b.emit(thread.BufferAddress(low.get(buffer))).result)
    return start if rank is None else low.b.emit(thread.MapRank(start, low.get(rank))).result


def coordinates(low: Lowering, where: Sequence[Place], at: Coord) -> list[Value]:
    out = []
    for place, offset in zip(where, at, strict=True):
        value = low.emit(place.start + offset)
        out.append(value if place.thread is None else low.b.add(place.thread, value))
    return out


def swizzle(low: Lowering, shared: SharedLayout, coords: Sequence[Value]) -> Value:
    """The byte offset of an element at run-time coordinates."""
    b = low.b
    total = b.constant(0)
    for dim, divisor, size, stride in shared.address_terms():
        part = b.floordiv(coords[dim], divisor)
        if size is not None:
            part = b.floormod(part, size)
        total = b.add(total, b.mul(part, stride))
    xor = shared.xor_terms()
    if xor is None:
        return total
    shift, mask = xor
    moved = b.value(arith.Shr(total, b.constant(shift)))
    return b.value(arith.Xor(total, b.and_(moved, b.constant(mask))))


def local_addresses(low: Lowering, buffer: Value, indices: Sequence[Value]) -> Addresses:
    """A thread's own array: row-major, scalar indices."""
    b, shape = low.b, buffer.shape
    linear = b.constant(0)
    for index, size in zip(indices, shape, strict=True):
        linear = b.add(b.mul(linear, size), b.cast(low.get(index), i32))
    start = buffer_address(low, buffer)
    return Addresses(b.add(start, b.mul(b.cast(linear, i64), buffer.dtype.bytes)), (0,), (0,))


def shared_layout(buffer: Value) -> SharedLayout:
    assert isinstance(buffer.owner, tile.Alloc)
    layout = buffer.owner.layout
    assert isinstance(layout, SharedLayout)
    return layout


# Load, store, atomics ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Plan:
    """All accesses of one operation: `order` lists the tile's registers in the order of the accesses. `start` and
    `extent`: the part of a tensor that they are in. `cut`: where accesses may have to go by elements."""

    space: str
    width: int
    order: tuple[int, ...]
    addresses: Addresses
    guards: Guards
    start: tuple[Value, ...] = ()
    extent: tuple[int, ...] = ()
    cut: Cut | None = None


MemoryOp = tile.Load | tile.Store | tile.AtomicRmw


def plan(
    low: Lowering,
    op: MemoryOp,
    subject: Value | None,
    *,
    writes: bool,
    max_width: int = 16,
    registers: range | None = None,
    walk: Walk | None = None,
) -> Plan:
    """`subject` is the tile that is moved (None: one scalar); with `registers` only these of a tile are. `walk`: from
    what was planned with the same one before, of the same operation."""
    mem, rank = op.mem, _rank(op)
    space = "global" if isinstance(mem.type, TensorType) else mem.type.space  # type: ignore[attr-defined]
    space = space if rank is None else "shared::cluster"
    if any(isinstance(v.type, TileType) for v in op.indices):
        return _gather(low, op, subject, space, writes, max_width)
    if subject is None or not isinstance(subject.type, TileType):
        return _scalar(low, op, space, writes)
    layout = in_memory(layout_of(subject), op.dims)
    starts = [low.facts.affine(v) for v in op.indices]
    where = places(low, starts, layout)
    fast = contiguous_dim(mem)
    along = None if fast is None else op.dims[fast]
    width = 1 if fast is None else access_width(low, mem, where, layout, max_width)
    if fast is not None and op.mask is not None and along is not None:
        width = low.masks.run(op.mask, along, width)
    wide = width
    if space == "global" and not isinstance(op, tile.AtomicRmw):
        wide = _cut_width(low, mem, where, layout, max_width, op.mask, along)
    runs = vector_runs(layout, max(width, wide), fast)
    if registers is not None:
        runs = tuple(run for run in runs if run[0][0] in registers)
    offsets = [at for _, at in runs]
    mask = op.mask
    if wide > width and mask is not None and low.masks.says_bounds(mem, op.indices, op.dims, mask):
        mask = None
    guards = _guards(low, op, where, starts, layout, mask, writes)
    order = tuple(r for run, _ in runs for r in run)
    tiled = mask is not None and isinstance(mask.type, TileType)
    cut: Cut | None = None
    if wide > width and fast is not None:
        over = _over_runs(low, mask, along, wide, runs) if tiled and mask is not None else None
        found, cut = cut_guards(low, guards, offsets, fast, wide, over)
        width = wide
    else:
        found = guards.finish(offsets)
        if tiled and mask is not None:
            first = tuple(registers[0] for registers, _ in runs)
            found = _with_mask(low, found, low.pick(low.get(mask), first), len(offsets))
    if space == "global":
        addresses = global_addresses(low, mem, where, offsets, walk)
    else:
        addresses = shared_addresses(low, mem, _slot(op), where, offsets, rank)
    begin = tuple(low.emit(start) for start in starts) if space == "global" and mem in low.written else ()
    return Plan(space, width, order, addresses, found, begin, layout.shape if begin else (), cut)


def _guards(
    low: Lowering,
    op: MemoryOp,
    where: Sequence[Place],
    starts: Sequence[Affine],
    layout: Layout,
    mask: Value | None,
    writes: bool,
) -> GuardBuilder:
    """The conditions of an operation's accesses, but for a mask over its tile."""
    guards = GuardBuilder(low)
    if isinstance(op.mem.type, TensorType):
        guards.bounds(op.mem, where, *implied_bounds(low, op, mask, starts))
    guards.overhang(layout)
    owner = low.owner(layout) if writes else None
    if owner is not None:
        guards.always.append(owner)
    if mask is not None and not isinstance(mask.type, TileType):
        guards.always.append(low.get(mask))
    return guards


def _over_runs(
    low: Lowering, mask: Value, along: int | None, width: int, runs: Sequence[tuple[tuple[int, ...], Coord]]
) -> RunMask:
    """A mask over the tile, over runs of so many elements."""
    alike, sides = width, 0
    if along is not None:
        alike, sides = low.masks.run(mask, along, width), low.masks.sides(mask, along) or 0
    return RunMask(low.get(mask), tuple(run for run, _ in runs), alike, sides)


def moved_width(low: Lowering, mem: Value, where: Sequence[Place], layout: Layout) -> int:
    """How many elements of global memory a load or a store without a mask takes, where they are inside."""
    width = access_width(low, mem, where, layout)
    return max(width, _cut_width(low, mem, where, layout)) if isinstance(mem.type, TensorType) else width


def _cut_width(
    low: Lowering,
    mem: Value,
    where: Sequence[Place],
    layout: Layout,
    max_bytes: int = 16,
    mask: Value | None = None,
    along: int | None = None,
) -> int:
    """How many elements an access may take where both ends of its run are tested: what alignment allows. The mask is
    over the tile, whose dimension `along` runs along the memory's contiguous one."""
    if contiguous_dim(mem) is None or mem.dtype.kind == "bool":
        return 1
    width = access_width(low, mem, where, layout, max_bytes, whole=False)
    if mask is not None and along is not None and low.masks.sides(mask, along) is None:
        return low.masks.run(mask, along, width)
    return width if width * mem.dtype.bytes >= LEAST_CUT else 1


def implied_bounds(
    low: Lowering, op: MemoryOp, mask: Value | None, starts: Sequence[Affine]
) -> tuple[list[int], list[int]]:
    """The memory dimensions in which the mask says that an index is below the size, and that it is not below 0."""
    if mask is None or not isinstance(mask.type, TileType):
        return [], []
    claims = low.masks.claims(mask)
    below, above = [], []
    for d, (start, along) in enumerate(zip(starts, op.dims, strict=True)):
        index = start
        if along is not None:
            index = start + Affine.of(low.masks.coordinate(along, mask.shape[along]))
        if low.masks.implied(low.facts.size(op.mem, d) - index - 1, claims):
            below.append(d)
        if low.masks.implied(index, claims):
            above.append(d)
    return below, above


def _slot(op: MemoryOp) -> Value | None:
    return None if isinstance(op, tile.AtomicRmw) else op.slot


def _rank(op: MemoryOp) -> Value | None:
    return None if isinstance(op, tile.AtomicRmw) else op.rank


def _with_mask(low: Lowering, guards: Guards, mask: Value, count: int) -> Guards:
    every = tuple(range(count))
    if guards.value is None:
        return Guards(mask, every)
    return Guards(low.b.value(arith.And(low.pick(guards.value, guards.index), mask)), every)


def access_width(
    low: Lowering, mem: Value, where: Sequence[Place], layout: Layout, max_bytes: int = 16, whole: bool = True
) -> int:
    """How many elements one access may take, along the memory's contiguous dimension: as far as the layout goes and
    alignment is proven; with `whole`, so that no access is partly outside the tensor."""
    in_tensor, fast = isinstance(mem.type, TensorType), contiguous_dim(mem)
    if fast is None or layout.shape[fast] == 1:
        return 1
    width = layout.vector_width(fast, max(1, max_bytes // mem.dtype.bytes))
    if in_tensor and not whole:
        spans = [d for d in range(len(where)) if layout.shape[d] > 1]
        return math.gcd(width, tile_alignment(low.facts, mem, [place.start for place in where], spans))
    width = math.gcd(width, low.facts.multiple(where[fast].start))
    if not in_tensor:
        shared = shared_layout(mem)
        while width > 1 and (
            shared.contiguous_elems(fast) % width or shared.row_alignment(fast, width) % (width * mem.dtype.bytes)
        ):
            width //= 2
    else:
        width = math.gcd(width, row_alignment(low.facts, mem))
        size = low.facts.size(mem, fast)
        if width > 1 and not low.facts.less(where[fast].start + where[fast].reach, size):
            width = math.gcd(width, low.facts.multiple(size))
    return width


def contiguous_dim(mem: Value) -> int | None:
    """The dimension of memory that vectors run along."""
    return mem.type.contiguous_dim if isinstance(mem.type, TensorType) else shared_layout(mem).contiguous_dim


def _scalar(low: Lowering, op: MemoryOp, space: str, writes: bool) -> Plan:
    """One element, at scalar indices."""
    mem = op.mem
    guards = GuardBuilder(low)
    if op.mask is not None:
        guards.always.append(low.get(op.mask))
    if writes and space != "local" and isinstance(op, tile.Store) and _same_in_all_threads(low, op):
        guards.always.append(low.first_thread())
    if space == "local":
        return Plan(space, 1, (0,), local_addresses(low, mem, op.indices), guards.finish([()]))
    where = []
    for v in op.indices:
        start = low.facts.affine(v)
        where.append(Place(start, None, 0, bits_of_start(low, start)))
    zero = (0,) * len(where)
    if space == "global":
        guards.bounds(mem, where)
        addresses = global_addresses(low, mem, where, [zero])
        begin = tuple(low.get(v) for v in op.indices) if mem in low.written else ()
        return Plan(space, 1, (0,), addresses, guards.finish([zero]), begin, (1,) * len(begin))
    addresses = shared_addresses(low, mem, _slot(op), where, [zero], _rank(op))
    begin = tuple(low.get(v) for v in op.indices) if space == "shared" else ()
    return Plan(space, 1, (0,), addresses, guards.finish([zero]), begin, (1,) * len(begin))


def _same_in_all_threads(low: Lowering, op: tile.Store) -> bool:
    return not low.divergent and all(low.facts.uniform(v) for v in op.operands if isinstance(v.type, ScalarType))


def _gather(low: Lowering, op: MemoryOp, subject: Value | None, space: str, writes: bool, max_width: int) -> Plan:
    """Indices that are tiles: every register has an address of its own, or every run of neighbours that are so in
    memory, too."""
    b, mem = low.b, op.mem
    some = next(v for v in op.indices if isinstance(v.type, TileType))
    layout = layout_of(subject if subject is not None and isinstance(subject.type, TileType) else some)
    count = layout.num_regs
    columns = layout.register_offsets()
    coords: list[Value] = []
    guard: Value | None = None

    def also(condition: Value) -> None:
        nonlocal guard
        guard = condition if guard is None else b.value(arith.And(guard, condition))

    for d, index in enumerate(op.indices):
        at = low.get(index)
        dim = op.dims[d]
        size = low.facts.size(mem, d) if space == "global" else Affine(0)
        first = low.facts.affine(index)
        scalar = not isinstance(index.type, TileType)
        wide = i64 if at.dtype is i64 or index_dtype(low, *([first, size] if scalar else [size])) is i64 else i32
        at = b.cast(at, wide) if space == "global" else at
        if dim is not None:
            base = low.thread_coord(layout, dim)
            constants = tuple(c[dim] for c in columns)
            run = b.emit(thread.Offsets(b.constant(0) if base is None else base, constants)).result
            at = b.value(arith.Add(at, b.cast(run, at.dtype)))
        if space == "global":
            if not scalar or not low.facts.nonnegative(first) or (wide is i32 and may_wrap(low, first)):
                also(b.value(arith.Cmp(at, b.constant(0, wide), "ge")))
            also(b.value(arith.Cmp(at, low.emit(size, wide), "lt")))
        coords.append(at)
    for d, (extent, inside) in enumerate(zip(layout.extents, layout.shape, strict=True)):
        if extent > inside:
            base = low.thread_coord(layout, d)
            run = b.emit(thread.Offsets(b.constant(0) if base is None else base, tuple(c[d] for c in columns))).result
            also(b.value(arith.Cmp(run, b.constant(inside), "lt")))
    owner = low.owner(layout) if writes else None
    for condition in (owner, None if op.mask is None else low.get(op.mask)):
        if condition is not None:
            also(condition)
    if space == "global":
        address = low.in_entry(("global", mem), lambda b: b.emit(thread.GlobalAddress(mem)).result)
        for at, stride in zip(coords, strides_of(low.facts, mem), strict=True):
            moved = b.value(arith.Mul(b.cast(at, i64), low.emit(stride * mem.dtype.bytes, i64)))
            address = b.value(arith.Add(address, moved))
    elif space in ("shared", "shared::cluster"):
        shared = shared_layout(mem)
        start = buffer_address(low, mem, _rank(op))
        address = b.value(arith.Add(start, swizzle(low, shared, [b.cast(c, i32) for c in coords])))
        slot = _slot(op)
        if slot is not None:
            address = b.value(arith.Add(address, b.mul(low.get(slot), shared.stage_bytes)))
    else:
        raise LanguageError("an array of T.alloc_local is indexed by scalars only", op.loc)
    width, along = _gathered_run(low, op, layout, max_width) if space == "global" else (1, 0)
    runs = [run for run, _ in vector_runs(layout, width, along)] if width > 1 else [(n,) for n in range(count)]
    begin = tuple(run[0] for run in runs)
    every = tuple(range(len(runs)))
    alone = thread.count_of(address.type) == 1
    address = low.pick(address, (0,) * len(runs) if alone else begin)
    guards = Guards(None, ())
    if guard is not None:
        guards = Guards(guard, begin if thread.count_of(guard.type) == count else (0,) * len(runs))
    order = tuple(n for run in runs for n in run)
    return Plan(space, width, order, Addresses(address, every, (0,) * len(runs)), guards)


def _gathered_run(low: Lowering, op: MemoryOp, layout: Layout, max_width: int) -> tuple[int, int]:
    """How many elements one access of a tensor takes where indices are tiles, and the tile's dimension that they are
    along: neighbours in the tile for which the last index goes up by one from a multiple of so many, and all else is
    the same."""
    mem, facts = op.mem, low.facts
    fast = contiguous_dim(mem)
    if fast is None or mem.dtype.kind == "bool":
        return 1, 0
    most = math.gcd(max_width // mem.dtype.bytes, row_alignment(facts, mem), facts.multiple(facts.size(mem, fast)))
    found = 1, 0
    for dim in range(layout.rank):
        width = math.gcd(most, layout.register_run(dim), layout.shape[dim])
        for d, (index, along) in enumerate(zip(op.indices, op.dims, strict=True)):
            width = _run_of_index(low, index, along, dim, width, d == fast)
        if op.mask is not None:
            width = low.masks.run(op.mask, dim, width)
        found = max(found, (width, dim))
    return found


def _run_of_index(low: Lowering, index: Value, along: int | None, dim: int, width: int, fast: bool) -> int:
    """Of runs of so many along a tile's dimension, how long they are for one index: neighbours in the fast one, the
    same in others."""
    tiles = isinstance(index.type, TileType)
    if not fast:
        return 1 if along == dim else low.masks.run(index, dim, width) if tiles else width
    if along is None:
        return low.masks.steps(index, dim, width) if tiles else 1
    return 1 if tiles or along != dim else math.gcd(width, low.facts.multiple(low.facts.affine(index)))


def emit_load(low: Lowering, p: Plan, mem: Value, slot: Value | None, count: int, evict: str = "") -> Value:
    """The registers of the tile, in its own order."""
    loaded = emit_cut_loads(low, p, mem, slot, emit_loads(low, p, mem, slot, count, evict), evict)
    return low.pick(loaded, in_order(p))


def in_order(p: Plan) -> tuple[int, ...]:
    """Of the tile's registers, which ones they are in the order of the accesses."""
    back = [0] * len(p.order)
    for n, register in enumerate(p.order):
        back[register] = n
    return tuple(back)


def emit_loads(low: Lowering, p: Plan, mem: Value, slot: Value | None, count: int, evict: str = "") -> Value:
    """The registers in the order of the accesses; 0 in runs that are cut."""
    return low.b.emit(
        thread.LoadMem(
            p.addresses.value,
            mem=low.get(mem),
            slot=None if slot is None else low.get(slot),
            start=p.start,
            extent=p.extent,
            predicate=p.guards.value,
            space=p.space,
            dtype=mem.dtype,
            count=count,
            width=p.width,
            address_of=p.addresses.index,
            offsets=p.addresses.offsets,
            predicate_of=p.guards.index,
            evict=evict,
        )
    ).result


def emit_cut_loads(low: Lowering, p: Plan, mem: Value, slot: Value | None, loaded: Value, evict: str = "") -> Value:
    """What is loaded, with the runs that are cut by elements."""
    count = len(p.order)
    if p.cut is not None and p.cut.ends is not None:

        def visit(turn: Turn, now: tuple[Value, ...]) -> tuple[Value, ...]:
            q = replace(p, width=1, addresses=turn.addresses, guards=turn.guards, cut=None)
            part = emit_loads(low, q, mem, slot, p.width, evict)
            runs = [low.pick(now[0], range(n * p.width, (n + 1) * p.width)) for n in range(count // p.width)]
            return (low.concat([low.b.select(m, part, run) for m, run in zip(turn.mine, runs, strict=True)]),)

        return in_turn(low, p.cut, p.addresses, p.width, mem.dtype.bytes, (loaded,), visit)[0]
    if p.cut is not None:
        then, orelse = Block(), Block()
        with low.b.inside(then):
            cut = low.pick(p.cut.runs, [n // p.width for n in range(count)])
            found = emit_loads(low, _by_elements(p, p.cut, mem), mem, slot, count, evict)
            low.b.emit(control.Yield((low.b.select(cut, found, loaded),)))
        with low.b.inside(orelse):
            low.b.emit(control.Yield((loaded,)))
        return low.b.emit(control.If(p.cut.some(low), then=then, orelse=orelse)).results[0]
    return loaded


def _by_elements(p: Plan, cut: Cut, mem: Value) -> Plan:
    """The accesses of the elements of runs that are cut."""
    addresses, guards = cut.elements()
    addresses = addresses or p.addresses.of_elements(p.width, mem.dtype.bytes)
    return replace(p, width=1, addresses=addresses, guards=guards, cut=None)


def emit_store(
    low: Lowering, p: Plan, mem: Value, slot: Value | None, value: Value, evict: str = "", whole: int | None = None
) -> None:
    """`value` in the order of the accesses. whole: the number of the tile that this is a part of. Of cut runs each
    thread stores its own elements, too: they are parts as well."""
    if whole is None and p.cut is not None:
        whole = low.tile_number()

    def stores(p: Plan, value: Value) -> None:
        low.b.emit(
            thread.StoreMem(
                p.addresses.value,
                value,
                low.get(mem),
                slot=None if slot is None else low.get(slot),
                start=p.start,
                extent=p.extent,
                predicate=p.guards.value,
                space=p.space,
                width=p.width,
                address_of=p.addresses.index,
                offsets=p.addresses.offsets,
                predicate_of=p.guards.index,
                evict=evict,
                whole=whole,
            )
        )

    stores(p, value)
    if p.cut is not None and p.cut.ends is not None:

        def visit(turn: Turn, now: tuple[Value, ...]) -> tuple[Value, ...]:
            runs = [low.pick(value, range(n * p.width, (n + 1) * p.width)) for n in range(len(turn.mine))]
            q = replace(p, width=1, addresses=turn.addresses, guards=turn.guards, cut=None)
            stores(q, chosen(low, turn.mine, runs))
            return now

        in_turn(low, p.cut, p.addresses, p.width, mem.dtype.bytes, (), visit)
    elif p.cut is not None:
        with low.b.when(p.cut.some(low)):
            stores(_by_elements(p, p.cut, mem), value)
