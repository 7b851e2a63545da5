"""Stores of fragments whose lanes have scattered pieces of a tensor's rows: through shared memory, warp by warp.

    store %C[%m, %n], %acc : tile<128x256xbf16, layout<…; lane 4:2@1, 8:1@0; …>>     rows of C are 4826 bytes
    →
    stmatrix %acc[block 0] -> %staged             // each warp 8 rows of 64 columns, in its own part of the buffer
    barrier of each warp
    %rows = load %staged                          // lanes along the rows
    store %rows -> %C[…]                          // 64 bytes of one row an instruction, not 4 of each of 8 rows
    stmatrix %acc[block 1] -> %staged …

Memory takes sectors of 32 bytes, and a multiprocessor hands on 64 bytes a cycle, whether a sector is filled or not; an
mma's lanes have 4 bytes each of a row, 16 together. Going through shared memory (128 bytes a cycle) and back takes as
long as writing the same bytes once, so it is done where it halves the sectors at least. Vectors are as wide as what is
proven of the rows' alignment allows.

Where a warp's fragments are no block of their own, the store has a mask, or there is no room, ordinary stores do it.
What lies outside of the tensor is left out, as there: only the last step knows of the tensor's edges.
"""

from __future__ import annotations

from dataclasses import dataclass

from minitile.backends.nvidia.staging import alike, as_stored, most_versions, staging
from minitile.ir.core import Value
from minitile.ir.ops import tile
from minitile.ir.types import TensorType, TileType
from minitile.layout import Digit, Layout, LayoutError, blocked, sectors, swizzled, warp_block, warp_box
from minitile.layout.register import offsets
from minitile.layout.shared import SharedLayout
from minitile.lowering.context import Lowering, layout_of
from minitile.lowering.memory import Walk, contiguous_dim, emit_store, in_memory, moved_width, places, plan

ROW = 128  # bytes of a row that are staged together, at most: a swizzle's
BLOCK = 2048  # bytes that a warp stages together, at most
STEPS = 16  # accesses of a thread to a block, at most: what they load waits in registers
WORTH = 2.0  # times fewer sectors


@dataclass(frozen=True, slots=True)
class _Rows:
    """How a fragment gets to rows. In the tensor's order of dimensions: `rows`, the tile with lanes along its rows and
    each warp's elements where they are, of which a block has `count` registers. `blocks` has each block's registers in
    the fragment, in the order in which `rows` counts blocks. In the buffer, with the warps' blocks below each other:
    `written`, `read` and `shared`."""

    rows: Layout
    count: int
    blocks: tuple[tuple[int, ...], ...]
    written: Layout
    read: Layout
    shared: SharedLayout


def store_rows(low: Lowering, op: tile.Store) -> bool:
    """A fragment to a tensor by rows. False where that cannot be, or is of no use."""
    if not isinstance(op.mem.type, TensorType) or not isinstance(op.value.type, TileType) or low.divergent:
        return False
    if op.mask is not None or op.shift is not None or any(isinstance(v.type, TileType) for v in op.indices):
        return False
    if op.mem.dtype.kind == "bool" or not op.dims or op.dims[-1] is None:
        return False
    if contiguous_dim(op.mem) != len(op.dims) - 1:
        return False
    layout, dims = as_stored(layout_of(op.value), op.dims)
    found = by_rows(low, op, layout, dims)
    if found is None or not most_versions(low, found.shared, 1, layout.num_regs, alike(low, op)):
        return False
    emit_rows(low, op, found)
    return True


def by_rows(low: Lowering, op: tile.Store, layout: Layout, dims: tile.Dims) -> _Rows | None:
    """The cheapest way, by rows; None where the fragment's own stores are hardly dearer."""
    if layout.is_replicated():
        return None
    element, fast = op.mem.dtype.bytes, len(dims) - 1
    starts = [low.facts.affine(v) for v in op.indices]

    def width_of(layout: Layout) -> int:
        there = in_memory(layout, dims)
        return moved_width(low, op.mem, places(low, starts, there), there)

    for width in (16 // element, 8 // element, 4 // element, 2 // element, 1):
        box = block_of(layout, element, min(BLOCK, STEPS * low.target.lanes * width * element))
        cut = None if box is None else warp_block(layout, box)
        lines = None if box is None else _lines(box, width, low.target.lanes)
        if box is None or cut is None or lines is None:
            continue
        part, rest = cut[0], tuple(sorted(cut[1], key=lambda digit: digit.dim != layout.rank - 1))  # along rows first
        rows = Layout(layout.shape, (*lines.reg, *rest), lines.lane, layout.warp)
        if width_of(rows) == width:
            break
    else:
        return None
    direct, there = in_memory(layout, dims), in_memory(rows, dims)
    if sectors(direct, width_of(layout), fast, element) < WORTH * sectors(there, width, fast, element):
        return None
    where = {at: register for register, at in enumerate(layout.register_offsets())}
    blocks = tuple(
        tuple(where[tuple(map(sum, zip(start, at, strict=True)))] for at in part.register_offsets())
        for start in offsets(rest, layout.rank)
    )
    whole = (layout.num_warps * box[0], *box[1:])
    warps = (Digit(layout.num_warps, 0, box[0]),)
    written, read = (Layout(whole, x.reg, x.lane, warps) for x in (part, lines))
    return _Rows(rows, lines.num_regs, blocks, written, read, swizzled(whole, element * 8))


def block_of(layout: Layout, element: int, most: int) -> tuple[int, ...] | None:
    """What of a warp's box is staged together: of a row ROW bytes, and as many rows as there may be in `most` bytes.
    All lanes have a share in it."""
    whole, out = warp_box(layout), []
    room = most // element
    for d in reversed(range(layout.rank)):
        least = max([1, *(digit.size * digit.stride for digit in layout.lane if digit.dim == d)])
        limit = max(least, min(room, ROW // element) if d == layout.rank - 1 else room)
        sizes = [n for n in range(least, min(whole[d], limit) + 1, least) if whole[d] % n == 0]
        if not sizes:
            return None
        out.append(sizes[-1])
        room //= sizes[-1]
    return tuple(reversed(out))


def _lines(box: tuple[int, ...], width: int, lanes: int) -> Layout | None:
    """A warp's block with lanes along its rows, `width` elements each; None where they do not share it evenly."""
    if width < 1 or box[-1] % width:
        return None
    try:
        found = blocked(box, lanes, width, None, lanes)
    except LayoutError:
        return None
    return found if found.covers_exactly() and not found.is_replicated() else None


def emit_rows(low: Lowering, op: tile.Store, how: _Rows) -> None:
    """Block by block: into the buffer, out of it and to the tensor, by the ordinary rules."""
    b, dtype = low.b, op.mem.dtype
    buffer = staging(low, how.shared, op, 1, low.target.lanes)
    zeros = tuple(b.constant(0) for _ in how.shared.shape)
    dims = tuple(range(how.shared.rank))
    order = tuple(d for d in op.dims if d is not None)
    there = how.rows.permute_dims([order.index(d) for d in range(how.rows.rank)])
    rows = Value(TileType(there.shape, dtype, there))
    value = low.get(op.value)
    walk = Walk()
    whole = low.tile_number()
    for n, registers in enumerate(how.blocks):
        part = Value(TileType(how.shared.shape, dtype, how.written))
        low.map[part] = low.pick(value, registers)
        write = tile.Store(buffer, zeros, part, dims=dims)
        read = tile.Load(buffer, zeros, how.shared.shape, dims)
        read.result.type = TileType(how.shared.shape, dtype, how.read)
        write.loc = read.loc = op.loc
        low.op(write)
        low.op(read)
        first = n * how.count
        p = plan(low, op, rows, writes=True, registers=range(first, first + how.count), walk=walk)
        lines = low.pick(low.get(read.result), [r - first for r in p.order])
        emit_store(low, p, op.mem, op.slot, lines, op.evict, whole)
