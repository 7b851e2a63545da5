"""Lowering rules for reductions over the blocks of a cluster (ir/ops/cluster.py), for sm_90a.

A block's part goes to all blocks by st.async: where every thread has it, lane r of the first warp stores to block r, so
that it is one instruction; else the threads that have an element store it to one block after the other. The mbarrier
of the version expects the bytes of all blocks; the one arrival that its phase needs besides announces them. Bytes may
come before that: then they count as negative, and the phase waits for the arrival (PTX ISA 8.3, 9.7.12.15.5
"Transaction count"). A block that is two reductions ahead of this one cannot be, so phases do not run over each other.
"""

from __future__ import annotations

import math

from minitile.analysis.affine import Affine
from minitile.ir.core import Op, Value
from minitile.ir.ops import arith, cluster, hopper, thread, tile
from minitile.ir.origin import MBARRIER_FENCE, MBARRIER_INIT, Origin, places
from minitile.ir.types import BufferType, u64
from minitile.layout import Layout
from minitile.layout.shared import row_major
from minitile.lowering import memory
from minitile.lowering.accesses import GuardBuilder, Guards, Place
from minitile.lowering.context import Lowering, layout_of
from minitile.lowering.exchange import fold_registers
from minitile.lowering.memory import Plan, emit_load, shared_addresses

WORD = 8  # bytes of an mbarrier
WIDEST = 16  # bytes of an access


def all_reduce_buffer(low: Lowering, op: cluster.AllReduceBuffer) -> Value:
    """The slots, with room for what layouts hold beyond the tile, and the mbarriers. All blocks of the cluster meet
    before the first store (driver/pipeline.py)."""
    b, shape = low.b, list(op.shape)
    for user in low.kernel.walk():
        if isinstance(user, cluster.AllReduce) and user.buffer is op.result:
            shape = [max(*each) for each in zip(shape, layout_of(user.a).extents, strict=True)]
    slots = (*shape, op.ranks)
    layout = row_major(slots, op.dtype.bits)
    count = cluster.VERSIONS
    mem = tile.Alloc(BufferType("shared", slots, op.dtype, count), layout=layout, bytes=layout.stage_bytes)
    words = tile.Alloc(BufferType("shared", (count,), u64), layout=row_major((count,), 64), bytes=count * WORD)
    for alloc, name in ((mem, "slots"), (words, "slots_full")):
        alloc.loc, alloc.result.name = op.loc, name
        low.entry.ops.append(alloc)
    low.once["ring", mem.result] = words.result
    where = places([op.loc])
    with b.when(low.first_thread()):
        start = b.emit(thread.BufferAddress(words.result)).result
        for version in range(count):
            with b.because(Origin("lower", MBARRIER_INIT, where)):
                b.emit(hopper.MbarrierInit(b.add(start, version * WORD), words.result, 1))
        with b.because(Origin("lower", MBARRIER_FENCE, where)):
            b.emit(hopper.MbarrierInitFence())
    return mem.result


def all_reduce(low: Lowering, op: cluster.AllReduce) -> Value:
    b, mem = low.b, low.get(op.buffer)
    ring, ranks, carried = low.once["ring", mem], mem.shape[-1], mem.dtype
    value, layout = b.cast(low.get(op.a), carried), layout_of(op.a)
    number = low.get(op.number)
    version, parity = b.floormod(number, 2), b.floormod(b.floordiv(number, 2), 2)
    base = low.in_entry(("buffer", ring), lambda b: b.emit(thread.BufferAddress(ring)).result)
    word = b.add(base, b.mul(version, WORD))
    where = places([op.loc])
    with b.because(Origin("lower", "RAW slots: bytes of all blocks' parts announced", where)):
        size = math.prod(op.a.shape) * ranks * carried.bytes
        b.emit(hopper.MbarrierExpect(word, ring, bytes=size, predicate=low.first_thread()))
    _send(low, mem, ring, word, version, value, layout)
    with b.because(Origin("lower", "RAW slots: all blocks' parts have come", where)):
        b.emit(cluster.AwaitStores(word, ring, parity=parity, cluster=True, mem=mem))
    return b.cast(_combined(low, mem, version, layout, arith.COMBINE[op.kind]), op.a.dtype)


def _slots(low: Lowering, layout: Layout, rank: Value | None, ranks: int) -> list[Place]:
    """Where a thread's elements lie: in the slot of a rank; None: in that of rank 0."""
    inside = memory.places(low, [Affine(0)] * layout.rank, layout)
    bits = 0 if rank is None else (1 << (ranks - 1).bit_length()) - 1
    return [*inside, Place(Affine(0), rank, ranks - 1, bits)]


def _send(low: Lowering, mem: Value, ring: Value, word: Value, version: Value, value: Value, layout: Layout) -> None:
    """The elements of a thread to the slot of the block's rank, in all blocks."""
    b, ranks = low.b, mem.shape[-1]
    where = _slots(low, layout, low.special("cluster_ctarank", "rank"), ranks)
    offsets = [(*at, 0) for at in layout.register_offsets()]
    builder = GuardBuilder(low)
    builder.overhang(layout)
    targets: list[Value]
    if not layout.thread_digits():
        lane = low.tid
        builder.always.append(low.in_entry(("below", ranks), lambda b: b.compare("lt", lane, ranks)))
        targets = [low.in_entry(("target", ranks), lambda b: b.min(lane, ranks - 1))]
    else:
        owner = low.owner(layout)
        if owner is not None:
            builder.always.append(owner)
        targets = [b.constant(rank) for rank in range(ranks)]
    guards: Guards = builder.finish(offsets)
    for target in targets:
        there = shared_addresses(low, mem, version, where, offsets, target)
        b.emit(
            cluster.AsyncStore(
                address=there.value,
                barrier=b.emit(thread.MapRank(word, target)).result,
                predicate=guards.value,
                value=value,
                mem=mem,
                ring=ring,
                address_of=there.index,
                offsets=there.offsets,
                predicate_of=guards.index,
            )
        )


def _combined(low: Lowering, mem: Value, version: Value, layout: Layout, combine: type[arith.Binary]) -> Value:
    """What all blocks have sent, element by element: always in the same order, by which all blocks get the same."""
    ranks, elements = mem.shape[-1], layout.register_offsets()
    width = math.gcd(ranks, WIDEST // mem.dtype.bytes)
    offsets = [(*at, rank) for at in elements for rank in range(0, ranks, width)]
    addresses = shared_addresses(low, mem, version, _slots(low, layout, None, ranks), offsets)
    count, guards = len(elements) * ranks, GuardBuilder(low)
    guards.overhang(layout)
    plan = Plan("shared", width, tuple(range(count)), addresses, guards.finish(offsets))
    loaded = emit_load(low, plan, mem, version, count)
    return fold_registers(low, loaded, [list(range(n * ranks, (n + 1) * ranks)) for n in range(len(elements))], combine)


CLUSTER_RULES: dict[type[Op], object] = {
    cluster.AllReduceBuffer: all_reduce_buffer,
    cluster.AllReduce: all_reduce,
}
