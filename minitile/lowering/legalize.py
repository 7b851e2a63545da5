"""What the backends' legalisers share: the rewriter that applies a table of rules, and rules that know no target.

integers    of 8 and 16 bits are computed in 32 bits and cut off again, so that they wrap
division    floordiv and floormod: shift and mask for powers of two, C's division when nothing is negative, else
            C's division corrected
functions   exp and its like in f32, by expand_math; of many registers PART at a time, since an expansion has many
            intermediate values

%q = floordiv %x, 8    =>    %q = shr %x, 3
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

from minitile.hardware import Target
from minitile.ir.builder import constant_of
from minitile.ir.core import Kernel, Op, Value
from minitile.ir.diagnostics import TargetError
from minitile.ir.ops import arith, thread
from minitile.ir.ops.thread import count_of
from minitile.ir.rewrite import ERASE, Rewriter
from minitile.ir.types import DType, bool_, f32, f64, i32, u32
from minitile.lowering.expand_math import FUNCTIONS, Terms, exp2_polynomial

PART = 8
POLYNOMIALS = 4  # that are computed side by side: more would take registers, fewer would wait for their own steps

Result = Value | tuple[Value, ...] | None
Rule = Callable[["Legalizer", Any], Result]
Native = Callable[["Legalizer", str, Value], Value]  # the target's own exp2, log2, rsqrt or rcp of an f32


class Legalizer(Rewriter):
    """A backend's table of rules, applied to every operation. A rule gets the legalizer and the operation; it returns
    the value that stands for the result, None to keep the operation, or ERASE."""

    def __init__(self, kernel: Kernel, target: Target, rules: Mapping[type[Op], Rule], native: Native) -> None:
        super().__init__()
        self.target = target
        self.rules = rules
        self.native = native
        self.nonnegative: set[Value] = set(kernel.dims.values())
        self.bits: dict[Value, int] = {}  # that may be set in an integer (lowering/packed.py)

    def visit(self, op: Op) -> Result:
        rule = self.rules.get(type(op))
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


# Rules ---------------------------------------------------------------------------------------------------------------


def wide(dtype: DType) -> DType:
    """The 32-bit integer that holds a narrower one."""
    return i32 if dtype.kind == "int" else u32


def widened(self: Legalizer, op: Op) -> Value:
    """An operation on narrow integers in 32 bits, cut off again."""
    dtype = op.result.dtype
    return self.again(arith.Cast(self.in_dtype(op, wide(dtype)), dtype))


def function(self: Legalizer, op: Any) -> Value | None:
    """exp and its like: in f32, by the expansions of expand_math."""
    dtype = op.a.dtype
    if dtype is f64:
        raise TargetError(
            f"{op.mnemonic} is not available in float64", op.loc, "cast to float32, or compute it on the host"
        )
    if not dtype.is_float:
        raise TargetError(f"{op.mnemonic} of {dtype} values", op.loc, "cast to float32 first")
    terms = Terms(self.b, lambda name, x: self.native(self, name, x))
    expand = FUNCTIONS[type(op)]
    x = self.again(arith.Cast(op.a, f32))
    count = count_of(x.type)
    if isinstance(op, arith.Exp2) and op.polynomial:
        result = _exp2_shared(self, terms, x, op.polynomial)
    elif count <= PART or type(op) in (arith.Exp2, arith.Rsqrt, arith.Rcp):
        result = expand(terms, x)
    else:
        starts = range(0, count, PART)
        parts = [self.make(thread.Pick(x, tuple(range(n, min(n + PART, count))))) for n in starts]
        result = self.make(thread.Concat(tuple([expand(terms, part) for part in parts])))
    return self.again(arith.Cast(result, dtype)) if dtype is not f32 else result


def _exp2_shared(self: Legalizer, terms: Terms, x: Value, share: float) -> Value:
    """exp2 of registers, such a share of them by the polynomial: as evenly as goes, and of POLYNOMIALS at a time."""
    number = [math.floor(n * share + 1e-6) for n in range(count_of(x.type) + 1)]  # of them before the n-th
    done: list[Value] = []
    order: list[int] = []
    for _, group in itertools.groupby(range(len(number) - 1), lambda n: number[n] // POLYNOMIALS):
        mine = list(group)
        for by_polynomial in (False, True):
            chosen = tuple([n for n in mine if (number[n + 1] > number[n]) == by_polynomial])
            if chosen:
                part = self.make(thread.Pick(x, chosen)) if len(number) > 2 else x
                if by_polynomial:
                    part = self.again(arith.MaxNan(part, self.const(-127.0, x)))
                done.append(exp2_polynomial(terms, part) if by_polynomial else self.native(self, "exp2", part))
                order += chosen
    if len(number) == 2:
        return done[0]
    together = self.make(thread.Concat(tuple(done)))
    return self.make(thread.Pick(together, tuple([order.index(n) for n in range(len(order))])))


def compare_bools(self: Legalizer, op: arith.Cmp) -> Value:
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


def clamped(self: Legalizer, a: Value, to: DType) -> Value:
    """Into the range of a narrower integer."""
    if to.kind == "int":
        a = self.make(arith.Max(a, self.const(to.integers[0], a)))
    return self.make(arith.Min(a, self.const(to.integers[-1], a)))


def nan_first(self: Legalizer, op: arith.MinNan | arith.MaxNan) -> Value:
    """Of a number and a NaN the NaN: chosen around the operation that takes the number."""
    of = arith.Min if isinstance(op, arith.MinNan) else arith.Max
    result = self.again(of(op.a, op.b))
    for a in (op.b, op.a):
        result = self.again(arith.Select(self.again(arith.Cmp(a, a, "eq")), result, a))
    return result


# Integer division ----------------------------------------------------------------------------------------------------


def _power_of_two(value: Value) -> int | None:
    """k when the value is the constant 2**k."""
    constant = constant_of(value)
    if not isinstance(constant, int) or constant <= 0 or constant & (constant - 1):
        return None
    return constant.bit_length() - 1


def floordiv(self: Legalizer, op: arith.FloorDiv) -> Value:
    a, b = op.a, op.b
    if a.dtype.bits < 32:
        return widened(self, op)
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


def floormod(self: Legalizer, op: arith.FloorMod) -> Value:
    a, b = op.a, op.b
    if a.dtype.bits < 32:
        return widened(self, op)
    shift = _power_of_two(b)
    if shift is not None:
        return self.make(arith.And(a, self.const((1 << shift) - 1, a)))
    if self.is_nonnegative(a) and self.is_nonnegative(b):
        return self.make(arith.TruncMod(a, b))
    _, remainder, fix = _divide(self, a, b)
    return self.make(arith.Select(fix, self.make(arith.Add(remainder, b)), remainder))


def _divide(self: Legalizer, a: Value, b: Value) -> tuple[Value, Value, Value]:
    """C's quotient and remainder, and whether flooring differs: a remainder whose sign is not the divisor's."""
    quotient = self.make(arith.TruncDiv(a, b))
    remainder = self.make(arith.Sub(a, self.make(arith.Mul(quotient, b))))
    zero = self.const(0, a)
    inexact = self.make(arith.Cmp(remainder, zero, "ne"))
    opposite = self.make(arith.Cmp(self.make(arith.Xor(remainder, b)), zero, "lt"))
    return quotient, remainder, self.make(arith.And(inexact, opposite))


# The table -----------------------------------------------------------------------------------------------------------


def common_rules(arithmetic: Rule) -> dict[type[Op], Rule]:
    """Rules that every target has. `arithmetic`: the target's own for what it may have no instruction for."""

    def absolute(self: Legalizer, op: arith.Abs) -> Result:
        return op.a if op.a.dtype.kind == "uint" else arithmetic(self, op)

    def rounding(self: Legalizer, op: Any) -> Result:
        return op.a if op.a.dtype.is_int else arithmetic(self, op)

    def min_max(self: Legalizer, op: Any) -> Result:
        if op.result.dtype is bool_:
            return self.make((arith.And if isinstance(op, arith.Min) else arith.Or)(op.a, op.b))
        return arithmetic(self, op)

    return {
        arith.Abs: absolute,
        **dict.fromkeys((arith.Floor, arith.Ceil, arith.Round, arith.Trunc), rounding),
        **dict.fromkeys((arith.Min, arith.Max), min_max),
        **dict.fromkeys((arith.MinNan, arith.MaxNan), nan_first),
        **dict.fromkeys(FUNCTIONS, function),
        arith.FloorDiv: floordiv,
        arith.FloorMod: floormod,
        arith.Assume: lambda self, op: ERASE,
    }
