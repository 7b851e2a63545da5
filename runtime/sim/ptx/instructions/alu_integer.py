"""Integer and bit instructions, selection and moves (PTX ISA 8.0, 9.7.1, 9.7.2, 9.7.5 to 9.7.8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ...core.bits import NONE, count_ones, leading_zeros, reverse_bits, without_sign, zeros_above
from ...core.scalars import DTYPES, FLOATS, SIGNED, SIZES, UNSIGNED, Array, Sel, is_signed, some, where
from ..operands import Read, Write, error, per_thread, read, write
from ..program import Linker
from ..syntax import Instruction
from ..table import Handler, instruction

if TYPE_CHECKING:
    from ..machine import Machine

Function = Callable[..., Array]


def sources(ins: Instruction, linker: Linker, kinds: list[str]) -> list[Read]:
    """Readers of the operands behind the destination."""
    if len(ins.operands) != len(kinds) + 1:
        raise error(ins, f"{ins.name} takes {len(kinds) + 1} operands here, not {len(ins.operands)}")
    return [read(operand, kind, ins, linker) for operand, kind in zip(ins.operands[1:], kinds, strict=True)]


def apply(function: Function, readers: list[Read], writer: Write) -> Handler:
    """A handler that computes `function` of the sources; spelt out by arity because it runs so often."""
    if len(readers) == 1:
        (a,) = readers
        return lambda m, sel: writer(m, sel, function(a(m, sel)))
    if len(readers) == 2:
        a, b = readers
        return lambda m, sel: writer(m, sel, function(a(m, sel), b(m, sel)))
    if len(readers) == 3:
        a, b, c = readers
        return lambda m, sel: writer(m, sel, function(a(m, sel), b(m, sel), c(m, sel)))
    return lambda m, sel: writer(m, sel, function(*(each(m, sel) for each in readers)))


# -- arithmetic ----------------------------------------------------------------------------------------------------


def saturating(function: Function, low: int, high: int) -> Function:
    """The function computed in 64 bits and clamped (add.sat.s32, PTX ISA 8.0, 9.7.1.1)."""
    return lambda *args: np.clip(function(*(each.astype(np.int64) for each in args)), low, high).astype(np.int32)


def divide(a: Array, b: Array) -> Array:
    """Quotient rounded toward zero; division by zero gives all ones (the ISA leaves it open)."""
    safe = np.where(b == 0, np.ones_like(b), b)
    quotient = (a - np.fmod(a, safe)) // safe
    return where(b == 0, ~np.zeros_like(quotient), quotient)


def remainder(a: Array, b: Array) -> Array:
    """Remainder with the dividend's sign."""
    return where(b == 0, a, np.fmod(a, np.where(b == 0, np.ones_like(b), b)))


def multiply_high(a: Array, b: Array) -> Array:
    """The upper half of the product."""
    size = np.asarray(a).dtype.itemsize
    if size < 8:
        wide = (SIGNED if np.asarray(a).dtype.kind == "i" else UNSIGNED)[2 * size]
        product = a.astype(wide) * b.astype(wide)
        upper: Array = (product >> wide.type(8 * size)).astype(np.asarray(a).dtype)
        return upper
    x, y = a.view(np.uint64), b.view(np.uint64)
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    x0, x1, y0, y1 = x & low, x >> half, y & low, y >> half
    middle = x1 * y0 + (x0 * y0 >> half)
    high: Array = x1 * y1 + (middle >> half) + ((middle & low) + x0 * y1 >> half)
    if np.asarray(a).dtype.kind == "i":
        high = high - np.where(a < 0, y, np.uint64(0)) - np.where(b < 0, x, np.uint64(0))
    return high.view(np.asarray(a).dtype)


def widened(kind: str) -> str:
    """The type of twice the width."""
    return f"{kind[0]}{16 * SIZES[kind]}"


def integer_multiply(ins: Instruction, linker: Linker, adds: bool) -> Handler:
    """mul and mad with .lo, .hi and .wide."""
    kind = ins.mods[-1]
    part = ins.mods[0]
    result = widened(kind) if part == "wide" else kind
    dtype = DTYPES[result]
    readers = sources(ins, linker, [kind, kind] + ([result] if adds else []))

    def product(a: Array, b: Array) -> Array:
        if part == "hi":
            return multiply_high(a, b)
        whole: Array = a.astype(dtype) * b.astype(dtype)
        return whole

    function: Function = (lambda a, b, c: product(a, b) + c) if adds else product
    if adds and "sat" in ins.mods:
        function = saturating(lambda a, b, c: (a * b >> np.int64(32)) + c, -(1 << 31), (1 << 31) - 1)
    return apply(function, readers, write(ins.operands[0], result, ins, linker))


INTEGER: dict[str, Function] = {
    "add": np.add,
    "sub": np.subtract,
    "div": divide,
    "rem": remainder,
    "min": np.minimum,
    "max": np.maximum,
    "abs": np.abs,
    "neg": np.negative,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
}


def integer(ins: Instruction, linker: Linker) -> Handler:
    """The instructions of `INTEGER`: every operand has the instruction's type."""
    kind = ins.mods[-1]
    if kind in ("u16x2", "s16x2"):
        return _halves(ins, linker, kind)
    function = INTEGER[ins.name]
    if "sat" in ins.mods:
        function = saturating(function, -(1 << 31), (1 << 31) - 1)
    arity = 1 if ins.name in ("abs", "neg", "not") else 2
    return apply(function, sources(ins, linker, [kind] * arity), write(ins.operands[0], kind, ins, linker))


def _halves(ins: Instruction, linker: Linker, kind: str) -> Handler:
    function = INTEGER[ins.name]
    half = DTYPES[kind[:3]]

    def packed(*args: Array) -> Array:
        words = np.broadcast_arrays(*args)
        result = function(*(np.ascontiguousarray(each).view(half) for each in words))
        return result.view(np.uint32)

    return apply(packed, sources(ins, linker, ["b32", "b32"]), write(ins.operands[0], "b32", ins, linker))


@instruction("and", "or", "xor", "not", "rem")
def _bitwise(ins: Instruction, linker: Linker) -> Handler:
    return integer(ins, linker)


@instruction("cnot")
def _logical_not(ins: Instruction, linker: Linker) -> Handler:
    kind = ins.mods[-1]
    zero = DTYPES[kind].type(0)
    function: Function = lambda a: (a == zero).astype(DTYPES[kind])  # noqa: E731
    return apply(function, sources(ins, linker, [kind]), write(ins.operands[0], kind, ins, linker))


@instruction("mul24", "mad24")
def _multiply24(ins: Instruction, linker: Linker) -> Handler:
    kind = ins.mods[-1]
    shift = np.int64(16 if ins.mods[0] == "hi" else 0)

    def function(a: Array, b: Array, c: Array | None = None) -> Array:
        x, y = (each.astype(np.int64) << np.int64(40) for each in (a, b))
        if kind == "s32":
            x, y = x >> np.int64(40), y >> np.int64(40)
        else:
            x, y = ((each.view(np.uint64) >> np.uint64(40)).view(np.int64) for each in (x, y))
        product = (x * y >> shift).astype(np.uint32).view(DTYPES[kind])
        return product if c is None else product + c

    arity = 2 if ins.name == "mul24" else 3
    return apply(function, sources(ins, linker, [kind] * arity), write(ins.operands[0], kind, ins, linker))


@instruction("sad")
def _absolute_difference(ins: Instruction, linker: Linker) -> Handler:
    kind = ins.mods[-1]
    function: Function = lambda a, b, c: c + np.where(a < b, b - a, a - b)  # noqa: E731
    return apply(function, sources(ins, linker, [kind] * 3), write(ins.operands[0], kind, ins, linker))


@instruction("dp4a", "dp2a")
def _dot(ins: Instruction, linker: Linker) -> Handler:
    """Four-way byte products, or two 16-bit values times two bytes (PTX ISA 8.0, 9.7.1.23)."""
    akind, bkind = ins.mods[-2:]
    bytes_b = DTYPES[bkind[0] + "8"]
    elem_a = DTYPES[akind[0] + ("8" if ins.name == "dp4a" else "16")]
    result = "s32" if "s32" in (akind, bkind) else "u32"
    skip = 2 if ins.mods[0] == "hi" else 0

    def function(a: Array, b: Array, c: Array) -> Array:
        a, b = (np.ascontiguousarray(each) for each in np.broadcast_arrays(a, b))
        x = a.view(elem_a).reshape(len(a), -1).astype(np.int64)
        y = b.view(bytes_b).reshape(len(a), -1).astype(np.int64)[:, skip : skip + x.shape[1]]
        total: Array = (x * y).sum(axis=1) + c.astype(np.int64)
        return total.astype(DTYPES[result])

    return apply(function, sources(ins, linker, ["b32", "b32", result]), write(ins.operands[0], result, ins, linker))


# -- carries ----------------------------------------------------------------------------------------------------


def carrying(ins: Instruction, linker: Linker) -> Handler:
    """add.cc, addc, sub.cc, subc, mad.lo.cc, mad.hi.cc, madc (PTX ISA 8.0, 9.7.2)."""
    kind = ins.mods[-1].replace("s", "u")
    if kind not in ("u32", "u64"):
        raise error(ins, f"unsupported type .{ins.mods[-1]}")
    keep, takes = "cc" in ins.mods, ins.name in ("addc", "subc", "madc")
    subtract = ins.name in ("sub", "subc")
    multiply = ins.name in ("mad", "madc")
    dtype = DTYPES[kind]
    signed = DTYPES[ins.mods[-1]]
    readers = sources(ins, linker, [kind] * (3 if multiply else 2))
    writer = write(ins.operands[0], kind, ins, linker)
    high = "hi" in ins.mods

    def run(m: Machine, sel: Sel) -> None:
        values = [per_thread(each(m, sel), sel) for each in readers]
        if multiply:
            x, y = (np.ascontiguousarray(each) for each in values[:2])
            product = multiply_high(x.view(signed), y.view(signed)).view(dtype) if high else x * y
            values = [product, values[2]]
        a, b = values
        carry = m.carry[sel].astype(dtype) if takes else dtype.type(0)
        if subtract:
            result = a - b - carry
            out = (a < b) | ((a == b) & (carry != 0))
        else:
            result = a + b + carry
            out = (result < a) | ((carry != 0) & (result == a))
        if keep:
            m.carry[sel] = out
        writer(m, sel, result)

    return run


@instruction("addc", "subc", "madc")
def _with_carry(ins: Instruction, linker: Linker) -> Handler:
    return carrying(ins, linker)


# -- shifts and bit fields -------------------------------------------------------------------------------------------


@instruction("shl", "shr")
def _shift(ins: Instruction, linker: Linker) -> Handler:
    kind = ins.mods[-1]
    dtype = DTYPES[kind]
    bits = 8 * dtype.itemsize
    left = ins.name == "shl"

    def function(a: Array, b: Array) -> Array:
        amount = np.minimum(b, np.uint32(bits - 1)).astype(dtype)
        shifted: Array = np.left_shift(a, amount) if left else np.right_shift(a, amount)
        over = b >= bits
        if (not is_signed(kind) and some(over)) or (left and some(over)):
            shifted = np.where(over, dtype.type(0), shifted)
        return shifted

    return apply(function, sources(ins, linker, [kind, "u32"]), write(ins.operands[0], kind, ins, linker))


@instruction("shf")
def _funnel(ins: Instruction, linker: Linker) -> Handler:
    left, wrap = "l" in ins.mods, "wrap" in ins.mods

    def function(a: Array, b: Array, c: Array) -> Array:
        amount = (c & np.uint32(31) if wrap else np.minimum(c, np.uint32(32))).astype(np.uint64)
        both = (b.astype(np.uint64) << np.uint64(32)) | a.astype(np.uint64)
        shifted = both << amount >> np.uint64(32) if left else both >> amount
        return shifted.astype(np.uint32)

    return apply(function, sources(ins, linker, ["b32"] * 3), write(ins.operands[0], "b32", ins, linker))


@instruction("bfe")
def _extract(ins: Instruction, linker: Linker) -> Handler:
    """Bit field extract with the sign of the field's top bit for signed types (PTX ISA 8.0, 9.7.1.19)."""
    kind = ins.mods[-1]
    bits = 8 * SIZES[kind]

    def function(a: Array, b: Array, c: Array) -> Array:
        start, length = (b & np.uint32(0xFF)).astype(np.int64), (c & np.uint32(0xFF)).astype(np.int64)
        top = np.minimum(start + length - 1, bits - 1)
        word = a.view(UNSIGNED[SIZES[kind]]).astype(np.uint64)
        shifted = np.where(start < 64, word >> np.minimum(start, 63).astype(np.uint64), np.uint64(0))
        short = np.where(length >= 64, 63, length).astype(np.uint64)
        mask = np.where(length >= 64, ~np.uint64(0), (np.uint64(1) << short) - np.uint64(1))
        field = shifted & mask
        if is_signed(kind):
            sign = (word >> np.maximum(top, 0).astype(np.uint64)) & np.uint64(1)
            have = np.clip(bits - start, 0, np.minimum(length, bits))
            low = np.where(
                have >= 64, ~np.uint64(0), (np.uint64(1) << np.minimum(have, 63).astype(np.uint64)) - np.uint64(1)
            )
            field = np.where((sign != 0) & (length > 0), (field & low) | ~low, field)
        return field.astype(UNSIGNED[SIZES[kind]]).view(DTYPES[kind])

    return apply(function, sources(ins, linker, [kind, "u32", "u32"]), write(ins.operands[0], kind, ins, linker))


@instruction("bfi")
def _insert(ins: Instruction, linker: Linker) -> Handler:
    kind = ins.mods[-1]
    dtype = DTYPES[kind]
    bits = 8 * dtype.itemsize

    def function(a: Array, b: Array, c: Array, d: Array) -> Array:
        start, length = (c & np.uint32(0xFF)).astype(np.uint64), (d & np.uint32(0xFF)).astype(np.uint64)
        ones = np.where(
            length >= bits, ~np.uint64(0), (np.uint64(1) << np.minimum(length, np.uint64(63))) - np.uint64(1)
        )
        mask = np.where(start < bits, ones << np.minimum(start, np.uint64(63)), np.uint64(0))
        moved = a.astype(np.uint64) << np.minimum(start, np.uint64(63))
        return ((b.astype(np.uint64) & ~mask) | (moved & mask)).astype(dtype)

    return apply(function, sources(ins, linker, [kind, kind, "u32", "u32"]), write(ins.operands[0], kind, ins, linker))


def _find_leading(ins: Instruction, a: Array) -> Array:
    above = zeros_above(without_sign(a) if a.dtype.kind == "i" else a)
    top = np.uint32(8 * a.dtype.itemsize - 1)
    return above if "shiftamt" in ins.mods else where(above == NONE, NONE, top - above)


@instruction("popc", "clz", "brev", "bfind")
def _count_bits(ins: Instruction, linker: Linker) -> Handler:
    kind = ins.mods[-1]
    result = kind if ins.name == "brev" else "u32"
    functions: dict[str, Function] = {
        "popc": count_ones,
        "clz": leading_zeros,
        "brev": reverse_bits,
        "bfind": lambda a: _find_leading(ins, a),
    }
    inner = functions[ins.name]
    function: Function = lambda a: inner(np.atleast_1d(a))  # noqa: E731
    return apply(function, sources(ins, linker, [kind]), write(ins.operands[0], result, ins, linker))


@instruction("bmsk")
def _mask(ins: Instruction, linker: Linker) -> Handler:
    wrap = "wrap" in ins.mods

    def function(a: Array, b: Array) -> Array:
        start, length = a.astype(np.uint64), b.astype(np.uint64)
        if wrap:
            start, length = start & np.uint64(31), length & np.uint64(31)
        start, length = np.minimum(start, np.uint64(32)), np.minimum(length, np.uint64(32))
        return ((((np.uint64(1) << length) - np.uint64(1)) << start) & np.uint64(0xFFFFFFFF)).astype(np.uint32)

    return apply(function, sources(ins, linker, ["u32", "u32"]), write(ins.operands[0], "u32", ins, linker))


@instruction("lop3")
def _logic3(ins: Instruction, linker: Linker) -> Handler:
    """Any function of three bits, given by its truth table (PTX ISA 8.0, 9.7.7.6)."""
    *inputs, table = sources(ins, linker, ["b32", "b32", "b32", "u32"])

    def function(a: Array, b: Array, c: Array, lut: Array) -> Array:
        code = int(np.atleast_1d(lut)[0])
        result: Array = np.zeros(np.broadcast_shapes(a.shape, b.shape, c.shape), np.uint32)
        for row in range(8):
            if code >> row & 1:
                terms = [x if row >> bit & 1 else ~x for x, bit in ((a, 2), (b, 1), (c, 0))]
                result = result | (terms[0] & terms[1] & terms[2])
        return result

    return apply(function, [*inputs, table], write(ins.operands[0], "b32", ins, linker))


_PERMUTE_MODES: dict[str, list[list[int]]] = {
    "f4e": [[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5], [3, 4, 5, 6]],
    "b4e": [[0, 7, 6, 5], [1, 0, 7, 6], [2, 1, 0, 7], [3, 2, 1, 0]],
    "rc8": [[0] * 4, [1] * 4, [2] * 4, [3] * 4],
    "ecl": [[0, 1, 2, 3], [1, 1, 2, 3], [2, 2, 2, 3], [3, 3, 3, 3]],
    "ecr": [[0, 0, 0, 0], [0, 1, 1, 1], [0, 1, 2, 2], [0, 1, 2, 3]],
    "rc16": [[0, 1, 0, 1], [2, 3, 2, 3], [0, 1, 0, 1], [2, 3, 2, 3]],
}


@instruction("prmt")
def _permute(ins: Instruction, linker: Linker) -> Handler:
    """Pick four of the eight bytes of {b, a} (PTX ISA 8.0, 9.7.8.7)."""
    table = next((np.array(_PERMUTE_MODES[mod]) for mod in ins.mods if mod in _PERMUTE_MODES), None)

    def function(a: Array, b: Array, c: Array) -> Array:
        a, b, c = np.broadcast_arrays(np.atleast_1d(a), b, c)
        data = np.stack([a, b], axis=1).view(np.uint8).reshape(len(a), 8)
        if table is not None:
            index = table[(c & np.uint32(3)).astype(np.int64)]
            picked = np.take_along_axis(data, index, axis=1)
        else:
            choice = (c[:, None] >> np.array([0, 4, 8, 12], np.uint32)).astype(np.int64)
            picked = np.take_along_axis(data, choice & 7, axis=1)
            picked = np.where(choice & 8, np.where(picked & 0x80, np.uint8(0xFF), np.uint8(0)), picked)
        return np.ascontiguousarray(picked).view(np.uint32)[:, 0]

    return apply(function, sources(ins, linker, ["b32"] * 3), write(ins.operands[0], "b32", ins, linker))


# -- moves and selection ---------------------------------------------------------------------------------------------


@instruction("mov")
def _move(ins: Instruction, linker: Linker) -> Handler:
    kind = ins.mods[-1]
    target, (source,) = write(ins.operands[0], kind, ins, linker), sources(ins, linker, [kind])
    return lambda m, sel: target(m, sel, source(m, sel))


@instruction("selp")
def _select(ins: Instruction, linker: Linker) -> Handler:
    kind = ins.mods[-1]
    kind = f"b{8 * SIZES[kind]}" if kind in FLOATS else kind
    function: Function = lambda a, b, p: where(p, a, b)  # noqa: E731
    return apply(function, sources(ins, linker, [kind, kind, "pred"]), write(ins.operands[0], kind, ins, linker))


@instruction("slct")
def _select_by_sign(ins: Instruction, linker: Linker) -> Handler:
    kind, by = ins.mods[-2], ins.mods[-1]
    kind = f"b{8 * SIZES[kind]}" if kind in FLOATS else kind
    zero = DTYPES[by].type(0)
    function: Function = lambda a, b, c: where(c >= zero, a, b)  # noqa: E731
    return apply(function, sources(ins, linker, [kind, kind, by]), write(ins.operands[0], kind, ins, linker))
