"""Arithmetic, comparisons and casts: one LLVM instruction or intrinsic an element; 16-bit floats in pairs.

`legalize` has left floats of 16, 32 and 64 bits (of bf16 only what is exact: negation, selection, casts), integers of
all sizes and bools. LLVM rounds each operation to its type; f32's + − × may be contracted to fma, as on other targets.

Shifts by the width or more give 0 (or the sign), where LLVM's own result would be anything.

Source: LLVM Language Reference Manual, "Binary Operations", "Fast-Math Flags", "Saturating floating-point to integer
conversions".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitile.backends.amd.emit.emitter import Emitter
from minitile.backends.amd.emit.llvm import literal, scalar_type, type_of
from minitile.backends.amd.ops import Intrinsic
from minitile.ir.builder import constant_of
from minitile.ir.core import Op
from minitile.ir.diagnostics import InternalError
from minitile.ir.ops import arith
from minitile.ir.ops.thread import count_of
from minitile.ir.ops.views import Recast
from minitile.ir.types import DType

_FLOAT = {arith.Add: "fadd", arith.Sub: "fsub", arith.Mul: "fmul", arith.Div: "fdiv"}
_INTEGER: dict[type[Op], tuple[str, str]] = {  # signed, unsigned
    arith.Add: ("add", "add"),
    arith.Sub: ("sub", "sub"),
    arith.Mul: ("mul", "mul"),
    arith.TruncDiv: ("sdiv", "udiv"),
    arith.TruncMod: ("srem", "urem"),
    arith.And: ("and", "and"),
    arith.Or: ("or", "or"),
    arith.Xor: ("xor", "xor"),
}
_CONTRACTED = (arith.Add, arith.Sub, arith.Mul)
# Suffixes of the intrinsics on floats, and on signed and unsigned integers.
_CALLS: dict[type[Op], tuple[str, str, str]] = {
    arith.Min: ("minnum", "smin", "umin"),
    arith.Max: ("maxnum", "smax", "umax"),
    arith.Abs: ("fabs", "abs", ""),
    arith.Floor: ("floor", "", ""),
    arith.Ceil: ("ceil", "", ""),
    arith.Trunc: ("trunc", "", ""),
    arith.Round: ("rint", "", ""),
    arith.Sqrt: ("sqrt", "", ""),
    arith.Fma: ("fma", "", ""),
}
_IN_PAIRS = (arith.Add, arith.Sub, arith.Mul, arith.Min, arith.Max, arith.Fma, arith.Neg)


def pair_width(op: Op) -> int:
    """2 where there are packed instructions on 16-bit floats, else 1."""
    result = op.results[0]
    return 2 if result.dtype.name == "f16" and isinstance(op, _IN_PAIRS) and count_of(result.type) % 2 == 0 else 1


def instruction(w: Emitter, op: Any) -> None:
    """An LLVM instruction of two operands."""
    dtype = op.result.dtype
    width = pair_width(op)
    kind = type_of(dtype, width)
    if dtype.is_float:
        opcode = _FLOAT[type(op)]
        if dtype.bits == 32 and isinstance(op, _CONTRACTED):
            opcode += " contract"
    else:
        opcode = _INTEGER[type(op)][dtype.kind != "int"]
    w.each(op.result, op.operands, width, lambda a, b: w.let(f"{opcode} {kind} {a}, {b}"))


def call(w: Emitter, op: Any) -> None:
    """An intrinsic."""
    dtype = op.result.dtype
    width = pair_width(op)
    kind = type_of(dtype, width)
    form = 0 if dtype.is_float else 1 if dtype.kind == "int" else 2
    suffix = f"v2{dtype.name}" if width == 2 else dtype.name.replace("u", "i")
    name = f"llvm.{_CALLS[type(op)][form]}.{suffix}"
    more = [("i1", "false")] if isinstance(op, arith.Abs) and not dtype.is_float else []
    w.each(op.result, op.operands, width, lambda *xs: w.call(name, kind, [*((kind, x) for x in xs), *more]))


def intrinsic(w: Emitter, op: Intrinsic) -> None:
    kinds = [scalar_type(v.dtype) for v in op.values]
    result = scalar_type(op.dtype)
    w.each(op.result, op.values, 1, lambda *xs: w.call(op.text, result, list(zip(kinds, xs, strict=True))))


def shift(w: Emitter, op: Any) -> None:
    dtype = op.result.dtype
    kind, last = scalar_type(dtype), dtype.bits - 1
    opcode = "shl" if isinstance(op, arith.Shl) else "ashr" if dtype.kind == "int" else "lshr"
    amount = constant_of(op.b)
    if amount is not None and 0 <= amount <= last:
        w.each(op.result, [op.a], 1, lambda a: w.let(f"{opcode} {kind} {a}, {amount}"))
        return

    def one(a: str, b: str) -> str:
        inside = w.let(f"icmp ule {kind} {b}, {last}")
        limited = w.let(f"select i1 {inside}, {kind} {b}, {kind} {last}")
        moved = w.let(f"{opcode} {kind} {a}, {limited}")
        return moved if opcode == "ashr" else w.let(f"select i1 {inside}, {kind} {moved}, {kind} 0")

    w.each(op.result, op.operands, 1, one)


def negate(w: Emitter, op: arith.Neg) -> None:
    dtype, width = op.a.dtype, pair_width(op)
    kind = type_of(dtype, width)
    text = f"fneg {kind} " if dtype.is_float else f"sub {kind} 0, "
    w.each(op.result, [op.a], width, lambda a: w.let(text + a))


def invert(w: Emitter, op: arith.Not) -> None:
    kind = scalar_type(op.a.dtype)
    ones = "true" if kind == "i1" else "-1"
    w.each(op.result, [op.a], 1, lambda a: w.let(f"xor {kind} {a}, {ones}"))


_FLOAT_PREDICATES = {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une"}


def compare(w: Emitter, op: arith.Cmp) -> None:
    dtype = op.a.dtype
    kind = scalar_type(dtype)
    if dtype.is_float:
        text = f"fcmp {_FLOAT_PREDICATES[op.predicate]} {kind}"
    else:
        sign = "" if op.predicate in ("eq", "ne") else "s" if dtype.kind == "int" else "u"
        text = f"icmp {sign}{op.predicate} {kind}"
    w.each(op.result, [op.a, op.b], 1, lambda a, b: w.let(f"{text} {a}, {b}"))


def select(w: Emitter, op: arith.Select) -> None:
    kind = scalar_type(op.result.dtype)

    def one(condition: str, a: str, b: str) -> str:
        return w.let(f"select i1 {condition}, {kind} {a}, {kind} {b}")

    w.each(op.result, [op.condition, op.a, op.b], 1, one)


def constant(w: Emitter, op: arith.Constant) -> None:
    w.define(op.result, [literal(op.value, op.dtype)])


def reinterpret(w: Emitter, op: arith.Reinterpret) -> None:
    source, to = op.a.dtype, op.to
    for width, parts in w.forms(op.a).items():
        old, new = type_of(source, width), type_of(to, width)
        w.define(op.result, [x if old == new else w.let(f"bitcast {old} {x} to {new}") for x in parts], width)


def recast(w: Emitter, op: Recast) -> None:
    words = w.words(op.a)
    if words is None:
        raise InternalError(f"{op.a.type} does not fill words", op.loc)
    w.define_words(op.result, words)


def cast(w: Emitter, op: arith.Cast) -> None:
    source, to, count = op.a.dtype, op.to, count_of(op.result.type)
    if source is to or (source.is_int and to.is_int and source.bits == to.bits):
        for width, parts in w.forms(op.a).items():
            w.define(op.result, parts, width)
        return
    width = 2 if source.is_float and to.is_float and min(source.bits, to.bits) == 16 and count % 2 == 0 else 1
    kind, new = type_of(source, width), type_of(to, width)
    w.each(op.result, [op.a], width, lambda a: _convert(w, a, source, to, kind, new))


def _convert(w: Emitter, a: str, source: DType, to: DType, kind: str, new: str) -> str:
    if to.kind == "bool":
        return w.let(f"fcmp une {kind} {a}, 0.0" if source.is_float else f"icmp ne {kind} {a}, 0")
    if source.is_float and to.is_float:
        return w.let(f"{'fpext' if to.bits > source.bits else 'fptrunc'} {kind} {a} to {new}")
    if to.is_float:
        return w.let(f"{'sitofp' if source.kind == 'int' else 'uitofp'} {kind} {a} to {new}")
    if source.is_float:
        sign = "s" if to.kind == "int" else "u"
        return w.call(f"llvm.fpto{sign}i.sat.{new}.{source.name}", new, [(kind, a)])
    if to.bits < source.bits and source.kind != "bool":
        return w.let(f"trunc {kind} {a} to {new}")
    return w.let(f"{'sext' if source.kind == 'int' else 'zext'} {kind} {a} to {new}")


def dot4(w: Emitter, op: arith.Dot4) -> None:
    """V_DOT4_I32_I8, V_DOT4_U32_U8, which do not saturate without CLAMP (CDNA3 ISA, "VOP3P Instructions")."""
    name = f"llvm.amdgcn.{'s' if op.a[0].dtype.kind == 'int' else 'u'}dot4"
    words = [w.parts(v, 4)[0] for v in (op.a[0], op.b[0])]
    kind = type_of(op.a[0].dtype, 4)
    words = [x if kind == "i32" else w.let(f"bitcast {kind} {x} to i32") for x in words]
    w.define(
        op.result,
        [w.call(name, "i32", [("i32", words[0]), ("i32", words[1]), ("i32", w.element(op.c)), ("i1", "false")])],
    )


EMIT: dict[type[Op], Callable[[Emitter, Any], None]] = {
    **dict.fromkeys((*_FLOAT, *_INTEGER), instruction),
    **dict.fromkeys(_CALLS, call),
    Intrinsic: intrinsic,
    arith.Shl: shift,
    arith.Shr: shift,
    arith.Neg: negate,
    arith.Not: invert,
    arith.Cmp: compare,
    arith.Select: select,
    arith.Constant: constant,
    arith.Reinterpret: reinterpret,
    Recast: recast,
    arith.Cast: cast,
    arith.Dot4: dot4,
}
