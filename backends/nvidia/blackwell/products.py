"""Lowering rules for tensor memory: which gemms fit tcgen05, their descriptors, the accumulator's layout in registers.

An accumulator of M × N lies in blocks of 128 rows, N columns each: row i is lane i % 128, block i / 128; so does a
factor A that is a tile, two or four elements in a column. A product is issued by the block's first thread: for each
block of rows all steps of K, 32 bytes each, then a commit to the mbarrier, for whose phase all threads wait. The phase
takes an arrival of each warp as well: else the first thread could go on to the product after the next one while others
still wait for this, of the same parity. Warp w loads lanes 32 · (w % 4) and on; warpgroups share blocks of rows, or
columns.

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
from minitile.backends.nvidia.hopper import pipelines
from minitile.backends.nvidia.hopper.wgmma import _Operand, panels_of, readable
from minitile.hardware import WARPGROUP
from minitile.ir.core import Op, Value
from minitile.ir.ops import arith, blackwell, control, hopper, roles, thread, tile
from minitile.ir.origin import Origin
from minitile.ir.types import BufferType, TileType, u32, u64
from minitile.layout import Digit, Layout, boxed
from minitile.layout.shared import SharedLayout, row_major
from minitile.lowering.context import Lowering, layout_of

ROWS = 128  # of the accumulator in one instruction
WORD_BITS = 32  # of a column
MOST_AT_ONCE = 128  # columns of one ld or st
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
    operands = [
        ("A", op.a, op.a_indices, 0 if op.transpose_a else 1, m),
        ("B", op.b, op.b_indices, 1 if op.transpose_b else 0, n),
    ]
    if isinstance(op.a.type, TileType):  # goes to tensor memory
        if op.transpose_a or accumulator((m, k), threads) is None:
            return f"a tile A is stored in rows that {threads} threads share, not {'turned' if op.transpose_a else k}"
        del operands[0]
    for name, value, starts, k_dim, length in operands:
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


def load_plan(op: blackwell.TensorLoad | blackwell.TensorStore, threads: int) -> GemmPlan:
    """The layout of a load or store, as the plan of the gemm that it is of."""
    shape = op.d.shape[0], op.d.shape[1]
    layout = accumulator(shape, threads)
    assert layout is not None
    return GemmPlan("", (*shape, 0), (0, 0, 0), (0, 0), 0, layout, layout, layout)


# Rules ---------------------------------------------------------------------------------------------------------------


def memory(low: Lowering, op: blackwell.TensorMemory) -> Value:
    """Allocation, and the mbarrier of products that all wait for; both are known to all threads behind a barrier, that
    of the pipelines where there are some to come."""
    b = low.b
    slot = _words(low, op, u32, 4, "tensor_slot")
    start = b.emit(thread.BufferAddress(slot)).result
    ops = list(low.kernel.walk())
    awaited = [each for each in ops if isinstance(each, blackwell.TensorGemm) and each.phase is not None]
    if awaited:
        groups = awaited[0].groups
        ring = low.once["product"] = _words(low, op, u64, 8, "product", groups)
        with b.when(low.first_thread()):
            word = b.emit(thread.BufferAddress(ring)).result
            for group in range(groups):
                b.emit(hopper.MbarrierInit(b.add(word, 8 * group), ring, 1 + low.threads // groups // 32))
            b.emit(hopper.MbarrierInitFence())
    with b.when(_first_warp(low)):
        b.emit(blackwell.TensorMemoryAlloc(start, slot, op.columns))
    if "product" in low.once:
        id, threads = low.meeting
        b.emit(thread.Barrier(id=id, threads=threads))
    low.once["tensor_slot"] = slot
    return start


def _words(low: Lowering, op: Op, dtype: Any, size: int, name: str, count: int = 1) -> Value:
    t, layout = BufferType("shared", (count,), dtype), row_major((count,), 8 * size)
    alloc = tile.Alloc(t, layout=layout, bytes=size * count)
    alloc.loc, alloc.result.name = op.loc, name
    with low.b.inside(low.entry):
        return low.b.emit(alloc).result


def _first_warp(low: Lowering) -> Value:
    warp = low.in_entry("warp", lambda b: b.emit(hopper.WarpIndex()).result)
    value: Value = low.in_entry("first warp", lambda b: b.compare("eq", warp, 0))
    return value


def _address(low: Lowering, memory: Value) -> Value:
    """Of the kernel's tensor memory."""
    if "tensor_memory" not in low.once:
        made = low.b.emit(blackwell.TensorMemoryAddress(low.get(memory), low.once["tensor_slot"])).result
        low.once["tensor_memory"] = made
    found: Value = low.once["tensor_memory"]
    return found


def alloc(low: Lowering, op: blackwell.TensorAlloc) -> Value:
    address = _address(low, op.memory)
    made = blackwell.TensorAlloc(address, op.type_, op.column, op.stride, shared_by=op.shared_by)
    new = low.b.emit(made).result
    low.once["column", new] = low.b.add(address, op.column)
    return new


def _column(low: Lowering, d: Value, slot: Value | None) -> Value:
    """The address of a buffer, of its version at hand."""
    first: Value = low.once["column", low.get(d)]
    return first if slot is None else low.b.add(first, low.b.mul(low.get(slot), columns_of(d.type)))


def columns_of(t: Any) -> int:
    """Of a version of a buffer, all blocks of rows side by side."""
    rows, columns = t.shape
    return int(rows // ROWS * columns * t.dtype.bits // WORD_BITS)


def _stride(d: Value) -> int:
    """Columns from one block of rows of a buffer to the next."""
    assert isinstance(d.op, blackwell.TensorAlloc)
    return d.op.stride


def free(low: Lowering, op: blackwell.TensorFree) -> None:
    address, buffers = _address(low, op.memory), tuple(low.get(v) for v in op.buffers)
    if any(isinstance(v.op, blackwell.TensorAlloc) and v.op.shared_by for v in op.buffers):
        id, threads = low.meeting
        with low.b.because(Origin("tensor_memory", "all warpgroups have loaded")):
            low.b.emit(thread.Barrier(id=id, threads=threads))
    with low.b.when(_first_warp(low)):
        low.b.emit(blackwell.TensorMemoryFree(address, buffers, op.columns))


def gemm(low: Lowering, op: blackwell.TensorGemm) -> None:
    b, d = low.b, low.get(op.d)
    kind = kind_of(op.a.dtype.name, op.b.dtype.name, op.d.dtype.name)
    assert kind is not None
    m, n = op.d.shape
    steps, blocks = range(0, op.k, kind.k), range(m // ROWS // op.groups)
    apart = op.groups > 1
    y = _Matrix(low, op.b, op.b_slot, op.b_indices, 1 if op.transpose_b else 0)
    in_tensor = in_tensor_memory(op.a)
    if in_tensor:
        first, a_mn = _own(low, _column(low, op.a, None), apart * len(blocks) * _stride(op.a)), False
        offsets = [block * _stride(op.a) + k * kind.bits // WORD_BITS for block in blocks for k in steps]
    else:
        x = _Matrix(low, op.a, op.a_slot, op.a_indices, 0 if op.transpose_a else 1)
        step = apart * x.at(len(blocks) * ROWS, 0) >> 4
        first, a_mn = _own(low, x.descriptor(None, m), step), not x.k_major
        offsets = [x.at(block * ROWS, k) >> 4 for block in blocks for k in steps]
    slots = tuple(low.get(v) for v in (op.a_slot, op.b_slot) if v is not None)
    ring: Value = low.once["product"] if op.phase is not None else low.get(_pipeline(low, op.d))
    products = blackwell.TensorProducts(
        first,
        y.descriptor(None, n),
        _own(low, _column(low, op.d, op.d_slot), apart * len(blocks) * _stride(op.d)),
        low.get(op.accumulate),
        ring,
        d,
        (low.get(op.a), low.get(op.b)),
        slots if len(slots) == 2 else (),
        kind.name,
        _instruction(kind, op, n, a_mn, not y.k_major),
        _stride(op.d),
        tuple(offsets),
        tuple(y.at(0, k) >> 4 for k in steps),
        slot=None if op.d_slot is None else low.get(op.d_slot),
        reused=op.reused,
        free=op.phase is None,
        a_in_tensor=in_tensor,
        by="group" if apart else "one",
    )
    if op.phase is None:
        b.emit(products)
        return
    barrier = low.in_entry(("buffer", ring), lambda b: b.emit(thread.BufferAddress(ring)).result)
    barrier = _own(low, barrier, apart * 8)
    with b.when(_first_of_group(low) if apart else low.first_thread()):
        b.emit(products)
        b.emit(blackwell.Tcgen05Commit(barrier, ring))
    lane = low.in_entry("lane 0", lambda b: b.compare("eq", b.floormod(low.tid, 32), 0))
    with b.because(Origin("tensor_memory", "no warp is a phase behind")):
        b.emit(hopper.MbarrierArrive(barrier, ring, predicate=lane))
    with b.because(Origin("tensor_memory", "products are complete")):
        b.emit(hopper.MbarrierWait(barrier, ring, low.get(op.phase)))


def _own(low: Lowering, first: Value, step: int) -> Value:
    """The warpgroup's own: as many steps from the first one's as it has before it."""
    return low.b.add(first, low.b.cast(low.b.mul(_group(low), step), first.dtype)) if step else first


def _group(low: Lowering) -> Value:
    """The number of the warpgroup."""
    warp = low.in_entry("warp", lambda b: b.emit(hopper.WarpIndex()).result)
    number: Value = low.in_entry("warpgroup", lambda b: b.floordiv(warp, 4))
    return number


def _first_of_group(low: Lowering) -> Value:
    first: Value = low.in_entry("warpgroup's first", lambda b: b.compare("eq", b.floormod(low.tid, WARPGROUP), 0))
    return first


def in_tensor_memory(v: Value) -> bool:
    return isinstance(v.type, BufferType) and v.type.space == "tmem"


def _pipeline(low: Lowering, d: Value) -> Value:
    """The one that hands an accumulator from the issuer to those that load it."""
    found = (op for op in low.kernel.walk() if isinstance(op, roles.MbarrierPipeline) and d in op.payload)
    return next(found).result


def _instruction(kind: Kind, op: blackwell.TensorGemm, n: int, a_mn: bool, b_mn: bool) -> int:
    return instruction(kind, (op.a.dtype.name, op.b.dtype.name), op.d.dtype.name, ROWS, n, (a_mn, b_mn))


def load(low: Lowering, op: blackwell.TensorLoad) -> Value:
    """By each warp its lanes; zeros where nothing has been written."""
    b, d, layout = low.b, low.get(op.d), layout_of(op.result)
    address, parts = _share(low, op.d, op.d_slot, layout)
    slot = None if op.d_slot is None else low.get(op.d_slot)

    def registers() -> Value:
        loads = (blackwell.TensorRegisters(address, d, op.d.dtype, n, (at,), slot=slot) for at, n in parts)
        return low.concat([b.emit(each).result for each in loads])

    written = low.get(op.written)
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


def store(low: Lowering, op: blackwell.TensorStore) -> None:
    address, parts = _share(low, op.d, None, layout_of(op.value))
    columns, counts = zip(*parts, strict=True)
    low.b.emit(blackwell.TensorWrite(address, low.get(op.d), low.get(op.value), columns, counts))


def _share(low: Lowering, d: Value, slot: Value | None, layout: Layout) -> tuple[Value, list[tuple[int, int]]]:
    """The thread's own part of a buffer: an address, and from there each instruction's column, and how many."""
    b, bits = low.b, d.dtype.bits
    columns = layout.reg[0].size * bits // WORD_BITS
    rows = layout.reg[1].size if len(layout.reg) > 1 else 1
    warp = low.in_entry("warp", lambda b: b.emit(hopper.WarpIndex()).result)
    lanes = b.value(arith.Shl(b.floormod(warp, 4), b.constant(21)))
    address = b.add(_column(low, d, slot), lanes)
    if low.threads > WARPGROUP:
        by_rows = d.shape[0] // ROWS % (low.threads // WARPGROUP) == 0
        address = b.add(address, b.mul(b.floordiv(warp, 4), rows * _stride(d) if by_rows else columns))
    parts, at = [], 0
    while at < columns:
        count = min(MOST_AT_ONCE, 1 << (columns - at).bit_length() - 1)
        parts.append((at, count))
        at += count
    return address, [(row * _stride(d) + at, count) for row in range(rows) for at, count in parts]


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


# The issuer, which is one thread ------------------------------------------------------------------------------------


def acquire(low: Lowering, op: blackwell.ProductsAcquire) -> None:
    pipelines.acquire(low, op)
    if low.once["acquired", low.get(op.pipeline)]:
        low.b.emit(blackwell.Tcgen05Fence("after"))


def commit(low: Lowering, op: blackwell.ProductsCommit) -> None:
    low.b.emit(blackwell.Tcgen05Commit(pipelines.full(low, op), low.get(op.pipeline)))


def release(low: Lowering, op: blackwell.ProductsRelease) -> None:
    low.b.emit(blackwell.Tcgen05Commit(pipelines.empty(low, op), low.get(op.pipeline)))


RULES: dict[type[Op], Any] = {
    blackwell.IssuerSpecialized: pipelines.specialised,
    blackwell.ProductsAcquire: acquire,
    blackwell.ProductsCommit: commit,
    blackwell.ProductsRelease: release,
    blackwell.TensorMemory: memory,
    blackwell.TensorAlloc: alloc,
    blackwell.TensorFree: free,
    blackwell.TensorGemm: gemm,
    blackwell.TensorLoad: load,
    blackwell.TensorStore: store,
}
