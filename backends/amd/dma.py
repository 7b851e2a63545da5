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

Which 1 KB of the buffer a wave's instruction fills is free as well. Where a gemm reads the buffer, each instruction
fills rows of one half of what the waves read: the lower or the upper half of the i (of A) or of the j (of B), the same
in all waves. So halves can be copied and awaited by themselves (transforms/pipeline/cdna4_interleave.py). For that one
bit of the chunk's number, the one that tells the halves apart, is swapped with the lowest bit of the instruction's.

    256 rows, 8 waves along 4 x 64 rows: bit 5 of the row is the half, that is bit 8 of the chunk, a bit of the thread's
    number among 512; it is exchanged for bit 9

Elements outside the tensor come as zeros: their lanes ask for an offset beyond the descriptor's 2 GiB. What all threads
have in common goes into its base, a 64-bit scalar; so what is left, within one tile, must be below 2 GiB.

Source: "CDNA 4" Instruction Set Architecture, "Buffer Load to LDS"; LLVM 22, llvm.amdgcn.raw.ptr.buffer.load.lds.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache

from minitile.analysis.affine import Affine, Facts
from minitile.analysis.strides import row_alignment, strides_of
from minitile.ir.builder import Builder
from minitile.ir.core import Value
from minitile.ir.ops import arith, thread, tile
from minitile.ir.types import BufferType, TensorType
from minitile.layout.shared import SharedLayout
from minitile.lowering.accesses import GuardBuilder, Place
from minitile.lowering.context import Lowering
from minitile.lowering.memory import global_addresses, shared_layout

CHUNK = 16  # bytes that a lane copies
LANES = 64
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
    start, row = facts.affine(op.src_indices[-1]), facts.size(op.src, -1)
    aligned = facts.multiple(start) % elements == 0 and facts.multiple(row) % elements == 0
    if src.contiguous_dim != len(src.shape) - 1 or row_alignment(facts, op.src) < elements:
        return False
    return aligned and op.shape[-1] % elements == 0 and math.prod(op.shape) % (elements * threads) == 0


def dma(low: Lowering, op: tile.Copy) -> Value | None:
    """The token of the copy by LDS-DMA; None where it can't be done."""
    if not low.target.has("lds_dma_128") or not copies_itself(low.facts, op, low.threads):
        return None
    shared = shared_layout(op.dst)
    chunks = chunk_map(shared, low.threads, half_of_readers(low, op.dst))
    if chunks is None:
        return None
    b, masks, moves = low.b, chunks.masks, chunks.moves
    source = op.src_dims
    strides = [s * op.src.dtype.bytes for s in strides_of(low.facts, op.src)]
    sides = [1 if t is None else op.shape[t] for t in source]
    if not low.holds_at_launch(sum((s * n for s, n in zip(strides, sides, strict=True)), Affine(0))):
        return None  # a lane's offset from the tile's start has 32 bits, and a descriptor has 2 GB
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
    number = low.special("waveid", "wave")
    straight = all(mask == low.target.lanes * CHUNK << i for i, mask in enumerate(chunks.wave))
    wave = b.mul(number, low.target.lanes * CHUNK) if straight else _linear(b, number, chunks.wave)
    assert wave is not None
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
            dst_offsets=chunks.starts,
            src_of=tuple(range(count)),
            src_offsets=tuple(constants),
            predicate_of=found.index,
            wave=True,
            halves=chunks.halves,
        )
    ).result


@dataclass(frozen=True, slots=True)
class Chunks:
    """Where instruction n of thread t copies from and to. Dimension d of the element is the exclusive or of masks[d][i]
    over the bits i of t, plus moves[n][d]. The wave's bytes begin at starts[n] plus the exclusive or of wave[i] over
    the bits i of the wave's number. `halves`: of what the waves read, by n; () where instructions fill parts of
    both."""

    masks: tuple[Coord, ...]
    moves: tuple[Coord, ...]
    starts: tuple[int, ...]
    wave: tuple[int, ...]
    halves: tuple[int, ...]


@lru_cache(maxsize=256)
def chunk_map(shared: SharedLayout, threads: int, half: tuple[int, int] | None = None) -> Chunks | None:
    """None where the layout is not of that form. `half`: a dimension, and the number of indices along it after which
    the other half begins."""
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
    low, high = _exchanged(at, threads, half)

    def chunk(number: int) -> int:
        """The chunk that stands for the one of this number."""
        differ = (number >> low ^ number >> high) & 1
        return number ^ (differ << low | differ << high)

    masks = tuple(tuple(at[chunk(1 << i)][d] for i in range(bits)) for d in range(rank))
    for t in range(threads):
        for d in range(rank):
            value = 0
            for i in range(bits):
                value ^= masks[d][i] if t >> i & 1 else 0
            if at[chunk(t)][d] != value:
                return None
    moves = []
    for n in range(total // threads):
        first = at[chunk(n * threads)]
        move = tuple(a - c for a, c in zip(first, at[0], strict=True))
        for t in range(threads):
            if any(a != c + m for a, c, m in zip(at[chunk(n * threads + t)], at[chunk(t)], move, strict=True)):
                return None
        moves.append(move)
    halves: tuple[int, ...] = ()
    if half is not None:
        dim, rows = half
        found = [{at[chunk(n * threads + t)][dim] // rows % 2 for t in range(threads)} for n in range(len(moves))]
        halves = tuple(x.pop() for x in found) if all(len(x) == 1 for x in found) else ()
    return Chunks(
        masks,
        tuple(moves),
        tuple(chunk(n * threads) * CHUNK for n in range(len(moves))),
        tuple(chunk(1 << i) * CHUNK for i in range(LANES.bit_length() - 1, bits)),
        halves,
    )


def _exchanged(at: dict[int, Coord], threads: int, half: tuple[int, int] | None) -> tuple[int, int]:
    """The two bits of a chunk's number that are swapped: the one that tells halves apart, if it is one of the wave's
    number, and the lowest of the instruction's. The same bit twice where nothing is to be done."""
    first = threads.bit_length() - 1
    if half is None or len(at) // threads % 2:
        return first, first
    dim, rows = half
    telling = [i for i in range(len(at).bit_length() - 1) if at[1 << i][dim] // rows % 2]
    if len(telling) != 1 or not LANES <= 1 << telling[0] < threads:
        return first, first
    return telling[0], first


def half_of_readers(low: Lowering, buffer: Value) -> tuple[int, int] | None:
    """How the rows of a buffer divide into the lower and upper half of what each wave reads of it: (dimension, rows of
    a half); None where no gemm reads it, or each in its own way."""
    found: dict[Value, set[tuple[int, int] | None]] | None = low.once.get("halves")
    if found is None:
        found = low.once["halves"] = {}
        for op in low.kernel.walk():
            if isinstance(op, tile.Gemm):
                plan = low.gemm_plan(op, low.threads)
                sides = ((op.a, op.a_dims, 0, op.transpose_a), (op.b, op.b_dims, 1, not op.transpose_b))
                for operand, dims, side, across in sides:
                    rows = plan.shape[side] // plan.warps[side]
                    whole = dims == (0, 1) and plan.repeats[side] % 2 == 0
                    found.setdefault(operand, set()).add((int(across), rows // 2) if whole else None)
    ways = found.get(buffer, set())
    return next(iter(ways)) if len(ways) == 1 else None


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
