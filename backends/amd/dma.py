"""Copies by LDS-DMA on gfx950: `buffer_load_dwordx4 … lds` moves 16 bytes a lane from global to shared memory, past the
registers.

The lanes of a wave write one after the other: lane l to M0 + 16·l. So instruction n of thread t fills the 16 bytes at
(n·threads + t)·16 of the buffer, whatever the buffer's layout, and it is the global address that follows the layout:
the thread reads the elements that belong there. For that the layout is turned round:

    offset of (row, column) in shared<128x64xb16; 128:1024; 64:16; swizzle 128>  =  row·128 + (column·2 ^ row % 8 · 16)
    element at t·16                                              row = t / 8,  column = (t % 8 ^ t / 8 % 8) · 8

The map from chunks to elements is made by evaluating the layout at every chunk, so that it is known to be one to one;
then it must be linear over the bits of t (exclusive or), and moving on by an instruction must move by a constant. Any
swizzle of whole chunks is; padding is not, since there the chunks of one wave would not lie next to each other.

Elements outside the tensor come as zeros: their lanes ask for an offset beyond the descriptor's 2 GiB. What all threads
have in common goes into its base, a 64-bit scalar; so what is left, within one tile, must be below 2 GiB.

Source: "CDNA 4" Instruction Set Architecture, "Buffer Load to LDS"; LLVM 22, llvm.amdgcn.raw.ptr.buffer.load.lds.
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache

from minitile.ir.builder import Builder
from minitile.ir.core import Value
from minitile.ir.ops import arith, thread, tile
from minitile.ir.types import BufferType, TensorType
from minitile.layout.shared import SharedLayout
from minitile.passes.affine import Affine, Facts
from minitile.passes.lower import Lowering
from minitile.passes.lower_memory import (
    GuardBuilder,
    Place,
    global_addresses,
    shared_layout,
    strides_of,
)

CHUNK = 16  # bytes that a lane copies
Coord = tuple[int, ...]


def copies_itself(facts: Facts, op: tile.Copy, threads: int) -> bool:
    """Whether LDS-DMA can do the copy, as far as that is known before shared memory has a layout."""
    src, dst = op.src.type, op.dst.type
    if not isinstance(src, TensorType) or not isinstance(dst, BufferType) or dst.space != "shared":
        return False
    elements = CHUNK // dst.dtype.bytes
    whole = op.shape == tuple(dst.shape) and op.dst_dims == tuple(range(len(op.shape)))
    at_start = all(facts.affine(i) == Affine(0) for i in op.dst_indices)
    if not whole or not at_start or dst.dtype is not src.dtype or op.src_dims[-1] != len(op.shape) - 1:
        return False
    last = src.shape[-1]
    row = facts.affine(facts.kernel.dims[last]) if isinstance(last, str) else Affine(last)
    aligned = facts.multiple(facts.affine(op.src_indices[-1])) % elements == 0 and facts.multiple(row) % elements == 0
    return aligned and op.shape[-1] % elements == 0 and math.prod(op.shape) % (elements * threads) == 0


def dma(low: Lowering, op: tile.Copy) -> Value | None:
    """The token of the copy by LDS-DMA; None where it can't be done."""
    if not low.target.has("lds_dma_128") or not copies_itself(low.facts, op, low.threads):
        return None
    shared = shared_layout(op.dst)
    chunks = chunk_map(shared, low.threads)
    if chunks is None:
        return None
    b, masks, moves = low.b, *chunks
    source = op.src_dims
    starts = [low.facts.affine(v) for v in op.src_indices]
    lanes = low.in_entry(("chunk", masks), lambda b: [_linear(b, low.tid, mine) for mine in masks])
    where = []
    for start, t in zip(starts, source, strict=True):
        if t is None:
            where.append(Place(start, None, 0, 0))
        else:
            where.append(Place(start, lanes[t], op.shape[t] - 1, 0))
    at = [tuple(0 if t is None else move[t] for t in source) for move in moves]
    guards = GuardBuilder(low)
    guards.bounds(op.src, where)
    found = guards.finish(at)
    common = [Place(start, None, 0, 0) for start in starts]
    first = global_addresses(low, op.src, common, [(0,) * len(starts)])
    base = b.add(first.value, first.offsets[0])
    strides = [s * op.src.dtype.bytes for s in strides_of(low, op.src)]
    mine: Value = b.constant(0)
    for place, stride in zip(where, strides, strict=True):
        if place.thread is not None:
            mine = b.add(mine, b.mul(place.thread, low.emit(stride)))
    sources: list[Value] = []
    constants = []
    for move in at:
        total = sum((m * s for m, s in zip(move, strides, strict=True)), Affine(0))
        moving = Affine(0, total.terms)
        sources.append(mine if moving.is_constant else b.add(mine, low.emit(moving)))
        constants.append(total.const)
    start = low.in_entry(("buffer", op.dst), lambda b: b.emit(thread.BufferAddress(low.get(op.dst))).result)
    wave = b.mul(low.special("waveid", "wave"), low.target.lanes * CHUNK)
    to = b.add(start, wave)
    if op.dst_slot is not None:
        to = b.add(to, b.mul(low.get(op.dst_slot), shared.stage_bytes))
    count = len(moves)
    return b.emit(
        thread.CpAsync(
            to,
            low.concat(sources),
            base=base,
            predicate=found.value,
            dst_mem=low.get(op.dst),
            dst_slot=None if op.dst_slot is None else low.get(op.dst_slot),
            src_mem=low.get(op.src),
            bytes=CHUNK,
            dst_of=(0,) * count,
            dst_offsets=tuple(n * low.threads * CHUNK for n in range(count)),
            src_of=tuple(range(count)),
            src_offsets=tuple(constants),
            predicate_of=found.index,
            wave=True,
        )
    ).result


@lru_cache(maxsize=256)
def chunk_map(shared: SharedLayout, threads: int) -> tuple[tuple[Coord, ...], tuple[Coord, ...]] | None:
    """(masks, moves): dimension d of the element at chunk t is the exclusive or of masks[d][i] over the bits i of t,
    and that of chunk n·threads + t is moves[n][d] more. None where the layout is not of that form."""
    along = shared.contiguous_dim
    elements = CHUNK * 8 // shared.element_bits
    total = math.prod(shared.shape) // elements
    if along is None or shared.contiguous_elems(along) % elements or shared.stage_bytes != total * CHUNK:
        return None
    if threads & (threads - 1) or total % threads:
        return None
    steps = [range(0, size, elements if d == along else 1) for d, size in enumerate(shared.shape)]
    at: dict[int, Coord] = {}
    for coords in itertools.product(*steps):
        offset = shared.offset(coords)
        if offset % CHUNK or offset // CHUNK in at:
            return None
        at[offset // CHUNK] = coords
    if sorted(at) != list(range(total)):
        return None
    rank, bits = len(shared.shape), threads.bit_length() - 1
    masks = tuple(tuple(at[1 << i][d] for i in range(bits)) for d in range(rank))
    for t in range(threads):
        for d in range(rank):
            value = 0
            for i in range(bits):
                value ^= masks[d][i] if t >> i & 1 else 0
            if at[t][d] != value:
                return None
    moves = []
    for n in range(total // threads):
        move = tuple(a - c for a, c in zip(at[n * threads], at[0], strict=True))
        if any(tuple(c + m for c, m in zip(at[t], move, strict=True)) != at[n * threads + t] for t in range(threads)):
            return None
        moves.append(move)
    return masks, tuple(moves)


def _linear(b: Builder, t: Value, masks: Coord) -> Value | None:
    """The exclusive or of masks[i] over the set bits i of t, by runs of bits that move together; None for nothing."""
    total: Value | None = None
    i = 0
    while i < len(masks):
        if not masks[i]:
            i += 1
            continue
        end = i + 1
        while end < len(masks) and masks[end] == masks[i] << (end - i):
            end += 1
        part = b.and_(b.value(arith.Shr(t, b.constant(i))), b.constant((1 << (end - i)) - 1))
        part = b.mul(part, masks[i])
        total = part if total is None else b.value(arith.Xor(total, part))
        i = end
    return total
