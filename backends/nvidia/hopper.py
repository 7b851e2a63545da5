"""Lowering rules of sm_90a: channels on mbarriers, copies by TMA, gemms by wgmma.

Channel. A ring of S slots is 2·S barrier words: `full[i]` completes when the slot's bytes have landed (one arrival,
with the bytes announced), `empty[i]` when every consumer warp has released it. Consumers wait for full with the
slot's own phase, the producer for empty with the other one: a barrier that never completed counts as having completed
the phase before (PTX ISA 8.3, 9.7.12.15 "mbarrier").

TMA. A shared matrix whose swizzled rows are wider than 128 bytes lies in panels of [rows][128 B]; each is one box of
the tensor map (PTX ISA 8.3, 5.5). The map's swizzle is the layout's.

wgmma. A descriptor says where the operand starts and how its 8-row groups lie (PTX ISA 8.3, 9.7.14.5.1 "Matrix
Descriptor"): start address >> 4 in bits 0-13, leading byte offset >> 4 in 16-29, stride byte offset >> 4 in 32-45,
swizzle mode in 62-63 (1: 128 B, 2: 64 B, 3: 32 B). K runs along the rows of bytes (K-major): the stride offset is
that of 8 rows, the leading one is not used. M or N does (MN-major): the stride offset is that of 8 rows of K, the
leading one that of the next panel. Steps along K and blocks along M move the start address, before the swizzle."""

from __future__ import annotations

import math
from functools import lru_cache

from minitile.ir.builder import constant_of
from minitile.ir.core import Block, Op, Value
from minitile.ir.diagnostics import MinitileError
from minitile.ir.ops import arith, control, hopper, roles, thread, tile
from minitile.ir.types import BufferType, TileType, i64, u64
from minitile.layout import LayoutError, wgmma_accumulator, wgmma_operand_a
from minitile.layout.shared import SharedLayout, row_major
from minitile.passes.lower import Lowering, layout_of
from minitile.passes.lower_memory import shared_layout
from minitile.passes.rules import GemmPlan
from minitile.passes.thread_barriers import CONSUMERS

WORD = 8  # bytes of an mbarrier
ATOM_K_BYTES = 32  # of K in one wgmma
MODE = {128: 1, 64: 2, 32: 3}
WORKING = 40  # registers that a consumer thread takes besides its accumulators


def plan_wgmma(op: roles.AsyncGemm, threads: int) -> GemmPlan:
    """The accumulator's rows are split over the warpgroups. Raises MinitileError where wgmma's shapes do not fit."""
    m, n = op.c.shape
    k = math.prod(op.a.shape) // m
    try:
        return _plan(m, n, k, op.a.dtype.bits, threads // 128)
    except LayoutError as error:
        raise MinitileError(f"wgmma of {m}x{n}x{k} over {threads} threads: {error}", op.loc) from None


@lru_cache(maxsize=64)
def _plan(m: int, n: int, k: int, bits: int, groups: int) -> GemmPlan:
    c = wgmma_accumulator((m, n), (groups, 1))
    a = wgmma_operand_a((m, k), bits, (groups, 1))
    step = ATOM_K_BYTES * 8 // bits
    return GemmPlan(f"m64n{n}k{step}", (m, n, k), (m // groups // 64, 1, k // step), (groups, 1), step, a, a, c)


# Channels and roles --------------------------------------------------------------------------------------------------


def channel(low: Lowering, op: roles.Channel) -> Value:
    """The barrier words, initialised by the first thread, known to all before anybody goes on."""
    words = 2 * op.slots
    layout = row_major((words,), 64)
    alloc = tile.Alloc(BufferType("shared", (words,), u64), layout=layout, bytes=words * WORD)
    alloc.loc, alloc.result.name = op.loc, "ring"
    low.entry.ops.append(alloc)
    ring = alloc.result
    b = low.b
    then, orelse = Block(), Block()
    with b.inside(then):
        for word in range(words):
            count = 1 if word < op.slots else op.consumers // 32
            b.emit(hopper.MbarrierInit(_word(low, ring, None, word), ring, count))
        b.emit(hopper.MbarrierInitFence())
        b.emit(control.Yield(()))
    with b.inside(orelse):
        b.emit(control.Yield(()))
    b.emit(control.If(low.first_thread(), then=then, orelse=orelse))
    b.emit(thread.Barrier())
    low.once["payload", ring] = sum(math.prod(v.shape) * v.dtype.bytes for v in op.payload)
    low.once["slots", ring] = op.slots
    return ring


def _word(low: Lowering, ring: Value, index: Value | None, first: int) -> Value:
    base = low.in_entry(("buffer", ring), lambda b: b.emit(thread.BufferAddress(ring)).result)
    at = low.b.add(base, first * WORD)
    return at if index is None else low.b.add(at, low.b.mul(low.get(index), WORD))


def _full(low: Lowering, op: roles._SlotOp | roles.TmaCopy) -> Value:
    return _word(low, low.get(op.channel), op.index, 0)


def _empty(low: Lowering, op: roles._SlotOp) -> Value:
    ring = low.get(op.channel)
    return _word(low, ring, op.index, low.once["slots", ring])


def acquire(low: Lowering, op: roles.Acquire) -> None:
    other = low.b.xor(low.get(op.phase), 1)
    low.b.emit(hopper.MbarrierWait(_empty(low, op), low.get(op.channel), other))


def receive(low: Lowering, op: roles.Receive) -> None:
    low.b.emit(hopper.MbarrierWait(_full(low, op), low.get(op.channel), low.get(op.phase)))


def expect(low: Lowering, op: roles.Expect) -> None:
    ring = low.get(op.channel)
    low.b.emit(hopper.MbarrierExpect(_full(low, op), ring, low.once["payload", ring], predicate=low.once["elected"]))


def release(low: Lowering, op: roles.Release) -> None:
    """By one lane of each warp."""
    lane = low.in_entry("lane 0", lambda b: b.compare("eq", b.floormod(low.tid, 32), 0))
    if op.condition is not None:
        lane = low.b.and_(lane, low.get(op.condition))
    low.b.emit(hopper.MbarrierArrive(_empty(low, op), low.get(op.channel), predicate=lane))


def specialised(low: Lowering, op: roles.Specialised) -> None:
    """One branch a role, by the warp's number. Where an equal share of the registers would not do for the consumers,
    each role takes its own number first (PTX ISA 8.3, 9.7.17.5 "setmaxnreg")."""
    b = low.b
    share = 65536 // (low.threads + op.producer_threads) // 8 * 8
    budget = accumulators(op) + WORKING > share
    warp = low.in_entry("warp", lambda b: b.emit(hopper.WarpIndex()).result)
    first = low.threads // 32
    producer, consumer = Block(), Block()
    with b.inside(producer):
        if budget:
            b.emit(hopper.SetMaxRegisters(op.registers[0], increase=False))
        one, nobody = Block(), Block()
        with b.inside(one):
            low.once["elected"] = b.emit(hopper.Elect()).result
            low.ops(op.producer)
            b.emit(control.Yield(()))
        with b.inside(nobody):
            b.emit(control.Yield(()))
        b.emit(control.If(b.compare("eq", warp, first), then=one, orelse=nobody))
        b.emit(control.Yield(()))
    with b.inside(consumer):
        if budget:
            b.emit(hopper.SetMaxRegisters(op.registers[1], increase=True))
        low.meeting = (CONSUMERS, low.threads)
        low.ops(op.consumer)
        b.emit(control.Yield(()))
    b.emit(roles.ByRole(b.compare("ge", warp, first), then=producer, orelse=consumer, consumers=low.threads))
    low.kernel.attrs["min_ctas"] = 1  # without it the assembler ignores setmaxnreg (C7508)


def accumulators(op: roles.Specialised) -> int:
    """Registers that a consumer thread's accumulators and register operands take."""
    gemms = [g for g in op.consumer.walk() if isinstance(g, roles.AsyncGemm)]
    operands = [g.a for g in gemms if isinstance(g.a.type, TileType)]
    words = [layout_of(a).num_regs * a.dtype.bits // 32 for a in operands]
    return sum(layout_of(g.c).num_regs for g in gemms) + sum(words)


# Copies --------------------------------------------------------------------------------------------------------------


def tma_copy(low: Lowering, op: roles.TmaCopy) -> None:
    """One box a panel."""
    b, shared = low.b, shared_layout(op.dst)
    columns, panels, panel_bytes = panels_of(shared)
    start = low.in_entry(("buffer", op.dst), lambda b: b.emit(thread.BufferAddress(low.get(op.dst))).result)
    address = b.add(start, b.mul(low.get(op.index), shared.stage_bytes))
    box = tuple(1 if t is None else (columns if t == len(shared.shape) - 1 else shared.shape[t]) for t in op.src_dims)
    name = tensor_map(low, op.src, box, shared.swizzle.width)
    at = [low.emit(low.facts.affine(v)) for v in op.src_indices]
    for panel in range(panels):
        coordinates = [*at[:-1], b.add(at[-1], panel * columns)][::-1]
        b.emit(
            hopper.TmaLoad(
                b.add(address, panel * panel_bytes),
                _full(low, op),
                tuple(coordinates),
                low.get(op.dst),
                low.get(op.index),
                low.get(op.channel),
                name,
                predicate=low.once["elected"],
            )
        )


def panels_of(shared: SharedLayout) -> tuple[int, int, int]:
    """Columns of a panel, how many panels, bytes from one to the next."""
    digits = shared.dims[-1]
    if len(digits) == 1:
        return digits[0].size, 1, 0
    return digits[0].size, digits[1].size, digits[1].stride // 8


def tensor_map(low: Lowering, tensor: Value, box: tuple[int, ...], swizzle: int) -> str:
    """The name of the kernel parameter that holds the map; equal ones are shared."""
    maps: tuple[tuple[str, str, tuple[int, ...], int], ...] = low.kernel.attrs.get("tensor_maps", ())
    for name, of, known, width in maps:
        if (of, known, width) == (tensor.name, box, swizzle):
            return name
    name = f"{tensor.name}_map{len(maps)}"
    low.kernel.attrs["tensor_maps"] = (*maps, (name, tensor.name, box, swizzle))
    return name


# Multiplication ------------------------------------------------------------------------------------------------------


def async_gemm(low: Lowering, op: roles.AsyncGemm) -> tuple[Value, ...]:
    plan = plan_wgmma(op, low.threads)
    (_, n, _), (blocks, _, steps), step = plan.shape, plan.repeats, plan.step
    group = low.in_entry("group", lambda b: b.floordiv(b.emit(hopper.WarpIndex()).result, 4))
    rows = blocks * 64
    b = _Operand(low, op.b, op.b_slot, k_dim=1 if op.transpose_b else 0)
    if isinstance(op.a.type, TileType):
        first, a_offsets, transpose_a = low.get(op.a), (0,) * (blocks * steps), False
    else:
        a = _Operand(low, op.a, op.a_slot, k_dim=0 if op.transpose_a else 1)
        first = a.descriptor(low.b.mul(group, a.offset(rows, 0)))
        a_offsets = tuple(a.offset(64 * m, step * k) >> 4 for m in range(blocks) for k in range(steps))
        transpose_a = not a.k_major
    # A cleared accumulator is none at all: the first step of K writes it (scale-d), and no register is filled.
    cleared = isinstance(op.c.op, tile.Splat) and constant_of(op.c.op.value) == 0
    new = hopper.Wgmma(
        first,
        b.descriptor(None),
        tuple(low.get(v) for v in (op.a, op.b) if isinstance(v.type, BufferType)),
        op.a.dtype,
        op.c.dtype,
        n,
        step,
        a_offsets,
        tuple(b.offset(0, step * k) >> 4 for k in range(steps)),
        c=None if cleared else low.get(op.c),
        transpose_a=transpose_a,
        transpose_b=not b.k_major,
    )
    return low.b.emit(new).results


class _Operand:
    """A shared matrix as wgmma sees it; offsets in bytes, before the swizzle."""

    def __init__(self, low: Lowering, buffer: Value, slot: Value | None, k_dim: int) -> None:
        self.low, self.buffer, self.slot, self.k_dim = low, buffer, slot, k_dim
        self.shared = shared_layout(buffer)
        self.k_major = self.shared.contiguous_dim == k_dim

    def offset(self, mn: int, k: int) -> int:
        at = (mn, k) if self.k_dim == 1 else (k, mn)
        return self.shared.affine_bits(at) // 8

    def descriptor(self, moved: Value | None) -> Value:
        low, b, shared = self.low, self.low.b, self.shared
        start = low.in_entry(("buffer", self.buffer), lambda b: b.emit(thread.BufferAddress(self.buffer)).result)
        if moved is not None:
            start = b.add(start, moved)
        if self.slot is not None:
            start = b.add(start, b.mul(low.get(self.slot), shared.stage_bytes))
        low_bits = b.value(arith.Shr(b.and_(start, b.constant(0x3FFFF)), b.constant(4)))
        return b.value(arith.Or(b.cast(low_bits, i64), b.constant(self.constant_bits(), i64)))

    def constant_bits(self) -> int:
        """All of the descriptor but the start address, as a signed number."""
        width = self.shared.swizzle.width
        if self.k_major:
            leading, stride = 1, 8 * width >> 4
        else:
            _, panels, panel_bytes = panels_of(self.shared)
            leading, stride = (panel_bytes >> 4 if panels > 1 else 1), 8 * width >> 4
        bits = leading << 16 | stride << 32 | MODE[width] << 62
        return bits - (1 << 64) if bits >> 63 else bits


HOPPER_RULES: dict[type[Op], object] = {
    roles.Channel: channel,
    roles.Acquire: acquire,
    roles.Receive: receive,
    roles.Expect: expect,
    roles.Release: release,
    roles.Specialised: specialised,
    roles.TmaCopy: tma_copy,
    roles.AsyncGemm: async_gemm,
}
