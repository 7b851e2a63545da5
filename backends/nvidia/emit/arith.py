"""Arithmetic: one instruction an element, from a table of (operation, element type).

What is not in the table has been rewritten by `legalize`. `add.f32` and `mul.f32` come without a rounding mode, so that
ptxas may contract them to fma (PTX ISA 8.3, 9.7.3.3): one rounding less, and what every CUDA compiler does by default.
16-bit floats round after each operation (`.rn` forbids contraction) and go in pairs where both halves are in one word.

Sources: PTX ISA 8.3, 9.7.1 (integers), 9.7.3 (f32, f64), 9.7.4 (f16, bf16), 9.7.5 (setp, selp), 9.7.7 (logic),
9.7.8.20 (cvt).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitile.backends.nvidia.emit.emitter import Emitter, fills_words
from minitile.backends.nvidia.emit.ptx import PTX_TYPE, ptx_type, register_type
from minitile.backends.nvidia.ops import Instruction
from minitile.ir.builder import constant_of
from minitile.ir.core import Op, Value
from minitile.ir.ops import arith
from minitile.ir.ops.thread import count_of
from minitile.ir.ops.views import Recast
from minitile.ir.types import DType, ScalarType

_INTS = ("i32", "u32", "i64", "u64")
_FLOATS = ("f32", "f64")
_HALVES = ("f16", "bf16")

# {t} is the instruction type of the dtype, {b} the untyped one of its size.
_FORMS: tuple[tuple[type[Op], str, tuple[str, ...]], ...] = (
    (arith.Add, "add.{t}", _INTS + _FLOATS),
    (arith.Add, "add.rn.{t}", ("f16",)),
    (arith.Sub, "sub.{t}", _INTS + _FLOATS),
    (arith.Sub, "sub.rn.{t}", ("f16",)),
    (arith.Mul, "mul.lo.{t}", _INTS),
    (arith.Mul, "mul.{t}", _FLOATS),
    (arith.Mul, "mul.rn.{t}", ("f16",)),
    (arith.Fma, "mad.lo.{t}", _INTS),
    (arith.Fma, "fma.rn.{t}", _FLOATS + _HALVES),
    (arith.Div, "div.rn.{t}", _FLOATS),
    (arith.TruncDiv, "div.{t}", _INTS),
    (arith.TruncMod, "rem.{t}", _INTS),
    (arith.Min, "min.{t}", _INTS + _FLOATS + _HALVES),
    (arith.Max, "max.{t}", _INTS + _FLOATS + _HALVES),
    (arith.MinNan, "min.NaN.{t}", ("f32", *_HALVES)),
    (arith.MaxNan, "max.NaN.{t}", ("f32", *_HALVES)),
    (arith.And, "and.{b}", (*_INTS, "bool")),
    (arith.Or, "or.{b}", (*_INTS, "bool")),
    (arith.Xor, "xor.{b}", (*_INTS, "bool")),
    (arith.Not, "not.{b}", (*_INTS, "bool")),
    (arith.Shl, "shl.{b}", _INTS),
    (arith.Shr, "shr.{t}", _INTS),
    (arith.Neg, "neg.{t}", ("i32", "i64", *_FLOATS, *_HALVES)),
    (arith.Abs, "abs.{t}", ("i32", "i64", *_FLOATS, *_HALVES)),
    (arith.Sqrt, "sqrt.rn.{t}", _FLOATS),
    (arith.Floor, "cvt.rmi.{t}.{t}", _FLOATS),
    (arith.Ceil, "cvt.rpi.{t}.{t}", _FLOATS),
    (arith.Round, "cvt.rni.{t}.{t}", _FLOATS),
    (arith.Trunc, "cvt.rzi.{t}.{t}", _FLOATS),
)
_UNTYPED = {"i32": "b32", "u32": "b32", "i64": "b64", "u64": "b64", "bool": "pred"}

MNEMONICS: dict[tuple[type[Op], str], str] = {
    (op, d): form.format(t=PTX_TYPE.get(d, d), b=_UNTYPED.get(d, d)) for op, form, dtypes in _FORMS for d in dtypes
}
_SHIFTS = (arith.Shl, arith.Shr)


def elementwise(w: Emitter, op: Op) -> None:
    """An operation of the table, on each element; pairs of 16-bit floats on each word."""
    result = op.results[0]
    dtype = result.dtype
    mnemonic = MNEMONICS[type(op), dtype.name]
    operands = op.operands
    if dtype.bits == 16:
        _halves(w, result, mnemonic, operands)
    elif isinstance(op, _SHIFTS):
        _shift(w, op, mnemonic)
    elif isinstance(op, arith.TruncDiv | arith.TruncMod) and _by_constant(op):
        _divide(w, op)
    else:
        _each(w, result, mnemonic, operands)


def _by_constant(op: arith.TruncDiv | arith.TruncMod) -> bool:
    """Whether registers are divided by a constant: by a product with its reciprocal, which ptxas leaves to its input
    (it divides by a floating-point reciprocal, found anew each time). A scalar's quotient is once a thread and may
    number slots, which a proof has to read."""
    d = constant_of(op.b)
    return count_of(op.result.type) > 1 and op.result.dtype.bits == 32 and isinstance(d, int) and 2 < d < 1 << 31


def _divide(w: Emitter, op: arith.TruncDiv | arith.TruncMod) -> None:
    """q = n·m >> 32 + s with m = ⌊2^(32+s)/d⌋ + 1, where 2^s < d ≤ 2^(s+1): exact for |n| < 2^31, less one where n is
    negative. All of u32 takes one bit more of m: n·m >> 32 = t with m - 2^32, and then (n - t)/2 + t.

    Source: Granlund & Montgomery, "Division by Invariant Integers using Multiplication", PLDI 1994."""
    d = int(constant_of(op.b))
    shift = (d - 1).bit_length() - 1
    signed = op.result.dtype.kind == "int"
    magic = (1 << (32 + shift + (not signed))) // d + 1
    targets = w.element_targets(op.result)
    for to, n in zip(targets, w.in_registers(op.a), strict=True):
        quotient = w.temp("b32") if isinstance(op, arith.TruncMod) else to
        high = w.temp("b32")
        if signed:
            w.emit(f"mul.hi.s32 {high}, {n}, {magic - (magic >> 31 << 32)};")
            if magic >> 31:
                w.emit(f"add.s32 {high}, {high}, {n};")
            sign = w.temp("b32")
            w.emit(f"shr.s32 {high}, {high}, {shift};")
            w.emit(f"shr.u32 {sign}, {n}, 31;")
            w.emit(f"add.s32 {quotient}, {high}, {sign};")
        else:
            half = w.temp("b32")
            w.emit(f"mul.hi.u32 {high}, {n}, {magic - (1 << 32)};")
            w.emit(f"sub.u32 {half}, {n}, {high};")
            w.emit(f"shr.u32 {half}, {half}, 1;")
            w.emit(f"add.u32 {half}, {half}, {high};")
            w.emit(f"shr.u32 {quotient}, {half}, {shift};")
        if isinstance(op, arith.TruncMod):
            product = w.temp("b32")
            w.emit(f"mul.lo.s32 {product}, {quotient}, {d};")
            w.emit(f"sub.s32 {to}, {n}, {product};")
    w.define(op.result, targets)


def instruction(w: Emitter, op: Instruction) -> None:
    _each(w, op.result, op.text, op.operands)


def _each(w: Emitter, result: Value, mnemonic: str, operands: list[Value]) -> None:
    targets = w.element_targets(result)
    n = len(targets)
    lines = w.lines
    # Predicates have no literals.
    sources = [
        w.in_registers(v) * (n // count_of(v.type)) if v.dtype.kind == "bool" else w.spread(v, n) for v in operands
    ]
    if len(sources) == 2:
        for d, x, y in zip(targets, *sources, strict=True):
            lines.append(f"{mnemonic} {d}, {x}, {y};")
    elif len(sources) == 1:
        for d, x in zip(targets, *sources, strict=True):
            lines.append(f"{mnemonic} {d}, {x};")
    else:
        for d, *xs in zip(targets, *sources, strict=True):
            lines.append(f"{mnemonic} {d}, {', '.join(xs)};")
    w.define(result, targets)


def _halves(w: Emitter, result: Value, mnemonic: str, operands: list[Value]) -> None:
    """f16 and bf16: the x2 form on words when the result fills them."""
    packed = fills_words(result)
    sources: list[list[str]] = []
    for v in operands:
        if not packed:
            sources.append(w.in_registers(v))
        elif isinstance(v.type, ScalarType):
            sources.append([w.splat(v)])
        else:
            sources.append(w.words(v))
    if packed:
        mnemonic += "x2"
    targets = w.targets(result)
    for n, d in enumerate(targets):
        w.emit(f"{mnemonic} {d}, {', '.join(s[n] if len(s) > 1 else s[0] for s in sources)};")


def _shift(w: Emitter, op: Any, mnemonic: str) -> None:
    """The amount of a shift is a 32-bit operand whatever is shifted."""
    targets = w.element_targets(op.result)
    n = len(targets)
    amounts = w.elements(op.b)
    if op.b.dtype.bits == 64:
        amounts = [_low_word(w, amount) for amount in amounts]
    if len(amounts) == 1:
        amounts = amounts * n
    for d, x, amount in zip(targets, w.spread(op.a, n), amounts, strict=True):
        w.emit(f"{mnemonic} {d}, {x}, {amount};")
    w.define(op.result, targets)


def _low_word(w: Emitter, operand: str) -> str:
    if operand[0] != "%":
        return operand
    low = w.temp("b32")
    w.emit(f"cvt.u32.u64 {low}, {operand};")
    return low


_UNORDERED = {"ne": "neu"}  # true of NaN


def compare(w: Emitter, op: arith.Cmp) -> None:
    """setp. bool operands are compared for equality only (see `legalize`), through xor."""
    dtype = op.a.dtype
    targets = w.element_targets(op.result)
    n = len(targets)
    pairs = zip(targets, w.spread(op.a, n), w.spread(op.b, n), strict=True)
    predicate = _UNORDERED.get(op.predicate, op.predicate) if dtype.is_float else op.predicate
    for d, x, y in pairs:
        w.emit(f"setp.{predicate}.{ptx_type(dtype)} {d}, {x}, {y};")
    w.define(op.result, targets)


def select(w: Emitter, op: arith.Select) -> None:
    """selp; 8- and 16-bit elements in whole words where one condition holds for all and they are there, else one by
    one. bool values have been turned into logic by `legalize`."""
    if fills_words(op.result) and count_of(op.condition.type) == 1 and (w.has_words(op.a) or w.has_words(op.b)):
        flag = w.register(w.element(op.condition), "pred")
        for d, x, y in zip(w.targets(op.result), w.words(op.a), w.words(op.b), strict=True):
            w.emit(f"selp.b32 {d}, {x}, {y}, {flag};")
        return
    kind = register_type(op.result.dtype)
    targets = w.element_targets(op.result)
    n = len(targets)
    operands = (w.spread(op.a, n), w.spread(op.b, n), w.spread(op.condition, n))
    for d, x, y, p in zip(targets, *operands, strict=True):
        w.emit(f"selp.{kind} {d}, {x}, {y}, {w.register(p, 'pred')};")
    w.define(op.result, targets)


def constant(w: Emitter, op: arith.Constant) -> None:
    """Constants are printed where they are used."""


def reinterpret(w: Emitter, op: arith.Reinterpret) -> None:
    """The same registers under another type; a move where the register types differ (f32 and i32)."""
    source, result = op.a, op.result
    if w.has_words(source):
        w.define_words(result, w.words(source))
        return
    kind, new = register_type(source.dtype), register_type(result.dtype)
    elements = w.elements(source)
    if kind == new and not _needs_extension(source.dtype, result.dtype):
        w.define(result, elements)
        return
    targets = w.element_targets(result)
    for d, x in zip(targets, elements, strict=True):
        if kind != new:
            w.emit(f"mov.b{result.dtype.bits} {d}, {x};")
        else:
            w.emit(f"cvt.{'s16.s8' if result.dtype.kind == 'int' else 'u16.u8'} {d}, {x};")
    w.define(result, targets)


def recast(w: Emitter, op: Recast) -> None:
    """The same words; f32 goes through registers of bits."""
    source, result = op.a, op.result
    words = w.words(source)
    for dtype, into in ((source.dtype, False), (result.dtype, True)):
        if dtype.name == "f32":
            words = [_moved(w, word, "f32" if into else "b32") for word in words]
    if result.dtype.bits == 32:
        w.define(result, words)
    else:
        w.define_words(result, words)


def _moved(w: Emitter, register: str, kind: str) -> str:
    to = w.temp(kind)
    w.emit(f"mov.b32 {to}, {register};")
    return to


def dot4(w: Emitter, op: arith.Dot4) -> None:
    """dp4a: PTX ISA 8.3, 9.7.1.23."""
    kind = "s32" if op.a[0].dtype.kind == "int" else "u32"
    (a,), (b,) = w.words(op.a[0]), w.words(op.b[0])
    (d,) = w.element_targets(op.result)
    w.emit(f"dp4a.{kind}.{kind} {d}, {a}, {b}, {w.element(op.c)};")
    w.define(op.result, [d])


def _needs_extension(source: DType, to: DType) -> bool:
    """8-bit elements are kept sign- or zero-extended in their 16-bit registers."""
    return source.bits == 8 and (source.kind == "int") != (to.kind == "int")


EMIT: dict[type[Op], Callable[[Emitter, Any], None]] = {
    **{op: elementwise for op, _, _ in _FORMS},
    Instruction: instruction,
    arith.Cmp: compare,
    arith.Select: select,
    arith.Constant: constant,
    arith.Reinterpret: reinterpret,
    Recast: recast,
    arith.Dot4: dot4,
}
