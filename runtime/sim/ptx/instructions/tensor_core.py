"""ldmatrix, stmatrix, movmatrix and mma (PTX ISA 8.0, 9.7.13.4).

Fragments follow one rule for all types. With g = lane / 4, t = lane % 4 and E elements in a 32-bit register:
    A (16 rows):  register r holds row g + 8*(r%2), columns (t + 4*(r/2))*E ... +E-1
    B:            register r holds rows (t + 4*r)*E ... +E-1 of column g
    C, D:         element i lies at row g + 8*(i/2), column 2*t + i%2
For 8 rows of A the first rule has no r%2. Products are exact in single precision and summed there (doubles for f64);
the hardware's order of additions is not specified.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np

from ...core.memory import SharedSpace
from ...core.scalars import Array, Sel
from ..operands import address, count, error, per_thread, read, write
from ..program import Linker
from ..syntax import Instruction, Operand, Register, Sink, Vector
from ..table import Decoded, Kind, instruction

if TYPE_CHECKING:
    from ..machine import Machine

_LANE = np.arange(32)


def _items(operand: Operand, ins: Instruction) -> tuple[Operand, ...]:
    """The registers of an operand."""
    items = operand.items if isinstance(operand, Vector) else (operand,)
    if not all(isinstance(item, Register | Sink) for item in items):
        raise error(ins, f"the operands of {ins.name} are registers")
    return items


def _full_warps(m: Machine, sel: Sel, ins: Instruction, site: int) -> int:
    """How many warps execute this; every lane must."""
    threads = count(sel)
    if threads % 32:
        m.fault("divergent_barrier", f"{ins.name} needs all 32 lanes of a warp", site, "wait", 0, "", (None, 0))
    return threads // 32


# -- matrices in shared memory ---------------------------------------------------------------------------------------


def _matrix_count(ins: Instruction) -> int:
    if "m8n8" not in ins.mods or ins.mods[-1] != "b16":
        raise error(ins, f"unsupported shape in {ins.opcode}")
    return {"x1": 1, "x2": 2, "x4": 4}[next(mod for mod in ins.mods if mod in ("x1", "x2", "x4"))]


def _row_places(m: Machine, sel: Sel, addr: Array, number: int, site: int, what: str) -> tuple[SharedSpace, Array]:
    """The arena offsets [warps, matrices, rows] of the rows whose addresses the lanes supply."""
    shared = m.spaces["shared"]
    assert isinstance(shared, SharedSpace)
    suppliers = m.thread[sel].reshape(-1, 32)[:, : 8 * number].ravel()
    rows = addr.reshape(-1, 32)[:, : 8 * number].ravel()
    return shared, shared.locate(m, suppliers, rows, 16, site, what).reshape(-1, number, 8)


def _matrix_elements(m: Machine, sel: Sel, places: Array, transposed: bool) -> tuple[Array, Array, int]:
    """Which lane touches what: (threads, arena offsets, bytes each) for the race model."""
    warp = m.thread[sel].reshape(-1, 32)[:, 0]
    if transposed:
        lanes = (4 * np.arange(8)[None, :] + np.arange(8)[:, None] // 2).reshape(1, 1, 8, 8)
        size = 2
    else:
        lanes = (4 * np.arange(8)[:, None] + np.arange(4)[None, :]).reshape(1, 1, 8, 4)
        size = 4
    where = places[:, :, :, None] + size * np.arange(lanes.shape[3])
    threads = np.broadcast_to(warp[:, None, None, None] + lanes, where.shape)
    return threads.ravel(), where.ravel(), size


@instruction("ldmatrix", kind=Kind.WARP)
def _load_matrix(ins: Instruction, linker: Linker) -> Decoded:
    number, transposed = _matrix_count(ins), "trans" in ins.mods
    items = _items(ins.operands[0], ins)
    if len(items) != number:
        raise error(ins, f"{number} matrices need {number} registers")
    writers = [write(item, "b32", ins, linker) for item in items]
    where = address(ins.operands[1], ins, linker)
    site = linker.site(ins)
    generic = not any(mod.startswith("shared") for mod in ins.mods)

    def run(m: Machine, sel: Sel) -> None:
        _full_warps(m, sel, ins, site)
        addr = where(m, sel)
        if generic:
            addr = addr & 0xFFFFFFFF
        shared, places = _row_places(m, sel, addr, number, site, "read")
        if m.race is not None:
            threads, offsets, size = _matrix_elements(m, sel, places, transposed)
            m.race.read("shared", threads, offsets, size, site, False)
        data = shared.arena.view(2, 8)[places // 16]
        if transposed:
            data = data.transpose(0, 1, 3, 2)
        words = np.ascontiguousarray(data).view(np.uint32).reshape(-1, number, 32)
        for index, writer in enumerate(writers):
            writer(m, sel, np.ascontiguousarray(words[:, index]).ravel())

    return Decoded(run, None)


@instruction("stmatrix", kind=Kind.WARP, results=0)
def _store_matrix(ins: Instruction, linker: Linker) -> Decoded:
    number, transposed = _matrix_count(ins), "trans" in ins.mods
    readers = [read(item, "b32", ins, linker) for item in _items(ins.operands[1], ins)]
    if len(readers) != number:
        raise error(ins, f"{number} matrices need {number} registers")
    where = address(ins.operands[0], ins, linker)
    site = linker.site(ins)

    def run(m: Machine, sel: Sel) -> None:
        warps = _full_warps(m, sel, ins, site)
        shared, places = _row_places(m, sel, where(m, sel), number, site, "write")
        words = np.stack([reader(m, sel).reshape(warps, 32) for reader in readers], axis=1)
        data = np.ascontiguousarray(words).view(np.uint16).reshape(warps, number, 8, 8)
        if m.race is not None:
            threads, offsets, size = _matrix_elements(m, sel, places, transposed)
            m.race.write("shared", threads, offsets, size, site, False)
        shared.arena.view(2, 8)[places // 16] = data.transpose(0, 1, 3, 2) if transposed else data

    return Decoded(run, None)


@instruction("movmatrix", kind=Kind.WARP)
def _move_matrix(ins: Instruction, linker: Linker) -> Decoded:
    item, *more = _items(ins.operands[1], ins)
    if more:
        raise error(ins, "movmatrix moves one register")
    source, target = read(item, "b32", ins, linker), write(ins.operands[0], "b32", ins, linker)
    site = linker.site(ins)

    def run(m: Machine, sel: Sel) -> None:
        warps = _full_warps(m, sel, ins, site)
        data = np.ascontiguousarray(source(m, sel)).view(np.uint16).reshape(warps, 8, 8).transpose(0, 2, 1)
        target(m, sel, np.ascontiguousarray(data).view(np.uint32).ravel())

    return Decoded(run, None)


# -- mma ----------------------------------------------------------------------------------------------------

_FP8 = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}
_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f64": 64, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8}
# Shape and operand type that exist for the targets simulated here (PTX ISA 8.0, table 34).
_SHAPES = {
    "f16": {(16, 8, 8), (16, 8, 16)},
    "bf16": {(16, 8, 8), (16, 8, 16)},
    "tf32": {(16, 8, 4), (16, 8, 8)},
    "f64": {(8, 8, 4), (16, 8, 4), (16, 8, 8), (16, 8, 16)},
    "s8": {(8, 8, 16), (16, 8, 16), (16, 8, 32)},
    "u8": {(8, 8, 16), (16, 8, 16), (16, 8, 32)},
    "e4m3": {(16, 8, 16), (16, 8, 32)},
    "e5m2": {(16, 8, 16), (16, 8, 32)},
}


def to_float(words: Array, kind: str) -> Array:
    """Packed registers [..., n] of 32 or 64 bits as floats [..., n * elements], exactly."""
    if kind == "bf16":
        return (words.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
    if kind == "tf32":
        return (words & np.uint32(0xFFFFE000)).view(np.float32)
    if kind == "f64":
        return words.view(np.float64)
    if kind in _FP8:
        small: Array = words.view(_FP8[kind]).astype(np.float32)
        return small
    return words.view({"f16": np.float16, "s8": np.int8, "u8": np.uint8}[kind]).astype(np.float32)


@functools.cache
def operand_order(rows: int, depth: int, per: int, blocks: int) -> Array:
    """For the matrix entry (row, k): its position in the warp's flattened fragment [lane, register, element].

    `blocks` is how many groups of 8 rows a lane's registers alternate between (2 for A with 16 rows, else 1).
    """
    row, k = np.meshgrid(np.arange(rows), np.arange(depth), indexing="ij")
    lane = row % 8 * 4 + k // per % 4
    register = row // 8 + blocks * (k // (4 * per))
    registers = blocks * depth // (4 * per)
    order: Array = (lane * registers + register) * per + k % per
    return order


@functools.cache
def result_order(rows: int) -> Array:
    """For element i of a lane: its position in the flattened result [row, 8 columns], as [lane, element]."""
    element = np.arange(rows // 4)[None, :]
    lane = _LANE[:, None]
    order: Array = (lane // 4 + 8 * (element // 2)) * 8 + lane % 4 * 2 + element % 2
    return order


@instruction("mma", kind=Kind.WARP)
def _multiply(ins: Instruction, linker: Linker) -> Decoded:
    """mma.sync.aligned.shape.row.col.d.a.b.c (PTX ISA 8.0, 9.7.13.4.14)."""
    shape = next((re.fullmatch(r"m(\d+)n(\d+)k(\d+)", mod) for mod in ins.mods if mod.startswith("m")), None)
    types = [mod for mod in ins.mods if mod in _BITS or mod in ("f32", "s32")]
    if shape is None or len(types) != 4 or "sync" not in ins.mods or ins.mods[3:5] != ("row", "col"):
        raise error(ins, f"unsupported form {ins.opcode}")
    rows, columns, depth = (int(number) for number in shape.groups())
    d_kind, a_kind, b_kind, c_kind = types
    if (rows, columns, depth) not in _SHAPES.get(a_kind, ()):
        raise error(ins, f"unsupported shape {shape.group()} for .{a_kind}")
    per = max(1, 32 // _BITS[a_kind])
    a_order = operand_order(rows, depth, per, rows // 8)
    b_order = operand_order(columns, depth, per, 1)
    word = "b64" if a_kind == "f64" else "b32"
    a_regs, b_regs = ([read(item, word, ins, linker) for item in _items(each, ins)] for each in ins.operands[1:3])
    if len(a_regs) * 32 * per != a_order.size or len(b_regs) * 32 * per != b_order.size:
        raise error(ins, "the operands have another number of registers than the shape needs")
    c_items, d_items = _items(ins.operands[3], ins), _items(ins.operands[0], ins)
    c_regs = [read(item, "b32" if c_kind == "f16" else c_kind, ins, linker) for item in c_items]
    d_regs = [write(item, "b32" if d_kind == "f16" else d_kind, ins, linker) for item in d_items]
    out = result_order(rows)
    for kind, regs in ((c_kind, c_items), (d_kind, d_items)):
        if len(regs) * (2 if kind == "f16" else 1) != out.shape[1]:
            raise error(ins, "the accumulator has another number of registers than the shape needs")
    finish = _accumulate(d_kind, c_kind, "satfinite" in ins.mods)
    site = linker.site(ins)
    fresh = np.float64 if a_kind == "f64" else np.float32

    def run(m: Machine, sel: Sel) -> None:
        warps = _full_warps(m, sel, ins, site)
        a = to_float(np.stack([each(m, sel) for each in a_regs], axis=1), a_kind).reshape(warps, -1)
        b = to_float(np.stack([each(m, sel) for each in b_regs], axis=1), b_kind).reshape(warps, -1)
        product = np.matmul(a[:, a_order], b[:, b_order].transpose(0, 2, 1), dtype=fresh)
        terms = product.reshape(warps, -1)[:, out].reshape(warps * 32, -1)
        c = np.stack([per_thread(each(m, sel), sel) for each in c_regs], axis=1)
        result = finish(terms, c)
        for index, writer in enumerate(d_regs):
            writer(m, sel, np.ascontiguousarray(result[:, index]))

    return Decoded(run, None)


def _accumulate(d_kind: str, c_kind: str, satfinite: bool) -> Callable[[Array, Array], Array]:
    """Add the accumulator [threads, registers] to the products [threads, elements]."""
    if d_kind == "s32":

        def integers(terms: Array, c: Array) -> Array:
            total = terms.astype(np.int64) + c.astype(np.int64)
            if satfinite:
                total = np.clip(total, -(1 << 31), (1 << 31) - 1)
            return total.astype(np.int32)

        return integers

    def floats(terms: Array, c: Array) -> Array:
        start = np.ascontiguousarray(c).view(np.float16).astype(np.float32) if c_kind == "f16" else c
        total: Array = terms + start
        return total.astype(np.float16).view(np.uint32) if d_kind == "f16" else total

    return floats
