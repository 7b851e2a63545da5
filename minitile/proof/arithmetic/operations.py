"""Arithmetic besides what tests of loops and addresses are mostly made of: exact on numbers of a known width, a symbol
of what is one for the launch, else only whether it is one for the warp (PTX ISA 9.0, chapter 9.7).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from minitile.proof.arithmetic.values import (
    TOP,
    UNIFORM,
    Among,
    Value,
    binary,
    by_lane,
    launch_wide,
    made,
    rounds,
    signed,
    uniform,
)

Exact = Callable[..., int]
# Of these the result hangs on more than the operands (a carry), or on other lanes.
_NOT_PURE = (
    *("ld", "shfl", "elect", "vote", "redux", "match", "activemask", "mma", "cvta", "mapa"),
    *("addc", "subc", "madc"),
)
_REAL = re.compile(r"0[fd][0-9a-fA-F]+|-?\d+\.\d*(?:[eE][-+]?\d+)?")


def _field(a: int, at: int, size: int, width: int, is_signed: bool) -> int:
    """bfe: `size` bits from bit `at`, the last one copied to the left if signed."""
    at, size = at & 255, size & 255
    out = (a >> at) & ((1 << size) - 1) if at < width else 0
    top = min(at + size - 1, width - 1)
    if is_signed and size and a >> top & 1:
        kept = max(min(size, width - at), 0)
        out |= ((1 << width) - 1) & ~((1 << kept) - 1)
    return out & ((1 << width) - 1)


def _inserted(a: int, b: int, at: int, size: int, width: int) -> int:
    """bfi: `size` bits of a at bit `at` of b."""
    at, size = at & 255, size & 255
    mask = (((1 << size) - 1) << at) & ((1 << width) - 1)
    return (b & ~mask) | ((a << at) & mask)


def _permuted(a: int, b: int, select: int) -> int:
    """prmt without a mode: four bytes of b:a, each by four bits, of which the highest asks for the byte's sign."""
    both, out = b << 32 | a, 0
    for n in range(4):
        pick = select >> 4 * n & 15
        byte = both >> 8 * (pick & 7) & 255
        out |= (255 * (byte >> 7) if pick & 8 else byte) << 8 * n
    return out


def _looked_up(a: int, b: int, c: int, table: int) -> int:
    """lop3: bit by bit, by a table of 8 bits."""
    out = 0
    for n in range(8):
        if table >> n & 1:
            x, y, z = (v if n >> k & 1 else ~v for v, k in ((a, 2), (b, 1), (c, 0)))
            out |= x & y & z
    return out & 0xFFFFFFFF


def _funnel(left: bool, wrap: bool, a: int, b: int, by: int) -> int:
    """shf: 32 bits of b:a, shifted."""
    by = by & 31 if wrap else min(by, 32)
    both = b << 32 | a
    return (both << by >> 32 if left else both >> by) & 0xFFFFFFFF


@lru_cache(maxsize=1024)
def _exact(op: str) -> Exact | None:
    """What an operation gives for numbers, which are taken modulo 2 to their width; None: not known."""
    name, _, kind = op.rpartition(".")
    width, is_signed = (int(kind[1:]), kind[0] == "s") if re.fullmatch(r"[bsu](?:16|32|64)", kind) else (0, False)
    if name == "bfe" and kind in ("s32", "s64", "u32", "u64"):
        return lambda a, at, size: _field(a, at, size, width, is_signed)
    if name == "bfi" and kind in ("b32", "b64"):
        return lambda a, b, at, size: _inserted(a, b, at, size, width)
    if name in ("shf.l.wrap", "shf.l.clamp", "shf.r.wrap", "shf.r.clamp") and kind == "b32":
        return lambda a, b, by: _funnel(".l." in name, "wrap" in name, a, b, by)
    if name == "not" and width and kind[0] == "b":
        return lambda a: ~a & ((1 << width) - 1)
    if name in ("neg", "abs") and is_signed:
        return lambda a: (abs(signed(a, width)) if name == "abs" else -a) % (1 << width)
    if name == "mul.hi" and kind == "u32":
        return lambda a, b: a * b >> 32
    if name == "mul.hi" and kind == "s32":
        return lambda a, b: (signed(a, 32) * signed(b, 32) >> 32) % (1 << 32)
    if name in ("add", "sub", "mul.lo", "and", "or", "xor", "shl", "shr", "min", "max") and width == 16:
        return lambda a, b: int(binary(name[:3], kind, a, b))
    simple: dict[str, Exact] = {
        "prmt.b32": _permuted,
        "lop3.b32": _looked_up,
        "popc.b32": lambda a: a.bit_count(),
        "popc.b64": lambda a: a.bit_count(),
        "clz.b32": lambda a: 32 - a.bit_length(),
        "brev.b32": lambda a: int(f"{a:032b}"[::-1], 2),
    }
    return simple.get(op)


def _width(op: str) -> int:
    found = re.findall(r"\.[busf](8|16|32|64)\b", op)
    return int(found[-1]) if found else 32


def computed(op: str, values: tuple[Value, ...]) -> Value:
    """The result of an operation on its operands; TOP where lanes may differ."""
    if match := re.fullmatch(r"mad\.wide\.([su])32", op):
        sign = match[1]
        a, b = (by_lane(lambda v: _extended(sign, v), v) for v in values[:2])
        return by_lane(lambda x, y, z: binary("add", "s64", binary("mul", "s64", x, y), z), a, b, values[2])
    if match := re.fullmatch(r"mad\.lo\.([su]64)", op):
        of = match[1]
        return by_lane(lambda x, y, z: binary("add", of, binary("mul", of, x, y), z), *values)
    if convert := re.fullmatch(r"cvt\.([su])(8|16|32|64)\.([su])(8|16|32|64)", op):
        into, to, kind, width = convert[1], int(convert[2]), convert[3], int(convert[4])
        return by_lane(lambda v: _converted(kind, width, into, to, op, v), values[0])
    if op.startswith("mapa.shared::cluster.u") and len(values) == 2 and values[1] == 0:
        return values[0]  # a cluster of one block
    if re.fullmatch(r"ld\.global(?:\.\w+)*\.u8", op):
        return Among(0, 1, 256)
    if op.partition(".")[0] in _NOT_PURE:
        return TOP
    if op == "bfe.u32" and values[0] is TOP and isinstance(values[2], int) and values[2] & 255 <= 14:
        return Among(0, 1, 1 << (values[2] & 255))
    exact, width = _exact(op), _width(op)
    widths = (
        (width, 32) if op.startswith(("shl.", "shr.")) else (width,) * len(values)
    )  # how far is a number of 32 bits

    def one(*each: Value) -> Value:
        if exact is not None and all(isinstance(v, int) for v in each):
            return exact(*(v % (1 << bits) for v, bits in zip(each, widths, strict=True)))
        each = tuple(map(rounds, each))
        if exact is not None and all(launch_wide(v) for v in each):
            return made(op, each)
        return UNIFORM if all(uniform(v) for v in each) else TOP

    return by_lane(one, *values) if values else TOP


def _extended(kind: str, value: Value) -> Value:
    if isinstance(value, int):
        return signed(value % (1 << 32), 32) % (1 << 64) if kind == "s" else value % (1 << 32)
    value = rounds(value)
    if launch_wide(value):
        return value if kind == "s" else made("unsigned", value)
    return UNIFORM if uniform(value) else TOP


def _converted(kind: str, width: int, into: str, to: int, op: str, value: Value) -> Value:
    """A number of `width` bits as one of `to` bits; what is left of it is the register's lower part."""
    if isinstance(value, int):
        value %= 1 << width
        value = signed(value, width) if kind == "s" else value
        cut = value % (1 << to)
        # A negative number is extended to the register's width, which the operation does not tell.
        return UNIFORM if into == "s" and to < 64 and cut >> (to - 1) else cut
    value = rounds(value)
    if launch_wide(value):
        return value if width == to else made(op, (value,))
    return UNIFORM if uniform(value) else TOP


def is_real(arg: str) -> bool:
    """Whether an operand is a floating-point number, as it is written."""
    return bool(_REAL.fullmatch(arg))


__all__ = ["computed", "is_real"]
