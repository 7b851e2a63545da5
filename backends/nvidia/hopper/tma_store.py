"""Lowering rules of sm_90a for what leaves the registers: stmatrix to shared memory, TMA from there to tensors.

Fragment to shared. stmatrix where the fragments are those of an mma and rows are whole 16-byte chunks; layouts decide
(`layout/ldmatrix.py`).

Shared to tensor. A whole shared matrix is one box a panel, stored, or combined with what is there, by one thread. In
TileLang's programs, which say nothing of instructions, a few bytes that are stored once go by all threads: the copy
engine would first fetch the tensor map, for longer than all else that is left to do, and the block waits for that.

Fragment to tensor. The accumulators of consumers are staged in parts (64 rows of each warpgroup, of as many columns as
`widths` says), through a ring of one or two versions of a shared buffer. A tile whose rows are the tensor's columns
turns there:

    store %C[%m, %n], %acc
    →
    stmatrix %acc[part 0] -> %staged, slot 0      // each warpgroup its own rows
    %t0 = join (tma_store %staged, slot 0 -> %C[…])   // one thread of each warpgroup
    wait %t0 {reads}
    stmatrix %acc[part 1] -> %staged, slot 1 …
    wait %t1 ; wait %t0

Each part is awaited at once here, for its reads and at the end for all of it; `sink_bulk_store_waits` moves the waits
to where they are needed, `thread_barriers` makes each warpgroup meet by itself between stmatrix and TMA, and
`proxy_fence` puts the fence in front of that. What lies outside the tensor is cut off by TMA.

TMA stores take tensors whose rows are multiples of 16 bytes, from coordinates that are not negative and start a row at
a multiple of 16 bytes. Anything else goes by the ordinary stores, and `context.notes` says why.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from minitile.analysis.affine import Affine
from minitile.analysis.strides import why_no_tma
from minitile.backends.nvidia.hopper.pipelines import tensor_map
from minitile.backends.nvidia.hopper.wgmma import panels_of, warpgroup
from minitile.backends.nvidia.staging import alike, as_stored, most_versions, staging
from minitile.hardware import TMA_BOX, TMA_LINE, WARPGROUP
from minitile.ir.builder import constant_of
from minitile.ir.core import Op, Value
from minitile.ir.diagnostics import LanguageError
from minitile.ir.ops import control, explicit, hopper, thread, tile
from minitile.ir.origin import LANDED, Origin
from minitile.ir.types import BufferType, TensorType, TileType
from minitile.layout import Digit, Layout, bits_of_digits, block, row_major, stmatrix_plan, swizzled, warp_groups
from minitile.layout.access import vector_runs, vector_width
from minitile.layout.ldmatrix import MatrixPlan
from minitile.layout.shared import SharedLayout, add_maybe_bits
from minitile.lowering.accesses import Addresses, Place
from minitile.lowering.context import Lowering, layout_of
from minitile.lowering.memory import (
    bits_of_start,
    coordinate,
    in_memory,
    places,
    shared_addresses,
    shared_layout,
)

CHUNK = 16  # bytes: TMA's grain in global memory
ROWS = 64  # of a warpgroup, staged at a time: those of one wgmma
PATTERN = 8  # rows of a swizzle
SWIZZLE = 128  # bytes: the widest one, and all banks
ROW_BYTES = 256  # of an unswizzled row that is staged where swizzled panels could be, at most
FEW = 4 * CHUNK  # bytes of each thread
RING = 2  # versions of the staging buffer: one is filled while TMA reads the other


class Refused(Exception):
    """Why TMA cannot make a store."""


# Fragment to shared ---------------------------------------------------------------------------------------------------


def store_matrices(low: Lowering, op: tile.Store) -> bool:
    """A fragment to shared memory by stmatrix. False where it cannot be."""
    if not isinstance(op.mem.type, BufferType) or op.mem.type.space != "shared" or op.mask is not None or low.divergent:
        return False
    if not isinstance(op.value.type, TileType) or any(isinstance(v.type, TileType) for v in op.indices):
        return False
    shared, layout = shared_layout(op.mem), in_memory(layout_of(op.value), op.dims)
    starts = [low.facts.affine(v) for v in op.indices]
    column = shared.contiguous_dim
    if column is None or low.facts.multiple(starts[column]) * shared.element_bits % (8 * CHUNK):
        return False
    plan = stmatrix_plan(layout, shared, 4, tuple(bits_of_start(low, s) for s in starts))
    if plan is None:
        return False
    emit_matrices(low, plan, layout, op.mem, op.slot, starts, low.get(op.value))
    return True


def emit_matrices(
    low: Lowering,
    plan: MatrixPlan,
    layout: Layout,
    buffer: Value,
    slot: Value | None,
    starts: Sequence[Affine],
    value: Value,
) -> None:
    """`value` in the registers of `layout`, whose dimensions are the buffer's."""
    bits = bits_of_digits(plan.lane_digits + layout.warp, layout.rank)
    where = []
    for d, start in enumerate(starts):
        mine = low.digits_value(tuple(digit for digit in plan.rows if digit.dim == d))
        where.append(Place(start, mine, 0, add_maybe_bits(bits[d], bits_of_start(low, start))))
    addresses = shared_addresses(low, buffer, slot, where, [x.offset for x in plan.accesses])
    order = [r for x in plan.accesses for word in x.registers for r in word]
    low.b.emit(
        thread.StMatrix(
            addresses.value,
            low.pick(value, order),
            low.get(buffer),
            slot=None if slot is None else low.get(slot),
            number=plan.count,
            transpose=plan.trans,
            address_of=addresses.index,
            offsets=addresses.offsets,
        )
    )


# What TMA takes -------------------------------------------------------------------------------------------------------


def check_tensor(low: Lowering, tensor: Value, indices: Sequence[Value], dims: tile.Dims) -> list[Affine]:
    """Where a box starts in each dimension. Raises Refused where TMA cannot store there."""
    order = [d for d in dims if d is not None]
    if order != sorted(order) or dims[-1] is None or len(dims) > 5:
        raise Refused("it turns the tile")
    if any(isinstance(i.type, TileType) for i in indices):
        raise Refused("it scatters")
    element, facts = tensor.dtype.bytes, low.facts
    if not all(facts.short(facts.size(tensor, d)) for d in range(len(dims))):
        raise Refused(f"{tensor.name} has a dimension that TMA's coordinates of 32 bits do not hold")
    if tensor.dtype.kind == "bool":
        raise Refused("TMA has no bool")
    if reason := why_no_tma(facts, tensor):
        raise Refused(reason)
    starts = [facts.affine(v) for v in indices]
    if facts.multiple(starts[-1]) * element % CHUNK:
        raise Refused(f"it may not start at a multiple of {CHUNK} bytes")
    if not all(map(facts.nonnegative, starts)):
        raise Refused("an index may be negative")
    if low.divergent:
        raise Refused("some threads may not come here")
    return starts


def check_kind(kind: str | None, tensor: Value) -> None:
    """Raises Refused for what TMA does not combine. None: nothing to combine."""
    if kind is not None and tensor.dtype.name not in hopper.REDUCES.get(kind, ()):
        raise Refused(f"TMA has no {kind} of {tensor.dtype}")


def check_columns(columns: int, dtype_bytes: int) -> None:
    if columns > TMA_BOX or columns * dtype_bytes % CHUNK:
        raise Refused(f"a box of {columns} columns is not TMA's")


def note(low: Lowering, op: Op, tensor: Value, reason: object) -> None:
    line = f", line {op.loc.line}" if op.loc is not None else ""
    text = f"not stored by TMA ({tensor.name}{line}): {reason}"
    if text not in low.notes:
        low.notes.append(text)


@dataclass(frozen=True, slots=True)
class _Target:
    """Where boxes go: the tensor, the tile's start in each of its dimensions, which tile dimension runs along each, the
    tile's shape; how they are combined with what is there (None: not at all); and the hint to L2."""

    tensor: Value
    starts: Sequence[Affine]
    dims: tile.Dims
    shape: tuple[int, ...]
    kind: str | None
    evict: str = ""

    def box(self, shape: Sequence[int]) -> tuple[int, ...]:
        return tuple(1 if t is None else shape[t] for t in self.dims)


def emit_box(
    low: Lowering,
    target: _Target,
    shape: Sequence[int],
    moved: Sequence[Value | int],
    buffer: Value,
    slot: Value | None,
    offset: Value | int,
    leader: Value,
    leaders: int = 1,
) -> Value:
    """The token of one box of `shape`, from `offset` bytes into a version of the buffer to `moved` from the start, or
    of one for each of several leaders. One that may lie outside altogether is left out: TMA could make nothing of the
    map of a tensor without elements."""
    b, shared = low.b, shared_layout(buffer)
    address = low.in_entry(("buffer", buffer), lambda b: b.emit(thread.BufferAddress(low.get(buffer))).result)
    if slot is not None:
        address = b.add(address, b.mul(low.get(slot), shared.stage_bytes))
    at = []
    for d, (start, t) in enumerate(zip(target.starts, target.dims, strict=True)):
        first = coordinate(low, target.tensor, d, start, 1 if t is None else target.shape[t])
        at.append(first if t is None else b.add(first, moved[t]))
        size = low.facts.size(target.tensor, d)
        if not low.facts.less(start if t is None else start + (target.shape[t] - 1), size):
            leader = b.and_(leader, b.compare("lt", at[-1], low.emit(size)))
    map_ = tensor_map(low, target.tensor, target.box(shape), shared.swizzle.width)
    fields = {
        "address": b.add(address, offset),
        "coordinates": tuple(at[::-1]),
        "mem": low.get(buffer),
        "tensor": target.tensor,
        "slot": None if slot is None else low.get(slot),
        "predicate": leader,
        "map": map_,
        "start": tuple(map(low.emit, target.starts)),
        "extent": target.box(target.shape),
        "box": target.box(shape) if leaders > 1 else (),
    }
    if target.kind is None:
        return b.emit(hopper.TmaStore(**fields, evict=target.evict)).result
    return b.emit(hopper.TmaReduce(**fields, kind=target.kind)).result


# Shared to tensor -----------------------------------------------------------------------------------------------------


def copy(low: Lowering, op: tile.Copy) -> bool:
    """From shared memory to a tensor by TMA. False where it cannot be."""
    if isinstance(op, tile.AsyncCopy) or not isinstance(op.dst.type, TensorType):
        return False
    if not isinstance(op.src.type, BufferType) or op.src.type.space != "shared":
        return False
    try:
        starts = check_tensor(low, op.dst, op.dst_indices, op.dst_dims)
        check_source(op.src, op.src_indices, op.src_dims, op.shape)
        _check_many(low, op)
    except Refused as reason:
        note(low, op, op.dst, reason)
        return False
    store_matrix(low, _Target(op.dst, starts, op.dst_dims, op.shape, None, op.evict), op.src, op.src_slot)
    return True


def _check_many(low: Lowering, op: tile.Copy) -> None:
    """Raises Refused where all threads have stored sooner than the copy engine."""
    few = math.prod(op.shape) * op.dst.dtype.bytes <= FEW * low.threads
    if few and low.kernel.attrs.get("resources_are_hints"):
        loops = (loop for loop in low.kernel.walk() if isinstance(loop, control.Loop))
        if not any(op in loop.walk() for loop in loops):
            raise Refused("it is a few bytes, once")


def combine(low: Lowering, op: tile.AtomicRmw) -> bool:
    """Shared memory that has just been loaded, combined with a tensor, by TMA. False where it cannot be."""
    load = op.value.op
    if not isinstance(load, tile.Load) or load is not low.previous or not isinstance(op.mem.type, TensorType):
        return False
    if not isinstance(load.mem.type, BufferType) or load.mem.type.space != "shared":
        return False
    try:
        starts = check_tensor(low, op.mem, op.indices, op.dims)
        check_kind(op.kind, op.mem)
        check_source(load.mem, load.indices, load.dims, load.shape)
        if op.mask is not None or load.mask is not None:
            raise Refused("it has a mask")
    except Refused as reason:
        note(low, op, op.mem, reason)
        return False
    store_matrix(low, _Target(op.mem, starts, op.dims, load.shape, op.kind), load.mem, load.slot)
    return True


def check_source(buffer: Value, indices: Sequence[Value], dims: tile.Dims, shape: tuple[int, ...]) -> None:
    """Raises Refused where a region is not the whole of a buffer that lies as boxes do."""
    shared = shared_layout(buffer)
    if shape != buffer.shape or tuple(dims) != tuple(range(len(shape))) or any(constant_of(i) != 0 for i in indices):
        raise Refused(f"it is not all of {buffer.name}")
    if len(shape) > 2 or shared != swizzled(shape, shared.element_bits, shared.swizzle.width):
        raise Refused(f"{buffer.name} does not lie as TMA's boxes do")
    if isinstance(buffer.type, BufferType) and buffer.type.versions > 1 and shared.stage_bytes % TMA_LINE:
        raise Refused(f"versions of {shared.stage_bytes} bytes do not all begin at multiples of {TMA_LINE}")
    columns, _, _ = panels_of(shared)
    check_columns(columns, buffer.dtype.bytes)
    if shape[0] > TMA_BOX:
        raise Refused(f"{shape[0]} rows are more than a box's {TMA_BOX}")


def store_matrix(
    low: Lowering, target: _Target, buffer: Value, slot: Value | None, program_waits: bool = False
) -> None:
    shared = shared_layout(buffer)
    columns, panels, panel_bytes = panels_of(shared)
    shape = (*shared.shape[:-1], columns)
    before = [0] * (len(shape) - 1)
    leader = low.first_thread()
    boxes = [
        emit_box(low, target, shape, (*before, panel * columns), buffer, slot, panel * panel_bytes, leader)
        for panel in range(panels)
    ]
    group = low.b.emit(tile.Join(tuple(boxes), program_waits=program_waits)).result
    if not program_waits:
        with low.b.because(Origin("lower", LANDED)):
            low.b.emit(tile.Wait(group))


def bulk_store(low: Lowering, op: explicit.BulkStore) -> None:
    """An explicit copy, which the program waits for. Raises LanguageError where TMA cannot make it."""
    try:
        starts = check_tensor(low, op.dst, op.dst_indices, op.dst_dims)
        check_source(op.src, op.src_indices, op.src_dims, op.shape)
    except Refused as reason:
        raise LanguageError(f"T.tma_copy: {reason}", op.loc, "T.copy takes any region") from None
    store_matrix(low, _Target(op.dst, starts, op.dst_dims, op.shape, None), op.src, op.src_slot, program_waits=True)


# Fragment to tensor ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Parts:
    """How a fragment is cut: `layout` is that of a part in the staging buffer, each warpgroup's `shape` below the one
    before; `parts` has each part's place in a warpgroup's block and its registers; `groups` says where in the tile the
    block of a warpgroup lies, as digits of its number."""

    layout: Layout
    shared: SharedLayout
    parts: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    shape: tuple[int, int]
    groups: tuple[Digit, ...]


def store(low: Lowering, op: tile.Store) -> bool:
    return store_matrices(low, op) or stage(low, op, None, op.evict)


def atomic(low: Lowering, op: tile.AtomicRmw) -> bool:
    return op.result not in low.used and (combine(low, op) or stage(low, op, op.kind))


def stage(low: Lowering, op: tile.Store | tile.AtomicRmw, kind: str | None, evict: str = "") -> bool:
    """A fragment of the consumers to a tensor, through shared memory. False where that cannot be, or is of no use."""
    if low.meeting[1] is None and (kind is None or low.threads % WARPGROUP):
        return False
    if not isinstance(op.mem.type, TensorType) or not isinstance(op.value.type, TileType):
        return False
    if not set(range(len(op.value.shape))) <= set(op.dims):  # elements share places
        return False
    layout, dims = as_stored(layout_of(op.value), op.dims)
    if layout.rank != 2 or (kind is None and layout.vector_width(1) * op.mem.dtype.bytes >= CHUNK):
        return False
    try:
        starts = check_tensor(low, op.mem, op.indices, dims)
        check_kind(kind, op.mem)
        if op.mask is not None:
            raise Refused("it has a mask")
        parts, versions = fitting(low, op, cuts(layout, op.mem.dtype.bits), layout.num_regs)
    except Refused as reason:
        note(low, op, op.mem, reason)
        return False
    buffer = staging(low, parts.shared, op, versions, WARPGROUP)
    target = _Target(op.mem, starts, dims, layout.shape, kind, evict)
    emit_parts(low, parts, target, buffer, versions, low.get(op.value))
    return True


def fitting(
    low: Lowering, op: tile.Store | tile.AtomicRmw, ways: Iterable[_Parts], registers: int
) -> tuple[_Parts, int]:
    """The first of the ways to cut it for which there is room, and its versions of the buffer. Raises Refused."""
    sizes = []
    for parts in ways:
        versions = most_versions(low, parts.shared, min(RING, len(parts.parts)), registers, alike(low, op))
        if versions:
            return parts, versions
        sizes.append(parts.shared.stage_bytes)
    raise Refused(f"{min(sizes)} bytes to stage it are more than what is left of shared memory")


def cuts(layout: Layout, bits: int) -> Iterator[_Parts]:
    """The ways to cut a fragment, the one of fewest boxes first: one block of rows of each warpgroup at a time, and of
    its columns as `widths` says. Raises Refused where there is none."""
    split = warp_groups(layout, WARPGROUP // 32)
    if split is None:
        raise Refused("the warpgroups have no blocks of their own")
    mine, groups = split
    rows = max(n for n in range(1, min(ROWS, mine.shape[0]) + 1) if mine.shape[0] % n == 0)
    if groups and rows % PATTERN:
        raise Refused(f"{rows} rows of a warpgroup are no whole patterns of {PATTERN} in shared memory")
    count = layout.threads // WARPGROUP
    found = False
    for columns, as_boxes in widths(mine.shape[1], bits):
        made = block(mine, (rows, columns))
        if made is not None:
            found = True
            part, parts = made
            shared = as_boxes((count * rows, columns), bits)
            check_columns(panels_of(shared)[0], bits // 8)
            whole = Layout(shared.shape, part.reg, part.lane, (*part.warp, Digit(count, 0, rows)))
            yield _Parts(whole, shared, parts, (rows, columns), groups)
    if not found:
        raise Refused(f"its fragments are not made of blocks of {rows} rows")


def widths(columns: int, bits: int) -> Iterator[tuple[int, Callable[[tuple[int, int], int], SharedLayout]]]:
    """How many of so many columns may be staged together, and how they lie. Swizzled panels where 128 bytes divide the
    rows, or a panel is all there is; more panels at once only for tiles whose threads share several (those that turn).
    Else rows as they are, the widest first, whose lengths put 8 of them into different banks, or at most two into one:
    narrow panels would be many boxes, with a meeting of the warpgroup for each."""
    panel, panels, _ = panels_of(swizzled((PATTERN, columns), bits))
    if panels > 1 and panel * bits < 8 * SWIZZLE:
        for n in range(ROW_BYTES * 8 // bits, panel, -1):
            if columns % n == 0 and n * bits % (8 * CHUNK) == 0 and math.gcd(n * bits // 8, SWIZZLE) <= 2 * CHUNK:
                yield n, row_major
    for n in range(1, panels + 1):
        if panels % n == 0:
            yield n * panel, swizzled


def emit_parts(low: Lowering, parts: _Parts, target: _Target, buffer: Value, versions: int, value: Value) -> None:
    b, shared = low.b, parts.shared
    leader = low.in_entry("leader", lambda b: b.compare("eq", b.floormod(low.tid, WARPGROUP), 0))
    leaders = low.threads // WARPGROUP
    plan = stmatrix_plan(parts.layout, shared, 4, (0, 0))
    columns, _, panel_bytes = panels_of(shared)
    offset: Value | int = 0
    block_at: list[Value | int] = [0, 0]
    if parts.groups:
        offset = b.mul(warpgroup(low), shared.affine_bits((parts.shape[0], 0)) // 8)
        rest = warpgroup(low)
        for n, digit in enumerate(parts.groups, 1):
            number = rest if n == len(parts.groups) else b.floormod(rest, digit.size)
            rest, moved = b.floordiv(rest, digit.size), b.mul(number, digit.stride)
            before = block_at[digit.dim or 0]
            block_at[digit.dim or 0] = moved if before == 0 else b.add(moved, before)
    tokens = []
    for n, (at, registers) in enumerate(parts.parts):
        slot = b.constant(n % versions) if versions > 1 else None
        part = low.pick(value, registers)
        if plan is not None:
            emit_matrices(low, plan, parts.layout, buffer, slot, [Affine(0)] * 2, part)
        else:
            emit_vectors(low, parts.layout, buffer, slot, part)
        place = [b.add(x, y) if isinstance(x, Value) else y for x, y in zip(block_at, at, strict=True)]
        boxes = []
        for panel in range(parts.shape[1] // columns):
            there = place[0], _moved(low, place[1], panel * columns)
            source = _moved(low, offset, panel * panel_bytes)
            box = emit_box(low, target, (parts.shape[0], columns), there, buffer, slot, source, leader, leaders)
            boxes.append(box)
        tokens.append(b.emit(tile.Join(tuple(boxes))).result)
        with b.because(Origin("lower", LANDED)):
            b.emit(tile.Wait(tokens[-1], reads=True))
    with b.because(Origin("lower", LANDED)):
        for token in reversed(tokens):
            b.emit(tile.Wait(token))


def _moved(low: Lowering, place: Value | int, by: int) -> Value | int:
    return place + by if isinstance(place, int) else low.b.add(place, by) if by else place


def emit_vectors(low: Lowering, layout: Layout, buffer: Value, slot: Value | None, value: Value) -> None:
    """The registers of `layout`, whose dimensions are the buffer's, by the widest stores that there are."""
    shared = shared_layout(buffer)
    width = vector_width(layout, shared)
    runs = vector_runs(layout, width, shared.contiguous_dim)
    where = places(low, [Affine(0)] * layout.rank, layout)
    addresses: Addresses = shared_addresses(low, buffer, slot, where, [at for _, at in runs])
    low.b.emit(
        thread.StoreMem(
            addresses.value,
            low.pick(value, [r for registers, _ in runs for r in registers]),
            low.get(buffer),
            slot=slot,
            space="shared",
            width=width,
            address_of=addresses.index,
            offsets=addresses.offsets,
        )
    )


STORE_RULES: dict[type[Op], Callable[..., bool]] = {tile.Store: store, tile.AtomicRmw: atomic, tile.Copy: copy}
"""What is tried before the ordinary rule: whether it has been done."""
