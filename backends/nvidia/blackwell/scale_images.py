"""Scales of blocks that tcgen05.cp copies from shared memory to tensor memory, past the registers.

    %s = load %SFA[0, 0] : tile<128x4xu8>                      alloc %SFA {layout: an image of 512 bytes}
    %c1 = gemm %As, %Bs, %c, a_scale = %s, …           →       tensor_gemm …, a_scale_from = %SFA

    %p = load %SFA[0, 0, 0, 0] : tile<1x1x32x16xu8>            consumer_wait %ring
    %s = reshape permute reshape %p : tile<128x4xu8>   →       tensor_gemm …, a_scale_from = %SFA
    consumer_release %ring ; … gemm …, a_scale = %s            consumer_release %ring

A tile of scales that is no more than what a shared buffer holds, whole, is copied by the thread that issues the
product, in front of it. A buffer that threads write, by 4 bytes, is laid out in images of 128 rows for that
(layouts.py); one of packs (rows / 128 × words × 32 × 16) is images as it is, and TMA may fill it. That takes that
nothing else reads the buffer, and that nothing is written to it between the load and the product; a slot of a pipeline
is released behind the product.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from minitile.analysis.op_places import Places
from minitile.backends.nvidia.blackwell.layouts import IN_WORD, ROWS, image
from minitile.ir.builder import constant_of
from minitile.ir.core import Block, Op, Value
from minitile.ir.ops import roles, tile, views
from minitile.ir.ops.product import PACK
from minitile.layout.shared import row_major


@dataclass(frozen=True, slots=True)
class Image:
    """A load, and the operations that make the tile of scales of it."""

    load: tile.Load
    ops: tuple[Op, ...]


def images(body: Block, gemms: Sequence[tile.Gemm], rings: Iterable[roles.MbarrierPipeline]) -> dict[Value, Image]:
    """The tiles of scales of these gemms that are copied; their buffers get layouts. `rings`: all of the kernel's."""
    places = Places(body)
    of_ring = {v: ring for ring in rings for v in ring.payload}
    found: dict[Value, Image] = {}
    for gemm in gemms:
        for scale in (gemm.a_scale, gemm.b_scale):
            each = None if scale is None else _image(scale)
            if scale is None or each is None or not _copied(each, gemm, places, of_ring):
                continue
            found[scale] = each
            load = each.load
            alloc = load.mem.op
            assert isinstance(alloc, tile.Alloc)
            alloc.layout = image(load.mem.shape) if len(load.shape) == 2 else row_major(load.mem.shape, 8)
            if load.mem in of_ring:
                _release_behind(of_ring[load.mem], load, gemm, places)
    loads = {each.load for each in found.values()}
    for ring in {of_ring[load.mem] for load in loads if load.mem in of_ring}:
        readers = {op for v in ring.payload for op in places.users.get(v, ()) if not isinstance(op, roles.TmaCopy)}
        if readers <= {*loads, *gemms}:  # by threads there is nothing left to read
            for op in places.users[ring.result]:
                if isinstance(op, roles.ConsumerRelease):
                    op.generic = False
    return found


def _image(scale: Value) -> Image | None:
    """Of a tile that a load makes, as rows × blocks or of packs."""
    if isinstance(scale.op, tile.Load):
        return Image(scale.op, (scale.op,))
    joined = scale.op
    turned = joined.a.op if isinstance(joined, views.Reshape) else None
    split = turned.a.op if isinstance(turned, tile.Permute) and turned.order == (0, 3, 2, 1, 4) else None
    load = split.a.op if isinstance(split, views.Reshape) else None
    if joined is None or turned is None or split is None or not isinstance(load, tile.Load):
        return None
    parts = (PACK[0], ROWS // PACK[0], IN_WORD)
    fits = len(load.shape) == 4 and load.shape[2:] == PACK and split.result.shape[2:] == parts
    rows, words = load.shape[0] * ROWS, load.shape[1] * IN_WORD
    return Image(load, (load, split, turned, joined)) if fits and scale.shape == (rows, words) else None


def _copied(each: Image, gemm: tile.Gemm, places: Places, of_ring: dict[Value, roles.MbarrierPipeline]) -> bool:
    load = each.load
    alloc, block = load.mem.op, places.block.get(load)
    if not isinstance(alloc, tile.Alloc) or alloc.type_.space != "shared" or alloc.layout is not None:
        return False
    whole = load.shape == load.mem.shape and load.dims == tuple(range(len(load.shape))) and load.mask is None
    starts = all(constant_of(i) == 0 for i in load.indices)
    packs = len(load.shape) == 4
    if not (whole and starts) or (not packs and (load.shape[0] % ROWS or load.mem in of_ring)):
        return False
    if block is None or places.block[gemm] is not block:
        return False
    if any(places.users.get(op.result) != [user] for op, user in zip(each.ops, (*each.ops[1:], gemm), strict=True)):
        return False
    between = block.ops[block.ops.index(load) + 1 : block.ops.index(gemm)]
    return not any(_writes(op, load) for op in between) and all(
        op is load or _fills(op, load.mem) for op in places.users[load.mem]
    )


def _writes(op: Op, load: tile.Load) -> bool:
    """Whether it may write what the load reads: another version is another place."""
    within = [op, *(inner for region in op.regions for inner in region.walk())]
    touched = [a for each in within for a in each.accesses() if a.writes and a.mem in (load.mem, None)]
    return any(a.token is None and a.pipeline is None for a in touched)


def _fills(op: Op, mem: Value) -> bool:
    """Whether threads or TMA write the buffer by it, and do no more with it."""
    touched = [a for a in op.accesses() if a.mem is mem]
    by_threads = isinstance(op, tile.Copy | tile.Store) and all(a.writes and a.proxy == "generic" for a in touched)
    return by_threads or isinstance(op, roles.TmaCopy)


def _release_behind(ring: roles.MbarrierPipeline, load: tile.Load, gemm: tile.Gemm, places: Places) -> None:
    """The slot that was read by the load is held until the product has been issued."""
    ops = places.block[gemm].ops
    first, last = ops.index(load), ops.index(gemm)
    early = [op for op in ops[first:last] if isinstance(op, roles.ConsumerRelease) and op.pipeline is ring.result]
    kept = [op for op in ops[first : last + 1] if op not in early]
    ops[first : last + 1] = [*kept, *early]
