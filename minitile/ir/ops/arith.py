"""Arithmetic, legal in both stages.

Every operation works on scalars, on tiles (element by element) and on registers (register by register). Operands have
one dtype, and each is either of the result's shape or a scalar, which then goes with every element. Integer arithmetic
wraps. Integer division comes as `floordiv`/`floormod` (Python's) and `truncdiv`/`truncmod` (C's); `div` is for floats.
"""

from __future__ import annotations

from typing import Any

from minitile.ir.core import Op, Value, attr, operand, operands
from minitile.ir.ops.checks import require
from minitile.ir.types import BOOL, DType, RegsType, ScalarType, TileType, Type, bool_, with_dtype


def widest(*values: Value) -> Type:
    """The type of an elementwise result: that of the first operand that is no scalar, else the first one's."""
    for v in values:
        if not isinstance(v.type, ScalarType):
            return v.type
    return values[0].type


def _same_shape(*values: Value) -> None:
    shapes = {_extent(v.type) for v in values} - {()}
    if len(shapes) > 1:
        raise ValueError("operands of different shapes: " + ", ".join(str(v.type) for v in values))


def _extent(t: Type) -> tuple[int, ...]:
    if isinstance(t, TileType):
        return t.shape
    return (t.count,) if isinstance(t, RegsType) else ()


def _same_dtype(*values: Value) -> None:
    if len({v.dtype for v in values}) > 1:
        raise ValueError("operands of different dtypes: " + ", ".join(str(v.dtype) for v in values))


class Constant(Op, name="constant", pure=True):
    """A scalar constant: a Python bool, int or float (inf and nan included)."""

    value: Any = attr()
    dtype: DType = attr()

    def infer(self) -> tuple[Type, ...]:
        return (ScalarType(self.dtype),)


class Unary(Op, pure=True, elementwise=True):
    a: Value = operand()

    def infer(self) -> tuple[Type, ...]:
        return (self.a.type,)


class Binary(Op, pure=True, elementwise=True):
    a: Value = operand()
    b: Value = operand()

    def infer(self) -> tuple[Type, ...]:
        return (widest(self.a, self.b),)

    def verify(self) -> None:
        _same_dtype(self.a, self.b)
        _same_shape(self.a, self.b)


class Add(Binary, name="add"): ...


class Sub(Binary, name="sub"): ...


class Mul(Binary, name="mul"): ...


class Div(Binary, name="div"): ...


class FloorDiv(Binary, name="floordiv"): ...


class FloorMod(Binary, name="floormod"): ...


class TruncDiv(Binary, name="truncdiv"): ...


class TruncMod(Binary, name="truncmod"): ...


class Min(Binary, name="min"):
    """The lesser; of a number and a NaN, the number (IEEE 754-2008 minNum, as PTX min.f32)."""


class Max(Binary, name="max"): ...


class MinNan(Binary, name="min_nan"):
    """The lesser of two floats; with a NaN, NaN (PTX min.NaN.f32)."""


class MaxNan(Binary, name="max_nan"): ...


class And(Binary, name="and"): ...


class Or(Binary, name="or"): ...


class Xor(Binary, name="xor"): ...


class Shl(Binary, name="shl"): ...


class Shr(Binary, name="shr"):
    """Arithmetic for signed dtypes, logical for unsigned ones."""


# How a partial result of a reduction joins another one, by the reduction's kind.
COMBINE: dict[str, type[Binary]] = {
    "sum": Add,
    "abssum": Add,
    "max": Max,
    "absmax": Max,
    "min": Min,
    "max_nan": MaxNan,
    "absmax_nan": MaxNan,
    "min_nan": MinNan,
    "and": And,
    "or": Or,
    "xor": Xor,
}


class Neg(Unary, name="neg"): ...


class Not(Unary, name="not"):
    """Bitwise; logical for bool."""


class Abs(Unary, name="abs"): ...


class Exp(Unary, name="exp"): ...


class Exp2(Unary, name="exp2"):
    """`polynomial`: the share of each thread's elements that a polynomial of degree 3 computes, on the units that
    multiply and add, in place of the special function unit. Those are at most 127."""

    polynomial: float = attr(0.0)

    def verify(self) -> None:
        require(0 <= self.polynomial <= 1, f"a share of {self.polynomial}")


class Log(Unary, name="log"): ...


class Log2(Unary, name="log2"): ...


class Sqrt(Unary, name="sqrt"): ...


class Rsqrt(Unary, name="rsqrt"): ...


class Rcp(Unary, name="rcp"):
    """1/x by the target's approximation: what Div is without its last rounding."""


class Sin(Unary, name="sin"): ...


class Cos(Unary, name="cos"): ...


class Tanh(Unary, name="tanh"): ...


class Erf(Unary, name="erf"): ...


class Floor(Unary, name="floor"): ...


class Ceil(Unary, name="ceil"): ...


class Round(Unary, name="round"):
    """To the nearest integer, ties to even."""


class Trunc(Unary, name="trunc"): ...


class Cmp(Op, name="cmp", pure=True, elementwise=True):
    """`predicate` is one of lt, le, gt, ge, eq, ne. Comparisons with NaN are false, `ne` true."""

    a: Value = operand()
    b: Value = operand()
    predicate: str = attr()

    def infer(self) -> tuple[Type, ...]:
        return (with_dtype(widest(self.a, self.b), bool_),)

    def verify(self) -> None:
        _same_dtype(self.a, self.b)
        _same_shape(self.a, self.b)
        if self.predicate not in ("lt", "le", "gt", "ge", "eq", "ne"):
            raise ValueError(f"unknown predicate {self.predicate}")


class Select(Op, name="select", pure=True, elementwise=True):
    condition: Value = operand()
    a: Value = operand()
    b: Value = operand()

    def infer(self) -> tuple[Type, ...]:
        return (with_dtype(widest(self.condition, self.a, self.b), self.a.dtype),)

    def verify(self) -> None:
        if self.condition.dtype is not bool_:
            raise ValueError(f"the condition is {self.condition.type}, not bool")
        _same_dtype(self.a, self.b)
        _same_shape(self.condition, self.a, self.b)


class Fma(Op, name="fma", pure=True, elementwise=True):
    """a * b + c with one rounding."""

    a: Value = operand()
    b: Value = operand()
    c: Value = operand()

    def infer(self) -> tuple[Type, ...]:
        return (widest(self.a, self.b, self.c),)

    def verify(self) -> None:
        _same_dtype(self.a, self.b, self.c)
        _same_shape(self.a, self.b, self.c)


class Dot4(Op, name="dot4", pure=True):
    """c + a0*b0 + a1*b1 + a2*b2 + a3*b3 of bytes, in 32 bits, which wrap. a and b are four elements: scalars or
    registers, i8 or u8; c is a scalar, i32 or, of u8, u32."""

    a: tuple[Value, ...] = operands()
    b: tuple[Value, ...] = operands()
    c: Value = operand()

    def infer(self) -> tuple[Type, ...]:
        return (self.c.type,)

    def verify(self) -> None:
        for factor in (self.a, self.b):
            count = sum(v.type.count if isinstance(v.type, RegsType) else 1 for v in factor)
            if count != 4 or any(isinstance(v.type, TileType) for v in factor):
                raise ValueError(f"{count} elements, not four: " + ", ".join(str(v.type) for v in factor))
        _same_dtype(*self.a, *self.b)
        if self.a[0].dtype.is_float or self.a[0].dtype.bits != 8:
            raise ValueError(f"the factors are {self.a[0].type}, not bytes")
        if self.c.dtype.kind not in ("int", self.a[0].dtype.kind) or self.c.dtype.bits != 32:
            raise ValueError(f"the sum is {self.c.type}, not i32")


class Cast(Op, name="cast", pure=True, elementwise=True):
    """Value conversion. Float to float and int to float round to nearest even, float to int truncates and saturates,
    int to int wraps, to bool is `!= 0`. fp8 saturates to the largest finite value."""

    a: Value = operand()
    to: DType = attr()

    def infer(self) -> tuple[Type, ...]:
        return (with_dtype(self.a.type, self.to),)


class Reinterpret(Op, name="reinterpret", pure=True, elementwise=True):
    """The same bits as another dtype of the same width."""

    a: Value = operand()
    to: DType = attr()

    def infer(self) -> tuple[Type, ...]:
        return (with_dtype(self.a.type, self.to),)

    def verify(self) -> None:
        if self.a.dtype.bits != self.to.bits:
            raise ValueError(f"{self.a.dtype} has {self.a.dtype.bits} bits, {self.to} has {self.to.bits}")


class Within(Op, name="within", stage="traced", pure=True):
    """The same number, of which the front end knows that it is from 0 to `limit`, and that no number on the way from
    `inputs` to it is further from 0 than `most`: tiles of a grid, numbered otherwise. For `index_widths`, which leaves
    none."""

    a: Value = operand()
    limit: Value = operand()
    most: Value = operand()
    inputs: tuple[Value, ...] = operands()

    def infer(self) -> tuple[Type, ...]:
        return (self.a.type,)


class Assume(Op, name="assume"):
    """The condition holds here; range analysis may use it. No code."""

    condition: Value = operand()

    def accesses(self) -> tuple[()]:
        return ()

    def verify(self) -> None:
        if self.condition.type != BOOL:
            raise ValueError(f"the condition is {self.condition.type}, not bool")
