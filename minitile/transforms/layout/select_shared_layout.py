"""Gives every shared buffer that has none a layout: the one with the fewest bank conflicts over its accesses.

A buffer that a gemm reads is swizzled: that is what ldmatrix reads without conflicts and 16-byte copies write so; with
TMA it is in boxes that wgmma reads (`boxed`). For the others plain rows, padded rows and swizzled rows are compared by
what their accesses would cost. Padding is not for buffers that TMA copies, or could copy to a tensor."""

from __future__ import annotations

import math

from minitile.hardware import TMA_BOX
from minitile.ir.core import Kernel, Value
from minitile.ir.ops import tile
from minitile.ir.types import BufferType, TensorType, TileType
from minitile.layout import Layout
from minitile.layout.shared import SharedLayout, boxed, row_major, swizzled


def choose_shared_layouts(kernel: Kernel, tma: bool = False) -> None:
    """`tma`: whether the target has copies by TMA."""
    buffers = {op.result: op for op in kernel.walk() if isinstance(op, tile.Alloc) and op.type_.space == "shared"}
    fed_to_gemm: set[Value] = set()
    boxes = {a.mem for op in kernel.walk() if not op.pure for a in op.accesses() if a.proxy == "async"}
    tiles: dict[Value, list[tuple[Layout, tile.Load | tile.Store]]] = {}
    for op in kernel.walk():
        if factors := op.factors():
            fed_to_gemm.update(factors)
        if isinstance(op, tile.Copy) and isinstance(op.dst.type, TensorType) and tma and not _is_long_row(op.src):
            boxes.add(op.src)
        elif isinstance(op, (tile.Load, tile.Store)):
            value = op.result if isinstance(op, tile.Load) else op.value
            if isinstance(value.type, TileType) and value.type.layout is not None:
                tiles.setdefault(op.mem, []).append((value.type.layout, op))
    for value, alloc in buffers.items():
        if alloc.layout is None:
            in_boxes = tma if value in fed_to_gemm else value in boxes  # wgmma reads boxes, whatever fills them
            alloc.layout = _choose(alloc.type_, value in fed_to_gemm, in_boxes, tiles.get(value, []))
        alloc.bytes = alloc.layout.stage_bytes


def _is_long_row(buffer: Value) -> bool:
    """A single row, which is no more than a vector, of more elements than a box of TMA has. In swizzled boxes each 128
    bytes would take eight rows' room and a copy of their own."""
    return math.prod(buffer.shape[:-1]) == 1 and buffer.shape[-1] > TMA_BOX


def _choose(
    t: BufferType, gemm: bool, box: bool, accesses: list[tuple[Layout, tile.Load | tile.Store]]
) -> SharedLayout:
    bits = t.dtype.bits
    plain = row_major(t.shape, bits)
    if len(t.shape) < 2:
        return plain
    if gemm:
        return boxed(t.shape, bits) if box else swizzled(t.shape, bits)
    candidates = [plain] if not box or t.shape[-1] <= TMA_BOX else []
    if t.shape[-1] * bits % 32 == 0 and not box:
        candidates.append(row_major(t.shape, bits, 32 // bits or 1))
    candidates.append(swizzled(t.shape, bits))
    return min(candidates, key=lambda c: sum(cost(c, layout, op) for layout, op in accesses))


def cost(shared: SharedLayout, layout: Layout, op: tile.Load | tile.Store) -> int:
    """Shared-memory transactions of the first register's access by the first warp, times the accesses a thread makes:
    32 banks of 4 bytes, lanes that read one word share it (CUDA C++ Programming Guide, "Shared Memory")."""
    width = vector_elements(shared, layout, op.dims)
    words: dict[int, set[int]] = {}
    for lane in range(layout.num_lanes):
        at = layout.coords(0, lane, 0)
        place = [at[d] if d is not None else 0 for d in op.dims]
        if any(p >= s for p, s in zip(place, shared.shape, strict=True)):
            continue
        start = shared.offset(place) // 4
        for word in range(start, start + max(1, width * shared.element_bits // 32)):
            words.setdefault(word % 32, set()).add(word)
    worst = max((len(w) for w in words.values()), default=1)
    return worst * (layout.num_regs // width)


def vector_elements(shared: SharedLayout, layout: Layout, dims: tile.Dims) -> int:
    """How many elements one access may take, as far as the two layouts say."""
    along = shared.contiguous_dim
    dim = dims[along] if along is not None else None
    if along is None or dim is None:
        return 1
    run = layout.vector_width(dim, max(1, 128 // shared.element_bits))
    while run > 1 and (
        shared.contiguous_elems(along) % run or shared.row_alignment(along, run) * 8 < run * shared.element_bits
    ):
        run //= 2
    return run
