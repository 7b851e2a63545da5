"""Lowering rules for tensor memory: which gemms fit tcgen05, their descriptors, the accumulator's layout in registers.

An accumulator of M × N lies in blocks of 128 rows, N columns each: row i is lane i % 128, block i / 128. A product is
issued by the block's first thread: for each block of rows all steps of K, 32 bytes each, then a commit to the mbarrier,
for whose phase all threads wait. The phase takes an arrival of each warp as well: else the first thread could go on to
the product after the next one while others still wait for this, of the same parity. Warp w loads lanes 32 · (w % 4) and
on; warpgroups share blocks of rows, or columns.

The kernel's tensor memory is allocated by the first warp, whose address the others read behind a barrier, and given
back by it at the end.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from minitile.analysis.affine import Affine, Facts
from minitile.backends.base import GemmPlan
from minitile.backends.nvidia.blackwell.descriptors import SHARED, SWIZZLE, VERSION, instruction, word
from minitile.backends.nvidia.blackwell.shapes import I8, MOST_COLUMNS, Kind, kind_of, misfit
from minitile.backends.nvidia.hopper.wgmma import _Operand, panels_of, readable
from minitile.hardware import WARPGROUP
from minitile.ir.core import Op, Value
from minitile.ir.ops import arith, blackwell, control, hopper, thread, tile
from minitile.ir.origin import Origin
from minitile.ir.types import BufferType, u32, u64
from minitile.layout import Digit, Layout, boxed
from minitile.layout.shared import SharedLayout, row_major
from minitile.lowering.context import Lowering, layout_of

ROWS = 128  # of the accumulator in one instruction
CHUNK = 16  # bytes of a row that TMA, descriptors and the swizzle move as a whole


# What fits -----------------------------------------------------------------------------------------------------------


def misfit_of(op: tile.Gemm, threads: int, target: Any, facts: Facts | None = None) -> str:
    """Why tcgen05 does not do a gemm; "" where it does. Without `facts` operands are taken to begin where their
    buffers do."""
    kind = kind_of(op.a.dtype.name, op.b.dtype.name, op.c.dtype.name)
    if op.scaled or kind is None or (kind is I8 and not target.has("tcgen05_int8")):
        return f"{op.a.dtype} by {op.b.dtype} into {op.c.dtype} is not among its types"
    if kind.bits == 32:
        return "f32 is not rounded to tf32 on its way to shared memory"
    (m, n), k = op.c.shape, op.depth
    if m % ROWS or n % 16:
        return f"rows come in blocks of {ROWS} and columns in steps of 16, not {m}x{n}"
    if n > MOST_COLUMNS or misfit(kind, ROWS, n):
        return f"{n} columns are more than the {MOST_COLUMNS} of an instruction"
    if k % kind.k:
        return f"K = {k} is not a multiple of {kind.k}, which one instruction of {op.a.dtype} takes"
    if threads % WARPGROUP or accumulator((m, n), threads) is None:
        return f"{threads} threads are not whole warpgroups that share {m}x{n}"
    for name, value, starts, k_dim, length in (
        ("A", op.a, op.a_indices, 0 if op.transpose_a else 1, m),
        ("B", op.b, op.b_indices, 1 if op.transpose_b else 0, n),
    ):
        if reason := _unreadable(name, value, starts, k_dim, length, facts):
            return reason
    return ""


def _unreadable(
    name: str, value: Value, starts: tuple[Value, ...], k_dim: int, length: int, facts: Facts | None
) -> str:
    """Why a descriptor cannot say where an operand of `length` rows or columns lies."""
    if not isinstance(value.type, BufferType) or value.type.space != "shared":
        return f"{name} is not in shared memory"
    if len(value.shape) != 2:
        return f"{name} is part of {value.name or 'a buffer'}, which has {len(value.shape)} dimensions"
    if value.shape[1] * value.dtype.bytes % CHUNK:
        return f"the rows of {value.name or 'an operand'} are no whole {CHUNK} bytes"
    if facts is not None and any(facts.affine(at) != Affine() for at in starts):
        return f"{name} begins inside of {value.name or 'a buffer'}"
    layout = (
        value.op.layout
        if isinstance(value.op, tile.Alloc) and value.op.layout
        else boxed(value.shape, value.dtype.bits)
    )
    if not readable(layout, k_dim):
        return f"{name} lies in shared memory as {layout}, which no descriptor says"
    panel = panels_of(layout)[0]
    if layout.contiguous_dim != k_dim and length % panel:
        return f"{name} is not whole panels of {panel}"
    return ""


@lru_cache(maxsize=64)
def accumulator(shape: tuple[int, int], threads: int) -> Layout | None:
    """The layout in which threads load an accumulator; None where they cannot share it."""
    m, n = shape
    groups, blocks = threads // WARPGROUP, m // ROWS
    if blocks % groups == 0:
        share, columns, rows = Digit(groups, 0, m // groups), n, blocks // groups
    elif n % (groups * 8) == 0:
        share, columns, rows = Digit(groups, 1, n // groups), n // groups, blocks
    else:
        return None
    registers = (Digit(columns, 1, 1), Digit(rows, 0, ROWS))
    return Layout(shape, registers, (Digit(32, 0, 1),), (Digit(4, 0, 32), share))


def load_plan(op: blackwell.TensorLoad, threads: int) -> GemmPlan:
    """The layout of a load, as the plan of the gemm that it is of."""
    shape = op.d.shape[0], op.d.shape[1]
    layout = accumulator(shape, threads)
    assert layout is not None
    return GemmPlan("", (*shape, 0), (0, 0, 0), (0, 0), 0, layout, layout, layout)


# Rules ---------------------------------------------------------------------------------------------------------------


def memory(low: Lowering, op: blackwell.TensorMemory) -> Value:
    """Allocation and the mbarrier of the products, known to all threads behind a barrier."""
    b = low.b
    slot, ring = _words(low, op, u32, 4, "tensor_slot"), _words(low, op, u64, 8, "product")
    low.once["product"] = ring
    with b.when(low.first_thread()):
        start = b.emit(thread.BufferAddress(ring)).result
        b.emit(hopper.MbarrierInit(start, ring, 1 + low.threads // 32))
        b.emit(hopper.MbarrierInitFence())
    with b.when(_first_warp(low)):
        b.emit(blackwell.TensorMemoryAlloc(b.emit(thread.BufferAddress(slot)).result, slot, op.columns))
    id, threads = low.meeting
    b.emit(thread.Barrier(id=id, threads=threads))
    return b.emit(blackwell.TensorMemoryAddress(b.emit(thread.BufferAddress(slot)).result, slot)).result


def _words(low: Lowering, op: Op, dtype: Any, size: int, name: str) -> Value:
    alloc = tile.Alloc(BufferType("shared", (1,), dtype), layout=row_major((1,), 8 * size), bytes=size)
    alloc.loc, alloc.result.name = op.loc, name
    with low.b.inside(low.entry):
        return low.b.emit(alloc).result


def _first_warp(low: Lowering) -> Value:
    warp = low.in_entry("warp", lambda b: b.emit(hopper.WarpIndex()).result)
    value: Value = low.in_entry("first warp", lambda b: b.compare("eq", warp, 0))
    return value


def alloc(low: Lowering, op: blackwell.TensorAlloc) -> Value:
    new = low.b.emit(blackwell.TensorAlloc(low.get(op.memory), op.type_, op.column)).result
    low.once["column", new] = low.b.add(low.get(op.memory), op.column)
    return new


def free(low: Lowering, op: blackwell.TensorFree) -> None:
    with low.b.when(_first_warp(low)):
        low.b.emit(blackwell.TensorMemoryFree(low.get(op.memory), tuple(low.get(v) for v in op.buffers), op.columns))


def gemm(low: Lowering, op: blackwell.TensorGemm) -> None:
    b, d = low.b, low.get(op.d)
    kind = kind_of(op.a.dtype.name, op.b.dtype.name, op.d.dtype.name)
    assert kind is not None
    m, n = op.d.shape
    x = _Matrix(low, op.a, op.a_slot, op.a_indices, 0 if op.transpose_a else 1)
    y = _Matrix(low, op.b, op.b_slot, op.b_indices, 1 if op.transpose_b else 0)
    steps = range(0, op.k, kind.k)
    ring: Value = low.once["product"]
    barrier = low.in_entry(("buffer", ring), lambda b: b.emit(thread.BufferAddress(ring)).result)
    accumulate, first, second = low.get(op.accumulate), x.descriptor(None, m), y.descriptor(None, n)
    slots = tuple(low.get(v) for v in (op.a_slot, op.b_slot) if v is not None)
    with b.when(low.first_thread()):
        b.emit(
            blackwell.TensorProducts(
                first,
                second,
                low.once["column", d],
                accumulate,
                barrier,
                ring,
                d,
                (low.get(op.a), low.get(op.b)),
                slots if len(slots) == 2 else (),
                kind.name,
                _instruction(kind, op, n, not x.k_major, not y.k_major),
                n,
                tuple(x.at(block, k) >> 4 for block in range(0, m, ROWS) for k in steps),
                tuple(y.at(0, k) >> 4 for k in steps),
                reused=op.reused,
            )
        )
    lane = low.in_entry("lane 0", lambda b: b.compare("eq", b.floormod(low.tid, 32), 0))
    with b.because(Origin("tensor_memory", "no warp is a phase behind")):
        b.emit(hopper.MbarrierArrive(barrier, ring, predicate=lane))
    with b.because(Origin("tensor_memory", "products are complete")):
        b.emit(hopper.MbarrierWait(barrier, ring, low.get(op.phase)))


def _instruction(kind: Kind, op: blackwell.TensorGemm, n: int, a_mn: bool, b_mn: bool) -> int:
    return instruction(kind, (op.a.dtype.name, op.b.dtype.name), op.d.dtype.name, ROWS, n, (a_mn, b_mn))


def load(low: Lowering, op: blackwell.TensorLoad) -> Value:
    """By each warp its lanes; zeros where nothing has been written."""
    b, d, layout = low.b, low.get(op.d), layout_of(op.result)
    columns, rows = layout.reg[0].size, layout.reg[1].size if len(layout.reg) > 1 else 1
    n = op.d.shape[1]
    warp = low.in_entry("warp", lambda b: b.emit(hopper.WarpIndex()).result)
    lanes = b.value(arith.Shl(b.floormod(warp, 4), b.constant(21)))
    address = b.add(low.once["column", d], lanes)
    if low.threads > WARPGROUP:
        by_rows = op.d.shape[0] // ROWS % (low.threads // WARPGROUP) == 0
        address = b.add(address, b.mul(b.floordiv(warp, 4), rows * n if by_rows else columns))
    written, made = low.get(op.written), []

    def registers() -> Value:
        at, parts = 0, []
        while at < columns:
            count = min(128, 1 << (columns - at).bit_length() - 1)
            parts.append((at, count))
            at += count
        for row in range(rows):
            for at, count in parts:
                made.append(b.emit(blackwell.TensorRegisters(address, d, op.d.dtype, count, (row * n + at,))).result)
        return low.concat(made)

    if getattr(written.op, "value", None) is True:
        return registers()
    branch = control.If(written)
    with b.inside(branch.then):
        b.emit(control.Yield((registers(),)))
    with b.inside(branch.orelse):
        zero = b.constant(0, op.d.dtype)
        b.emit(control.Yield((b.emit(thread.Pick(zero, (0,) * layout.num_regs)).result,)))
    branch.set_results((branch.then.yielded[0].type,))
    return b.emit(branch).result


class _Matrix(_Operand):
    """A shared matrix as tcgen05 sees it: wgmma's descriptors but for the version and the swizzle's mode."""

    def constant_bits(self) -> int:
        shared: SharedLayout = self.shared
        width = shared.swizzle.width
        if self.k_major:
            leading, stride = 16, 8 * width
        else:
            _, panels, panel_bytes = panels_of(shared)
            leading, stride = panel_bytes if panels > 1 else 16, 8 * (width or 16)
            if not width:
                leading, stride = stride, leading
        bits = word(SHARED, leading=leading >> 4, stride=stride >> 4, version=VERSION, swizzle=SWIZZLE[width])
        return bits - (1 << 64) if bits >> 63 else bits


RULES: dict[type[Op], Any] = {
    blackwell.TensorMemory: memory,
    blackwell.TensorAlloc: alloc,
    blackwell.TensorFree: free,
    blackwell.TensorGemm: gemm,
    blackwell.TensorLoad: load,
}
