"""Thread IR to thread IR that the writer's tables know: types and operations the target has no instruction for go.

The rule of each operation is in a table; a rule returns the value that stands for the result, or None to keep the
operation. What a rule emits is legal already and is not looked at again.

    floats      16-bit add, mul, fma, min, max, neg, abs stay (exact, two in a word); bf16 add and mul become fma.
                Everything else on 16 and 8 bits is computed in f32, each operation rounded to its dtype.
    integers    of 8 and 16 bits are computed in 32 bits and cut off again, so that they wrap
    division    floordiv and floormod: shift and mask for powers of two, C's division when nothing is negative, else
                C's division corrected
    casts       a chain of conversions that PTX has; through f32 rounded to odd where two roundings differ from one

    %q = floordiv %x, 8    =>    %q = shr %x, 3

exp, log, tanh and the like are in legalize_math.py, fp8 for targets without it in legalize_fp8.py.

Sources: PTX ISA 8.3, 9.7 (which types an instruction takes on which target); for rounding to odd, Boldo & Melquiond,
"Emulation of a FMA and correctly rounded sums: proved algorithms using rounding to odd", IEEE Trans. Comp. 57(4), 2008.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from minitile.backends.nvidia.emit_arith import MNEMONICS
from minitile.backends.nvidia.emit_cast import DIRECT
from minitile.backends.nvidia.legalize_fp8 import decode, encode
from minitile.backends.nvidia.legalize_math import FUNCTIONS
from minitile.backends.nvidia.ops import Instruction
from minitile.ir.builder import constant_of
from minitile.ir.core import Kernel, Op, Value
from minitile.ir.diagnostics import TargetError
from minitile.ir.ops import arith, thread
from minitile.ir.rewrite import ERASE, Rewriter
from minitile.ir.types import DType, bool_, e4m3, e5m2, f16, f32, f64, i32, u32
from minitile.target import Target

_FP8 = (e4m3, e5m2)


def legalize(kernel: Kernel, target: Target) -> None:
    """Rewrites the kernel in place. Raises TargetError for what the target cannot do."""
    _Legalize(kernel, target).run(kernel)


class _Legalize(Rewriter):
    def __init__(self, kernel: Kernel, target: Target) -> None:
        super().__init__()
        self.target = target
        self.nonnegative: set[Value] = set(kernel.dims.values())

    def visit(self, op: Op) -> Value | tuple[Value, ...] | None:
        rule = _RULES.get(type(op))
        return None if rule is None else rule(self, op)

    # Small pieces that the rules share ------------------------------------------------------------------------------

    def make(self, op: Op) -> Value:
        return self.b.emit(op).result

    def const(self, value: bool | int | float, like: Value | DType) -> Value:
        return self.b.constant(value, like if isinstance(like, DType) else like.dtype)

    def cast(self, a: Value, *to: DType) -> Value:
        """Through the dtypes in turn; each step has an instruction."""
        for dtype in to:
            if a.dtype is not dtype:
                a = self.make(arith.Cast(a, dtype))
        return a

    def again(self, op: Op) -> Value:
        """Emit an operation that may itself need a rule."""
        op.loc = self.b.loc
        new = self.visit(op)
        return self.make(op) if new is None else new  # type: ignore[return-value]

    def in_dtype(self, op: Op, dtype: DType) -> Value:
        """The operation on operands cast to another dtype, its result not yet cast back."""
        new = copy.copy(op)
        new.replace_operands(lambda v: v if v.dtype is bool_ else self.again(arith.Cast(v, dtype)))
        new.set_results(new.infer())
        return self.again(new)

    def is_nonnegative(self, value: Value) -> bool:
        """Cheaply seen from the operation itself; range analysis has turned what it could into truncdiv before."""
        op = value.op
        if value in self.nonnegative or value.dtype.kind == "uint" or isinstance(op, thread.Special):
            return True
        constant = constant_of(value)
        if constant is not None:
            return bool(constant >= 0)
        if isinstance(op, arith.And):
            return self.is_nonnegative(op.a) or self.is_nonnegative(op.b)
        if isinstance(op, (arith.Shr, arith.TruncMod)):
            return self.is_nonnegative(op.a)
        return isinstance(op, arith.TruncDiv) and self.is_nonnegative(op.a) and self.is_nonnegative(op.b)


# Arithmetic ----------------------------------------------------------------------------------------------------------


def _arithmetic(self: _Legalize, op: Any) -> Value | None:
    """Narrow types that an operation has no instruction for."""
    dtype = op.result.dtype
    if (type(op), dtype.name) in MNEMONICS:
        return None
    if dtype.is_float and dtype.bits <= 16:
        return self.again(arith.Cast(self.in_dtype(op, f32), dtype))
    if dtype.is_int and dtype.bits < 32:
        return _widened(self, op)
    raise TargetError(f"{op.mnemonic} is not defined for {dtype}", op.loc)


def _wide(dtype: DType) -> DType:
    """The 32-bit integer that holds a narrower one."""
    return i32 if dtype.kind == "int" else u32


def _widened(self: _Legalize, op: Op) -> Value:
    """An operation on narrow integers in 32 bits, cut off again."""
    dtype = op.result.dtype
    return self.again(arith.Cast(self.in_dtype(op, _wide(dtype)), dtype))


def _add(self: _Legalize, op: arith.Add) -> Value | None:
    if op.result.dtype.name == "bf16":
        return self.make(arith.Fma(op.a, self.const(1.0, op.a), op.b))
    return _arithmetic(self, op)


def _sub(self: _Legalize, op: arith.Sub) -> Value | None:
    if op.result.dtype.name == "bf16":
        return self.make(arith.Fma(op.b, self.const(-1.0, op.a), op.a))
    return _arithmetic(self, op)


def _mul(self: _Legalize, op: arith.Mul) -> Value | None:
    if op.result.dtype.name == "bf16":
        return self.make(arith.Fma(op.a, op.b, self.const(-0.0, op.a)))
    return _arithmetic(self, op)


def _neg(self: _Legalize, op: arith.Neg) -> Value | None:
    if op.a.dtype.kind == "uint":
        return self.again(arith.Sub(self.const(0, op.a), op.a))
    return _arithmetic(self, op)


def _abs(self: _Legalize, op: arith.Abs) -> Value | None:
    return op.a if op.a.dtype.kind == "uint" else _arithmetic(self, op)


def _rounding(self: _Legalize, op: Any) -> Value | None:
    """floor, ceil, round and trunc leave integers as they are."""
    return op.a if op.a.dtype.is_int else _arithmetic(self, op)


def _function(self: _Legalize, op: Any) -> Value | None:
    """exp and its like: in f32, by the expansions of legalize_math."""
    dtype = op.a.dtype
    if dtype is f64:
        raise TargetError(
            f"{op.mnemonic} is not available in float64", op.loc, "cast to float32, or compute it on the host"
        )
    if not dtype.is_float:
        raise TargetError(f"{op.mnemonic} of {dtype} values", op.loc, "cast to float32 first")
    result = FUNCTIONS[type(op)](self.b, self.again(arith.Cast(op.a, f32)))
    return self.again(arith.Cast(result, dtype)) if dtype is not f32 else result


def _min_max(self: _Legalize, op: Any) -> Value | None:
    if op.result.dtype is bool_:
        return self.make((arith.And if isinstance(op, arith.Min) else arith.Or)(op.a, op.b))
    return _arithmetic(self, op)


# Integer division ----------------------------------------------------------------------------------------------------


def _power_of_two(value: Value) -> int | None:
    """k when the value is the constant 2**k."""
    constant = constant_of(value)
    if not isinstance(constant, int) or constant <= 0 or constant & (constant - 1):
        return None
    return constant.bit_length() - 1


def _floordiv(self: _Legalize, op: arith.FloorDiv) -> Value:
    a, b = op.a, op.b
    if a.dtype.bits < 32:
        return _widened(self, op)
    shift = _power_of_two(b)
    if shift is not None:
        return self.make(arith.Shr(a, self.const(shift, a)))
    if self.is_nonnegative(a) and self.is_nonnegative(b):
        return self.make(arith.TruncDiv(a, b))
    if (constant_of(b) or 0) > 0:
        # With s = -1 for a negative a, else 0: (a ^ s) is nonnegative and its quotient mirrors back.
        sign = self.make(arith.Shr(a, self.const(a.dtype.bits - 1, a)))
        quotient = self.make(arith.TruncDiv(self.make(arith.Xor(a, sign)), b))
        return self.make(arith.Xor(quotient, sign))
    quotient, _, fix = _divide(self, a, b)
    return self.make(arith.Select(fix, self.make(arith.Sub(quotient, self.const(1, a))), quotient))


def _floormod(self: _Legalize, op: arith.FloorMod) -> Value:
    a, b = op.a, op.b
    if a.dtype.bits < 32:
        return _widened(self, op)
    shift = _power_of_two(b)
    if shift is not None:
        return self.make(arith.And(a, self.const((1 << shift) - 1, a)))
    if self.is_nonnegative(a) and self.is_nonnegative(b):
        return self.make(arith.TruncMod(a, b))
    _, remainder, fix = _divide(self, a, b)
    return self.make(arith.Select(fix, self.make(arith.Add(remainder, b)), remainder))


def _divide(self: _Legalize, a: Value, b: Value) -> tuple[Value, Value, Value]:
    """C's quotient and remainder, and whether flooring differs: a remainder whose sign is not the divisor's."""
    quotient = self.make(arith.TruncDiv(a, b))
    remainder = self.make(arith.Sub(a, self.make(arith.Mul(quotient, b))))
    zero = self.const(0, a)
    inexact = self.make(arith.Cmp(remainder, zero, "ne"))
    opposite = self.make(arith.Cmp(self.make(arith.Xor(remainder, b)), zero, "lt"))
    return quotient, remainder, self.make(arith.And(inexact, opposite))


# Comparison and selection --------------------------------------------------------------------------------------------


def _cmp(self: _Legalize, op: arith.Cmp) -> Value | None:
    dtype = op.a.dtype
    if dtype is bool_:
        return _compare_bools(self, op)
    if dtype.bits >= 32:
        return None
    return self.in_dtype(op, f32 if dtype.is_float else _wide(dtype))


def _compare_bools(self: _Legalize, op: arith.Cmp) -> Value:
    """As numbers 0 and 1."""
    a, b, predicate = op.a, op.b, op.predicate
    if predicate in ("gt", "ge"):
        a, b, predicate = b, a, {"gt": "lt", "ge": "le"}[predicate]
    if predicate == "lt":
        return self.make(arith.And(self.make(arith.Not(a)), b))
    if predicate == "le":
        return self.make(arith.Or(self.make(arith.Not(a)), b))
    differ = self.make(arith.Xor(a, b))
    return differ if predicate == "ne" else self.make(arith.Not(differ))


def _select(self: _Legalize, op: arith.Select) -> Value | None:
    if op.result.dtype is not bool_:
        return None
    taken = self.make(arith.And(op.condition, op.a))
    other = self.make(arith.And(self.make(arith.Not(op.condition)), op.b))
    return self.make(arith.Or(taken, other))


# Casts ---------------------------------------------------------------------------------------------------------------


def _cast(self: _Legalize, op: arith.Cast) -> Value | None:
    source, to = op.a.dtype, op.to
    if source is to:
        return op.a
    constant = constant_of(op.a)
    if constant is not None and to.is_float:
        with np.errstate(over="ignore", invalid="ignore"):
            number = float(np.asarray(constant, source.numpy).astype(to.numpy)) if to not in _FP8 else None
        if number is not None:
            return self.const(number, to)
    if not self.target.has("mma_fp8"):  # fp8 conversions came together with fp8 mma
        if source in _FP8:
            return self.again(arith.Cast(decode(self.b, op.a), to))
        if to in _FP8 and source is f32:
            return encode(self.b, op.a, to)
    if (source.name, to.name) in DIRECT:
        return None
    return _route(self, op.a, to)


def _route(self: _Legalize, a: Value, to: DType) -> Value:
    """A cast without an instruction of its own, as several that have one."""
    source = a.dtype
    if source.is_int and source.bits < 32:  # any wider type holds it
        return self.again(arith.Cast(self.cast(a, _wide(source)), to))
    if source in _FP8:
        return self.again(arith.Cast(self.cast(a, f16), to))
    if source.is_float and source.bits == 16:
        return self.again(arith.Cast(self.cast(a, f32), to))
    if to.is_int and to.bits < 32:
        if source.is_float:
            return self.cast(_clamped(self, self.cast(a, _wide(to)), to), to)
        return self.cast(self.again(arith.Cast(a, _wide(to))), to)
    # What is left: 32- and 64-bit numbers to bf16 and fp8. f32 has more than two bits to spare, so rounding to odd
    # first makes the second rounding the only one.
    return self.again(arith.Cast(_round_to_odd(self, a), to))


def _clamped(self: _Legalize, a: Value, to: DType) -> Value:
    """Into the range of a narrower integer."""
    low, high = (-(1 << (to.bits - 1)), (1 << (to.bits - 1)) - 1) if to.kind == "int" else (0, (1 << to.bits) - 1)
    if to.kind == "int":
        a = self.make(arith.Max(a, self.const(low, a)))
    return self.make(arith.Min(a, self.const(high, a)))


def _round_to_odd(self: _Legalize, a: Value) -> Value:
    """A 32- or 64-bit number in f32: towards zero, with the last bit set when that was inexact."""
    if a.dtype is f32:
        return a
    kind = {"i32": "s32", "u32": "u32", "i64": "s64", "u64": "u64", "f64": "f64"}[a.dtype.name]
    down = self.make(Instruction((a,), f"cvt.rz.f32.{kind}", f32))
    back = self.cast(down, a.dtype)
    inexact = self.make(arith.Cmp(back, a, "ne"))
    bits = self.make(arith.Reinterpret(down, i32))
    odd = self.make(arith.Or(bits, self.make(arith.Cast(inexact, i32))))
    return self.make(arith.Reinterpret(odd, f32))


def _printf(self: _Legalize, op: thread.Printf) -> None:
    """fp8 has no conversion to f64."""
    op.values = tuple(self.again(arith.Cast(v, f32)) if v.dtype in _FP8 else v for v in op.values)


def _erase(self: _Legalize, op: Op) -> tuple[Value, ...]:
    return ERASE


_ARITHMETIC = (
    arith.TruncDiv, arith.TruncMod, arith.And, arith.Or, arith.Xor, arith.Shl, arith.Shr, arith.Not,
    arith.Fma, arith.Div, arith.Sqrt,
)  # fmt: skip

_RULES: dict[type[Op], Callable[[_Legalize, Any], Value | tuple[Value, ...] | None]] = {
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
    **dict.fromkeys((arith.Floor, arith.Ceil, arith.Round, arith.Trunc), _rounding),
    **dict.fromkeys((arith.Min, arith.Max), _min_max),
    **dict.fromkeys(FUNCTIONS, _function),
    arith.Add: _add,
    arith.Sub: _sub,
    arith.Mul: _mul,
    arith.Neg: _neg,
    arith.Abs: _abs,
    arith.FloorDiv: _floordiv,
    arith.FloorMod: _floormod,
    arith.Cmp: _cmp,
    arith.Select: _select,
    arith.Cast: _cast,
    thread.Printf: _printf,
    arith.Assume: _erase,
}
