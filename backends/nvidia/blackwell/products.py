"""Lowering rules for tensor memory: which gemms fit tcgen05, their descriptors, loads and stores.

Where an accumulator lies, and a factor A that is a tile, says layouts.py. A product is issued by the block's first
thread: for each part of the accumulator all steps of K, 32 bytes each, then a commit to the mbarrier, for whose phase
all threads wait. The phase takes an arrival of each warp as well: else the first thread could go on to the product
after the next one while others still wait for this, of the same parity. Warp w loads lanes 32 · (w % 4) and on;
warpgroups share blocks of rows, or columns.

The kernel's tensor memory is allocated by the first warp, whose address the others read behind a barrier, and given
back by it at the end.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import product
from typing import Any

from minitile.analysis.affine import Affine, Facts
from minitile.analysis.tf32_rounding import Rounding
from minitile.backends.nvidia.blackwell.descriptors import SHARED, SWIZZLE, VERSION, instruction, word
from minitile.backends.nvidia.blackwell.layouts import (
    HALF_ROWS,
    IMAGE,
    IN_WORD,
    ROWS,
    WORD_BITS,
    accumulator,
    chains,
    columns_of,
    instruction_shape,
    own_blocks,
    scale_columns,
)
from minitile.backends.nvidia.blackwell.pair_rules import is_even
from minitile.backends.nvidia.blackwell.shapes import ATOM_K_BYTES, I8, Kind, kind_of, misfit
from minitile.backends.nvidia.hopper import pipelines
from minitile.backends.nvidia.hopper.explicit import barrier_word
from minitile.backends.nvidia.hopper.wgmma import _Operand, panels_of, readable
from minitile.hardware import BLOCK_REGISTERS, WARPGROUP
from minitile.ir.builder import constant_of
from minitile.ir.core import Op, Value
from minitile.ir.ops import arith, blackwell, control, hopper, roles, thread, tile
from minitile.ir.origin import Origin
from minitile.ir.types import BufferType, TileType, f32, i64, u32, u64
from minitile.layout import Layout, boxed
from minitile.layout.shared import SharedLayout, row_major
from minitile.lowering.context import Lowering, layout_of
from minitile.lowering.memory import shared_layout

MOST_AT_ONCE = 128  # columns of one ld or st
BESIDE = 18  # registers that ptxas 13 wants beside those of one ld (C7602): 128 at once are refused below 146
CHUNK = 16  # bytes of a row that TMA, descriptors and the swizzle move as a whole


# What fits -----------------------------------------------------------------------------------------------------------


def misfit_of(
    op: tile.Gemm | blackwell.TensorGemm,
    threads: int,
    target: Any,
    facts: Facts | None = None,
    rounding: Rounding | None = None,
) -> str:
    """Why tcgen05 does not do a gemm; "" where it does. Without `facts` operands are taken to begin where their
    buffers do, without `rounding` to be rounded to tf32."""
    into, kind = op.accumulator, kind_of_gemm(op)
    given = in_tensor_memory(into)
    if kind is None or (kind is I8 and not target.has("tcgen05_int8")):
        with_ = f" with scales of {op.a_scale.dtype}" if op.a_scale is not None else ""
        return f"{' by '.join(op.formats)} into {into.dtype}{with_} is not among its types"
    (m, n), k = into.shape, op.depth
    if (m % ROWS and m != HALF_ROWS) or n % 16:
        return f"rows are {HALF_ROWS} or come in blocks of {ROWS}, columns in steps of 16, not {m}x{n}"
    rows, columns = instruction_shape((m, n))
    ctas = 2 if isinstance(op, blackwell.TensorGemm) and op.pair else 1
    if ctas > 1 and m == HALF_ROWS:
        return f"a pair's products have {ctas * ROWS} rows"
    if reason := misfit(kind, rows * ctas, columns, ctas):
        return reason
    step = kind.k * (IN_WORD // kind.factors if kind.factors else 1)
    if k % step or (kind.factors and n % 32):
        if kind.factors:
            return f"words of four scales want K in steps of {step} and N of 32, not {k} and {n}"
        return f"K = {k} is not a multiple of {step}, which one instruction of {op.a.dtype} takes"
    if not given and accumulator((m, n), threads) is None:
        return f"{threads} threads are not whole warpgroups that share {m}x{n}"
    operands = [
        ("A", op.a, op.a_indices, 0 if op.transpose_a else 1, m),
        ("B", op.b, op.b_indices, 1 if op.transpose_b else 0, columns // ctas),
    ]
    if isinstance(op.a.type, TileType) or in_tensor_memory(op.a):  # in the lanes of the accumulator
        if op.transpose_a or m == HALF_ROWS or kind.factors or (not given and accumulator((m, k), threads) is None):
            return f"a tile A is stored in rows that {threads} threads share, not {'turned' if op.transpose_a else k}"
        row, column = map(constant_of, op.a_indices) if op.a_indices else (0, 0)
        if row != 0 or column is None or int(column) % kind.k:
            return f"A in tensor memory begins at its first row and a constant multiple of {kind.k} columns"
        del operands[0]
    for name, value, starts, k_dim, length in operands:
        reason = _unreadable(name, value, starts, k_dim, length, facts)
        if reason := reason or _unrounded(name, value, kind, k_dim, rounding):
            return reason
    return ""


def kind_of_gemm(op: tile.Gemm | blackwell.TensorGemm) -> Kind | None:
    scale = "" if op.a_scale is None else op.a_scale.dtype.name
    return kind_of(*op.formats, op.accumulator.dtype.name, scale)


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


def _unrounded(name: str, value: Value, kind: Kind, k_dim: int, rounding: Rounding | None) -> str:
    """Why an operand is not K-major tf32, where the kind wants that."""
    layout = value.op.layout if isinstance(value.op, tile.Alloc) and value.op.layout else None
    contiguous = layout.contiguous_dim if layout else 1
    if not kind.mn_major and contiguous != k_dim:
        return f"K is not contiguous in {name}, which tf32 wants"
    return rounding.refusal(value) if rounding is not None and value.dtype is f32 else ""


# Rules ---------------------------------------------------------------------------------------------------------------


def memory(low: Lowering, op: blackwell.TensorMemory) -> Value:
    """Allocation, and the mbarrier of products that all wait for; both are known to all threads behind one barrier,
    with the mbarriers of pipelines, which are initialised right before it, or are to come."""
    b = low.b
    low.kernel.attrs.setdefault("min_ctas", 1)  # a load takes its registers at once: nvJitLink gave too few (C7602)
    slot = _words(low, op, u32, 4, "tensor_slot")
    start = b.emit(thread.BufferAddress(slot)).result
    ops = list(low.kernel.walk())
    awaited = [each for each in ops if isinstance(each, blackwell.TensorGemm) and each.phase is not None]
    taken = None
    if awaited:
        groups = awaited[0].groups
        taken = pipelines.take_meeting(low)
        before = None if taken is None else taken[0]
        ring = low.once["product"] = _words(low, op, u64, 8, "product", groups, before)
        with b.when(low.first_thread()) if taken is None else pipelines.initialising(low, taken[0]):
            word = b.emit(thread.BufferAddress(ring)).result
            for group in range(groups):
                b.emit(hopper.MbarrierInit(b.add(word, 8 * group), ring, 1 + low.threads // groups // 32))
            if taken is None:
                b.emit(hopper.MbarrierInitFence())
    with b.when(_first_warp(low)):
        b.emit(blackwell.TensorMemoryAlloc(start, slot, op.columns, pair=op.pair))
    if taken is not None:
        low.entry.ops.append(taken[1])
    elif awaited:
        id, threads = low.meeting
        b.emit(thread.Barrier(id=id, threads=threads))
    low.once["tensor_slot"] = slot
    return start


def _words(low: Lowering, op: Op, dtype: Any, size: int, name: str, count: int = 1, before: Op | None = None) -> Value:
    """Shared memory for words, allocated at the entry, in front of `before` if that is given."""
    t, layout = BufferType("shared", (count,), dtype), row_major((count,), 8 * size)
    alloc = tile.Alloc(t, layout=layout, bytes=size * count)
    alloc.loc, alloc.result.name = op.loc, name
    ops = low.entry.ops
    ops.insert(len(ops) if before is None else ops.index(before), alloc)
    return alloc.result


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


def _stride(d: Value) -> int:
    """Columns from one block of rows of a buffer to the next."""
    buffer = blackwell.viewed(d).op
    assert isinstance(buffer, blackwell.TensorAlloc)
    return buffer.stride


def view(low: Lowering, op: blackwell.TensorView) -> Value:
    return low.get(op.d)


def free(low: Lowering, op: blackwell.TensorFree) -> None:
    address, buffers = _address(low, op.memory), tuple(low.get(v) for v in op.buffers)
    if any(isinstance(v.op, blackwell.TensorAlloc) and v.op.shared_by for v in op.buffers):
        id, threads = low.meeting
        with low.b.because(Origin("tensor_memory", "all warpgroups have loaded")):
            low.b.emit(thread.Barrier(id=id, threads=threads))
    with low.b.when(_first_warp(low)):
        low.b.emit(blackwell.TensorMemoryFree(address, buffers, op.columns, pair=op.pair))


def gemm(low: Lowering, op: blackwell.TensorGemm) -> None:
    b, d = low.b, low.get(op.d)
    kind = kind_of_gemm(op)
    assert kind is not None
    rows, columns = instruction_shape(op.d.shape)
    ctas, apart, number = 1 + op.pair, op.groups > 1, op.k // kind.k
    steps = range(0, number * ATOM_K_BYTES * 8 // op.b.dtype.bits, ATOM_K_BYTES * 8 // op.b.dtype.bits)
    parts = chains(op.d.shape, _stride(op.d))
    parts = parts[: len(parts) // op.groups]
    y = _Matrix(low, op.b, op.b_slot, op.b_indices, 1 if op.transpose_b else 0)
    in_tensor = in_tensor_memory(op.a)
    if in_tensor:
        start = int(constant_of(op.a_indices[1]) or 0) * op.a.dtype.bits // WORD_BITS if op.a_indices else 0
        first = _own(low, b.add(_column(low, op.a, None), start), apart * len(parts) * _stride(op.a))
        a_mn = False
        offsets = [row // ROWS * _stride(op.a) + k * op.a.dtype.bits // WORD_BITS for row, _, _ in parts for k in steps]
    else:
        x = _Matrix(low, op.a, op.a_slot, op.a_indices, 0 if op.transpose_a else 1)
        step = apart * x.at(len(parts) * ROWS, 0) >> 4
        first, a_mn = _own(low, x.descriptor(None, rows), step), not x.k_major
        offsets = [x.at(row, k) >> 4 for row, _, _ in parts for k in steps]
    slots = tuple(low.get(v) for v in (op.a_slot, op.b_slot) if v is not None)
    ring = _completion(low, op)
    products = blackwell.TensorProducts(
        first,
        y.descriptor(None, columns),
        _own(low, _column(low, op.d, op.d_slot), apart * len(parts) * _stride(op.d)),
        low.get(op.accumulate),
        ring,
        d,
        tuple(low.get(v) for v in (op.a, op.b, op.a_scale, op.b_scale) if v is not None),
        slots if len(slots) == 2 else (),
        kind.suffix,
        tuple(
            instruction(
                *(kind, op.formats, op.d.dtype.name, rows * ctas, columns, (a_mn, not y.k_major), ctas),
                scale_byte=step * kind.factors % IN_WORD,
            )
            for step in range(number)
        ),
        tuple(address for _, _, address in parts),
        tuple(offsets),
        tuple(y.at(column, k) >> 4 for _, column, _ in parts for k in steps),
        slot=None if op.d_slot is None else low.get(op.d_slot),
        reused=op.reused,
        free=op.phase is None and op.barriers is None,
        a_in_tensor=in_tensor,
        by="group" if apart else "one",
        pair=op.pair,
        **_scales(low, op, kind, parts, number),
    )
    if op.barriers is not None:
        with _issuing(low, op.pair):
            b.emit(products)
            if op.index is not None:
                b.emit(blackwell.Tcgen05Commit(barrier_word(low, ring, low.get(op.index)), ring, pair=op.pair))
        return
    copies = _scale_copies(low, op, ring)
    if op.phase is None:
        for each in (*copies, products):
            b.emit(each)
        return
    barrier = low.in_entry(("buffer", ring), lambda b: b.emit(thread.BufferAddress(ring)).result)
    barrier = _own(low, barrier, apart * 8)
    with b.when(_first_of_group(low) if apart else low.first_thread()):
        for each in (*copies, products):
            b.emit(each)
        b.emit(blackwell.Tcgen05Commit(barrier, ring))
    lane = low.in_entry("lane 0", lambda b: b.compare("eq", b.floormod(low.tid, 32), 0))
    with b.because(Origin("tensor_memory", "no warp is a phase behind")):
        b.emit(hopper.MbarrierArrive(barrier, ring, predicate=lane))
    with b.because(Origin("tensor_memory", "products are complete")):
        b.emit(hopper.MbarrierWait(barrier, ring, low.get(op.phase)))


def _scales(
    low: Lowering, op: blackwell.TensorGemm, kind: Kind, parts: list[tuple[int, int, int]], number: int
) -> dict[str, Any]:
    """Where the scales of each part and step begin, in a product that has some."""
    if op.a_scale is None or op.b_scale is None:
        return {}
    words = [step * kind.factors // IN_WORD for step in range(number)]
    a_rows, b_rows = op.a_scale.shape[0], op.b_scale.shape[0]
    return {
        "a_scale": _column(low, op.a_scale, None),
        "b_scale": _column(low, op.b_scale, None),
        "a_scale_offsets": tuple((word * a_rows + row) // 32 for row, _, _ in parts for word in words),
        "b_scale_offsets": tuple(word * b_rows // 32 for word in words),
    }


def _start(low: Lowering, buffer: Value) -> Value:
    """Where a shared buffer begins."""
    start: Value = low.in_entry(("buffer", buffer), lambda b: b.emit(thread.BufferAddress(low.get(buffer))).result)
    return start


def _scale_copies(low: Lowering, op: blackwell.TensorGemm, ring: Value) -> list[blackwell.TensorCopies]:
    """Of scales that lie in shared memory as images: the copy of each image to its four columns."""
    b, made = low.b, []
    bits = word(SHARED, leading=1, stride=8 * CHUNK >> 4, version=VERSION)
    for mem, source, slot in (
        (op.a_scale, op.a_scale_from, op.a_scale_slot),
        (op.b_scale, op.b_scale_from, op.b_scale_slot),
    ):
        if mem is None or source is None:
            continue
        start = _start(low, source)
        if slot is not None:
            start = b.add(start, b.mul(low.get(slot), shared_layout(source).stage_bytes))
        first = b.value(arith.Shr(b.and_(start, b.constant(0x3FFFF)), b.constant(4)))
        descriptor = b.value(arith.Or(b.cast(first, i64), b.constant(bits, i64)))
        first_columns = _image_columns(mem.shape, source.shape)
        made.append(
            blackwell.TensorCopies(
                *(_column(low, mem, None), descriptor, ring, low.get(mem), low.get(source)),
                slot=None if slot is None else low.get(slot),
                offsets=tuple(n * IMAGE >> 4 for n in range(len(first_columns))),
                columns=first_columns,
                pair=op.pair,
            )
        )
    return made


def _image_columns(shape: tuple[int, ...], source: tuple[int, ...]) -> tuple[int, ...]:
    """The first column of each image, in the order in which a buffer has them: words of all rows, or where it is of
    packs (rows / 128 × words × …) rows with all their words."""
    blocks, words = range(shape[0] // ROWS), range(shape[1] // IN_WORD)
    order = [(word, rows) for rows in blocks for word in words] if len(source) > 2 else product(words, blocks)
    return tuple((word * len(blocks) + rows) * IN_WORD for word, rows in order)


def _own(low: Lowering, first: Value, step: int) -> Value:
    """The warpgroup's own: as many steps from the first one's as it has before it."""
    return low.b.add(first, low.b.cast(low.b.mul(_group(low), step), first.dtype)) if step else first


def _group(low: Lowering) -> Value:
    """The number of the warpgroup among those at hand."""
    first = 0 if low.team is None else low.team[0] // WARPGROUP
    warp = low.in_entry("warp", lambda b: b.emit(hopper.WarpIndex()).result)
    number: Value = low.in_entry("warpgroup", lambda b: b.sub(b.floordiv(warp, 4), first))
    return number


def _first_of_group(low: Lowering) -> Value:
    first: Value = low.in_entry("warpgroup's first", lambda b: b.compare("eq", b.floormod(low.tid, WARPGROUP), 0))
    return first


def in_tensor_memory(v: Value) -> bool:
    return isinstance(v.type, BufferType) and v.type.space == "tmem"


def _completion(low: Lowering, op: blackwell.TensorGemm) -> Value:
    """The words of the barriers where the product arrives, now or later: the program's own, those of all products, or
    those of the pipeline that hands the accumulator from the issuer to those that load it."""
    if op.barriers is not None:
        return low.get(op.barriers)
    if op.phase is not None:
        found: Value = low.once["product"]
        return found
    rings = (each for each in low.kernel.walk() if isinstance(each, roles.MbarrierPipeline) and op.d in each.payload)
    return low.get(next(rings).result)


def load(low: Lowering, op: blackwell.TensorLoad) -> Value:
    """By each warp its lanes; zeros where nothing has been written."""
    b, d, layout = low.b, low.get(op.d), layout_of(op.result)
    address, parts = _share(low, op.d, op.d_slot, layout, op.column)
    slot = None if op.d_slot is None else low.get(op.d_slot)
    columns, counts = zip(*parts, strict=True)
    span = None if slot is not None else _span(op.d, op.column, op.result.shape[1])

    def registers() -> Value:
        loads = blackwell.TensorRegisters(address, d, op.d.dtype, columns, counts, span=span, slot=slot)
        return b.emit(loads).result

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
    if op.scales:
        warp = low.in_entry("warp", lambda b: b.emit(hopper.WarpIndex()).result)
        with low.b.when(low.b.compare("lt", warp, WARPGROUP // 32)):  # all lanes have them then
            columns, counts = zip(*_pieces(low, scale_columns(op.d.shape)), strict=True)
            address = low.b.add(_column(low, op.d, None), _lanes(low))
            low.b.emit(blackwell.TensorWrite(address, low.get(op.d), low.get(op.value), columns, counts))
        return
    address, parts = _share(low, op.d, None, layout_of(op.value), op.column)
    columns, counts = zip(*parts, strict=True)
    value = low.get(op.value)
    if op.tf32:
        value = low.b.emit(thread.RoundTf32(value)).result
    span = _span(op.d, op.column, op.value.shape[1])
    low.b.emit(blackwell.TensorWrite(address, low.get(op.d), value, columns, counts, span=span))


def _span(d: Value, column: int, count: int) -> tuple[int, int] | None:
    """The words in which elements of so many columns lie, of a buffer with one block of rows; None: not one span."""
    bits = d.dtype.bits
    return (column * bits // WORD_BITS, (column + count) * bits // WORD_BITS) if d.shape[0] == ROWS else None


def _share(
    low: Lowering, d: Value, slot: Value | None, layout: Layout, column: int
) -> tuple[Value, list[tuple[int, int]]]:
    """The thread's own part of a buffer from a column on: an address, and from there each instruction's column, and how
    many."""
    b, bits = low.b, d.dtype.bits
    rows, columns = (math.prod(digit.size for digit in layout.reg if digit.dim == dim) for dim in (0, 1))
    columns = columns * bits // WORD_BITS
    address = b.add(b.add(_column(low, d, slot), column * bits // WORD_BITS), _lanes(low))
    if low.threads > WARPGROUP:
        by_rows = own_blocks(d.shape, low.threads // WARPGROUP) > 0
        address = b.add(address, b.mul(_group(low), rows * _stride(d) if by_rows else columns))
    return address, [(row * _stride(d) + at, count) for row in range(rows) for at, count in _pieces(low, columns)]


def _lanes(low: Lowering) -> Value:
    """What is to be added to an address for the first of the warp's lanes."""
    warp = low.in_entry("warp", lambda b: b.emit(hopper.WarpIndex()).result)
    return low.b.value(arith.Shl(low.b.floormod(warp, 4), low.b.constant(21)))


def _pieces(low: Lowering, columns: int) -> list[tuple[int, int]]:
    """Columns as one load or store after the other: the first of each, and how many. They are no more than the
    registers of a thread at the kernel's start hold, whatever its role has later (setmaxnreg): ptxas refuses others."""
    parts, at = [], 0
    most = max(1, BLOCK_REGISTERS // low.kernel.threads - BESIDE)
    while at < columns:
        count = min(MOST_AT_ONCE, 1 << min(columns - at, most).bit_length() - 1)
        parts.append((at, count))
        at += count
    return parts


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


def specialised(low: Lowering, op: blackwell.IssuerSpecialized) -> None:
    """Of the producer's warps the second is the issuer's; of a pair that of the even block."""
    b = low.b

    def issuer(second: Value) -> None:
        mine = b.and_(second, is_even(low)) if op.pair else second
        with b.when(mine), b.when(b.emit(hopper.Elect()).result):
            low.ops(op.issuer)

    pipelines.specialised(low, op, issuer)


def acquire(low: Lowering, op: blackwell.ProductsAcquire) -> None:
    pipelines.acquire(low, op)
    if low.once["acquired", low.get(op.pipeline)]:
        low.b.emit(blackwell.Tcgen05Fence("after"))


def commit(low: Lowering, op: blackwell.ProductsCommit) -> None:
    _commit(low, pipelines.full(low, op), op)


def barrier_commit(low: Lowering, op: blackwell.BarrierCommit) -> None:
    ring = low.get(op.barriers)
    with _issuing(low, op.pair):
        low.b.emit(blackwell.Tcgen05Commit(barrier_word(low, ring, low.get(op.index)), ring, pair=op.pair))


@contextmanager
def _issuing(low: Lowering, pair: bool) -> Iterator[None]:
    """By the role's first thread; of a pair, of the even block."""
    with low.b.when(is_even(low)) if pair else nullcontext(), low.b.when(low.first_thread()):
        yield


def release(low: Lowering, op: blackwell.ProductsRelease) -> None:
    _commit(low, pipelines.empty(low, op), op)


def _commit(low: Lowering, word: Value, op: roles.SlotOp) -> None:
    ring = low.get(op.pipeline)
    low.b.emit(blackwell.Tcgen05Commit(word, ring, pair=("pair", ring) in low.once))


RULES: dict[type[Op], Any] = {
    blackwell.IssuerSpecialized: specialised,
    blackwell.BarrierCommit: barrier_commit,
    blackwell.ProductsAcquire: acquire,
    blackwell.ProductsCommit: commit,
    blackwell.ProductsRelease: release,
    blackwell.TensorMemory: memory,
    blackwell.TensorAlloc: alloc,
    blackwell.TensorView: view,
    blackwell.TensorFree: free,
    blackwell.TensorGemm: gemm,
    blackwell.TensorLoad: load,
    blackwell.TensorStore: store,
}
