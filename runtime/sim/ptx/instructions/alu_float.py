"""Floating-point arithmetic and comparisons (PTX ISA 8.0, 9.7.3 to 9.7.6), and the opcodes that integers share.

Packed types (f16x2, bf16x2) are computed as arrays of twice as many halves. Single precision .rn is NumPy's own;
fused multiply-add and the directed roundings go through doubles rounded to odd (formats.py). Approximate functions
(.approx) are computed correctly rounded, which is within what the ISA promises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.formats import encode, flush, fma64, fma_to_odd, sum_to_odd
from ...core.scalars import DTYPES, FLOATS, UNSIGNED, Array, Sel, some, where
from ...core.updates import greatest, least, maximum, minimum
from ..operands import Read, Write, error, per_thread, read, write
from ..program import Linker
from ..syntax import Instruction, Pair, Sink
from ..table import Handler, instruction
from .alu_integer import INTEGER, Function, apply, carrying, integer, integer_multiply, sources

_PACKED = {"f16x2": "f16", "bf16x2": "bf16"}
_ROUNDINGS = ("rz", "rm", "rp")
_NAN_BITS = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF}


def read_lanes(operand: Any, kind: str, ins: Instruction, linker: Linker) -> Read:
    """A reader that gives packed types as twice as many elements."""
    if kind not in _PACKED:
        return read(operand, kind, ins, linker)
    word, half = read(operand, "b32", ins, linker), DTYPES[_PACKED[kind]]
    return lambda m, sel: np.ascontiguousarray(per_thread(word(m, sel), sel)).view(half)


def write_lanes(operand: Any, kind: str, ins: Instruction, linker: Linker) -> Write:
    """The inverse of `read_lanes`."""
    if kind not in _PACKED:
        return write(operand, kind, ins, linker)
    word = write(operand, "b32", ins, linker)
    return lambda m, sel, value: word(m, sel, value.view(np.uint32))


def _exact_add(a: Array, b: Array) -> Array:
    return sum_to_odd(a.astype(np.float64), b.astype(np.float64))


def _fma(kind: str) -> Function:
    if kind == "f64":
        return fma64
    if kind == "f32":
        return lambda a, b, c: fma_to_odd(a, b, c).astype(np.float32)
    return lambda a, b, c: encode(fma_to_odd(a, b, c), kind)


def _bits(change: Callable[[Array, int], Array]) -> Function:
    """A function on the sign bit alone."""

    def function(a: Array) -> Array:
        word = UNSIGNED[a.dtype.itemsize]
        return change(a.view(word), 1 << (8 * a.dtype.itemsize - 1)).astype(word).view(a.dtype)

    return function


_FUNCTIONS: dict[str, Function] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "min": minimum,
    "max": maximum,
    "abs": _bits(lambda bits, top: bits & bits.dtype.type(top - 1)),
    "neg": _bits(lambda bits, top: bits ^ bits.dtype.type(top)),
    "rcp": lambda a: a.dtype.type(1) / a,
    "sqrt": np.sqrt,
    "rsqrt": lambda a: (1 / np.sqrt(a.astype(np.float64))).astype(a.dtype),
    "ex2": lambda a: np.exp2(a.astype(np.float64 if a.dtype != np.float64 else a.dtype)).astype(a.dtype),
    "lg2": lambda a: np.log2(a.astype(np.float64)).astype(a.dtype),
    "sin": lambda a: np.sin(a.astype(np.float64)).astype(a.dtype),
    "cos": lambda a: np.cos(a.astype(np.float64)).astype(a.dtype),
    "tanh": lambda a: np.tanh(a.astype(np.float64)).astype(a.dtype),
    "copysign": lambda a, b: np.copysign(b, a),
}
_UNARY = frozenset({"abs", "neg", "rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh"})
_EXACT: dict[str, Function] = {
    "add": _exact_add,
    "sub": lambda a, b: _exact_add(a, -b),
    "mul": lambda a, b: a.astype(np.float64) * b.astype(np.float64),
    "div": lambda a, b: a.astype(np.float64) / b.astype(np.float64),
    "rcp": lambda a: 1 / a.astype(np.float64),
    "sqrt": lambda a: np.sqrt(a.astype(np.float64)),
    "fma": fma_to_odd,
}


def _function(ins: Instruction, kind: str) -> Function:
    """The computation of one float instruction with its modifiers."""
    name = "fma" if ins.name in ("fma", "mad") else ins.name
    mode = next((mod for mod in ins.mods if mod in _ROUNDINGS), None)
    if mode and name in _EXACT and kind == "f32":
        exact = _EXACT[name]
        function: Function = lambda *args: encode(exact(*args), "f32", mode)  # noqa: E731
    else:
        function = _fma(kind) if name == "fma" else _FUNCTIONS[name]
    if "NaN" in ins.mods:
        function = least if name == "min" else greatest
    if "ftz" in ins.mods and kind in ("f16", "f32"):
        plain = function
        function = lambda *args: flush(plain(*(flush(each) for each in args)))  # noqa: E731
    if "sat" in ins.mods:
        unlimited = function
        function = lambda *args: _saturate(unlimited(*args))  # noqa: E731
    if "relu" in ins.mods:
        raw = function
        function = lambda *args: relu(raw(*args))  # noqa: E731
    return _canonical(function, kind) if kind in _NAN_BITS and name != "copysign" else function


def _canonical(function: Function, kind: str) -> Function:
    """NaN results have one bit pattern below double precision (PTX ISA 8.0, 9.7.3)."""
    dtype = DTYPES[kind]
    nan = UNSIGNED[dtype.itemsize].type(_NAN_BITS[kind]).view(dtype)

    def wrapped(*args: Array) -> Array:
        result = function(*args)
        bad = result != result
        return where(bad, nan, result) if some(bad) else result

    return wrapped


def _saturate(value: Array) -> Array:
    """Clamp to [0, 1]; NaN becomes +0."""
    zero, one = value.dtype.type(0), value.dtype.type(1)
    return where(value > zero, np.where(value < one, value, one), zero)


def relu(value: Array) -> Array:
    """Negative numbers and -0 to +0; NaN stays."""
    return where(value <= value.dtype.type(0), value.dtype.type(0), value)


@instruction("add", "sub", "mul", "div", "min", "max", "abs", "neg", "mad")
def _shared_names(ins: Instruction, linker: Linker) -> Handler:
    kind = ins.mods[-1]
    if kind in FLOATS or kind in _PACKED:
        return _float(ins, linker)
    if "cc" in ins.mods:
        return carrying(ins, linker)
    if ins.name in ("mul", "mad"):
        return integer_multiply(ins, linker, ins.name == "mad")
    if ins.name in INTEGER:
        return integer(ins, linker)
    raise error(ins, f"unsupported type .{kind}")


@instruction("fma", "rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh", "copysign")
def _float(ins: Instruction, linker: Linker) -> Handler:
    kind = ins.mods[-1]
    arity = 1 if ins.name in _UNARY else 3 if ins.name in ("fma", "mad") else 2
    if len(ins.operands) != arity + 1:
        raise error(ins, f"{ins.name} takes {arity + 1} operands here, not {len(ins.operands)}")
    readers = [read_lanes(operand, kind, ins, linker) for operand in ins.operands[1:]]
    writer = write_lanes(ins.operands[0], kind, ins, linker)
    return apply(_function(ins, _PACKED.get(kind, kind)), readers, writer)


@instruction("testp")
def _test_property(ins: Instruction, linker: Linker) -> Handler:
    kind = ins.mods[-1]
    tiny = np.finfo(DTYPES[kind]).tiny
    tests: dict[str, Function] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda a: ~np.isnan(a),
        "notanumber": np.isnan,
        "normal": lambda a: np.isfinite(a) & (np.abs(a) >= tiny),
        "subnormal": lambda a: (np.abs(a) < tiny) & (a != 0),
    }
    return apply(tests[ins.mods[0]], sources(ins, linker, [kind]), write(ins.operands[0], "pred", ins, linker))


# -- comparisons ----------------------------------------------------------------------------------------------------

_COMPARE: dict[str, Function] = {
    "eq": np.equal,
    "ne": lambda a, b: (a != b) & (a == a) & (b == b),
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lo": np.less,
    "ls": np.less_equal,
    "hi": np.greater,
    "hs": np.greater_equal,
    "equ": lambda a, b: (a == b) | (a != a) | (b != b),
    "neu": np.not_equal,
    "ltu": lambda a, b: ~(a >= b),
    "leu": lambda a, b: ~(a > b),
    "gtu": lambda a, b: ~(a <= b),
    "geu": lambda a, b: ~(a < b),
    "num": lambda a, b: (a == a) & (b == b),
    "nan": lambda a, b: (a != a) | (b != b),
}
_COMBINE: dict[str, Function] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def _comparison(ins: Instruction, kind: str) -> Function:
    name = ins.mods[0]
    compare = np.not_equal if name == "ne" and kind not in FLOATS and kind not in _PACKED else _COMPARE[name]
    if "ftz" in ins.mods:
        return lambda a, b: compare(flush(a), flush(b))
    return compare


@instruction("setp")
def _set_predicate(ins: Instruction, linker: Linker) -> Handler:
    """p = (a cmp b) op c, q = !(a cmp b) op c; packed types give one predicate a half (PTX ISA 8.0, 9.7.6.2)."""
    kind = ins.mods[-1]
    compare = _comparison(ins, kind)
    combine = next((_COMBINE[mod] for mod in ins.mods if mod in _COMBINE), None)
    packed = kind in _PACKED
    target = ins.operands[0]
    first, second = (target.first, target.second) if isinstance(target, Pair) else (target, Sink())
    p, q = write(first, "pred", ins, linker), write(second, "pred", ins, linker)
    a, b = (read_lanes(operand, kind, ins, linker) for operand in ins.operands[1:3])
    c = read(ins.operands[3], "pred", ins, linker) if combine else None
    both = not isinstance(second, Sink)

    def run(m: Any, sel: Sel) -> None:
        result = compare(a(m, sel), b(m, sel))
        other = None
        if packed:
            result, other = result[0::2], result[1::2]
        elif both:
            other = ~result
        if combine is not None and c is not None:
            extra = c(m, sel)
            result = combine(result, extra)
            other = None if other is None else combine(other, extra)
        p(m, sel, result)
        if other is not None:
            q(m, sel, other)

    return run


@instruction("set")
def _set(ins: Instruction, linker: Linker) -> Handler:
    result, kind = ins.mods[-2], ins.mods[-1]
    compare = _comparison(ins, kind)
    combine = next((_COMBINE[mod] for mod in ins.mods if mod in _COMBINE), None)
    dtype = DTYPES[_PACKED.get(result, result)]
    true = dtype.type(1) if result in FLOATS or result in _PACKED else UNSIGNED[4].type(0xFFFFFFFF).view(dtype)
    readers = [read_lanes(operand, kind, ins, linker) for operand in ins.operands[1:3]]
    if combine:
        readers.append(read(ins.operands[3], "pred", ins, linker))

    def function(a: Array, b: Array, c: Array | None = None) -> Array:
        truth = compare(a, b)
        if combine is not None and c is not None:
            truth = combine(truth, np.repeat(c, 2) if kind in _PACKED and np.ndim(c) else c)
        return where(truth, true, dtype.type(0))

    return apply(function, readers, write_lanes(ins.operands[0], result, ins, linker))
