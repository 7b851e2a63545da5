"""Readers and writers of operands.

Decoding turns each operand into a closure over its register slot or constant. A reader gives the values of the
selected threads as an array of the instruction's type (or a scalar for constants), a writer stores them. Sources wider
than the instruction's type are cut; results narrower than their register are sign- or zero-extended by the
instruction's type (PTX ISA 8.0, 9.4.1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.errors import SimulationError
from ..core.scalars import DTYPES, FLOATS, SIGNED, UNSIGNED, Array, Sel, is_signed
from .syntax import Address, Float, Instruction, Integer, Not, Operand, Register, Sink, Special, Symbol, Vector

if TYPE_CHECKING:
    from .machine import Machine
    from .program import Linker

Read = Callable[["Machine", Sel], Array]
Write = Callable[["Machine", Sel, Any], None]


def error(ins: Instruction, message: str) -> SimulationError:
    """A `SimulationError` at this instruction."""
    return SimulationError(message, ins.line, ins.text)


def count(sel: Sel) -> int:
    """How many threads are selected."""
    return sel.stop - sel.start if isinstance(sel, slice) else len(sel)


def per_thread(value: Array, sel: Sel) -> Array:
    """A source as one value a thread: constants come from readers as scalars."""
    return value if value.ndim else np.full(count(sel), value)


def constant(value: int | float, dtype: np.dtype[Any]) -> Array:
    """A constant as a scalar of this type; integers wrap, and integers given for floats are their bits or value."""
    if dtype.kind in "iu":
        bits = int(value) & ((1 << 8 * dtype.itemsize) - 1)
        scalar: Array = UNSIGNED[dtype.itemsize].type(bits).view(dtype)
        return scalar
    return dtype.type(value)  # type: ignore[no-any-return]


def read(operand: Operand, kind: str, ins: Instruction, linker: Linker) -> Read:
    """A reader of this source operand as PTX type `kind`."""
    dtype = DTYPES.get(kind)
    if dtype is None:
        raise error(ins, f"unsupported type .{kind}")
    if isinstance(operand, Register):
        return _read_register(operand, dtype, ins)
    if isinstance(operand, Integer):
        if kind == "pred":
            value: Array = np.bool_(operand.value != 0)  # type: ignore[assignment]
        elif kind in FLOATS:
            # An integer literal in a float instruction: only its value can be meant.
            value = constant(float(operand.value), dtype)
        else:
            value = constant(operand.value, dtype)
        return lambda m, sel: value
    if isinstance(operand, Float):
        number = operand.value
        if dtype.kind == "b" or (dtype.kind in "iu" and dtype.itemsize not in (4, 8)):
            raise error(ins, f"a floating-point constant is no .{kind}")
        if dtype.kind in "iu":
            bits = np.float32(number).view(np.uint32) if dtype.itemsize == 4 else np.float64(number).view(np.uint64)
            fixed = bits.view(dtype)
        else:
            fixed = dtype.type(number)
        return lambda m, sel: fixed
    if isinstance(operand, Special):
        return _read_special(operand.name, dtype)
    if isinstance(operand, Symbol):
        address = constant(linker.address(operand, ins), dtype)
        if linker.variable(operand, ins).space != "shared":
            return lambda m, sel: address
        return lambda m, sel: address if m.window is None else address + m.window[sel].astype(dtype)
    if isinstance(operand, Not):
        if dtype.kind != "b":
            raise error(ins, f"!{operand.operand.name} is a predicate: predicates do not mix with other types")
        inner = operand.operand.slot
        return lambda m, sel: ~m.regs[inner][sel]
    if isinstance(operand, Vector):
        return _read_packed(operand, dtype, ins, linker)
    raise error(ins, "unsupported source operand")


def _read_register(register: Register, dtype: np.dtype[Any], ins: Instruction) -> Read:
    if register.kind not in DTYPES:
        raise error(ins, f"unsupported type .{register.kind}")
    slot, stored = register.slot, DTYPES[register.kind].itemsize
    if register.kind == "pred" or dtype.kind == "b":
        if register.kind != "pred" or dtype.kind != "b":
            raise error(ins, f"{register.name} is .{register.kind}: predicates do not mix with other types")
        return lambda m, sel: m.regs[slot][sel]
    if stored == dtype.itemsize:
        if dtype.kind == "u" or dtype == DTYPES["b128"]:
            return lambda m, sel: m.regs[slot][sel]
        return lambda m, sel: m.regs[slot][sel].view(dtype)
    if stored < dtype.itemsize:
        raise error(ins, f"{register.name} is .{register.kind}, too narrow for this instruction")
    if register.kind == "b128":
        raise error(ins, f"{register.name} is .b128, which is only moved as a whole")
    narrow = UNSIGNED[dtype.itemsize]
    return lambda m, sel: m.regs[slot][sel].astype(narrow).view(dtype)


def _read_special(name: str, dtype: np.dtype[Any]) -> Read:
    def reader(m: Machine, sel: Sel) -> Array:
        return m.special(name)[sel].astype(dtype)

    return reader


def _part_size(vector: Vector, dtype: np.dtype[Any], ins: Instruction) -> int:
    """The bytes of each part of a word that is put together from a vector."""
    count = len(vector.items)
    if dtype.kind == "b" or count not in (2, 4, 8) or dtype.itemsize < count:
        raise error(ins, f"{count} elements do not make up this instruction's type")
    if any(isinstance(item, Vector) for item in vector.items):
        raise error(ins, "a vector has no vectors in it")
    return dtype.itemsize // count


def _read_packed(vector: Vector, dtype: np.dtype[Any], ins: Instruction, linker: Linker) -> Read:
    """`{a, b}` as one word, the first element in the lowest bits (PTX ISA 8.0, 9.7.8.2, mov)."""
    size = _part_size(vector, dtype, ins)
    parts = [read(item, f"b{8 * size}", ins, linker) for item in vector.items]
    if dtype == DTYPES["b128"]:
        return lambda m, sel: np.stack([per_thread(part(m, sel), sel) for part in parts], axis=-1).view(dtype)[:, 0]
    word = UNSIGNED[dtype.itemsize]

    def reader(m: Machine, sel: Sel) -> Array:
        total = parts[0](m, sel).astype(word)
        for index, part in enumerate(parts[1:], 1):
            total = total | (part(m, sel).astype(word) << word.type(8 * size * index))
        return total.view(dtype)

    return reader


def write(operand: Operand, kind: str, ins: Instruction, linker: Linker) -> Write:
    """A writer of this destination operand, taking values of PTX type `kind`."""
    if isinstance(operand, Sink):
        return _discard
    if isinstance(operand, Vector):
        return _write_unpacked(operand, kind, ins, linker)
    if not isinstance(operand, Register):
        raise error(ins, "the destination must be a register")
    if operand.kind not in DTYPES:
        raise error(ins, f"unsupported type .{operand.kind}")
    slot, dtype = operand.slot, DTYPES[kind]
    if (operand.kind == "pred") != (kind == "pred"):
        raise error(ins, f"{operand.name} is .{operand.kind}: predicates do not mix with other types")
    stored = DTYPES[operand.kind].itemsize
    if operand.kind == "b128" and kind != "b128":
        raise error(ins, f"{operand.name} is .b128, which is only moved as a whole")
    word = DTYPES[operand.kind] if kind in ("pred", "b128") else UNSIGNED[stored]

    def same(m: Machine, sel: Sel, value: Array) -> None:
        m.regs[slot][sel] = value.view(word)

    def wider(m: Machine, sel: Sel, value: Array) -> None:
        m.regs[slot][sel] = value.astype(extended).view(word)

    if stored == dtype.itemsize:
        return same
    if stored < dtype.itemsize:
        raise error(ins, f"{operand.name} is .{operand.kind}, too narrow for .{kind}")
    if dtype.kind not in "iu":
        bits = UNSIGNED[dtype.itemsize]
        return lambda m, sel, value: m.regs[slot].__setitem__(sel, value.view(bits).astype(word))
    extended = (SIGNED if is_signed(kind) else UNSIGNED)[stored]
    return wider


def _discard(m: Machine, sel: Sel, value: Array) -> None:
    """The bit bucket."""


def _write_unpacked(vector: Vector, kind: str, ins: Instruction, linker: Linker) -> Write:
    size = _part_size(vector, DTYPES[kind], ins)
    parts = [write(item, f"b{8 * size}", ins, linker) for item in vector.items]
    if kind == "b128":

        def wide(m: Machine, sel: Sel, value: Any) -> None:
            pieces = np.ascontiguousarray(value).view(UNSIGNED[size]).reshape(-1, len(parts))
            for index, part in enumerate(parts):
                part(m, sel, np.ascontiguousarray(pieces[:, index]))

        return wide
    word, narrow = UNSIGNED[DTYPES[kind].itemsize], UNSIGNED[size]

    def writer(m: Machine, sel: Sel, value: Array) -> None:
        bits = value.view(word)
        pieces = [(bits >> word.type(8 * size * index)).astype(narrow) for index in range(len(parts))]
        for part, piece in zip(parts, pieces, strict=True):
            part(m, sel, piece)

    return writer


def address(operand: Operand, ins: Instruction, linker: Linker) -> Read:
    """A reader of the byte address that `[base+offset]` stands for, as int64 per selected thread."""
    if not isinstance(operand, Address):
        raise error(ins, "expected an address in brackets")
    base, offset = operand.base, np.int64(operand.offset)
    if isinstance(base, Register) and DTYPES.get(base.kind, DTYPES["pred"]).kind != "u":
        raise error(ins, f"{base.name} is .{base.kind}: no address")
    if isinstance(base, Register):
        reg = _read_register(base, DTYPES["b64" if DTYPES[base.kind].itemsize == 8 else "b32"], ins)
        if DTYPES[base.kind].itemsize == 8:
            return lambda m, sel: reg(m, sel).view(np.int64) + offset
        return lambda m, sel: reg(m, sel).astype(np.int64) + offset
    fixed = base.value if isinstance(base, Integer) else linker.address(base, ins)
    shared = isinstance(base, Symbol) and linker.variable(base, ins).space == "shared"

    def reader(m: Machine, sel: Sel) -> Array:
        here = np.full(count(sel), fixed + offset, np.int64)
        return here if m.window is None or not shared else here + m.window[sel]

    return reader
