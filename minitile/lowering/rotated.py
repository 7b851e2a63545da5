"""Loads and stores of tiles that are rotated along their rows (align_rows.py): position p has element (p - s) mod size.

    run at position p        elements from p - s on, at an address that is a multiple of the run
    the run at p < s         its first elements are the row's last ones: by elements
    the row's last run       cut by the tensor's end: by elements (cut_runs.py)

Of a tensor whose rows are not those that the tile is rotated for, the run at p - s is put together of two aligned ones:

    elements p - s … p - s + 7    =    of the 16 in two vectors, those from s' on

where both are inside the tensor; else the run is by elements, too. So is a load from an index that is no multiple of
the vector (`load_between`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from minitile.analysis.affine import Affine
from minitile.ir.core import Value
from minitile.ir.ops import arith, thread, tile
from minitile.ir.ops.views import RotatedIota
from minitile.ir.types import DType, TileType, bool_, i32, i64
from minitile.layout import Layout
from minitile.layout.access import vector_runs
from minitile.lowering.accesses import Addresses, Coord, GuardBuilder, Guards, Place, index_dtype, may_wrap
from minitile.lowering.context import Lowering, layout_of
from minitile.lowering.cut_runs import FAR, MOST_RUNS, Cut, Ends, any_of, short
from minitile.lowering.memory import (
    Plan,
    access_width,
    contiguous_dim,
    emit_cut_loads,
    emit_load,
    emit_loads,
    emit_store,
    global_addresses,
    implied_bounds,
    in_memory,
    in_order,
    places,
)

Row = tile.Load | tile.Store
MOST_SHIFT = 16  # of which s is less: elements in 16 bytes


@dataclass(frozen=True, slots=True, eq=False)
class _Pairs:
    """Runs that are put together of two vectors each. back: how many elements in front of a run's position the first
    one begins; over: how many of its elements are in front of the run's."""

    back: list[Value]
    over: list[Value]


@dataclass(eq=False)
class _Rows:
    """An access of a rotated tile, in the tensor's dimensions: `runs` of registers with their offsets, of `width`
    elements along `fast`. shifts: s of each run. outer: what each run needs besides its columns. limit: how many
    columns there are from the thread's own position on, without the shift; None: enough. floor: the offset from there
    of the tensor's first column; None: none is in front of it."""

    low: Lowering
    op: Row
    where: list[Place]
    fast: int
    size: int
    width: int
    runs: tuple[tuple[tuple[int, ...], Coord], ...]
    shifts: list[Value]
    outer: list[Value]
    limit: Value | None
    floor: Value | None = None

    @property
    def offsets(self) -> list[Coord]:
        return [at for _, at in self.runs]

    @property
    def order(self) -> tuple[int, ...]:
        return tuple(r for run, _ in self.runs for r in run)

    @property
    def thread(self) -> Value:
        """The thread's own position."""
        own = self.where[self.fast].thread
        return self.low.b.constant(0) if own is None else own

    def below(self, offset: int, by: Value) -> Value:
        """Whether the element at the thread's position + offset - by is in the row, if it is not before it."""
        b = self.low.b
        if self.limit is None:
            return b.constant(True, bool_)
        return b.value(
            arith.Cmp(b.constant(offset, self.limit.dtype), b.add(self.limit, b.cast(by, self.limit.dtype)), "lt")
        )

    def above(self, offset: int) -> Value:
        """Whether the element at the thread's position + offset is not in front of the tensor, without a shift."""
        b = self.low.b
        if self.floor is None:
            return b.constant(True, bool_)
        return b.value(arith.Cmp(b.constant(offset, self.floor.dtype), self.floor, "ge"))

    @property
    def near(self) -> int:
        """Of which the offsets of runs are less that may begin before the row's first element."""
        if self.op.shift is None:
            return 0
        return self.op.vector if self.op.vector > 1 else MOST_SHIFT

    def before(self, offset: int, by: Value) -> Value:
        """Whether the thread's position + offset - by is before the row's first element."""
        b = self.low.b
        return b.value(arith.Cmp(b.constant(offset), b.sub(by, self.thread), "lt"))


def load_rotated(low: Lowering, op: tile.Load) -> Value:
    """The rule of a load with a shift."""
    subject = op.result
    rows = _rows(low, op, subject, False, _width(low, op, subject))
    vector = _realigned(low, op, subject)
    if rows.width == 1 and vector > 1:
        b, rows = low.b, _rows(low, op, subject, False, vector, reach=vector)
        back = {s: b.mul(b.floordiv(b.add(s, vector - 1), vector), vector) for s in rows.shifts}
        pairs = _Pairs([back[s] for s in rows.shifts], [b.sub(back[s], s) for s in rows.shifts])
        return _load_realigned(rows, subject, pairs)
    return emit_load(low, _plan(rows, subject), op.mem, None, layout_of(subject).num_regs, op.evict)


def load_between(low: Lowering, op: tile.Load) -> Value | None:
    """A load of rows that begin at multiples of the vector from an index that may not be one: each run out of the two
    vectors that it lies in. None for other loads, and of what the kernel writes: what lies beside a run in its vectors
    another thread or block may be writing."""
    if not isinstance(op.result.type, TileType) or op.mem in low.written or not low.masks.between(op):
        return None
    along = contiguous_dim(op.mem)
    if along is None:
        return None
    layout = in_memory(layout_of(op.result), op.dims)
    width = layout.vector_width(along, max(1, 16 // op.mem.dtype.bytes))
    if width < 2 or width * op.mem.dtype.bytes < 4 or width & (width - 1):
        return None
    whole = low.facts.multiple(low.facts.size(op.mem, along)) % width == 0  # no vector is partly behind the row's end
    rows = _rows(low, op, op.result, False, width, reach=width - whole)
    over = low.b.cast(low.b.floormod(low.get(op.indices[along]), width), i32)
    return _load_realigned(rows, op.result, _Pairs([over] * len(rows.runs), [over] * len(rows.runs)))


def store_rotated(low: Lowering, op: tile.Store, value: Value) -> None:
    """The rule of a store with a shift; of the registers to store."""
    p = _plan(_rows(low, op, op.value, True, _width(low, op, op.value)), op.value)
    stored = low.pick(value, (0,) * len(p.order)) if thread.count_of(value.type) == 1 else low.pick(value, p.order)
    emit_store(low, p, op.mem, None, stored, op.evict)


def _in_memory(layout: Layout, dims: tile.Dims) -> Layout:
    """The layout with the memory's dimensions, and behind them those of the tile that run along none of these: along
    them a load has the same elements, rotated otherwise."""
    inside = {t: m for m, t in enumerate(dims) if t is not None}
    rest = [t for t in range(layout.rank) if t not in inside]
    shape = [*(1 if t is None else layout.shape[t] for t in dims), *(layout.shape[t] for t in rest)]
    return layout.renumbered({**inside, **{t: len(dims) + n for n, t in enumerate(rest)}}, shape)


def _width(low: Lowering, op: Row, subject: Value) -> int:
    """How many elements a run has: as many as lie at multiples of themselves."""
    layout, fast = _in_memory(layout_of(subject), op.dims), contiguous_dim(op.mem)
    assert fast is not None
    return layout.vector_width(fast, min(op.vector, max(1, 16 // op.mem.dtype.bytes)))


def _realigned(low: Lowering, op: tile.Load, subject: Value) -> int:
    """How many elements each of two vectors has that runs are put together of; 1: they are not, as with `load_between`
    where the kernel writes the memory, or where a vector is less than a word."""
    layout = _in_memory(layout_of(subject), op.dims)
    if op.mask is not None or op.vector > 1 or op.mem in low.written:
        return 1
    starts = [low.facts.affine(v) for v in op.indices]
    width = access_width(low, op.mem, places(low, starts, layout), layout, whole=False)
    return width if width * op.mem.dtype.bytes >= 4 else 1


def _rows(low: Lowering, op: Row, subject: Value, writes: bool, width: int, reach: int = 0) -> _Rows:
    """`reach`: how many elements behind its own a run's accesses touch."""
    b = low.b
    layout, fast = _in_memory(layout_of(subject), op.dims), contiguous_dim(op.mem)
    assert fast is not None
    starts = [low.facts.affine(v) for v in op.indices]
    where = places(low, starts, layout)
    runs = vector_runs(layout, width, fast)
    guards = GuardBuilder(low)
    below, above = implied_bounds(low, op, op.mask if op.shift is not None else None, starts)
    guards.bounds(op.mem, where, [*below, fast], [*above, fast])
    guards.overhang(layout)
    owner = low.owner(layout) if writes else None
    if owner is not None:
        guards.always.append(owner)
    if op.mask is not None and not isinstance(op.mask.type, TileType):
        guards.always.append(low.get(op.mask))
    found = guards.finish([at for _, at in runs])
    true = b.constant(True, bool_)
    outer = [true if found.value is None else low.pick(found.value, (found.index[n],)) for n in range(len(runs))]
    place, size = where[fast], low.facts.size(op.mem, fast)
    limit = floor = None
    if not low.facts.less(place.start + place.reach + reach, size):
        dtype = index_dtype(low, place.start, size)
        limit = b.sub(low.emit(size, dtype), _start(low, place, size, dtype))
        limit = limit if place.thread is None else b.sub(limit, b.cast(place.thread, dtype))
    if not low.facts.nonnegative(place.start):
        dtype = index_dtype(low, place.start, size)
        floor = b.sub(b.constant(0, dtype), _start(low, place, size, dtype))
        floor = floor if place.thread is None else b.sub(floor, b.cast(place.thread, dtype))
    shifts = [b.constant(0)] * len(runs)
    if op.shift is not None:
        shifts = _shifts(low, op.shift, layout_of(subject), op.along, [run[0] for run, _ in runs])
    return _Rows(low, op, where, fast, layout.shape[fast], width, runs, shifts, outer, limit, floor)


def _start(low: Lowering, place: Place, size: Affine, dtype: DType) -> Value:
    """The index that a tile starts at; one from which a shift leads to no element, where sums with the own may wrap."""
    b, at = low.b, low.emit(place.start, dtype)
    if dtype is not i32 or not may_wrap(low, place.start):
        return at
    at = b.min(at, low.emit(size + MOST_SHIFT))
    return at if low.facts.nonnegative(place.start) else b.max(at, -FAR)


def _shifts(low: Lowering, shift: Value, layout: Layout, along: int, registers: Sequence[int]) -> list[Value]:
    """s of the rows of these registers."""
    value = low.get(shift)
    if thread.count_of(value.type) == 1:
        return [value] * len(registers)
    number = {at: n for n, at in enumerate(layout.quotient(along).register_offsets())}
    at = layout.register_offsets()
    rows = [(*at[r][:along], *at[r][along + 1 :]) for r in registers]
    return [low.pick(value, (number[row],)) for row in rows]


def _plan(rows: _Rows, subject: Value, pairs: _Pairs | None = None) -> Plan:
    """Runs at once where they are inside, both vectors of `pairs`; others by elements."""
    low, op, b = rows.low, rows.op, rows.low.b
    starts = tuple(low.get(v) for v in op.indices) if op.mem in low.written else ()
    extent = in_memory(layout_of(subject), op.dims).shape if starts else ()
    addresses = _addresses(rows, rows.shifts)
    if rows.width == 1:
        addresses, guards = _elements(rows, addresses, rows.outer)
        return Plan("global", 1, rows.order, addresses, guards, starts, extent)
    whole, cut = [], []
    for n, ((registers, at), shift, outer) in enumerate(zip(rows.runs, rows.shifts, rows.outer, strict=True)):
        first = at[rows.fast]
        last = first + rows.width - 1
        inside, some = rows.below(last, shift), rows.below(first, shift)
        if pairs is not None:
            inside = rows.below(last + rows.width, pairs.back[n])
        if first < rows.near:
            before = rows.before(first, shift)
            inside, some = b.and_(inside, b.value(arith.Not(before))), b.value(arith.Or(some, before))
        inside, some = b.and_(inside, rows.above(first)), b.and_(some, rows.above(last))
        if op.mask is not None and isinstance(op.mask.type, TileType):
            held = [low.pick(low.get(op.mask), (r,)) for r in registers]
            for each in held:
                inside = b.and_(inside, each)
            some = b.and_(some, any_of(low, held))
        whole.append(b.and_(outer, inside))
        cut.append(b.and_(b.and_(outer, some), b.value(arith.Not(whole[n]))))
    every = tuple(range(len(rows.runs)))
    ends = None
    if rows.limit is not None and len(every) <= MOST_RUNS and not isinstance(op.mask and op.mask.type, TileType):
        limit = short(low, rows.limit)
        at = tuple(at[rows.fast] for at in rows.offsets)
        turn = tuple(
            b.sub(shift, rows.thread) if place < rows.near else b.constant(0)
            for place, shift in zip(at, rows.shifts, strict=True)
        )
        high = tuple(b.add(limit, shift) for shift in rows.shifts)
        least = None if rows.floor is None else (short(low, rows.floor),) * len(every)
        ends = Ends(at, high, least, turn if rows.near else None, rows.size)
    some_cut = Cut(low.concat(cut), lambda: _elements(rows, addresses, cut), ends)
    guards = Guards(low.concat(whole), every)
    return Plan("global", rows.width, rows.order, addresses, guards, starts, extent, some_cut)


def _addresses(rows: _Rows, by: Sequence[Value]) -> Addresses:
    """Of the runs, each so many elements in front of its position."""
    low, b, bytes_ = rows.low, rows.low.b, rows.op.mem.dtype.bytes
    plain = global_addresses(low, rows.op.mem, rows.where, [at[: len(rows.where)] for at in rows.offsets])
    known: dict[tuple[int, Value], int] = {}
    values: list[Value] = []
    index: list[int] = []
    for n, back in zip(plain.index, by, strict=True):
        if (n, back) not in known:
            known[n, back] = len(values)
            values.append(b.sub(low.pick(plain.value, (n,)), b.mul(b.cast(back, i64), bytes_)))
        index.append(known[n, back])
    return Addresses(low.concat(values), tuple(index), plain.offsets)


def _elements(rows: _Rows, addresses: Addresses, guards: Sequence[Value]) -> tuple[Addresses, Guards]:
    """The accesses of all elements: of those in front of the row at its end, as far as it goes. `guards`: of their
    runs."""
    low, op, b, bytes_ = rows.low, rows.op, rows.low.b, rows.op.mem.dtype.bytes
    values: list[Value] = []
    index, offsets, found = [], [], []
    numbers: dict[Value, int] = {}
    mask = low.get(op.mask) if op.mask is not None and isinstance(op.mask.type, TileType) else None
    for n, ((registers, at), shift, guard) in enumerate(zip(rows.runs, rows.shifts, guards, strict=True)):
        here = low.pick(addresses.value, (addresses.index[n],))
        for k, register in enumerate(registers):
            place = at[rows.fast] + k
            inside, address = rows.below(place, shift), here
            if at[rows.fast] < rows.near:
                before = rows.before(place, shift)
                wrapped = b.and_(before, rows.below(place + rows.size, shift))
                inside = b.value(arith.Or(wrapped, b.and_(inside, b.value(arith.Not(before)))))
                address = b.select(before, b.add(here, rows.size * bytes_), here)
            inside = b.and_(guard, b.and_(inside, rows.above(place)))
            found.append(inside if mask is None else b.and_(inside, low.pick(mask, (register,))))
            if address not in numbers:
                numbers[address] = len(values)
                values.append(address)
            index.append(numbers[address])
            offsets.append(addresses.offsets[n] + k * bytes_)
    return Addresses(low.concat(values), tuple(index), tuple(offsets)), Guards(
        low.concat(found), tuple(range(len(found)))
    )


# Vectors put together of two -----------------------------------------------------------------------------------------


def _load_realigned(rows: _Rows, subject: Value, pairs: _Pairs) -> Value:
    """Both vectors of each run where they are inside the tensor, put together; other runs by elements."""
    low, op, count = rows.low, rows.op, len(rows.order)
    p = _plan(rows, subject, pairs)
    first = _addresses(rows, pairs.back)
    behind = tuple(n + rows.width * op.mem.dtype.bytes for n in first.offsets)
    halves = [
        emit_loads(low, replace(p, addresses=addresses), op.mem, None, count, op.evict)
        for addresses in (first, replace(first, offsets=behind))
    ]
    loaded = _together(rows, halves[0], halves[1], pairs.over)
    return low.pick(emit_cut_loads(low, p, op.mem, None, loaded, op.evict), in_order(p))


def _together(rows: _Rows, first: Value, second: Value, distances: list[Value]) -> Value:
    """Of each two vectors the elements from so many on."""
    low, b, width, count = rows.low, rows.low.b, rows.width, len(rows.runs)
    if rows.op.mem.dtype.bits < 32:
        by = distances[0] if all(n is distances[0] for n in distances) else low.concat(distances)
        return b.emit(thread.Funnel(first, second, by, width)).result
    parts = [low.pick(half, [n * width + k for n in range(count)]) for half in (first, second) for k in range(width)]
    bit = width // 2
    while bit:
        far = b.value(arith.Cmp(b.value(arith.And(low.concat(distances), b.constant(bit))), b.constant(0), "ne"))
        parts = [b.select(far, parts[n + bit], parts[n]) for n in range(width + bit - 1)]
        bit //= 2
    return low.pick(low.concat(parts), [k * count + n for n in range(count) for k in range(width)])


def rotated_iota(low: Lowering, op: RotatedIota) -> Value:
    """The rule of a tile of elements' own indices."""
    b, layout = low.b, layout_of(op.result)
    base = low.thread_coord(layout, op.dim)
    base = b.constant(0) if base is None else base
    size = layout.shape[op.dim]
    offsets = layout.register_offsets()
    shifts = _shifts(low, op.shift, layout, op.dim, range(len(offsets)))
    parts: list[Value] = []
    order: list[int] = []  # the registers that the parts are
    for shift in dict.fromkeys(shifts):
        mine = [n for n, s in enumerate(shifts) if s is shift]
        near = [n for n in mine if offsets[n][op.dim] < MOST_SHIFT]
        far = [n for n in mine if offsets[n][op.dim] >= MOST_SHIFT]
        start = b.sub(base, shift)
        if near:
            index = b.emit(thread.Offsets(start, tuple(offsets[n][op.dim] for n in near))).result
            before = b.value(arith.Cmp(index, b.constant(0), "lt"))
            parts.append(b.select(before, b.value(arith.Add(index, b.constant(size))), index))
        if far:
            parts.append(b.emit(thread.Offsets(start, tuple(offsets[n][op.dim] for n in far))).result)
        order += near + far
    back = [0] * len(offsets)
    for n, register in enumerate(order):
        back[register] = n
    return low.pick(low.concat(parts), back)
